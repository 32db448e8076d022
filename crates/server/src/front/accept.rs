//! The life of an I/O thread: accept connections, drain, end.

use std::{
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use forebay_pool::{LocalMailbox, Mailboxes};
use tokio::{io::AsyncRead, time::timeout};

use super::{
    ACCEPT_PAUSE, Accepted, Accepting, Phase, Shared,
    connection::{Connection, Remote, Transport},
    http2, proxy_protocol,
    socket::Stream,
    thread::Thread,
    tls::TlsSocket,
};
use crate::config::ForwardedField;

/// After a handover, how long idle connections stay open for one more request, whose response announces the end of the connection.
pub(super) const IDLE_GRACE: Duration = Duration::from_secs(5);

/// Accepts and serves connections on one I/O thread until the server ends.
pub(super) async fn run(
    index: usize,
    shared: Arc<Shared>,
    listeners: Vec<Accepting>,
    mailboxes: Arc<Mailboxes>,
) {
    let mailbox = LocalMailbox::open(&mailboxes, index);
    let thread = Thread::new(index, shared.clone(), mailbox);
    let mut phase = shared.phase.subscribe();
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        accepting.spawn_local(accept(listener, thread.clone()));
    }
    tokio::task::spawn_local(follow_app(thread.clone()));
    tokio::task::spawn_local(follow_heartbeat(thread.clone()));
    // The sender lives in `shared`.
    let _ = phase.wait_for(|phase| *phase >= Phase::HandedOver).await;
    // A listener ends only once its accept queue is empty: closing the socket would reset the connections still in it. One that another
    // process shares ends at once.
    while accepting.join_next().await.is_some() {}
    if *phase.borrow_and_update() == Phase::HandedOver {
        thread.end_with_responses();
        // The client may be sending a request on a connection that looks idle.
        let _ = timeout(IDLE_GRACE, thread.emptied()).await;
    }
    // Reads the sockets once more, so that a request that has already arrived is not mistaken for an idle connection.
    tokio::task::yield_now().await;
    thread.drain();
    tokio::select! {
        () = thread.emptied() => shared.drained.send_modify(|drained| *drained += 1),
        _ = phase.wait_for(|phase| *phase == Phase::Ended) => return,
    }
    // Workers' links are read on this thread until their pools have ended.
    let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
}

/// Drops a replaced app promptly, and the engines of scripts that have no owner left, even on a thread that gets no requests.
async fn follow_app(thread: Rc<Thread>) {
    let mut replaced = thread.shared.replaced.subscribe();
    loop {
        thread.app();
        thread.forget_scripts();
        // The sender lives in `shared`.
        let _ = replaced.changed().await;
    }
}

/// Reports that this thread runs tasks whenever the heartbeat changes.
async fn follow_heartbeat(thread: Rc<Thread>) {
    let mut heartbeat = thread.shared.heartbeat.subscribe();
    loop {
        // Also at first: the heartbeat may have changed before this task began.
        thread
            .shared
            .beats
            .send_modify(|beats| beats[thread.index] = true);
        // The sender lives in `shared`.
        let _ = heartbeat.changed().await;
    }
}

