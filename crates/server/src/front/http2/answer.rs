//! Answers one request of a connection.

use std::{os::unix::fs::FileExt as _, pin::pin, rc::Rc, time::Instant};

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use super::{
    super::{
        Head,
        lookup::{Arrival, Lookup, Unrouted, request_id},
    },
    Peer,
    client::Http2Client,
};
use crate::{
    reply::{Body, Delimiting, Fields, HeaderLines, Reply},
    route::Route,
    target::{BodyStream, End},
};

/// Bodies up to this size are handed over whole, whatever the client has room for: they wait in the connection.
const WHOLE_BODY_BYTES: usize = 16 * 1024;
/// Bytes of a file, or of what is in memory, that are copied and sent at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Progress of a response.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    status: u16,
    bytes: u64,
    answered: Option<Instant>,
}

pub(super) async fn answer(peer: Rc<Peer>, request: http::Request<RecvStream>, respond: SendResponse<Bytes>) {
    let at = Instant::now();
    let thread = Rc::clone(&peer.thread);
    let app = thread.app();
    let (parts, body) = request.into_parts();
    let mut head = Head::default();
    let taken = head.take_http2(&parts, !body.is_end_stream(), peer.limits().header_bytes_max);
    if taken.is_err() {
        // A refused head may be half parsed, so an empty one is logged.
        head = Head::of_http2();
    }
    let generated = thread.request_id();
    let id = request_id(&head, &generated);
    let remote = Rc::clone(&peer.remote);
    let arrival = Arrival::new(&app, &thread, &head, id, &remote, at);
    let mut responder = Responder {
        arrival: &arrival,
        client: Http2Client::new(Rc::clone(&peer), body, respond),
        sent: Sent::default(),
    };
    let lookup = match taken {
        Ok(()) => arrival.look_up(),
        Err(refusal) => Lookup::Unrouted(Unrouted::public(Err(refusal))),
    };
    let route = match lookup {
        Lookup::Route(found) => {
            let request = arrival.request(&found);
            let route = found.target;
            let (traced, trace) = arrival.trace(&request, route).unzip();
            {
                let answering = pin!(async {
                    let limited = responder.client.limit_body(head.framing, route.body_bytes_max);
                    let answered = match limited {
                        Ok(()) => route.answer(&request, &mut responder.client).await,
                        Err(refusal) => Err(refusal.into()),
                    };
                    if forebay_trace::current().is_some() {
                        responder.sent.answered = Some(Instant::now());
                    }
                    responder.finish(answered, Some(route)).await;
                });
                forebay_trace::within(trace, answering).await;
            }
            if let Some(mut traced) = traced {
                let Sent {
                    status,
                    bytes,
                    answered,
                } = responder.sent;
                traced.answered(answered, status, bytes);
                traced.written(Instant::now());
            }
            Some(route)
        }
        Lookup::Unrouted(unrouted) => {
            let route = unrouted.route;
            let answered = arrival.answer_unrouted(unrouted, &mut responder.client).await;
            responder.finish(answered, route).await;
            route
        }
    };
    let Sent { status, bytes, .. } = responder.sent;
    arrival.account(route, status, bytes, at.elapsed());
    responder.client.discard_body().await;
}

/// A request, and its response as far as it has been sent.
struct Responder<'a> {
    arrival: &'a Arrival<'a>,
    client: Http2Client,
    sent: Sent,
}

