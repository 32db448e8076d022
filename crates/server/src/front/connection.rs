//! One HTTP/1.1 connection: read a request, let its target produce a response, write it, repeat. Pipelined requests are answered in order.

use std::{
    io,
    rc::Rc,
    task::Context,
    time::{Duration, Instant},
};

use forebay_tls::ClientCertificate;

use super::{
    Limits,
    head::{Head, Parsed},
    http1_client::Http1Client,
    lookup::{Arrival, Sent, request_id},
    request_body::RequestBody,
    socket::{Filled, Socket, Stream},
    thread::Thread,
};
use crate::{failure::Refusal, route::Route};

/// Capacity that the head of an idle connection keeps.
const KEPT_BYTES: usize = 1024;
/// How a connection with HTTP/2 begins (RFC 9113, 3.4), as far as a line of HTTP/1.1 goes.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";
/// How long a connection that the server closes is still read from, so that the client receives the response.
const LINGER: Duration = Duration::from_millis(500);

/// How a connection's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    /// With this version, as it stands in logs; empty if TLS is spoken with a proxy.
    Tls(&'static str),
    Unix,
}

/// The other side of a connection: the client, or a proxy.
#[derive(Debug)]
pub(super) struct Remote {
    /// Empty for a Unix socket.
    pub(super) address: Rc<str>,
    /// 0 if it is not known.
    pub(super) port: u16,
    pub(super) transport: Transport,
    /// The certificate with which the client has proved to have its key.
    pub(super) certificate: Option<ClientCertificate>,
}

/// A connection: the head, whose memory is reused for every request, and the rest of the state.
pub(crate) struct Connection<S> {
    head: Head,
    exchange: Exchange<S>,
}

/// Everything needed to answer a request while its head is borrowed.
pub(super) struct Exchange<S> {
    pub(super) socket: Socket<S>,
    pub(super) thread: Rc<Thread>,
    pub(super) limits: Limits,
    remote: Rc<Remote>,
    /// When this task last waited: the current time for whatever it does until it waits again.
    pub(super) now: Instant,
    pub(super) sent: Sent,
}

/// Whether the connection is kept, closed or aborted after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    KeepAlive,
    Close,
    /// Without flushing or lingering.
    Abort,
}

impl<S: Stream> Connection<S> {
    pub(super) fn new(stream: S, thread: Rc<Thread>, remote: Rc<Remote>) -> Self {
        let now = Instant::now();
        let limits = thread.limits();
        let socket = Socket::new(stream, thread.clone(), now);
        let exchange = Exchange {
            socket,
            thread,
            limits,
            remote,
            now,
            sent: Sent::default(),
        };
        Self {
            head: Head::default(),
            exchange,
        }
    }

    /// Serves requests until one side ends the connection. If it begins with HTTP/2, returns what has been read of that, and the stream.
    pub(crate) async fn serve(mut self) -> Option<(Vec<u8>, S)> {
        let mut is_fresh = true;
        loop {
            let next = match self.exchange.read_head(&mut self.head).await {
                Ok(true) => self.exchange.answer(&self.head).await,
                Ok(false) => Next::Close,
                Err(Refusal::Version) if is_fresh && self.exchange.socket.input().starts_with(HTTP2) => {
                    return Some(self.exchange.socket.into_parts());
                }
                Err(refusal) => {
                    let id = self.exchange.thread.request_id();
                    let id = std::str::from_utf8(&id).expect("hexadecimal digits are UTF-8");
                    // A refused head may be half parsed, so an empty one is logged.
                    let (thread, head) = (Rc::clone(&self.exchange.thread), Head::default());
                    let app = thread.app();
                    let remote = Rc::clone(&self.exchange.remote);
                    let arrival = Arrival::new(&app, &thread, &head, id, &remote, self.exchange.now);
                    let next = self.exchange.refuse(&refusal, &arrival, None);
                    self.exchange.account(&arrival, None);
                    next
                }
            };
            is_fresh = false;
            match next {
                Next::KeepAlive => {}
                Next::Close => {
                    if self.exchange.flush().await.is_ok() {
                        self.exchange.socket.close(LINGER).await;
                    }
                    return None;
                }
                Next::Abort => return None,
            }
        }
    }
}

