//! Answers requests with those of other HTTP servers: a reverse proxy.

use std::{
    borrow::Cow,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_trace::{Kind, Span, Trace};
use forebay_upstream::{Connection, Exchange, Failure, Group, Tunnel, connect};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE},
    response::Parts,
    uri::PathAndQuery,
};

use super::{
    End, Request,
    body_stream::{BodyStream, NextPiece, Piece},
    hop::{is_hop, is_idempotent, named_hops},
    pending::wait_for,
    response_headers::{HEAD_BYTES, SERVERS_OWN},
};
use crate::{
    config::ProxyRoute,
    failure::Refusal,
    front::{Client, Framing, decimal},
    reply::{Body, HeaderLines, Reply},
};

/// Most bytes of a request's body that are sent in one piece.
const PIECE_BYTES: usize = 64 * 1024;
/// Most servers or connections that a request is tried on.
const ATTEMPTS_MAX: usize = 3;
/// Request fields that tell of the client. Only those of this server reach the other one.
const FORWARDED: [&[u8]; 6] = [
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-proto",
    b"x-real-ip",
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A group of servers, as one route uses them.
#[derive(Debug)]
pub(crate) struct ProxyTarget {
    group: Arc<Group>,
    /// The Host field that servers get; the client's if `None`.
    host: Option<HeaderValue>,
    /// Replaces the part of the path before the pattern's `*`; `None` leaves the path as it is.
    upstream_path: Option<String>,
    tunnel_timeout: Duration,
    retries: bool,
}

/// The server that answered a request, for the access log.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) server: Arc<forebay_upstream::Server>,
    /// From the moment that it was chosen to the head of its response.
    pub(crate) duration: Duration,
}

/// The parts of a request that can be sent more than once.
struct Sendable<'a> {
    request: &'a Request<'a>,
    /// The protocol that the client wants to go over to.
    upgrade: Option<&'a [u8]>,
    first: Bytes,
    /// Whether `first` is the whole body.
    is_whole: bool,
}

impl ProxyTarget {
    pub(crate) fn new(group: Arc<Group>, proxy: &crate::config::Proxy, route: &ProxyRoute) -> Self {
        let host = proxy.host.as_ref();
        Self {
            group,
            host: host.map(|host| host.parse().expect("the configuration was checked")),
            upstream_path: route.upstream_path.clone(),
            tunnel_timeout: proxy.tunnel_timeout,
            retries: proxy.retry == crate::config::Retry::Idempotent,
        }
    }