impl Responder<'_> {
    /// Sends the response, or the refusal in its place.
    async fn finish(&mut self, answered: Result<Reply<'_>, End>, route: Option<&Route>) {
        let id = self.arrival.id;
        let reply = match answered {
            Ok(reply) => reply,
            Err(End::Refused(refusal)) => {
                refusal.log(id);
                self.arrival.refused(&refusal, route)
            }
            Err(End::Gone) => return self.reset(Reason::CANCEL),
        };
        match self.send(reply, route).await {
            Ok(()) => {}
            Err(End::Gone) => self.reset(Reason::CANCEL),
            Err(End::Refused(refusal)) => {
                // The client cannot mistake the part for the whole.
                refusal.log_cut_off(id);
                self.reset(Reason::INTERNAL_ERROR);
            }
        }
    }

    fn reset(&mut self, reason: Reason) {
        match &mut self.client.sending {
            Some(sending) => sending.send_reset(reason),
            None => self.client.respond.send_reset(reason),
        }
    }

    async fn send(&mut self, mut reply: Reply<'_>, route: Option<&Route>) -> Result<(), End> {
        let is_head = self.arrival.head.method() == "HEAD";
        let announced = reply.announced(is_head);
        let has_body = !is_head && !matches!(reply.status, 204 | 304) && announced != Some(0);
        let content = std::mem::replace(&mut reply.body, Body::Empty);
        self.send_head(&reply, route, announced, !has_body)?;
        if !has_body {
            return Ok(());
        }
        match content {
            Body::Empty => Ok(()),
            Body::Bytes(bytes) => self.send_bytes(bytes, true, |_| ()).await,
            Body::Borrowed(bytes) => {
                let mut pieces = bytes.chunks(PIECE_BYTES).peekable();
                while let Some(piece) = pieces.next() {
                    let is_last = pieces.peek().is_none();
                    self.send_bytes(Bytes::copy_from_slice(piece), is_last, |_| ())
                        .await?;
                }
                Ok(())
            }
            Body::File { file, offset, length } => {
                let (mut offset, end) = (offset, offset + length);
                while offset < end {
                    let mut piece = vec![0; (end - offset).min(PIECE_BYTES as u64) as usize];
                    // A file that was truncated meanwhile cannot fill the announced length.
                    file.read_exact_at(&mut piece, offset).map_err(|_| End::Gone)?;
                    offset += piece.len() as u64;
                    self.send_bytes(piece.into(), offset == end, |_| ()).await?;
                }
                Ok(())
            }
            Body::Stream(stream) => self.send_stream(stream).await,
        }
    }

    /// Sends a body that arrives piece by piece.
    async fn send_stream(&mut self, mut stream: Box<dyn BodyStream + '_>) -> Result<(), End> {
        loop {
            let piece = stream.next(&mut self.client).await?;
            if piece.end {
                let trailers = stream.trailers()?;
                self.send_bytes(piece.bytes, trailers.is_empty(), |_| ()).await?;
                return self.send_trailers(&trailers);
            }
            self.send_bytes(piece.bytes.clone(), false, |cx| stream.poll_ahead(cx))
                .await?;
            stream.grant(&piece);
        }
    }

    /// Ends the response with fields behind its body, if there are any; otherwise it has ended.
    fn send_trailers(&mut self, trailers: &HeaderLines) -> Result<(), End> {
        if trailers.is_empty() {
            return Ok(());
        }
        let mut map = HeaderMap::new();
        for (name, value) in trailers.fields() {
            let name = HeaderName::from_bytes(name).map_err(|_| End::Gone)?;
            map.append(name, HeaderValue::from_bytes(value).map_err(|_| End::Gone)?);
        }
        let sending = self.client.sending.as_mut().ok_or(End::Gone)?;
        sending.send_trailers(map).map_err(|_| End::Gone)
    }

    /// Hands bytes over as the client has room for them.
    async fn send_bytes(
        &mut self,
        mut bytes: Bytes,
        is_last: bool,
        mut meanwhile: impl FnMut(&mut std::task::Context<'_>),
    ) -> Result<(), End> {
        let is_short = bytes.len() <= WHOLE_BODY_BYTES && is_last;
        loop {
            let room = if is_short || bytes.is_empty() {
                bytes.len()
            } else {
                self.client.capacity(bytes.len(), &mut meanwhile).await?
            };
            let part = bytes.split_to(room.min(bytes.len()));
            let length = part.len() as u64;
            let Some(sending) = &mut self.client.sending else {
                return Err(End::Gone);
            };
            let is_end = is_last && bytes.is_empty();
            if length > 0 || is_end {
                sending.send_data(part, is_end).map_err(|_| End::Gone)?;
            }
            self.sent.bytes += length;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends the head of a response.
    fn send_head(
        &mut self,
        reply: &Reply<'_>,
        route: Option<&Route>,
        length: Option<u64>,
        is_end: bool,
    ) -> Result<(), End> {
        let arrival = self.arrival;
        let cors = route.and_then(|route| route.cors.as_ref());
        let cors_headers = cors.map(|cors| cors.headers(arrival.head)).unwrap_or_default();
        let fields = Fields {
            date: &arrival.thread.date(Instant::now()),
            request_id: arrival.id.as_bytes(),
            transport_headers: if arrival.is_secure { &arrival.app.hsts } else { &[] },
            route_headers: route
                .map_or(&arrival.app.policies.headers, |route| &route.headers)
                .as_bytes(),
            cors_headers: cors_headers.as_bytes(),
            delimiting: length.map_or(Delimiting::Nothing, Delimiting::Length),
        };
        let mut head = Response::new(());
        *head.status_mut() = http::StatusCode::from_u16(reply.status).map_err(|_| End::Gone)?;
        let headers = head.headers_mut();
        let mut text = Vec::with_capacity(256);
        for (name, value) in fields.pairs(&mut text, &reply.headers) {
            let name = HeaderName::from_bytes(name).map_err(|_| End::Gone)?;
            // Fields of a connection have no place here (RFC 9113, 8.2.2).
            if matches!(
                name.as_str(),
                "connection" | "keep-alive" | "upgrade" | "transfer-encoding"
            ) {
                continue;
            }
            let mut value = HeaderValue::from_bytes(value).map_err(|_| End::Gone)?;
            // No later response has the same: in the table for compression it would only push others out.
            value.set_sensitive(name == "x-request-id");
            headers.try_append(name, value).map_err(|_| End::Gone)?;
        }
        let sent = self.client.respond.send_response(head, is_end);
        self.client.sending = Some(sent.map_err(|_| End::Gone)?);
        self.sent.status = reply.status;
        Ok(())
    }
}
