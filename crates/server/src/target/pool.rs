//! Answers requests with a pool's workers: turns an HTTP request into a job, and the worker's response into an HTTP response.

mod affinity;
mod websocket;
mod workers;

use std::{
    borrow::Cow,
    fs::File,
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_pool::{
    Answer, Connection, Delivery, Failure, FilePart, INLINE_BODY_BYTES, Job, Limits, Pairs, Pending, Pool,
    RequestParts, Retry, Timing, Upgrade, put_pair,
};

use forebay_trace::{Kind, Span, Trace};

pub(crate) use self::workers::PoolWorkers;
use self::{affinity::client_of, websocket::WebSocketStream};
use super::{
    End, Request,
    body_stream::{BodyStream, NextPiece, Piece},
    durability::wait_for_disk,
    hop::{is_hop, is_idempotent, named_hops},
    response_headers::{Length, answer_headers, invalid},
    spool::{Bounds, BufferUsage, Part, Share, Spool},
    websocket::refused_handshake,
};
use crate::{
    config,
    failure::Refusal,
    front::{Client, Framing, Head},
    reply::{Body, HeaderLines, Reply, may_be_trailer},
    store::OpenStore,
};

/// Initial capacity for the head of a typical request.
const PAYLOAD_BYTES: usize = 512;
/// Most bytes of a request's body sent to the worker in one piece.
const PIECE_BYTES: usize = 64 * 1024;

/// A pool, with the limits of one route.
#[derive(Debug)]
pub(crate) struct PoolTarget {
    pool: Pool,
    limits: Limits,
    /// The store, if handlers can write to it.
    store: Option<Arc<OpenStore>>,
    /// Body bytes in a job's payload; the rest follows in pieces, where the protocol has them.
    first_bytes_max: usize,
    kept: Arc<BufferUsage>,
    bounds: Bounds,
    websocket: config::WebSocket,
    sticky: Option<config::Sticky>,
}

impl PoolTarget {
    pub(crate) fn new(
        pool: Pool,
        limits: Limits,
        of: &config::Pool,
        store: Option<Arc<OpenStore>>,
        kept: Arc<BufferUsage>,
        bounds: Bounds,
    ) -> Self {
        Self {
            kept,
            bounds,
            websocket: of.websocket,
            sticky: of.sticky.clone(),
            limits,
            store,
            first_bytes_max: first_bytes_max(&pool, of.message_bytes_max as usize),
            pool,
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether its workers can take over connections.
    pub(crate) fn takes_upgrades(&self) -> bool {
        !self.pool.protocol().takes_whole_bodies()
    }

    pub(crate) async fn answer<'a>(
        &'a self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        if request.head.wants_websocket
            && let Some(reply) = refused_handshake(request.head)?
        {
            return Ok(reply);
        }
        client.before_waiting().await?;
        let (mut first, since, share) = if client.body_ended() {
            (Vec::new(), request.arrived, None)
        } else {
            let share = self.room_for(request.head);
            let enough = match &share {
                Some((_, bytes)) => *bytes,
                None => self.first_bytes_max,
            };
            let first = client.read_body(enough, request.deadline).await?;
            (first, Instant::now(), share)
        };
        let rest = if first.len() > self.first_bytes_max {
            Bytes::from(first.split_off(self.first_bytes_max))
        } else {
            Bytes::new()
        };
        let mut whole = client.body_ended() && rest.is_empty();
        if self.pool.protocol().takes_whole_bodies() {
            if !whole {
                let message_bytes_max = self.first_bytes_max;
                return Err(Refusal::MessageTooLarge { message_bytes_max }.into());
            }
            self.pool
                .check_body(&first)
                .map_err(|what| Refusal::Untellable { what })?;
        } else {
            // The fields behind the body are still to be sent.
            whole &= client.trailers().is_empty();
        }
        let mut limits = self.limits;
        limits.retry = retry_of(limits.retry, request.head.method());
        let trace = forebay_trace::current();
        let sticky = self.sticky.as_ref();
        let (of_client, cookie) = sticky
            .map(|sticky| client_of(sticky, request))
            .unwrap_or_default();
        let job = Job {
            client: of_client,
            may_upgrade: self.takes_upgrades() && request.head.upgrade().is_some(),
            trace: trace.clone(),
            payload: encode(request, &first),
            whole,
            connection: Connection {
                port: request.port,
                is_tls: request.is_secure,
            },
            since,
            deadline: request.deadline,
            limits,
        };
        let trace = trace.map(|trace| (trace, Instant::now()));
        let pending = self.pool.submit(&request.thread.mailbox, job)?;
        let mut stream = PoolStream {
            pending,
            target: self,
            hold_max: request.deadline.saturating_duration_since(request.arrived),
            granted: 0,
            owed: 0,
            rest,
            _share: share,
            spool: None,
            sent: whole,
            is_tunnel: false,
            is_detached: false,
            trailers: Bytes::new(),
            length: Length::default(),
            first: None,
            failed: None,
        };
        let mut answer = match stream.next_delivery(client).await? {
            Delivery::Answer(answer) => answer,
            Delivery::Failed(failure) => return Err(failure.into()),
            _ => unreachable!("an answer or a failure comes first, and windows are taken by the stream"),
        };
        if let Some((trace, submitted)) = trace {
            self.record(&trace, since, submitted, answer.timing());
        }
        wait_for_disk(self.store.as_deref(), answer.commit(), request.deadline, client).await?;
        let mut reply = match answer.upgrade() {
            None => {
                let file = answer.take_file();
                reply(&answer, file, stream)
            }
            Some(upgrade) => upgraded(&answer, upgrade, stream, request, client),
        }?;
        if let Some(cookie) = cookie {
            reply.headers.to_mut().push_known("set-cookie", &cookie);
        }
        Ok(reply)
    }

    /// Reserves memory to read a body before its job is submitted, and says how much of it to read. `None`: read only what fits the
    /// payload.
    fn room_for(&self, head: &Head) -> Option<(Share, usize)> {
        if self.pool.protocol().takes_whole_bodies() {
            return None;
        }
        let bytes = match head.framing {
            Framing::Length(length) => Some(length).filter(|length| *length <= self.bounds.body),
            Framing::Chunked => Some(self.bounds.body),
            Framing::None => None,
        };
        let bytes = bytes.filter(|bytes| *bytes > self.first_bytes_max as u64)?;
        let share = Share::for_body(&self.kept, &self.bounds, bytes)?;
        Some((share, bytes as usize))
    }

    /// The worker reports how long its handler ran, not when, so the run is placed at the end of the time that it had the job. While one of
    /// its statements is in flight, the handler counts as waiting.
    fn record(&self, trace: &Trace, since: Instant, submitted: Instant, timing: Timing) {
        let name = self.pool.name();
        let over = since + timing.waited + timing.away;
        let sent = submitted.max(since + timing.waited).min(over);
        trace.record(Span::new(Kind::Queue, name, submitted, sent));
        trace.record(Span::new(Kind::Handler, name, sent, over));
        let begun = sent.max(over.checked_sub(timing.run).unwrap_or(sent));
        for (from, until) in trace.without(Kind::Statement, begun, over) {
            trace.record(Span::new(Kind::Running, name, from, until));
        }
    }
}

/// Limits of a route's jobs, or of a pool's.
pub(crate) fn limits(queue_timeout: Duration, run_timeout: Duration, retry: crate::config::Retry) -> Limits {
    Limits {
        queue_timeout,
        run_timeout,
        retry: match retry {
            crate::config::Retry::Never => Retry::Never,
            crate::config::Retry::Idempotent => Retry::Idempotent,
        },
    }
}

/// Body bytes in a job's payload; the rest follows in pieces, where the protocol has them.
pub(crate) fn first_bytes_max(pool: &Pool, message_bytes_max: usize) -> usize {
    if pool.protocol().takes_whole_bodies() {
        message_bytes_max
    } else {
        INLINE_BODY_BYTES
    }
}

/// The retry policy for a method: only idempotent ones are retried.
fn retry_of(retry: Retry, method: &str) -> Retry {
    if is_idempotent(method) {
        retry
    } else {
        Retry::Never
    }
}

/// The payload of a REQUEST frame.
pub(super) fn encode(request: &Request<'_>, body: &[u8]) -> Vec<u8> {
    let head = request.head;
    let mut payload = Vec::with_capacity(PAYLOAD_BYTES + body.len());
    let named_hops = named_hops(head);
    let id = request.id.as_bytes();
    let trace = forebay_trace::current();
    let traceparent = trace.as_ref().and_then(Trace::traceparent).map(str::as_bytes);
    RequestParts {
        remaining_ms: 0,
        method: head.method().as_bytes(),
        path: head.path_bytes(),
        query: head.query(),
        route: request.pattern.as_bytes(),
        params: request
            .params
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        headers: fields(head, &named_hops, id, traceparent),
        peer: request.peer.as_bytes(),
        id,
        identity: request
            .identity
            .get()
            .map_or(b"", |identity| identity.json().as_bytes()),
        body,
    }
    .put(&mut payload);
    payload
}

/// The fields of a request that its handler gets.
pub(super) fn fields<'h>(
    head: &'h Head,
    named_hops: &'h [&[u8]],
    id: &'h [u8],
    traceparent: Option<&'h [u8]>,
) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
    let upgrades = head.upgrade().is_some();
    let is_named_hop = |name: &[u8]| named_hops.iter().any(|named| named.eq_ignore_ascii_case(name));
    head.fields()
        .filter(move |(name, _)| match *name {
            b"connection" | b"upgrade" => upgrades,
            // By these the server tells that a request is a job.
            b"forebay-job" | b"forebay-attempt" | b"forebay-scheduled" => false,
            name => !is_hop(name) && !is_named_hop(name),
        })
        // An id that cannot be used is replaced.
        .filter(move |(name, value)| *name != b"x-request-id" || *value == id)
        // An authority in the target replaces Host (RFC 9112, 3.2.2), for the handler as for the router.
        .map(|(name, value)| match name {
            b"host" => (name, head.host_bytes()),
            _ => (name, value),
        })
        .filter(move |(name, _)| traceparent.is_none() || *name != b"traceparent")
        .chain(traceparent.map(|traceparent| (&b"traceparent"[..], traceparent)))
}

