//! Writes responses to a connection: the head, then a body from memory, from a file, or piece by piece.

use std::{
    future::poll_fn,
    io,
    os::unix::fs::FileExt,
    task::{Context, Poll},
    time::Instant,
};

use super::{
    connection::{Exchange, Next},
    http1_client::Http1Client,
    lookup::{Arrival, Responder, Sent},
    socket::Stream,
};
use crate::{
    failure::Refusal,
    reply::{self, Body, Delimiting, HeaderLines, Reply},
    route::Route,
    target::{BodyStream, End},
    traces::Traced,
};

/// Bodies up to this size go out in one write with their head.
const JOINED_BODY_BYTES: usize = 16 * 1024;
/// Responses to pipelined requests are collected up to this size before they are written.
const COLLECTED_BYTES: usize = 64 * 1024;
/// Bytes of a file that are read and written at a time.
const FILE_PIECE_BYTES: u64 = 64 * 1024;

impl<S: Stream> Exchange<S> {
    /// Writes an error response and closes the connection: the bytes that follow may not be a request.
    pub(super) fn refuse(&mut self, refusal: &Refusal, arrival: &Arrival<'_>, route: Option<&Route>) -> Next {
        let reply = arrival.refused(refusal, route);
        let Body::Bytes(body) = &reply.body else {
            unreachable!("refusals have a body in memory")
        };
        let length = Delimiting::Length(body.len() as u64);
        self.put_head(&reply, length, arrival, route, Last::Yes);
        if arrival.head.method() != "HEAD" {
            self.socket.output.extend_from_slice(body);
            self.sent.bytes = body.len() as u64;
        }
        Next::Close
    }

    /// Whether connections end with their next response and no further request has been read on this one.
    fn shall_end(&self) -> bool {
        self.thread.is_ending() && self.socket.input().is_empty()
    }

    fn put_head(
        &mut self,
        reply: &Reply<'_>,
        delimiting: Delimiting,
        arrival: &Arrival<'_>,
        route: Option<&Route>,
        last: Last,
    ) {
        let output = &mut self.socket.output;
        arrival.with_fields(route, self.now, delimiting, |fields| {
            let (close, http10) = (last == Last::Yes, arrival.head.is_http10);
            reply::put_head(output, reply.status, &reply.headers, fields, close, http10);
        });
        self.sent.status = reply.status;
    }

    /// Whether the client has disconnected. A client that only closed its sending side can be told apart only before the response begins.
    async fn has_left(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.socket.poll_gone(cx).is_ready())).await
    }

    async fn write_body(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() <= JOINED_BODY_BYTES {
            self.socket.output.extend_from_slice(bytes);
            self.sent.bytes = bytes.len() as u64;
            if self.socket.output.len() < COLLECTED_BYTES {
                return Ok(());
            }
            return self.flush().await;
        }
        self.flush().await?;
        let mut rest = bytes;
        let written = self.socket.write_all(&mut rest, self.limits.idle_timeout).await;
        self.sent.bytes = (bytes.len() - rest.len()) as u64;
        self.now = Instant::now();
        written
    }

    async fn write_file(&mut self, file: &std::fs::File, mut offset: u64, length: u64) -> io::Result<()> {
        let end = offset + length;
        if S::SENDS_FILES && length > FILE_PIECE_BYTES {
            let sent = &mut self.sent.bytes;
            let stall_max = self.limits.idle_timeout;
            let written = self
                .socket
                .write_file(file, offset..end, stall_max, |bytes| *sent += bytes);
            written.await?;
            self.now = Instant::now();
            return Ok(());
        }
        while offset < end {
            let piece = (end - offset).min(FILE_PIECE_BYTES) as usize;
            let start = self.socket.output.len();
            self.socket.output.resize(start + piece, 0);
            // A file that was truncated meanwhile cannot fill the announced length.
            file.read_exact_at(&mut self.socket.output[start..], offset)?;
            offset += piece as u64;
            self.flush().await?;
            self.sent.bytes += piece as u64;
        }
        self.now = Instant::now();
        Ok(())
    }

    /// Writes a piece of a body, and calls `meanwhile` whenever the client is slow to read. The last piece, which comes with the fields behind the
    /// body, also ends a chunked one.
    async fn write_piece(
        &mut self,
        piece: &[u8],
        delimiting: Delimiting,
        last: Option<&HeaderLines>,
        meanwhile: impl FnMut(&mut Context<'_>),
    ) -> io::Result<()> {
        if delimiting == Delimiting::Chunked {
            reply::put_chunk(&mut self.socket.output, piece);
            if let Some(trailers) = last {
                reply::put_last_chunk(&mut self.socket.output, trailers);
            }
        } else {
            self.socket.output.extend_from_slice(piece);
        }
        self.flush_while(meanwhile).await?;
        self.sent.bytes += piece.len() as u64;
        Ok(())
    }
}

