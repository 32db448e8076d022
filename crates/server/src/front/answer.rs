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
    head::Head,
    http1_client::Http1Client,
    request_body::RequestBody,
    socket::Stream,
};
use crate::{
    reply::{self, Body, Delimiting, HeaderLines, Reply},
    route::Route,
    target::{BodyStream, End},
};

/// Bodies up to this size go out in one write with their head.
const JOINED_BODY_BYTES: usize = 16 * 1024;
/// Responses to pipelined requests are collected up to this size before they are written.
const COLLECTED_BYTES: usize = 64 * 1024;
/// Bytes of a file that are read and written at a time.
const FILE_PIECE_BYTES: u64 = 64 * 1024;

impl<S: Stream> Exchange<S> {
    /// Writes an error response and closes the connection: the bytes that follow may not be a request. Without a head, nothing is known
    /// about the request.
    pub(super) fn refuse(
        &mut self,
        reply: &Reply<'static>,
        head: Option<&Head>,
        id: &str,
        route: Option<&Route>,
    ) -> Next {
        let Body::Bytes(body) = &reply.body else {
            unreachable!("refusals have a body in memory")
        };
        let length = Delimiting::Length(body.len() as u64);
        self.put_head(reply, length, id, route, Last::Yes, head);
        if head.is_none_or(|head| head.method() != "HEAD") {
            self.socket.output.extend_from_slice(body);
            self.sent.bytes = body.len() as u64;
        }
        Next::Close
    }

    /// Writes a response. The connection stays open if none of the request is left unread on it.
    pub(super) async fn send(
        &mut self,
        mut reply: Reply<'_>,
        head: &Head,
        id: &str,
        route: Option<&Route>,
        mut body: RequestBody,
    ) -> Next {
        let is_head = head.method() == "HEAD";
        let announced = reply.announced(is_head);
        let delimiting = announced.map_or(Delimiting::Nothing, Delimiting::Length);
        let content = std::mem::replace(&mut reply.body, Body::Empty);
        if let Body::Stream(stream) = content {
            if self.has_left().await {
                return Next::Abort;
            }
            self.socket.begin_answer(self.limits.pace());
            return self.send_stream(&reply, stream, head, id, route, body).await;
        }
        self.socket.begin_answer(self.limits.pace());
        let last = Last::from(!head.keep_alive || body.is_withheld() || self.shall_end());
        self.put_head(&reply, delimiting, id, route, last, Some(head));
        let written = match content {
            _ if is_head || announced.is_none() => Ok(()),
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

    /// Reads the rest of an answered request off the connection.
    async fn after(&mut self, body: &mut RequestBody) -> Next {
        if body.ended() {
            return Next::KeepAlive;
        }
        if self.flush().await.is_err() {
            return Next::Abort;
        }
        self.sent.at = Some(Instant::now());
        let discarded = body.discard(&mut self.socket).await;
        self.now = Instant::now();
        if discarded { Next::KeepAlive } else { Next::Close }
    }

    /// Whether connections end with their next response and no further request has been read on this one.
    fn shall_end(&self) -> bool {
        self.thread.is_ending() && self.socket.input().is_empty()
    }

    fn put_head(
        &mut self,
        reply: &Reply<'_>,
        delimiting: Delimiting,
        id: &str,
        route: Option<&Route>,
        last: Last,
        head: Option<&Head>,
    ) {
        let app = (self.is_secure || route.is_none()).then(|| self.thread.app());
        let cors = route.and_then(|route| route.cors.as_ref()).zip(head);
        let cors_headers = cors.map(|(cors, head)| cors.headers(head)).unwrap_or_default();
        let fields = reply::Fields {
            date: &self.thread.date(self.now),
            request_id: id.as_bytes(),
            transport_headers: match &app {
                Some(app) if self.is_secure => &app.hsts,
                _ => &[],
            },
            route_headers: match (route, &app) {
                (Some(route), _) => route.headers.as_bytes(),
                (None, Some(app)) => app.policies.headers.as_bytes(),
                (None, None) => &[],
            },
            cors_headers: cors_headers.as_bytes(),
            delimiting,
        };
        let close = last == Last::Yes;
        let http10 = head.is_some_and(|head| head.is_http10);
        let output = &mut self.socket.output;
        reply::put_head(output, reply.status, &reply.headers, &fields, close, http10);
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

    /// Sends a body that arrives piece by piece.
    async fn send_stream(
        &mut self,
        reply: &Reply<'_>,
        mut stream: Box<dyn BodyStream + '_>,
        head: &Head,
        id: &str,
        route: Option<&Route>,
        mut body: RequestBody,
    ) -> Next {
        let delimiting = match (stream.announced(), head.is_http10 || stream.ends_connection()) {
            _ if matches!(reply.status, 204 | 304) => Delimiting::Nothing,
            _ if reply.status == 101 => Delimiting::Upgrade,
            (Some(length), _) => Delimiting::Length(length),
            (None, false) => Delimiting::Chunked,
            (None, true) => Delimiting::Close,
        };
        let is_last = matches!(delimiting, Delimiting::Close | Delimiting::Upgrade);
        let goes_on = head.keep_alive && !is_last && !body.is_withheld() && !self.shall_end();
        self.put_head(reply, delimiting, id, route, Last::from(!goes_on), Some(head));
        if head.method() != "HEAD" && delimiting != Delimiting::Nothing {
            // The head goes out at once, however long the first piece takes.
            if !stream.has_piece() && self.flush().await.is_err() {
                return Next::Abort;
            }
            loop {
                let mut client = Http1Client {
                    socket: &mut self.socket,
                    body: &mut body,
                    idle_timeout: self.limits.idle_timeout,
                    has_waited: true,
                };
                let next = stream.next(&mut client).await;
                let next = next.and_then(|piece| {
                    let last = piece.end.then(|| stream.trailers()).transpose()?;
                    Ok((piece, last))
                });
                let (piece, last) = match next {
                    Ok(next) => next,
                    Err(End::Refused(refusal)) => {
                        // The client cannot mistake the part for the whole.
                        refusal.log_cut_off(id);
                        return Next::Abort;
                    }
                    Err(End::Gone) => return Next::Abort,
                };
                let written = self.write_piece(&piece.bytes, delimiting, last.as_ref(), |cx| {
                    stream.poll_ahead(cx);
                });
                if written.await.is_err() {
                    return Next::Abort;
                }
                if piece.end {
                    break;
                }
                stream.grant(&piece);
            }
            self.now = Instant::now();
        }
        // The stream may hold a snapshot of the store, which reading the rest of the request does not need.
        drop(stream);
        if goes_on {
            self.after(&mut body).await
        } else {
            Next::Close
        }
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
