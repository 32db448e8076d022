//! One HTTP/1.1 connection: reads a request, has its target answer it, writes the answer, and again. Requests that a client sends
//! ahead are answered in their order.

use std::{
    io,
    os::unix::fs::FileExt,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    Limits,
    head::{Head, Parsed},
    request_body::{End, RequestBody},
    thread::Thread,
    wire::{Filled, Stream, Wire},
};
use crate::{
    app::{App, Route},
    failure::Refusal,
    logging::Access,
    reply::{self, Body, Delimiting, Reply},
    router::Outcome,
    target::{PoolStream, Request, Target},
};

/// Bodies up to this travel in one write with their head.
const JOINED_BODY_BYTES: usize = 16 * 1024;
/// Answers to requests sent ahead are collected up to this.
const COLLECTED_BYTES: usize = 64 * 1024;
/// Bytes of a file that are read and written at a time.
const FILE_PIECE_BYTES: u64 = 64 * 1024;
/// Memory that a connection keeps between requests, for each of its buffers.
const KEPT_BYTES: usize = 1024;
/// Longest request id that is taken over from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// How long a connection that the server ends still reads, so that the client gets the answer.
const LINGER: Duration = Duration::from_millis(500);

/// A connection: the head it reads again and again, and everything else.
pub(crate) struct Connection<S> {
    head: Head,
    exchange: Exchange<S>,
}

/// What answering a request works with, while its head is borrowed.
struct Exchange<S> {
    wire: Wire<S>,
    thread: Rc<Thread>,
    limits: Limits,
    output: Vec<u8>,
    peer: Box<str>,
    /// When this side last had to wait: the time of whatever is done now.
    now: Instant,
    sent: Sent,
}

/// How far the answer to the current request has come.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// 0 before its head.
    status: u16,
    /// Of its body.
    bytes: u64,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    KeepAlive,
    Close,
    /// Without waiting for anything.
    Abort,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn new(socket: S, thread: Rc<Thread>, peer: Box<str>) -> Self {
        let now = Instant::now();
        let limits = thread.limits();
        let wire = Wire::new(socket, thread.clone(), now);
        let exchange = Exchange {
            wire,
            thread,
            limits,
            output: Vec::new(),
            peer,
            now,
            sent: Sent::default(),
        };
        Self {
            head: Head::default(),
            exchange,
        }
    }

    /// Serves until one side ends the connection.
    pub(crate) async fn serve(mut self) {
        loop {
            let next = match self.exchange.read_head(&mut self.head).await {
                Ok(true) => self.exchange.answer(&self.head).await,
                Ok(false) => Next::Close,
                Err(refusal) => {
                    let id = self.exchange.thread.request_id();
                    let id = std::str::from_utf8(&id).expect("hexadecimal digits are UTF-8");
                    let next = self.exchange.refuse(&refusal, None, id, None);
                    // What was read of the head means nothing.
                    let (app, head) = (self.exchange.thread.app(), Head::default());
                    self.exchange.account(&app, None, &head, id, self.exchange.now);
                    next
                }
            };
            match next {
                Next::KeepAlive => {}
                Next::Close => {
                    if self.exchange.flush().await.is_ok() {
                        self.exchange.wire.close(LINGER).await;
                    }
                    return;
                }
                Next::Abort => return,
            }
        }
    }
}

