//! Connections to servers: made, kept while unused, and used again.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    rc::Rc,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    task::spawn_local,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

use crate::{Failure, Group, Lease, Server, Transport, body::Upload};

/// Most bytes of a response's head, and of what is read ahead of its body.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a response that a server may send ahead in HTTP/2, and of all responses on a connection: the most that the protocol has.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// How often a connection of HTTP/2 is asked whether it is still there, and for how long it may stay silent then.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How often unused connections are looked through for those that are too old or closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The bytes of a connection to a server.
#[derive(Debug)]
pub enum Stream {
    /// An unencrypted connection.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    Unix(UnixStream),
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($stream) => $call,
            Self::Tls($stream) => $call,
            Self::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// A connection that is ready for a request.
#[derive(Debug)]
pub struct Connection {
    pub(crate) kind: Kind,
    /// Whether it has carried a request before: the server may have closed it meanwhile.
    pub(crate) is_used: bool,
}

impl Connection {
    /// Whether it speaks HTTP/2.
    pub fn is_http2(&self) -> bool {
        matches!(self.kind, Kind::Http2(_))
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    Http1(Box<Http1>),
    Http2(http2::SendRequest<Upload>),
}

#[derive(Debug)]
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Upload>,
    /// Sends and receives while it is polled.
    pub(crate) driver: http1::Connection<TokioIo<Stream>, Upload>,
}

/// Runs the tasks of HTTP/2 connections on this thread.
#[derive(Clone, Copy, Debug)]
struct ThisThread;

impl<F> hyper::rt::Executor<F> for ThisThread
where
    F: Future + 'static,
{
    fn execute(&self, task: F) {
        spawn_local(async move {
            task.await;
        });
    }
}

/// Connects to the server of a lease, within `time_left` if that is shorter than `connect_timeout`, and counts it as the server's failure if it
/// does not succeed. Must run within a [`tokio::task::LocalSet`].
pub async fn connect(lease: &Lease, time_left: Duration) -> Result<Connection, Failure> {
    let (group, server) = (lease.group(), lease.server());
    let connect_timeout = group.settings().connect_timeout.min(time_left);
    let failure = match timeout(connect_timeout, connect_unhurried(group, server)).await {
        Ok(Ok(kind)) => return Ok(Connection { kind, is_used: false }),
        Ok(Err(error)) => Failure::Connect {
            server: server.name().to_owned(),
            cause: error.to_string(),
        },
        Err(_) => Failure::ConnectTimeout {
            server: server.name().to_owned(),
            connect_timeout,
        },
    };
    lease.note_failure(&failure);
    Err(failure)
}

async fn connect_unhurried(group: &Group, server: &Server) -> io::Result<Kind> {
    let address = server.address();
    let stream = match &address.transport {
        Transport::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
        Transport::Tcp(host, port) => {
            let tcp = TcpStream::connect((host.as_str(), *port)).await?;
            tcp.set_nodelay(true)?;
            if tcp.peer_addr()?.ip().is_loopback() {
                // Loopback traffic meets no congestion, so the cheapest algorithm serves it; where it is missing, any will do.
                let _ = rustix::net::sockopt::set_tcp_congestion(&tcp, "reno");
            }
            if address.is_tls {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let connector = TlsConnector::from(Arc::clone(group.tls()));
                Stream::Tls(Box::new(connector.connect(name, tcp).await?))
            } else {
                Stream::Tcp(tcp)
            }
        }
    };
    let io = TokioIo::new(stream);
    if address.is_http2 {
        let mut builder = http2::Builder::new(ThisThread);
        builder
            .max_header_list_size(BUFFER_BYTES_MAX as u32)
            // A response that its client does not take holds up no other one.
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let (sender, driver) = builder.handshake(io).await.map_err(io::Error::other)?;
        spawn_local(async move {
            // A failure also ends the requests that wait for a response.
            let _ = driver.await;
        });
        return Ok(Kind::Http2(sender));
    }
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES_MAX);
    // Requests are short: one buffer is written faster than a list of them.
    builder.writev(false);
    let (sender, driver) = builder.handshake(io).await.map_err(io::Error::other)?;
    Ok(Kind::Http1(Box::new(Http1 { sender, driver })))
}

