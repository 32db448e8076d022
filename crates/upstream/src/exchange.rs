//! One request to a server, and its response.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, Request, Response, Version,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
    response::Parts,
};
use http_body::Body as _;
use hyper::{body::Incoming, client::conn::TrySendError};
use tokio::{io::ReadBuf, task::unconstrained};

use crate::{
    Connection, Connections, Failure, Lease, Stream,
    body::{Feed, Upload},
    connection::{Http1, Kind},
};

/// Bytes that are read from a tunnel at a time.
const TUNNEL_PIECE_BYTES: usize = 16 * 1024;
/// A server that says how long it keeps a connection closes it then. Ours is closed this much earlier, lest a request meets that.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

type Answered = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

/// A request that has been begun. Dropped before its end, it is given up: its connection is closed, or its stream reset.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the connection"
)]
pub struct Exchange {
    lease: Lease,
    connections: Connections,
    /// Its connection, if it has one alone.
    http1: Option<Box<Http1>>,
    /// Whether the connection has ended, or was handed over to another protocol.
    is_driven: bool,
    is_used: bool,
    upload: Feed,
    awaited: Option<Pin<Box<dyn Future<Output = Answered>>>>,
    body: Option<Incoming>,
    /// How long the server keeps the connection, if it says so.
    keep_alive: Option<Duration>,
    /// Whether the connection can carry another request once the response has ended.
    is_reusable: bool,
    has_failed: bool,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("server", &self.lease.server().name())
            .finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins a request. `first` is the start of its body, all of it if `has_ended`. For HTTP/2 the URI needs an authority, which stands for the
    /// Host field.
    pub fn begin(
        lease: Lease,
        connection: Connection,
        connections: &Connections,
        request: Request<()>,
        first: Bytes,
        has_ended: bool,
    ) -> Self {
        let upload = Feed::new(first, has_ended);
        let mut request = request.map(|()| upload.body());
        let (http1, awaited): (_, Pin<Box<dyn Future<Output = Answered>>>) = match connection.kind {
            Kind::Http1(mut http1) => {
                let awaited = http1.sender.try_send_request(request);
                (Some(http1), Box::pin(unconstrained(awaited)))
            }
            Kind::Http2(mut sender) => {
                *request.version_mut() = Version::HTTP_2;
                (None, Box::pin(sender.try_send_request(request)))
            }
        };
        Self {
            lease,
            connections: connections.clone(),
            http1,
            is_driven: true,
            is_used: connection.is_used,
            upload,
            awaited: Some(awaited),
            body: None,
            keep_alive: None,
            is_reusable: true,
            has_failed: false,
        }
    }