impl<S: Stream> Exchange<S> {
    /// Reads the next head. False: none comes.
    async fn read_head(&mut self, head: &mut Head) -> Result<bool, Refusal> {
        let mut header_until = None;
        let mut seen = 0;
        loop {
            if header_until.is_none() {
                skip_empty_lines(&mut self.wire);
            }
            let input = self.wire.input();
            let length = input.len();
            // A head that comes in many pieces is parsed again only when another line has ended.
            let line_ended = memchr::memchr(b'\n', &input[seen..]).is_some();
            if length > 0 && (seen == 0 || line_ended || length >= self.limits.header_bytes_max) {
                match head.parse(input, self.limits.header_bytes_max)? {
                    Parsed::Whole(length) => {
                        self.wire.take(length);
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
                Some(until) => self.wire.fill(until).await,
                None => {
                    self.shrink(head);
                    self.wire.fill_idle(self.now + self.limits.idle_timeout).await
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
        self.wire.shrink();
        head.shrink(KEPT_BYTES);
        self.output.shrink_to(KEPT_BYTES);
    }

    async fn flush(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let written = self.wire.write_all(&self.output, self.limits.idle_timeout).await;
        self.output.clear();
        written
    }

    async fn answer(&mut self, head: &Head) -> Next {
        let arrived = self.now;
        let app = self.thread.app();
        self.limits = Limits::of(&app.config.server);
        let generated = self.thread.request_id();
        let id = request_id(head, &generated);
        let (next, route) = match app.router.find(head.method(), head.host(), head.path()) {
            Outcome::Found(found) => {
                let route = found.target;
                let request = Request {
                    head,
                    id,
                    pattern: found.pattern,
                    params: &found.params[..],
                    rest: found.rest,
                    arrived,
                    deadline: arrived + route.deadline,
                };
                (self.answer_route(&request, route).await, Some(route))
            }
            outcome => (self.answer_unrouted(head, id, outcome).await, None),
        };
        self.account(&app, route, head, id, arrived);
        next
    }

    /// Counts a request that is over, and logs it if asked to.
    fn account(&mut self, app: &App, route: Option<&Route>, head: &Head, id: &str, arrived: Instant) {
        let Sent { status, bytes } = std::mem::take(&mut self.sent);
        // What was waited for has been timed; what was not takes a clock of its own.
        let over = if self.now > arrived {
            self.now
        } else {
            Instant::now()
        };
        let duration = over - arrived;
        let counts = route.map_or(&app.unrouted, |route| &route.counts);
        counts.of_thread(self.thread.index).count(status, duration);
        if let Some(log) = &app.access_log {
            log.write(&Access {
                peer: &self.peer,
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
        let reply = match &route.target {
            Target::Respond(respond) => Ok(respond.reply()),
            Target::Files(files) => files.reply(request).map_err(End::from),
            Target::Pool(pool) => {
                if self.flush().await.is_err() {
                    return Next::Abort;
                }
                let mailbox = &self.thread.mailbox;
                let answer = pool
                    .answer(request, &self.peer, mailbox, &mut body, &mut self.wire)
                    .await;
                self.now = Instant::now();
                answer
            }
        };
        match reply {
            Ok(reply) => {
                self.send(reply, request.head, request.id, Some(route), body)
                    .await
            }
            Err(End::Refused(refusal)) if refusal.ends_connection() => {
                self.refuse(&refusal, Some(request.head), request.id, Some(route))
            }
            Err(End::Refused(refusal)) => {
                self.send(
                    refusal.reply(request.id),
                    request.head,
                    request.id,
                    Some(route),
                    body,
                )
                .await
            }
            Err(End::Gone) => Next::Abort,
        }
    }

    async fn answer_unrouted(&mut self, head: &Head, id: &str, outcome: Outcome<'_, '_, Route>) -> Next {
        let refusal = match outcome {
            Outcome::Options { allow } => {
                let mut reply = Reply::new(204);
                reply.headers.to_mut().push_known("allow", &allow);
                return match RequestBody::new(head, self.limits.body_bytes_max, self.limits) {
                    Ok(body) => self.send(reply, head, id, None, body).await,
                    Err(refusal) => self.refuse(&refusal, Some(head), id, None),
                };
            }
            Outcome::MethodNotAllowed { allow } => Refusal::MethodNotAllowed { allow },
            Outcome::BadPath => Refusal::Malformed {
                what: "the path is not percent-encoded UTF-8 without `..`",
            },
            Outcome::NotFound | Outcome::Found(_) => Refusal::NotFound,
        };
        match RequestBody::new(head, self.limits.body_bytes_max, self.limits) {
            Ok(body) if !refusal.ends_connection() => {
                self.send(refusal.reply(id), head, id, None, body).await
            }
            _ => self.refuse(&refusal, Some(head), id, None),
        }
    }

    /// Answers with a refusal and ends the connection: what follows on it may not be a request. Without a head, nothing is known
    /// of what was asked.
    fn refuse(&mut self, refusal: &Refusal, head: Option<&Head>, id: &str, route: Option<&Route>) -> Next {
        let reply = refusal.reply(id);
        let Body::Bytes(body) = &reply.body else {
            unreachable!("refusals have a body in memory")
        };
        let length = Delimiting::Length(body.len() as u64);
        self.put_head(&reply, length, id, route, Last::Yes, false);
        if head.is_none_or(|head| head.method() != "HEAD") {
            self.output.extend_from_slice(body);
            self.sent.bytes = body.len() as u64;
        }
        Next::Close
    }

    /// Writes an answer. The connection goes on if nothing of the request is left on it.
    async fn send(
        &mut self,
        mut reply: Reply<'_>,
        head: &Head,
        id: &str,
        route: Option<&Route>,
        mut body: RequestBody,
    ) -> Next {
        let content = match reply.body {
            Body::Stream(stream) => {
                reply.body = Body::Empty;
                return self.send_stream(&reply, *stream, head, id, route, body).await;
            }
            content => content,
        };
        reply.body = Body::Empty;
        let last = Last::from(!head.keep_alive || body.is_withheld() || self.shall_end());
        let length = match &content {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Borrowed(bytes) => bytes.len() as u64,
            Body::File { length, .. } => *length,
            Body::Empty | Body::Stream(_) => 0,
        };
        let delimiting = match reply.status {
            204 | 304 => Delimiting::Nothing,
            // Only an answer to HEAD may announce more than it brings.
            _ if head.method() == "HEAD" => Delimiting::Length(reply.length.unwrap_or(length)),
            _ => Delimiting::Length(length),
        };
        self.put_head(&reply, delimiting, id, route, last, head.is_http10);
        let written = match content {
            _ if head.method() == "HEAD" || delimiting == Delimiting::Nothing => Ok(()),
            Body::Bytes(bytes) => self.write_body(&bytes).await,
            Body::Borrowed(bytes) => self.write_body(bytes).await,
            Body::File { file, offset, length } => self.write_file(&file, offset, length).await,
            Body::Empty | Body::Stream(_) => Ok(()),
        };
        match (written, last) {
            (Err(_), _) => Next::Abort,
            (Ok(()), Last::Yes) => Next::Close,
            (Ok(()), Last::No) => self.after(&mut body).await,
        }
    }

    /// Takes what is left of an answered request off the connection.
    async fn after(&mut self, body: &mut RequestBody) -> Next {
        if body.ended() {
            return Next::KeepAlive;
        }
        if self.flush().await.is_err() {
            return Next::Abort;
        }
        let discarded = body.discard(&mut self.wire).await;
        self.now = Instant::now();
        if discarded { Next::KeepAlive } else { Next::Close }
    }

    /// Whether the server drains and has read nothing further on this connection.
    fn shall_end(&self) -> bool {
        self.thread.is_draining() && self.wire.input().is_empty()
    }

    fn put_head(
        &mut self,
        reply: &Reply<'_>,
        delimiting: Delimiting,
        id: &str,
        route: Option<&Route>,
        last: Last,
        http10: bool,
    ) {
        let frame = reply::Frame {
            date: &self.thread.date(self.now),
            request_id: id.as_bytes(),
            route_headers: route.map_or(&[], |route| route.headers.as_bytes()),
            delimiting,
            close: last == Last::Yes,
            http10,
        };
        reply::put_head(&mut self.output, reply.status, &reply.headers, frame);
        self.sent.status = reply.status;
    }

    async fn write_body(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sent.bytes = bytes.len() as u64;
        if bytes.len() <= JOINED_BODY_BYTES {
            self.output.extend_from_slice(bytes);
            if self.output.len() < COLLECTED_BYTES {
                return Ok(());
            }
            return self.flush().await;
        }
        self.flush().await?;
        self.wire.write_all(bytes, self.limits.idle_timeout).await?;
        self.now = Instant::now();
        Ok(())
    }

    async fn write_file(&mut self, file: &std::fs::File, mut offset: u64, length: u64) -> io::Result<()> {
        let end = offset + length;
        while offset < end {
            let piece = (end - offset).min(FILE_PIECE_BYTES) as usize;
            let start = self.output.len();
            self.output.resize(start + piece, 0);
            // A file that became shorter meanwhile cannot be sent as announced.
            file.read_exact_at(&mut self.output[start..], offset)?;
            offset += piece as u64;
            self.sent.bytes += piece as u64;
            self.flush().await?;
        }
        self.now = Instant::now();
        Ok(())
    }

    /// Writes an answer that comes from a worker piece by piece.
    async fn send_stream(
        &mut self,
        reply: &Reply<'_>,
        mut stream: PoolStream<'_>,
        head: &Head,
        id: &str,
        route: Option<&Route>,
        mut body: RequestBody,
    ) -> Next {
        let delimiting = match (stream.announced(), head.is_http10) {
            _ if matches!(reply.status, 204 | 304) => Delimiting::Nothing,
            (Some(length), _) => Delimiting::Length(length),
            (None, false) => Delimiting::Chunked,
            (None, true) => Delimiting::Close,
        };
        let goes_on =
            head.keep_alive && delimiting != Delimiting::Close && !body.is_withheld() && !self.shall_end();
        self.put_head(reply, delimiting, id, route, Last::from(!goes_on), head.is_http10);
        if head.method() == "HEAD" || delimiting == Delimiting::Nothing {
            return if goes_on {
                self.after(&mut body).await
            } else {
                Next::Close
            };
        }
        // The client learns at once that an answer has begun, however long its first piece takes.
        if !stream.has_piece() && self.flush().await.is_err() {
            return Next::Abort;
        }
        loop {
            // After an error the client must not take a part for the whole: it sees the connection end too early.
            let Ok(piece) = stream.next(&mut body, &mut self.wire).await else {
                return Next::Abort;
            };
            match delimiting {
                Delimiting::Chunked => reply::put_chunk(&mut self.output, &piece.bytes),
                _ => self.output.extend_from_slice(&piece.bytes),
            }
            self.sent.bytes += piece.bytes.len() as u64;
            if piece.end && delimiting == Delimiting::Chunked {
                self.output.extend_from_slice(reply::LAST_CHUNK);
            }
            if self.flush().await.is_err() {
                return Next::Abort;
            }
            if piece.end {
                break;
            }
            stream.grant(&piece);
        }
        self.now = Instant::now();
        if goes_on {
            self.after(&mut body).await
        } else {
            Next::Close
        }
    }
}

/// Whether an answer is the connection's last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

impl From<bool> for Last {
    fn from(last: bool) -> Self {
        if last { Self::Yes } else { Self::No }
    }
}

/// The id that the client gave, if it can stand in a header and a log line; else a new one.
fn request_id<'a>(head: &'a Head, generated: &'a [u8; 16]) -> &'a str {
    let usable =
        |id: &&[u8]| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    let id = head.field("x-request-id").filter(usable).unwrap_or(generated);
    std::str::from_utf8(id).expect("graphic ASCII is UTF-8")
}

/// Empty lines before a request are passed over (RFC 9112, 2.2).
fn skip_empty_lines<S: Stream>(wire: &mut Wire<S>) {
    while wire.input().starts_with(b"\r\n") {
        wire.take(2);
    }
}