    pub(crate) async fn answer<'a>(
        &'a self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        client.before_waiting().await?;
        let mut first = Vec::new();
        if !client.body_ended() {
            client.permit_body();
            client.before_waiting().await?;
            poll_fn(|cx| poll_first(cx, client, &mut first, request.deadline)).await?;
        }
        let sendable = Sendable {
            request,
            upgrade: request.head.upgrade(),
            first: first.into(),
            is_whole: client.body_ended(),
        };
        let is_idempotent = self.retries && is_idempotent(request.head.method());
        let mut tried = 0;
        let mut may_reuse = true;
        let mut last = None;
        for attempts_left in (0..ATTEMPTS_MAX).rev() {
            let lease = match self.group.choose(request.peer, request.head.path(), tried) {
                Ok(lease) => lease,
                Err(failure) => return Err(last.unwrap_or(failure).into()),
            };
            let at = lease.at();
            let begun = Instant::now();
            // A server that does not accept leaves time for another one.
            let mut time_left = request.deadline.saturating_duration_since(begun);
            if attempts_left > 0 {
                time_left /= 2;
            }
            let kept = may_reuse.then(|| request.thread.upstreams.take(lease.server()));
            let is_used = matches!(kept, Some(Some(_)));
            let answered = match kept.flatten() {
                Some(connection) => self.exchange(&sendable, lease, connection, client).await,
                None => match wait_for(connect(&lease, time_left), request.deadline, client).await? {
                    Ok(connection) => {
                        request.thread.upstreams.share(lease.server(), &connection);
                        self.exchange(&sendable, lease, connection, client).await
                    }
                    Err(failure) => Err(failure.into()),
                },
            };
            match answered {
                Ok((head, exchange)) => {
                    if let Some(trace) = forebay_trace::current() {
                        let server = exchange.lease().server().name();
                        trace.record(Span::new(Kind::Upstream, server, begun, Instant::now()));
                    }
                    *request.upstream.borrow_mut() = Some(Upstream {
                        server: Arc::clone(exchange.lease().server()),
                        duration: begun.elapsed(),
                    });
                    return self.reply(request, &sendable, &head, exchange, client).await;
                }
                // A body that has been read further cannot be sent again.
                Err(End::Refused(Refusal::Upstream(failure)))
                    if failure.may_retry(is_idempotent)
                        && (sendable.is_whole || failure.is_unconnected()) =>
                {
                    // A connection that was kept unused may be closed any time; a new one tells whether the server is there.
                    if is_used {
                        may_reuse = false;
                    } else {
                        tried |= 1 << at;
                    }
                    last = Some(failure);
                }
                Err(end) => return Err(end),
            }
        }
        Err(last.expect("there was an attempt").into())
    }

    /// Sends the request, and returns the head of the response.
    async fn exchange(
        &self,
        sendable: &Sendable<'_>,
        lease: forebay_upstream::Lease,
        connection: Connection,
        client: &mut dyn Client,
    ) -> Result<(Parts, Exchange), End> {
        let Sendable { request, first, .. } = sendable;
        let head = self.head(sendable, connection.is_http2())?;
        let connections = &request.thread.upstreams;
        let mut exchange = Exchange::begin(
            lease,
            connection,
            connections,
            head,
            first.clone(),
            sendable.is_whole,
        );
        let head = poll_fn(|cx| {
            loop {
                if let Poll::Ready(head) = exchange.poll_response(cx) {
                    return Poll::Ready(head.map_err(End::from));
                }
                match poll_upload(&mut exchange, client, cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
                    Poll::Pending => break,
                }
            }
            client.poll_limit(cx, request.deadline).map(|()| {
                if !exchange.has_sent() {
                    // The client has not sent its body in time: that is not the server's failure.
                    return Err(Refusal::DeadlinePassed.into());
                }
                let server = exchange.lease().server();
                request.thread.upstreams.forget_shared(server);
                let server = server.name().to_owned();
                let failure = Failure::Late { server };
                exchange.lease().note_failure(&failure);
                Err(failure.into())
            })
        })
        .await?;
        Ok((head, exchange))
    }

    /// The head of the request as the server gets it.
    fn head(&self, sendable: &Sendable<'_>, is_http2: bool) -> Result<http::Request<()>, End> {
        let malformed = |what| End::from(Refusal::Malformed { what });
        let request = sendable.request;
        let head = request.head;
        let mut sent = http::Request::new(());
        *sent.method_mut() =
            Method::from_bytes(head.method().as_bytes()).map_err(|_| malformed("the method is not one"))?;
        let host = match &self.host {
            Some(host) => host.clone(),
            None => {
                HeaderValue::from_bytes(head.host_bytes()).map_err(|_| malformed("the host is not one"))?
            }
        };
        *sent.uri_mut() = self
            .uri(request, is_http2.then_some(&host))
            .ok_or_else(|| malformed("the path or the query has a byte that is not allowed"))?;
        let named_hops = named_hops(head);
        let trace = forebay_trace::current();
        let traceparent = trace.as_ref().and_then(Trace::traceparent);
        let fields = sent.headers_mut();
        fields.reserve(12);
        if !is_http2 {
            fields.insert(HOST, host);
        }
        for (name, value) in head.fields() {
            let is_dropped = is_hop(name)
                || matches!(name, b"host" | b"x-request-id")
                // Many servers read `_` as `-`, so that such a field could pass for one of this server's.
                || name.contains(&b'_')
                || FORWARDED.contains(&name)
                || traceparent.is_some() && name == b"traceparent"
                || named_hops.iter().any(|named| named.eq_ignore_ascii_case(name));
            if is_dropped {
                continue;
            }
            let name = HeaderName::from_bytes(name)
                .map_err(|_| malformed("a header name has a byte that is not allowed"))?;
            fields.append(name, field_value(value)?);
        }
        if head.framing == Framing::Chunked && !sendable.is_whole && !is_http2 {
            // Said for methods that usually have no body, too.
            fields.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if let Some(protocol) = sendable.upgrade.filter(|_| !is_http2) {
            fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            fields.insert(UPGRADE, field_value(protocol)?);
        }
        if !request.peer.is_empty() {
            fields.insert(FORWARDED_FOR, field_value(request.peer.as_bytes())?);
        }
        fields.insert(FORWARDED_HOST, field_value(head.host_bytes())?);
        let scheme = if request.is_secure { "https" } else { "http" };
        fields.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
        if let Some(traceparent) = traceparent {
            fields.insert(TRACEPARENT, field_value(traceparent.as_bytes())?);
        }
        fields.insert(REQUEST_ID, field_value(request.id.as_bytes())?);
        Ok(sent)
    }

    /// The path and query for the server; in HTTP/2 with the host.
    fn uri(&self, request: &Request<'_>, host: Option<&HeaderValue>) -> Option<Uri> {
        let head = request.head;
        let (before, path) = match (&self.upstream_path, request.rest) {
            (Some(before), Some(rest)) => (before.as_str(), rest),
            _ => ("", head.path()),
        };
        let mut text = Vec::with_capacity(before.len() + path.len() + head.query().len() + 1);
        text.extend_from_slice(before.as_bytes());
        text.extend_from_slice(path.as_bytes());
        if !head.query().is_empty() {
            text.push(b'?');
            text.extend_from_slice(head.query());
        }
        let path = PathAndQuery::from_maybe_shared(Bytes::from(text)).ok()?;
        let mut parts = http::uri::Parts::default();
        parts.path_and_query = Some(path);
        if let Some(host) = host {
            parts.scheme = Some(http::uri::Scheme::HTTP);
            parts.authority = Some(host.as_bytes().try_into().ok()?);
        }
        Uri::from_parts(parts).ok()
    }

    async fn reply<'a>(
        &'a self,
        request: &Request<'_>,
        sendable: &Sendable<'_>,
        head: &Parts,
        mut exchange: Exchange,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        let status = head.status.as_u16();
        let named: Vec<&[u8]> = listed(&head.headers, CONNECTION).collect();
        let is_named = |name: &[u8]| named.iter().any(|named| named.eq_ignore_ascii_case(name));
        let mut lines = HeaderLines::of_known(HEAD_BYTES, "");
        let mut announced = None;
        for (name, value) in &head.headers {
            match name.as_str().as_bytes() {
                b"content-length" => announced = decimal(value.as_bytes()),
                name if is_hop(name) || SERVERS_OWN.contains(&name) || is_named(name) => {}
                name => lines.put(name, value.as_bytes()),
            }
        }
        let mut reply = Reply::new(status);
        reply.headers = Cow::Owned(lines);
        if status == 101 {
            let invalid = |what: &str| {
                let lease = exchange.lease();
                let failure = Failure::Invalid {
                    server: lease.server().name().to_owned(),
                    cause: what.to_owned(),
                };
                lease.note_failure(&failure);
                End::from(failure)
            };
            if sendable.upgrade.is_none() {
                return Err(invalid(
                    "it goes over to another protocol, which was not asked for",
                ));
            }
            let protocol = head
                .headers
                .get(UPGRADE)
                .ok_or_else(|| invalid("it does not say to which protocol it goes over"))?;
            let pushed = reply.headers.to_mut().push(b"upgrade", protocol.as_bytes());
            pushed.map_err(invalid)?;
            let tunnel = exchange.into_tunnel().ok_or(End::Gone)?;
            client.begin_tunnel();
            reply.body = Body::Stream(Box::new(TunnelStream {
                tunnel,
                unsent: Bytes::new(),
                timeout: self.tunnel_timeout,
            }));
            return Ok(reply);
        }
        if request.head.method() == "HEAD" || matches!(status, 204 | 304) {
            reply.length = announced;
            return Ok(reply);
        }
        // Most bodies come with their head: then everything is sent in one write.
        let first = poll_fn(|cx| Poll::Ready(exchange.poll_body(cx))).await;
        let first = match first {
            Poll::Ready(piece) => piece?,
            Poll::Pending => Some(Bytes::new()),
        };
        let Some(first) = first else {
            reply.body = Body::Bytes(Bytes::new());
            return Ok(reply);
        };
        let mut second = Bytes::new();
        if !first.is_empty() && announced.is_none() {
            match poll_fn(|cx| Poll::Ready(exchange.poll_body(cx))).await {
                Poll::Ready(piece) => second = piece?.unwrap_or_default(),
                Poll::Pending => {}
            }
        }
        if exchange.has_ended() && second.is_empty() {
            reply.body = Body::Bytes(first);
            return Ok(reply);
        }
        reply.body = Body::Stream(Box::new(ProxyStream {
            read_timeout: self.group.settings().read_timeout,
            exchange,
            ready: [second, first],
            announced,
        }));
        Ok(reply)
    }
}