impl Http1 {
    /// Whether it is open and ready for a request: a server that has closed it, or sent something unasked, is noticed here.
    fn is_open(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.driver.poll_without_shutdown(&mut cx).is_pending() && self.sender.is_ready()
    }
}

/// The connections that a thread keeps; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Connections(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    of_servers: Vec<OfServer>,
    /// Whether a task looks through them.
    is_swept: bool,
}

#[derive(Debug)]
struct OfServer {
    server: Weak<Server>,
    /// The one that was used last is at the end.
    idle: Vec<Idle>,
    shared: Option<http2::SendRequest<Upload>>,
}

#[derive(Debug)]
struct Idle {
    connection: Box<Http1>,
    until: Instant,
}

impl Connections {
    /// Takes an open connection to a server, if there is one.
    pub fn take(&self, server: &Arc<Server>) -> Option<Connection> {
        let mut kept = self.0.borrow_mut();
        let of = kept.of(server);
        let shared = of.shared.take_if(|sender| sender.is_closed());
        drop(shared);
        if let Some(sender) = &of.shared {
            let kind = Kind::Http2(sender.clone());
            return Some(Connection { kind, is_used: true });
        }
        let now = Instant::now();
        while let Some(mut idle) = of.idle.pop() {
            if idle.until > now && idle.connection.is_open() {
                let kind = Kind::Http1(idle.connection);
                return Some(Connection { kind, is_used: true });
            }
        }
        None
    }

    /// Lets others use a new connection, too, if it can carry several requests at a time.
    pub fn share(&self, server: &Arc<Server>, connection: &Connection) {
        if let Kind::Http2(sender) = &connection.kind {
            self.0.borrow_mut().of(server).shared = Some(sender.clone());
            self.sweep();
        }
    }

    /// Has the next request to a server use a new connection.
    pub fn forget_shared(&self, server: &Arc<Server>) {
        self.0.borrow_mut().of(server).shared = None;
    }

    /// Keeps an unused connection for `idle_timeout`, unless there are `idle_max` already.
    pub(crate) fn keep(
        &self,
        server: &Arc<Server>,
        mut connection: Box<Http1>,
        idle_timeout: Duration,
        idle_max: usize,
    ) {
        let mut kept = self.0.borrow_mut();
        let of = kept.of(server);
        if of.idle.len() < idle_max && (connection.sender.is_ready() || connection.is_open()) {
            let until = Instant::now() + idle_timeout;
            of.idle.push(Idle { connection, until });
            drop(kept);
            self.sweep();
        }
    }

    /// Has the connections looked through until none is left.
    fn sweep(&self) {
        if std::mem::replace(&mut self.0.borrow_mut().is_swept, true) {
            return;
        }
        let kept = Rc::downgrade(&self.0);
        spawn_local(async move {
            loop {
                sleep(SWEEP_INTERVAL).await;
                match kept.upgrade() {
                    Some(kept) if kept.borrow_mut().sweep() => {}
                    _ => return,
                }
            }
        });
    }
}

impl State {
    fn of(&mut self, server: &Arc<Server>) -> &mut OfServer {
        let known = |of: &OfServer| std::ptr::eq(of.server.as_ptr(), Arc::as_ptr(server));
        let at = self.of_servers.iter().position(known).unwrap_or_else(|| {
            self.of_servers.push(OfServer {
                server: Arc::downgrade(server),
                idle: Vec::new(),
                shared: None,
            });
            self.of_servers.len() - 1
        });
        &mut self.of_servers[at]
    }

    /// Closes connections that are too old, that their server has closed, or whose group is gone. False if nothing is left.
    fn sweep(&mut self) -> bool {
        let now = Instant::now();
        self.of_servers.retain_mut(|of| {
            of.idle
                .retain_mut(|idle| idle.until > now && idle.connection.is_open());
            let is_shared = of.shared.as_ref().is_some_and(|sender| !sender.is_closed());
            of.server.strong_count() > 0 && (is_shared || !of.idle.is_empty())
        });
        self.is_swept = !self.of_servers.is_empty();
        self.is_swept
    }
}