    /// The right to this request.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Sends and receives what can be.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(http1) = self.http1.as_mut().filter(|_| self.is_driven) {
            // Its failure is that of the response or its body, too.
            self.is_driven = http1.driver.poll_without_shutdown(cx).is_pending();
        }
    }

    /// Ready if another piece of the request's body can be sent; pending once it is whole. To be called after [`Self::poll_response`] or
    /// [`Self::poll_body`], which drive the connection: it must not be driven here, where a response would be overlooked.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.upload.has_ended() {
            return Poll::Pending;
        }
        self.upload.poll_room(cx)
    }

    /// Sends a piece of the request's body, after [`Self::poll_room`] was ready.
    pub fn send(&mut self, piece: Bytes, is_last: bool) {
        self.upload.give(piece, is_last);
    }

    /// Whether the whole body of the request was given to this exchange.
    pub fn has_sent(&self) -> bool {
        self.upload.has_ended()
    }

    /// The head of the response. To be called until it is ready, and not again.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Parts, Failure>> {
        self.drive(cx);
        let awaited = self.awaited.as_mut().expect("the response is taken once");
        let mut polled = awaited.as_mut().poll(&mut woken_by(self.http1.as_deref(), cx));
        if polled.is_pending() && !self.is_driven {
            // The connection has ended with the request still in its queue. Dropping it gives that back.
            self.http1 = None;
            polled = awaited.as_mut().poll(cx);
        }
        let answered = ready!(polled);
        self.awaited = None;
        Poll::Ready(match answered {
            Ok(response) => {
                let (head, body) = response.into_parts();
                if let Some(what) = framing_fault(&head.headers) {
                    let failure = self.invalid(what);
                    return Poll::Ready(Err(self.failed(failure)));
                }
                // A connection on which the server has spoken HTTP/1.0 cannot carry the next body in chunks.
                self.is_reusable = head.version != Version::HTTP_10;
                self.keep_alive = keep_alive(&head.headers);
                self.body = Some(body);
                Ok(head)
            }
            Err(mut refused) => {
                let is_unsent = refused.take_message().is_some();
                let failure = self.no_answer(refused.error(), is_unsent);
                Err(self.failed(failure))
            }
        })
    }

    fn no_answer(&self, error: &hyper::Error, is_unsent: bool) -> Failure {
        if error.is_parse() {
            return self.invalid(&cause(error));
        }
        Failure::Closed {
            server: self.lease.server().name().to_owned(),
            is_unsent: is_unsent || is_refused(error),
        }
    }

    fn invalid(&self, what: &str) -> Failure {
        Failure::Invalid {
            server: self.lease.server().name().to_owned(),
            cause: what.to_owned(),
        }
    }

    /// Counts a failure of the server. Closing a connection that was kept unused is none.
    fn failed(&mut self, failure: Failure) -> Failure {
        self.has_failed = true;
        let is_stale = self.is_used && self.http1.is_some() && matches!(failure, Failure::Closed { .. });
        if !is_stale {
            self.lease.note_failure(&failure);
        }
        failure
    }

    /// Whether the response has no more body: known at the latest after [`Self::poll_body`] has returned `None`.
    pub fn has_ended(&self) -> bool {
        self.body.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    /// The next piece of the response's body, `None` at its end.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        // Much of a body has come with the head, or with the piece before.
        match self.poll_received(cx) {
            Poll::Pending if self.http1.is_some() => {
                self.drive(cx);
                self.poll_received(cx)
            }
            polled => polled,
        }
    }

    /// The next piece that has been received.
    fn poll_received(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        let cx = &mut woken_by(self.http1.as_deref(), cx);
        loop {
            let Some(body) = &mut self.body else {
                return Poll::Ready(Ok(None));
            };
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                }
                Some(Err(error)) => {
                    let failure = Failure::CutOff {
                        server: self.lease.server().name().to_owned(),
                        cause: cause(&error),
                    };
                    return Poll::Ready(Err(self.failed(failure)));
                }
                None => self.body = None,
            }
        }
    }

    /// Takes over the connection of a response with status 101, which must have been ready. `None` for HTTP/2, which has no such responses.
    pub fn into_tunnel(mut self) -> Option<Tunnel> {
        // The library hands the connection over once it has seen that the response ends.
        self.body = None;
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.lease.note_answer();
        let http1 = self.http1.take().filter(|_| !self.is_driven)?;
        let parts = http1.driver.into_parts();
        Some(Tunnel {
            stream: parts.io.into_inner(),
            ahead: parts.read_buf,
            _exchange: self,
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.upload.is_sent() {
            self.upload.abort();
            return;
        }
        if self.awaited.is_some() || self.has_failed || !self.has_ended() {
            return;
        }
        self.lease.note_answer();
        // Dropping the body first tells the library that it has been read.
        self.body = None;
        let settings = self.lease.group().settings();
        let kept = match self.keep_alive {
            Some(keep_alive) => settings
                .idle_timeout
                .min(keep_alive.saturating_sub(KEEP_ALIVE_MARGIN)),
            None => settings.idle_timeout,
        };
        if let Some(http1) = self.http1.take().filter(|_| self.is_driven && self.is_reusable) {
            self.connections
                .keep(self.lease.server(), http1, kept, settings.idle_max);
        }
    }
}

/// The waker for a wait on a connection. A connection that carries one exchange is driven by the waiting task, which needs no other waker.
fn woken_by<'c>(http1: Option<&Http1>, cx: &Context<'c>) -> Context<'c> {
    Context::from_waker(if http1.is_some() {
        Waker::noop()
    } else {
        cx.waker()
    })
}

/// Whether the server says that it has not looked at the request (RFC 9113, 8.7).
fn is_refused(error: &hyper::Error) -> bool {
    use std::error::Error as _;
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<h2::Error>());
    source.and_then(h2::Error::reason) == Some(h2::Reason::REFUSED_STREAM)
}

/// Why the end of a response's body cannot be found for certain, if so.
fn framing_fault(headers: &HeaderMap) -> Option<&'static str> {
    let coding = headers.get(TRANSFER_ENCODING)?;
    if headers.contains_key(CONTENT_LENGTH) {
        return Some("its body's length is given in two ways");
    }
    let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let is_single = headers.get_all(TRANSFER_ENCODING).iter().count() == 1;
    (!is_chunked || !is_single).then_some("its transfer coding is not `chunked`")
}

/// How long the server keeps an unused connection: `Keep-Alive: timeout=5`, as most servers send it.
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let timeout = value
        .split(',')
        .find_map(|part| part.trim().strip_prefix("timeout="))?;
    timeout.parse().ok().map(Duration::from_secs)
}

/// The library's description of an error.
fn cause(error: &hyper::Error) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A connection that has gone over to another protocol.
#[derive(Debug)]
pub struct Tunnel {
    stream: Stream,
    /// Bytes that were read together with the response.
    ahead: Bytes,
    /// Holds the server's place for as long as the tunnel is there.
    _exchange: Exchange,
}

impl Tunnel {
    /// Some bytes from the server; none at the end.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        use tokio::io::AsyncRead as _;
        if !self.ahead.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.ahead)));
        }
        let mut bytes = BytesMut::zeroed(TUNNEL_PIECE_BYTES);
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let length = buffer.filled().len();
        bytes.truncate(length);
        Poll::Ready(Ok(bytes.freeze()))
    }

    /// Sends some of these bytes to the server and takes them off.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        use tokio::io::AsyncWrite as _;
        while !bytes.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            drop(bytes.split_to(sent));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}