fn reply<'a>(answer: &Answer, file: Option<FilePart>, mut stream: PoolStream<'a>) -> Result<Reply<'a>, End> {
    let mut reply = Reply::new(answer.status());
    let pairs = answer.headers().map(|pair| {
        let (name, value) = pair.map_err(|_| invalid("its header block is cut off"))?;
        Ok((Cow::Borrowed(name), Cow::Borrowed(value)))
    });
    let (lines, announced) = answer_headers(answer.content().media_type(), pairs)?;
    reply.headers = Cow::Owned(lines);
    stream.length = Length::new(announced);
    if let Some(part) = file {
        reply.body = file_body(part, announced)?;
        return Ok(reply);
    }
    stream.is_detached = answer.is_detached();
    let body = answer.body();
    if answer.ended() {
        // The response to a HEAD request may announce the length of the body that a GET would get.
        reply.length = announced.filter(|_| body.is_empty());
        reply.body = Body::Bytes(body);
        return Ok(reply);
    }
    // If a length is announced, the worker has the whole body already.
    if announced.is_some() {
        stream.spool = Spool::new(&stream.target.kept, stream.target.bounds);
    }
    reply.body = Body::Stream(Box::new(stream.starting_with(body)));
    Ok(reply)
}

/// The part of a worker's file as a body.
fn file_body<'a>(part: FilePart, announced: Option<u64>) -> Result<Body<'a>, End> {
    let FilePart { file, offset, length } = part;
    let file = File::from(file);
    let found = file
        .metadata()
        .map_err(|_| invalid("its file cannot be looked at"))?;
    if !found.is_file() {
        return Err(invalid("its file is a folder, a device or a pipe"));
    }
    if offset.checked_add(length).is_none_or(|end| end > found.len()) {
        return Err(invalid("its file is shorter than the part that it names"));
    }
    if announced.is_some_and(|announced| announced != length) {
        return Err(invalid("its body is not as long as announced"));
    }
    Ok(Body::File { file, offset, length })
}