impl<S: Stream> Exchange<S> {
    /// Reads the next head; false if the client sends none.
    async fn read_head(&mut self, head: &mut Head) -> Result<bool, Refusal> {
        // Empty lines are not a request: however many arrive, they do not extend the idle timeout.
        let mut idle_until = None;
        let mut header_until = None;
        let mut seen = 0;
        loop {
            if header_until.is_none() {
                skip_empty_lines(&mut self.socket);
            }
            let input = self.socket.input();
            let length = input.len();
            // A head that arrives in many pieces is parsed again only when another line is complete.
            let line_ended = memchr::memchr(b'\n', &input[seen..]).is_some();
            let is_preface = length < HTTP2.len() && HTTP2.starts_with(input);
            if length > 0
                && !is_preface
                && (seen == 0 || line_ended || length >= self.limits.header_bytes_max)
            {
                match head.parse(input, self.limits.header_bytes_max)? {
                    Parsed::Whole(length) => {
                        self.socket.take(length);
                        return Ok(true);
                    }
                    Parsed::Partial => {
                        header_until.get_or_insert(self.now + self.limits.header_timeout);
                    }
                }
            }
            seen = length;
            if self.flush().await.is_err() {
                return Ok(false);
            }
            let filled = match header_until {
                Some(until) => self.socket.fill(until).await,
                None => {
                    self.shrink(head);
                    let until = *idle_until.get_or_insert(self.now + self.limits.idle_timeout);
                    self.socket.fill_idle(until).await
                }
            };
            self.now = Instant::now();
            match (filled, header_until) {
                (Filled::Bytes, _) => {}
                (Filled::TimedOut, Some(_)) => {
                    return Err(Refusal::HeadTimeout {
                        header_timeout: self.limits.header_timeout,
                    });
                }
                (Filled::End | Filled::TimedOut, _) => return Ok(false),
            }
        }
    }

    fn shrink(&mut self, head: &mut Head) {
        self.socket.shrink();
        head.shrink(KEPT_BYTES);
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.flush_while(|_| ()).await
    }

    /// Like [`Self::flush`], and calls `meanwhile` whenever the client is slow to read.
    pub(super) async fn flush_while(&mut self, meanwhile: impl FnMut(&mut Context<'_>)) -> io::Result<()> {
        self.socket.flush_while(self.limits.idle_timeout, meanwhile).await
    }

    async fn answer(&mut self, head: &Head) -> Next {
        let thread = Rc::clone(&self.thread);
        let app = thread.app();
        self.limits = Limits::of(&app.config.server);
        self.socket.begin_request();
        let generated = thread.request_id();
        let id = request_id(head, &generated);
        let remote = Rc::clone(&self.remote);
        let arrival = Arrival::new(&app, &thread, head, id, &remote, self.now);
        let mut client = Http1Client {
            body: RequestBody::new(head, self.limits),
            exchange: self,
            has_waited: false,
        };
        let (next, route) = arrival.answer(&mut client).await;
        self.account(&arrival, route);
        next
    }

    /// Counts a finished request and logs it.
    fn account(&mut self, arrival: &Arrival<'_>, route: Option<&Route>) {
        let Sent {
            status, bytes, at, ..
        } = std::mem::take(&mut self.sent);
        let over = match at {
            Some(at) => at,
            // If the task has waited since the request arrived, `now` is current; otherwise the clock has to be read.
            None if self.now > arrival.at => self.now,
            None => Instant::now(),
        };
        arrival.account(route, status, bytes, over - arrival.at);
    }
}

/// Skips empty lines before a request (RFC 9112, 2.2).
fn skip_empty_lines<S: Stream>(socket: &mut Socket<S>) {
    while socket.input().starts_with(b"\r\n") {
        socket.take(2);
    }
}