async fn accept(listener: Accepting, thread: Rc<Thread>) {
    let mut phase = thread.shared.phase.subscribe();
    let listener = match listener.register() {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(target: "forebay::front", cause = %error, "cannot accept connections");
            return;
        }
    };
    loop {
        let current = *phase.borrow_and_update();
        if current == Phase::HandedOver {
            return;
        }
        let draining = current >= Phase::Draining;
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            // Only after the sockets were polled once more: connections queued by then are still accepted.
            () = tokio::task::yield_now(), if draining => return,
            _ = phase.changed() => continue,
        };
        match accepted {
            Ok(accepted) => enter(accepted, &thread),
            Err(error) => {
                tracing::warn!(target: "forebay::front", cause = %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Spawns the task that serves a connection, unless `connections_max` is reached.
fn enter(accepted: Accepted, thread: &Rc<Thread>) {
    let shared = &thread.shared;
    shared.accepted.fetch_add(1, Ordering::Relaxed);
    if shared.open.fetch_add(1, Ordering::Relaxed) >= thread.app().config.server.connections_max {
        shared.open.fetch_sub(1, Ordering::Relaxed);
        shared.turned_away.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // Registered before the task first runs, so that a draining thread waits for this connection too.
    let open = Open::new(thread);
    let thread = thread.clone();
    drop(tokio::task::spawn_local(async move {
        open.woken_by_drain().await;
        serve_accepted(accepted, thread).await;
    }));
}

/// Serves a connection to its end. `None` if it cannot be, because of how it begins.
async fn serve_accepted(accepted: Accepted, thread: Rc<Thread>) -> Option<()> {
    match accepted {
        Accepted::Tcp(mut socket, peer) => {
            let remote = remote_of(&mut socket, Some(peer), Transport::Plain, &thread).await?;
            serve(socket, thread, Rc::new(remote)).await;
        }
        Accepted::Unix(mut socket) => {
            let remote = remote_of(&mut socket, None, Transport::Unix, &thread).await?;
            serve(socket, thread, Rc::new(remote)).await;
        }
        Accepted::Tls(mut socket, peer) => {
            let remote = remote_of(&mut socket, Some(peer), Transport::Plain, &thread).await?;
            let handshake_max = thread.app().config.server.header_timeout;
            let socket = TlsSocket::accept(socket, &thread, handshake_max).await?;
            let remote = Rc::new(Remote {
                transport: Transport::Tls(socket.version()),
                certificate: socket.certificate(),
                ..remote
            });
            if socket.is_http2() {
                http2::serve(Vec::new(), socket, thread, remote).await;
            } else {
                serve(socket, thread, remote).await;
            }
        }
    }
    Some(())
}

/// The client of a connection. If a trusted proxy is to say that by the PROXY protocol,
/// that is read first; `None` if it does not.
async fn remote_of(
    socket: &mut (impl AsyncRead + Unpin),
    peer: Option<SocketAddr>,
    transport: Transport,
    thread: &Thread,
) -> Option<Remote> {
    let app = thread.app();
    let server = &app.config.server;
    let trusted = &server.trusted_proxies;
    // A dual-stack socket, such as one of systemd, reports IPv4 peers as IPv4-mapped IPv6 addresses.
    let ip = peer.map(|peer| peer.ip().to_canonical());
    let remote = Remote {
        address: ip.map(|ip| ip.to_string()).unwrap_or_default().into(),
        port: peer.map_or(0, |peer| peer.port()),
        transport,
        certificate: None,
    };
    if server.forwarded != ForwardedField::ProxyProtocol || !trusted.contains(ip) {
        return Some(remote);
    }
    let error = match timeout(server.header_timeout, proxy_protocol::read(socket)).await {
        Ok(Ok(None)) => return Some(remote),
        Ok(Ok(Some(client))) => {
            let transport = if client.is_tls {
                Transport::Tls("")
            } else {
                transport
            };
            return Some(Remote {
                address: client.address.to_string().into(),
                port: client.port,
                transport,
                certificate: None,
            });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it takes longer than header_timeout".to_owned(),
    };
    tracing::warn!(
        target: "forebay::front", peer = &*remote.address, cause = error,
        "a trusted proxy sends no header of the PROXY protocol (server.forwarded), so its connection is closed"
    );
    None
}

/// Serves a connection that speaks HTTP/1.1, or begins with HTTP/2 (RFC 9113, 3.3: prior knowledge).
async fn serve<S: Stream>(socket: S, thread: Rc<Thread>, remote: Rc<Remote>) {
    let connection = Connection::new(socket, Rc::clone(&thread), Rc::clone(&remote));
    if let Some((read, socket)) = connection.serve().await {
        http2::serve(read, socket, thread, remote).await;
    }
}

/// Counts a connection while it is open.
struct Open {
    thread: Rc<Thread>,
    key: usize,
}

impl Open {
    fn new(thread: &Rc<Thread>) -> Self {
        Self {
            thread: thread.clone(),
            key: thread.enter(),
        }
    }

    /// Registers the current task to be woken by a drain.
    async fn woken_by_drain(&self) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        self.thread.set_waker(self.key, waker);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.thread.leave(self.key);
        self.thread.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}
