//! Answers one request of a connection.

use std::{os::unix::fs::FileExt as _, rc::Rc, time::Instant};

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use super::{
    super::{
        Head,
        lookup::{Arrival, Responder, Sent, request_id},
    },
    Peer,
    client::Http2Client,
};
use crate::{
    reply::{Body, Delimiting, HeaderLines, Reply, fields_of},
    route::Route,
    target::{BodyStream, End},
    traces::Traced,
};

/// Bodies up to this size are handed over whole, whatever the client has room for: they wait in the connection.
const WHOLE_BODY_BYTES: usize = 16 * 1024;
/// Bytes of a file, or of what is in memory, that are copied and sent at a time.
const PIECE_BYTES: usize = 64 * 1024;

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
    let mut client = Http2Client::new(Rc::clone(&peer), head.framing, body, respond);
    let route = match taken {
        Ok(()) => arrival.answer(&mut client).await.1,
        Err(refusal) => {
            client.finish(&arrival, Err(refusal.into()), None).await;
            None
        }
    };
    let Sent { status, bytes, .. } = client.sent;
    arrival.account(route, status, bytes, at.elapsed());
    client.discard_body().await;
}

impl Responder for Http2Client {
    type Next = ();

    fn sent(&mut self) -> &mut Sent {
        &mut self.sent
    }

    async fn finish(
        &mut self,
        arrival: &Arrival<'_>,
        answered: Result<Reply<'_>, End>,
        route: Option<&Route>,
    ) {
        let reply = match answered {
            Ok(reply) => reply,
            Err(End::Refused(refusal)) => {
                refusal.log(arrival.id);
                arrival.refused(&refusal, route)
            }
            Err(End::Gone) => return self.reset(Reason::CANCEL),
        };
        match self.send(reply, arrival, route).await {
            Ok(()) => {}
            Err(End::Gone) => self.reset(Reason::CANCEL),
            Err(End::Refused(refusal)) => {
                // The client cannot mistake the part for the whole.
                refusal.log_cut_off(arrival.id);
                self.reset(Reason::INTERNAL_ERROR);
            }
        }
    }

    fn trace_written(&mut self, mut traced: Traced) {
        traced.written(Instant::now());
    }
}

impl Http2Client {
    fn reset(&mut self, reason: Reason) {
        match &mut self.sending {
            Some(sending) => sending.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    async fn send(
        &mut self,
        mut reply: Reply<'_>,
        arrival: &Arrival<'_>,
        route: Option<&Route>,
    ) -> Result<(), End> {
        let is_head = arrival.head.method() == "HEAD";
        let announced = reply.announced(is_head);
        let has_body = !is_head && !matches!(reply.status, 204 | 304) && announced != Some(0);
        let content = std::mem::replace(&mut reply.body, Body::Empty);
        self.send_head(&reply, arrival, route, announced, !has_body)?;
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
            let piece = stream.next(self).await?;
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
        let sending = self.sending.as_mut().ok_or(End::Gone)?;
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
                self.capacity(bytes.len(), &mut meanwhile).await?
            };
            let part = bytes.split_to(room.min(bytes.len()));
            let length = part.len() as u64;
            let Some(sending) = &mut self.sending else {
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
        arrival: &Arrival<'_>,
        route: Option<&Route>,
        length: Option<u64>,
        is_end: bool,
    ) -> Result<(), End> {
        let mut head = Response::new(());
        *head.status_mut() = http::StatusCode::from_u16(reply.status).map_err(|_| End::Gone)?;
        let headers = head.headers_mut();
        let mut text = Vec::with_capacity(256);
        let delimiting = length.map_or(Delimiting::Nothing, Delimiting::Length);
        arrival.with_fields(route, Instant::now(), delimiting, |fields| {
            fields.put_all(&mut text, &reply.headers);
        });
        for (name, value) in fields_of(&text) {
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
        let sent = self.respond.send_response(head, is_end);
        self.sending = Some(sent.map_err(|_| End::Gone)?);
        self.sent.status = reply.status;
        Ok(())
    }
}