fn field_value(value: &[u8]) -> Result<HeaderValue, End> {
    HeaderValue::from_bytes(value).map_err(|_| {
        End::from(Refusal::Malformed {
            what: "a header value has a byte that is not allowed",
        })
    })
}

/// The elements of a list field.
fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(name).iter();
    values.flat_map(|value| {
        value
            .as_bytes()
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
    })
}

/// Reads the start of the request's body: all that has arrived, within [`PIECE_BYTES`].
fn poll_first(
    cx: &mut Context<'_>,
    client: &mut dyn Client,
    first: &mut Vec<u8>,
    deadline: Instant,
) -> Poll<Result<(), End>> {
    while !client.body_ended() && first.len() < PIECE_BYTES {
        let room = PIECE_BYTES - first.len();
        match client.poll_body(cx, room, Some(deadline), &mut |bytes| {
            first.extend_from_slice(bytes);
        }) {
            Poll::Ready(read) => read?,
            Poll::Pending if first.is_empty() => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    Poll::Ready(Ok(()))
}

/// Moves one piece of the request's body to the server; fails if the client disconnects.
fn poll_upload(
    exchange: &mut Exchange,
    client: &mut dyn Client,
    cx: &mut Context<'_>,
) -> Poll<Result<(), End>> {
    if exchange.poll_room(cx).is_pending() {
        return client.poll_gone(cx).map(|()| Err(End::Gone));
    }
    let mut piece = Vec::new();
    ready!(client.poll_body(cx, PIECE_BYTES, None, &mut |bytes| piece.extend_from_slice(bytes)))?;
    exchange.send(piece.into(), client.body_ended());
    Poll::Ready(Ok(()))
}

/// The rest of a response, and of the request's body.
#[derive(Debug)]
struct ProxyStream {
    exchange: Exchange,
    /// Pieces that came with the head, the first one last.
    ready: [Bytes; 2],
    announced: Option<u64>,
    read_timeout: Duration,
}

impl BodyStream for ProxyStream {
    fn announced(&self) -> Option<u64> {
        self.announced
    }

    fn has_piece(&self) -> bool {
        self.ready.iter().any(|piece| !piece.is_empty())
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        if let Some(piece) = self.ready.iter_mut().rev().find(|piece| !piece.is_empty()) {
            let piece = std::mem::take(piece);
            let is_last = self.exchange.has_ended() && !self.has_piece();
            return Box::pin(std::future::ready(Ok(Piece::new(piece, is_last))));
        }
        let mut until = Instant::now() + self.read_timeout;
        Box::pin(poll_fn(move |cx| {
            loop {
                if let Poll::Ready(piece) = self.exchange.poll_body(cx) {
                    let piece = piece?;
                    let is_last = piece.is_none() || self.exchange.has_ended();
                    return Poll::Ready(Ok(Piece::new(piece.unwrap_or_default(), is_last)));
                }
                match poll_upload(&mut self.exchange, client, cx) {
                    Poll::Ready(Ok(())) => until = Instant::now() + self.read_timeout,
                    Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
                    Poll::Pending => break,
                }
            }
            client.poll_limit(cx, until).map(|()| {
                let lease = self.exchange.lease();
                let failure = Failure::Stalled {
                    server: lease.server().name().to_owned(),
                    read_timeout: self.read_timeout,
                };
                if self.exchange.has_sent() {
                    lease.note_failure(&failure);
                }
                Err(failure.into())
            })
        }))
    }
}

/// Both directions of a connection that has gone over to another protocol.
#[derive(Debug)]
struct TunnelStream {
    tunnel: Tunnel,
    /// Bytes from the client that the server has not taken yet.
    unsent: Bytes,
    /// How long neither side may send anything.
    timeout: Duration,
}

impl BodyStream for TunnelStream {
    fn has_piece(&self) -> bool {
        false
    }

    fn ends_connection(&self) -> bool {
        true
    }

    fn next<'s>(&'s mut self, client: &'s mut dyn Client) -> NextPiece<'s> {
        let mut until = Instant::now() + self.timeout;
        Box::pin(poll_fn(move |cx| {
            if let Poll::Ready(received) = self.tunnel.poll_receive(cx) {
                let bytes = received.unwrap_or_default();
                let is_last = bytes.is_empty();
                return Poll::Ready(Ok(Piece::new(bytes, is_last)));
            }
            loop {
                match self.tunnel.poll_send(cx, &mut self.unsent) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(End::Gone)),
                    Poll::Pending => break,
                }
                let mut piece = Vec::new();
                let read =
                    client.poll_body(cx, PIECE_BYTES, None, &mut |bytes| piece.extend_from_slice(bytes));
                match read {
                    Poll::Ready(Ok(())) => self.unsent = piece.into(),
                    Poll::Ready(Err(end)) => return Poll::Ready(Err(end)),
                    Poll::Pending => break,
                }
                until = Instant::now() + self.timeout;
            }
            // After such a silence both sides are taken to have left.
            client.poll_limit(cx, until).map(|()| Err(End::Gone))
        }))
    }
}