/// The response to a request whose handler takes the connection over.
fn upgraded<'a>(
    answer: &Answer,
    upgrade: Upgrade,
    mut stream: PoolStream<'a>,
    request: &Request<'_>,
    client: &mut dyn Client,
) -> Result<Reply<'a>, End> {
    let mut reply = Reply::new(answer.status());
    let is_websocket = upgrade == Upgrade::WebSocket;
    let mut protocol = None;
    let mut pairs = Vec::new();
    for pair in answer.headers() {
        let (name, value) = pair.map_err(|_| invalid("its header block is cut off"))?;
        match name {
            b"upgrade" => protocol = Some(value),
            b"sec-websocket-accept" | b"sec-websocket-extensions" if is_websocket => {}
            _ => pairs.push(Ok((Cow::Borrowed(name), Cow::Borrowed(value)))),
        }
    }
    let (mut lines, _) = answer_headers(None, pairs.into_iter())?;
    if is_websocket {
        reply.body = Body::Stream(Box::new(WebSocketStream::new(stream, request, &mut lines)?));
    } else {
        let protocol = protocol.ok_or(invalid("it upgrades the connection, and does not say to what"))?;
        lines.push(b"upgrade", protocol).map_err(invalid)?;
        stream.sent = false;
        stream.is_tunnel = true;
        reply.body = Body::Stream(Box::new(stream.starting_with(answer.body())));
    }
    reply.headers = Cow::Owned(lines);
    client.begin_tunnel();
    Ok(reply)
}