impl<S: Stream> Responder for Http1Client<'_, S> {
    type Next = Next;

    fn sent(&mut self) -> &mut Sent {
        &mut self.exchange.sent
    }

    async fn finish(
        &mut self,
        arrival: &Arrival<'_>,
        answered: Result<Reply<'_>, End>,
        route: Option<&Route>,
    ) -> Next {
        if self.has_waited {
            self.exchange.now = Instant::now();
        }
        let reply = match answered {
            Ok(reply) => reply,
            Err(End::Gone) => return Next::Abort,
            Err(End::Refused(refusal)) => {
                refusal.log(arrival.id);
                if refusal.ends_connection() {
                    return self.exchange.refuse(&refusal, arrival, route);
                }
                arrival.refused(&refusal, route)
            }
        };
        self.send(reply, arrival, route).await
    }

    fn trace_written(&mut self, traced: Traced) {
        self.exchange.socket.trace_written(traced);
    }
}

impl<S: Stream> Http1Client<'_, S> {
    /// Writes a response. The connection stays open if none of the request is left unread on it.
    async fn send(&mut self, mut reply: Reply<'_>, arrival: &Arrival<'_>, route: Option<&Route>) -> Next {
        let is_head = arrival.head.method() == "HEAD";
        let announced = reply.announced(is_head);
        let delimiting = announced.map_or(Delimiting::Nothing, Delimiting::Length);
        let content = std::mem::replace(&mut reply.body, Body::Empty);
        if let Body::Stream(stream) = content {
            if self.exchange.has_left().await {
                return Next::Abort;
            }
            self.exchange.socket.begin_answer(self.exchange.limits.pace());
            return self.send_stream(&reply, stream, arrival, route).await;
        }
        let exchange = &mut *self.exchange;
        exchange.socket.begin_answer(exchange.limits.pace());
        let last = Last::from(!arrival.head.keep_alive || self.body.is_withheld() || exchange.shall_end());
        exchange.put_head(&reply, delimiting, arrival, route, last);
        let written = match content {
            _ if is_head || announced.is_none() => Ok(()),
            Body::Bytes(bytes) => exchange.write_body(&bytes).await,
            Body::Borrowed(bytes) => exchange.write_body(bytes).await,
            Body::File { file, offset, length } => exchange.write_file(&file, offset, length).await,
            Body::Empty | Body::Stream(_) => Ok(()),
        };
        match (written, last) {
            (Err(_), _) => Next::Abort,
            (Ok(()), Last::Yes) => Next::Close,
            (Ok(()), Last::No) => self.after().await,
        }
    }

    /// Reads the rest of an answered request off the connection.
    async fn after(&mut self) -> Next {
        if self.body.ended() {
            return Next::KeepAlive;
        }
        let exchange = &mut *self.exchange;
        if exchange.flush().await.is_err() {
            return Next::Abort;
        }
        exchange.sent.at = Some(Instant::now());
        let discarded = self.body.discard(&mut exchange.socket).await;
        exchange.now = Instant::now();
        if discarded { Next::KeepAlive } else { Next::Close }
    }

    /// Sends a body that arrives piece by piece.
    async fn send_stream(
        &mut self,
        reply: &Reply<'_>,
        mut stream: Box<dyn BodyStream + '_>,
        arrival: &Arrival<'_>,
        route: Option<&Route>,
    ) -> Next {
        let head = arrival.head;
        let delimiting = match (stream.announced(), head.is_http10 || stream.ends_connection()) {
            _ if matches!(reply.status, 204 | 304) => Delimiting::Nothing,
            _ if reply.status == 101 => Delimiting::Upgrade,
            (Some(length), _) => Delimiting::Length(length),
            (None, false) => Delimiting::Chunked,
            (None, true) => Delimiting::Close,
        };
        let is_last = matches!(delimiting, Delimiting::Close | Delimiting::Upgrade);
        let goes_on = head.keep_alive && !is_last && !self.body.is_withheld() && !self.exchange.shall_end();
        let last = Last::from(!goes_on);
        self.exchange.put_head(reply, delimiting, arrival, route, last);
        if head.method() != "HEAD" && delimiting != Delimiting::Nothing {
            // The head goes out at once, however long the first piece takes.
            if !stream.has_piece() && self.exchange.flush().await.is_err() {
                return Next::Abort;
            }
            loop {
                let next = stream.next(self).await;
                let next = next.and_then(|piece| {
                    let last = piece.end.then(|| stream.trailers()).transpose()?;
                    Ok((piece, last))
                });
                let (piece, last) = match next {
                    Ok(next) => next,
                    Err(End::Refused(refusal)) => {
                        // The client cannot mistake the part for the whole.
                        refusal.log_cut_off(arrival.id);
                        return Next::Abort;
                    }
                    Err(End::Gone) => return Next::Abort,
                };
                let ahead = |cx: &mut Context<'_>| stream.poll_ahead(cx);
                let (bytes, last) = (&piece.bytes, last.as_ref());
                if self
                    .exchange
                    .write_piece(bytes, delimiting, last, ahead)
                    .await
                    .is_err()
                {
                    return Next::Abort;
                }
                if piece.end {
                    break;
                }
                stream.grant(&piece);
            }
            self.exchange.now = Instant::now();
        }
        // The stream may hold a snapshot of the store, which reading the rest of the request does not need.
        drop(stream);
        if goes_on { self.after().await } else { Next::Close }
    }
}

/// Whether the connection is closed after this response.
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
