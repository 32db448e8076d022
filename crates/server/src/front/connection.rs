//! One HTTP/1.1 connection: read a request, let its target produce a response, write it, repeat. Pipelined requests are answered in order.

use std::{
    borrow::Cow,
    io,
    pin::pin,
    rc::Rc,
    sync::Once,
    task::Context,
    time::{Duration, Instant},
};

use super::{
    Limits,
    forwarded::forwarded,
    head::{Head, Parsed},
    http1_client::Http1Client,
    request_body::RequestBody,
    socket::{Filled, Socket, Stream},
    thread::Thread,
};
use crate::{
    app::{App, Route},
    failure::Refusal,
    logging::Access,
    reply::{HeaderLines, Reply},
    router::Outcome,
    target::{Cors, End, Request},
};

/// Capacity that the head of an idle connection keeps.
const KEPT_BYTES: usize = 1024;
/// Longest request id accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// How long a connection that the server closes is still read from, so that the client receives the response.
const LINGER: Duration = Duration::from_millis(500);

/// How a connection's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Tls,
    Unix,
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
    peer: Rc<str>,
    pub(super) transport: Transport,
    /// When this task last waited: the current time for whatever it does until it waits again.
    pub(super) now: Instant,
    pub(super) sent: Sent,
}

/// Progress of the response to the current request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// 0 until the head is written.
    pub(super) status: u16,
    /// Body bytes that the kernel has accepted, or that are queued behind other responses.
    pub(super) bytes: u64,
    /// When the response was written, if the connection was waited for after that.
    pub(super) at: Option<Instant>,
    /// When the target had produced its response; only set for traced requests.
    pub(super) answered: Option<Instant>,
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
    pub(crate) fn new(stream: S, thread: Rc<Thread>, peer: Rc<str>, transport: Transport) -> Self {
        let now = Instant::now();
        let limits = thread.limits();
        let socket = Socket::new(stream, thread.clone(), now);
        let exchange = Exchange {
            socket,
            thread,
            limits,
            peer,
            transport,
            now,
            sent: Sent::default(),
        };
        Self {
            head: Head::default(),
            exchange,
        }
    }

    /// Serves requests until one side ends the connection.
    pub(crate) async fn serve(mut self) {
        loop {
            let next = match self.exchange.read_head(&mut self.head).await {
                Ok(true) => self.exchange.answer(&self.head).await,
                Ok(false) => Next::Close,
                Err(refusal) => {
                    let id = self.exchange.thread.request_id();
                    let id = std::str::from_utf8(&id).expect("hexadecimal digits are UTF-8");
                    let next = self.exchange.refuse(&refusal, None, id, None);
                    // A refused head may be half parsed, so an empty one is logged.
                    let (app, head) = (self.exchange.thread.app(), Head::default());
                    let peer = Rc::clone(&self.exchange.peer);
                    self.exchange
                        .account(&app, None, &head, id, &peer, self.exchange.now);
                    next
                }
            };
            match next {
                Next::KeepAlive => {}
                Next::Close => {
                    if self.exchange.flush().await.is_ok() {
                        self.exchange.socket.close(LINGER).await;
                    }
                    return;
                }
                Next::Abort => return,
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
            if length > 0 && (seen == 0 || line_ended || length >= self.limits.header_bytes_max) {
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
        let arrived = self.now;
        let thread = Rc::clone(&self.thread);
        let app = thread.app();
        let said = forwarded(&app.config.server.trusted_proxies, &self.peer, head);
        let peer = said.as_ref().and_then(|said| said.client);
        let peer = peer.map_or_else(|| Rc::clone(&self.peer), |peer| peer.to_string().into());
        let is_tls = said.and_then(|said| said.is_tls);
        self.limits = Limits::of(&app.config.server);
        self.socket.begin_request();
        let generated = self.thread.request_id();
        let id = request_id(head, &generated);
        let outcome = app.router.find(head.method(), head.host(), head.path());
        let is_plain = !is_tls.unwrap_or(self.transport != Transport::Plain);
        let is_redirected = app.config.server.https_only && is_plain;
        let (next, route) = match (preflight(&app, head), outcome) {
            _ if is_redirected => (self.redirect(head, id).await, None),
            _ if head.wants_websocket => (self.refuse_websocket(head, id), None),
            (Some((route, permission)), _) => {
                let next = self.answer_options(permission, head, id, Some(route)).await;
                (next, Some(route))
            }
            (None, Outcome::Found(found)) => {
                let route = found.target;
                let request = Request {
                    head,
                    id,
                    pattern: found.pattern,
                    params: &found.params[..],
                    rest: found.rest,
                    peer: &peer,
                    thread: &thread,
                    app: &app,
                    arrived,
                    deadline: arrived + route.deadline,
                };
                let traced = self.thread.shared.traces.begin(&request, route);
                let trace = traced.as_ref().map(|traced| traced.trace().clone());
                let next = {
                    let answering = pin!(self.answer_route(&request, route));
                    forebay_trace::within(trace, answering).await
                };
                if let Some(mut traced) = traced {
                    let Sent {
                        status,
                        bytes,
                        answered,
                        ..
                    } = self.sent;
                    traced.answered(answered, status, bytes);
                    self.socket.trace_written(traced);
                }
                (next, Some(route))
            }
            (None, outcome) => (self.answer_unrouted(head, id, outcome).await, None),
        };
        self.account(&app, route, head, id, &peer, arrived);
        next
    }

    /// Counts a finished request and writes it to the access log, if there is one.
    fn account(
        &mut self,
        app: &App,
        route: Option<&Route>,
        head: &Head,
        id: &str,
        peer: &str,
        arrived: Instant,
    ) {
        let Sent {
            status, bytes, at, ..
        } = std::mem::take(&mut self.sent);
        let over = match at {
            Some(at) => at,
            // If the task has waited since the request arrived, `now` is current; otherwise the clock has to be read.
            None if self.now > arrived => self.now,
            None => Instant::now(),
        };
        let duration = over - arrived;
        let counts = route.map_or(&app.unrouted, |route| &route.counts);
        counts.of_thread(self.thread.index).count(status, duration);
        if let Some(log) = &app.access_log {
            log.write(&Access {
                peer,
                method: head.method(),
                path: head.path(),
                query: head.query(),
                http10: head.is_http10,
                referer: head.field("referer").unwrap_or_default(),
                user_agent: head.field("user-agent").unwrap_or_default(),
                status,
                bytes,
                duration,
                request_id: id,
                route: route.map(|route| route.counts.name()),
                pool: route.and_then(|route| route.target.pool_name()),
            });
        }
    }

    async fn answer_route(&mut self, request: &Request<'_>, route: &Route) -> Next {
        let mut body = match RequestBody::new(request.head, route.body_bytes_max, self.limits) {
            Ok(body) => body,
            Err(refusal) => return self.refuse(&refusal, Some(request.head), request.id, Some(route)),
        };
        let mut client = Http1Client {
            socket: &mut self.socket,
            body: &mut body,
            idle_timeout: self.limits.idle_timeout,
            has_waited: false,
        };
        let answered = route.answer(request, &mut client).await;
        if client.has_waited {
            self.now = Instant::now();
        }
        if forebay_trace::current().is_some() {
            self.sent.answered = Some(Instant::now());
        }
        let reply = match answered {
            Ok(reply) => reply,
            Err(End::Gone) => return Next::Abort,
            Err(End::Refused(refusal)) => {
                refusal.log(request.id);
                if refusal.ends_connection() {
                    return self.refuse(&refusal, Some(request.head), request.id, Some(route));
                }
                refusal.reply(request.id)
            }
        };
        self.send(reply, request.head, request.id, Some(route), body)
            .await
    }

    /// Answers an OPTIONS request with these headers.
    async fn answer_options(
        &mut self,
        headers: HeaderLines,
        head: &Head,
        id: &str,
        route: Option<&Route>,
    ) -> Next {
        let mut reply = Reply::new(204);
        reply.headers = Cow::Owned(headers);
        match RequestBody::new(head, self.limits.body_bytes_max, self.limits) {
            Ok(body) => self.send(reply, head, id, route, body).await,
            Err(refusal) => self.refuse(&refusal, Some(head), id, route),
        }
    }

    /// Sends a client without TLS to the same address with it.
    async fn redirect(&mut self, head: &Head, id: &str) -> Next {
        let port = match self.thread.shared.tls_port {
            None | Some(443) => String::new(),
            Some(port) => format!(":{port}"),
        };
        let query = match head.query() {
            [] => String::new(),
            query => format!("?{}", String::from_utf8_lossy(query)),
        };
        let location = format!("https://{}{port}{}{query}", host_name(head.host()), head.path());
        let mut reply = Reply::new(308);
        let location = reply.headers.to_mut().push(b"location", location.as_bytes());
        if head.host().is_empty() || location.is_err() {
            let what = "it names no host to which it could be sent with TLS";
            return self.refuse(&Refusal::Malformed { what }, Some(head), id, None);
        }
        match RequestBody::new(head, self.limits.body_bytes_max, self.limits) {
            Ok(body) => self.send(reply, head, id, None, body).await,
            Err(refusal) => self.refuse(&refusal, Some(head), id, None),
        }
    }

    fn refuse_websocket(&mut self, head: &Head, id: &str) -> Next {
        static LOGGED: Once = Once::new();
        LOGGED.call_once(|| {
            tracing::warn!(
                target: "forebay::front",
                request_id = id,
                path = head.path(),
                "a client asks for a WebSocket, which this server does not have: it gets 501, as all who ask for one do from now on"
            );
        });
        self.refuse(&Refusal::WebSocket, Some(head), id, None)
    }

    async fn answer_unrouted(&mut self, head: &Head, id: &str, outcome: Outcome<'_, '_, Route>) -> Next {
        let refusal = match outcome {
            Outcome::Options { allow } => {
                let mut headers = HeaderLines::default();
                headers.push_known("allow", &allow);
                return self.answer_options(headers, head, id, None).await;
            }
            Outcome::MethodNotAllowed { allow } => Refusal::MethodNotAllowed { allow },
            Outcome::BadPath => Refusal::Malformed {
                what: "the path is not percent-encoded UTF-8 without `..`",
            },
            Outcome::NotFound => Refusal::NotFound,
            Outcome::Found(_) => unreachable!("its route answers"),
        };
        match RequestBody::new(head, self.limits.body_bytes_max, self.limits) {
            Ok(body) if !refusal.ends_connection() => {
                self.send(refusal.reply(id), head, id, None, body).await
            }
            _ => self.refuse(&refusal, Some(head), id, None),
        }
    }
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        // In an IPv6 address, what follows the last colon is a port only behind its bracket.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

/// The route that a browser asks about in a preflight request, and what it permits.
fn preflight<'a>(app: &'a App, head: &Head) -> Option<(&'a Route, HeaderLines)> {
    let method = Cors::preflight(head)?;
    match app.router.find(method, head.host(), head.path()) {
        Outcome::Found(found) => Some((found.target, found.target.cors.as_ref()?.permission(method))),
        _ => None,
    }
}

/// The client's request id if it is safe in a header and a log line; otherwise a new one.
fn request_id<'a>(head: &'a Head, generated: &'a [u8; 16]) -> &'a str {
    let usable =
        |id: &&[u8]| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    let id = head.field("x-request-id").filter(usable).unwrap_or(generated);
    std::str::from_utf8(id).expect("graphic ASCII is UTF-8")
}

/// Skips empty lines before a request (RFC 9112, 2.2).
fn skip_empty_lines<S: Stream>(socket: &mut Socket<S>) {
    while socket.input().starts_with(b"\r\n") {
        socket.take(2);
    }
}