/// The traffic still to come for one request: the rest of its body, and the response's.
#[derive(Debug)]
pub(crate) struct PoolStream<'a> {
    pending: Pending<'a>,
    target: &'a PoolTarget,
    /// How long a piece may wait for the disk: as long as the response might have taken to begin. The stream itself has no time limit.
    hold_max: Duration,
    /// Bytes of the request's body that the worker is ready to take.
    granted: usize,
    /// Bytes read of the request's body beyond those in the job's payload.
    rest: Bytes,
    _share: Option<(Share, usize)>,
    /// Pieces of the response that the client has not taken yet, where those are buffered.
    spool: Option<Spool>,
    /// Window bytes to grant the worker once the spool has room.
    owed: usize,
    /// Whether the worker has the whole request body.
    sent: bool,
    /// Whether the connection has gone over to another protocol, which the worker speaks.
    is_tunnel: bool,
    /// Whether it may last, and so ends when the server drains.
    is_detached: bool,
    /// The fields behind the response's body, as the worker has written them.
    trailers: Bytes,
    length: Length,
    first: Option<Bytes>,
    /// Why the rest of the response will not come.
    failed: Option<Failure>,
}

impl PoolStream<'_> {
    fn starting_with(mut self, first: Bytes) -> Self {
        self.first = Some(first).filter(|first| !first.is_empty());
        self
    }
}

impl BodyStream for PoolStream<'_> {
    fn announced(&self) -> Option<u64> {
        self.length.announced()
    }

    fn has_piece(&self) -> bool {
        self.first.is_some()
    }

    fn ends_connection(&self) -> bool {
        self.is_tunnel
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        Box::pin(self.next_piece(client))
    }

    fn trailers(&mut self) -> Result<HeaderLines, End> {
        let mut lines = HeaderLines::default();
        if self.length.announced().is_some() {
            return Ok(lines);
        }
        for pair in Pairs::new(&self.trailers) {
            let (name, value) = pair.map_err(|_| invalid("the block of its trailers is cut off"))?;
            if may_be_trailer(&name.to_ascii_lowercase()) {
                lines.push(name, value).map_err(invalid)?;
            }
        }
        Ok(lines)
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        let Some(spool) = &mut self.spool else { return };
        // A failure is reported only after the client has taken everything before it.
        while !self.pending.is_over() {
            match self.pending.poll_next(cx) {
                Poll::Ready(Delivery::Chunk { bytes, end, commit }) => {
                    self.owed += bytes.len();
                    spool.push(Part { bytes, end, commit });
                    if !end && spool.has_room() {
                        self.pending.grant(mem::take(&mut self.owed) as u32);
                    }
                }
                Poll::Ready(Delivery::Window(bytes)) => self.granted += bytes as usize,
                Poll::Ready(Delivery::Trailers(block)) => self.trailers = block,
                Poll::Ready(Delivery::Failed(failure)) => self.failed = Some(failure),
                Poll::Ready(_) => unreachable!("one answer comes, and first"),
                Poll::Pending => return,
            }
        }
    }

    fn grant(&self, piece: &Piece) {
        if piece.windowed {
            self.pending.grant(piece.bytes.len() as u32);
        }
    }
}

impl PoolStream<'_> {
    async fn next_piece(&mut self, client: &mut dyn Client) -> Result<Piece, End> {
        let piece = match self.first.take() {
            // The head waited for the disk, and this piece came with it.
            Some(bytes) => Piece {
                bytes,
                end: false,
                windowed: false,
            },
            None if self.spool.is_some() => self.next_kept(client).await?,
            None => match self.next_delivery(client).await? {
                Delivery::Chunk { bytes, end, commit } => {
                    let until = Instant::now() + self.hold_max;
                    wait_for_disk(self.target.store.as_deref(), commit, until, client).await?;
                    Piece {
                        bytes,
                        end,
                        windowed: true,
                    }
                }
                // Its client comes again by itself.
                Delivery::Failed(Failure::Stopping { .. }) if self.is_detached => {
                    Piece::new(Bytes::new(), true)
                }
                Delivery::Failed(failure) => return Err(failure.into()),
                _ => unreachable!("one answer comes, and first"),
            },
        };
        self.length.pass(piece.bytes.len(), piece.end)?;
        Ok(piece)
    }

    /// The next piece of a buffered response.
    async fn next_kept(&mut self, client: &mut dyn Client) -> Result<Piece, End> {
        poll_fn(|cx| {
            loop {
                self.poll_ahead(cx);
                let is_empty = self.spool.as_ref().is_none_or(Spool::is_empty);
                if !is_empty || self.failed.is_some() {
                    return Poll::Ready(Ok::<_, End>(()));
                }
                match self.poll_body(cx, client) {
                    Poll::Ready(moved) => moved?,
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await?;
        let spool = self.spool.as_mut().expect("answers that are kept have one");
        let part = spool.pop().map_err(|error| {
            tracing::warn!(target: "forebay::front", cause = %error, "what was kept of an answer cannot be read");
            invalid("what was kept of it cannot be read")
        })?;
        let Some(Part { bytes, end, commit }) = part else {
            let failure = self.failed.take().expect("there is a part or a failure");
            return Err(failure.into());
        };
        // Even without any buffering allowed, the next piece may come once this one is on its way.
        if self.owed > 0 && !self.pending.is_over() && (spool.is_empty() || spool.has_room()) {
            self.pending.grant(mem::take(&mut self.owed) as u32);
        }
        let until = Instant::now() + self.hold_max;
        wait_for_disk(self.target.store.as_deref(), commit, until, client).await?;
        Ok(Piece {
            bytes,
            end,
            windowed: false,
        })
    }

    /// Waits for the worker's next message, and meanwhile sends it the request's body as it asks for it.
    async fn next_delivery(&mut self, client: &mut dyn Client) -> Result<Delivery, End> {
        poll_fn(|cx| {
            loop {
                match self.pending.poll_next(cx) {
                    Poll::Ready(Delivery::Window(bytes)) => self.granted += bytes as usize,
                    Poll::Ready(Delivery::Trailers(block)) => self.trailers = block,
                    Poll::Ready(delivery) => return Poll::Ready(Ok(delivery)),
                    // Its client comes again by itself, and finds another server.
                    Poll::Pending if self.is_detached && client.is_draining() => {
                        let (bytes, commit) = (Bytes::new(), 0);
                        return Poll::Ready(Ok(Delivery::Chunk {
                            bytes,
                            end: true,
                            commit,
                        }));
                    }
                    Poll::Pending => match self.poll_body(cx, client) {
                        Poll::Ready(moved) => moved?,
                        Poll::Pending => return Poll::Pending,
                    },
                }
            }
        })
        .await
    }

    /// Moves one piece of the request's body to the worker; fails if the client disconnects.
    fn poll_body(&mut self, cx: &mut Context<'_>, client: &mut dyn Client) -> Poll<Result<(), End>> {
        if self.sent || self.granted == 0 {
            return client.poll_gone(cx).map(|()| Err(End::Gone));
        }
        let room = self.granted.min(PIECE_BYTES);
        if !self.rest.is_empty() {
            let piece = self.rest.split_to(room.min(self.rest.len()));
            self.send_body(&piece, client);
            return Poll::Ready(Ok(()));
        }
        let mut piece = Vec::new();
        match client.poll_body(cx, room, None, &mut |bytes| piece.extend_from_slice(bytes)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(end)) => Poll::Ready(Err(end)),
            Poll::Ready(Ok(())) => {
                self.send_body(&piece, client);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Sends the worker a piece of the request's body, and behind the last one what follows the body.
    fn send_body(&mut self, piece: &[u8], client: &dyn Client) {
        self.granted -= piece.len();
        self.sent = self.rest.is_empty() && client.body_ended();
        if self.sent && !client.trailers().is_empty() {
            let mut block = Vec::new();
            for (name, value) in client.trailers().fields() {
                put_pair(&mut block, name, value);
            }
            self.pending.send_trailers(&block);
        }
        if !self.pending.send_body(piece, self.sent) {
            self.sent = true;
        }
    }
}
