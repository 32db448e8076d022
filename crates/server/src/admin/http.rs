//! HTTP/1.1 for the admin listener and the control socket: few connections, small requests, one at a time per connection. Heads and bodies
//! are parsed as strictly as on the front.

use std::{net::IpAddr, pin::pin, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tracing::Level;

use crate::{
    config::is_loopback,
    failure::Refusal,
    front::{ACCEPT_PAUSE, Accepted, Accepting, Decoder, Head, Parsed, Step},
    logging::{Entry, Feed, Missed},
    reply::{self, Delimiting, HeaderLines},
    target::{Tagged, workflow::ReleaseResponse},
};

/// Connections served at a time. One more replaces the connection that has waited longest for a request.
const CONNECTIONS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 16 * 1024;
pub(crate) const BODY_BYTES_MAX: u64 = 64 * 1024;
/// Limit on receiving a request, on an idle connection, and on a client that reads nothing of a response.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long open connections are served after a handover.
const HANDOVER_GRACE: Duration = Duration::from_secs(1);

/// A request with its whole body in memory.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

/// Host names that a listener answers to. A web page can make a name of its own resolve to this machine (DNS rebinding) and then read the
/// responses; it cannot do that with an IP address.
#[derive(Clone, Debug)]
pub(crate) struct Hosts(Arc<[String]>);

impl Hosts {
    /// These names, plus `localhost` and every IP address.
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    fn admits(&self, host: &str) -> bool {
        let name = without_port(host);
        let is_address = name.starts_with('[') || name.parse::<IpAddr>().is_ok();
        let is_named = |known: &str| known.eq_ignore_ascii_case(name);
        name.is_empty() || is_address || is_named("localhost") || self.0.iter().any(|known| is_named(known))
    }
}

/// The host of a Host field: a name, or an address, the brackets of which stay.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a request names this machine as its host, as that of a browser on the same machine does.
pub(crate) fn names_this_machine(head: &Head) -> bool {
    let name = without_port(head.host());
    name.is_empty() || is_loopback(name.trim_start_matches('[').trim_end_matches(']'))
}

impl Request {
    /// The value of a parameter of the query, as received; empty when it has none.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self
            .query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .into_iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

/// A response: one body in memory, or a stream of log events.
#[derive(Debug)]
pub(crate) struct Response {
    pub(super) status: u16,
    headers: HeaderLines,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Whole(Vec<u8>),
    Events(Box<Events>),
}

/// Log events as JSON lines: past ones first, then new ones.
#[derive(Debug)]
pub(crate) struct Events {
    /// The least severe level to send.
    pub(crate) level: Level,
    pub(crate) past: Vec<Arc<Entry>>,
    /// None: past events only.
    pub(crate) follow: Option<Follow>,
}

/// A feed of new events, with the permit that limits how many clients follow at a time.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) feed: Feed,
    pub(crate) _place: OwnedSemaphorePermit,
}

/// How the response to a request has to be framed.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// The connection is closed after the response.
    close: bool,
    /// A HEAD request: no body is sent.
    head_only: bool,
    /// An HTTP/1.0 client does not know chunks: closing the connection ends the body.
    http10: bool,
}

impl Events {
    fn wants(&self, entry: &Entry) -> bool {
        entry.level <= self.level
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        if !self.past.is_empty() {
            let wanted = std::mem::take(&mut self.past)
                .into_iter()
                .filter(|entry| self.wants(entry));
            let lines: Vec<u8> = wanted.flat_map(|entry| entry.json.clone().into_bytes()).collect();
            if !lines.is_empty() {
                return Some(lines);
            }
        }
        loop {
            match self.follow.as_mut()?.feed.next().await {
                Ok(entry) if self.wants(&entry) => return Some(entry.json.clone().into_bytes()),
                Ok(_) => {}
                Err(Missed(missed)) => {
                    let note = serde_json::json!({
                        "level": "WARN", "target": "forebay::log", "message": "you are too slow, lines are missing here", "missed": missed,
                    });
                    return Some(format!("{note}\n").into_bytes());
                }
            }
        }
    }
}

impl Response {
    fn new(status: u16, content_type: &'static str, body: Body) -> Self {
        let mut headers = HeaderLines::of_known(0, "cache-control: no-store\r\n");
        headers.push_known("content-type", content_type);
        Self {
            status,
            headers,
            body,
        }
    }

    /// A response of a target, with its body.
    pub(crate) fn of_target(status: u16, mut headers: HeaderLines, body: Vec<u8>) -> Self {
        if !headers.fields().any(|(name, _)| name == b"cache-control") {
            headers.push_known("cache-control", "no-store");
        }
        let body = Body::Whole(body);
        Self {
            status,
            headers,
            body,
        }
    }

    pub(crate) fn redirect(location: &str) -> Self {
        let mut response = Self::new(302, "text/plain", Body::Whole(Vec::new()));
        response.headers.push_known("location", location);
        response
    }

    pub(crate) fn text(content_type: &'static str, text: String) -> Self {
        Self::new(200, content_type, Body::Whole(text.into_bytes()))
    }

    pub(crate) fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::new(
            status,
            "application/json",
            Body::Whole(format!("{value}\n").into_bytes()),
        )
    }

    /// Serializes the value straight into the body, without a [`serde_json::Value`] in between: for long responses.
    pub(crate) fn written(value: &impl serde::Serialize) -> Self {
        let mut body = serde_json::to_vec(value).expect("what has only texts for keys is JSON");
        body.push(b'\n');
        Self::new(200, "application/json", Body::Whole(body))
    }

    /// The OpenAPI document of the routes.
    pub(crate) fn openapi(document: &Tagged) -> Self {
        Self::new(200, "application/json", Body::Whole(document.body.to_vec()))
    }

    pub(crate) fn events(events: Events) -> Self {
        Self::new(200, "application/x-ndjson", Body::Events(Box::new(events)))
    }

    /// An error as problem details (RFC 9457).
    pub(crate) fn problem(status: u16, detail: &str) -> Self {
        let problem = serde_json::json!({
            "type": "about:blank", "title": reply::reason(status), "status": status, "detail": detail,
        });
        let body = format!("{problem}\n").into_bytes();
        Self::new(status, "application/problem+json", Body::Whole(body))
    }

    pub(crate) fn of_releases(response: ReleaseResponse) -> Self {
        let content_type = if response.status < 400 {
            "application/json"
        } else {
            "application/problem+json"
        };
        let body = response.body.map_or_else(String::new, |body| format!("{body}\n"));
        let mut made = Self::new(response.status, content_type, Body::Whole(body.into_bytes()));
        if let Some(allow) = response.allow {
            made.headers.push_known("allow", allow);
        }
        if let Some(location) = &response.location {
            made.headers.push_known("location", location);
        }
        made
    }

    /// 401 for a client that sends no token, or a wrong one.
    pub(crate) fn unauthorized(detail: &str) -> Self {
        let mut response = Self::problem(401, detail);
        response.headers.push_known("www-authenticate", "Bearer");
        response
    }

    pub(crate) fn not_allowed(allow: &'static str) -> Self {
        let detail = format!("method is not allowed here; allowed: {allow}");
        let mut response = Self::problem(405, &detail);
        response.headers.push_known("allow", allow);
        response
    }

    fn head(&self, manner: Manner) -> Vec<u8> {
        let date = httpdate::fmt_http_date(std::time::SystemTime::now());
        let delimiting = match &self.body {
            Body::Whole(_) if matches!(self.status, 204 | 304) => Delimiting::Nothing,
            Body::Whole(bytes) => Delimiting::Length(bytes.len() as u64),
            Body::Events(_) if manner.http10 => Delimiting::Close,
            Body::Events(_) => Delimiting::Chunked,
        };
        let mut head = Vec::with_capacity(256);
        reply::put_start(&mut head, self.status, date.as_bytes());
        head.extend_from_slice(self.headers.as_bytes());
        reply::put_end(&mut head, delimiting, manner.close, false);
        head
    }
}

/// Handles the requests of one listener.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;

    /// Most bytes of a request's body.
    fn body_bytes_max(&self, _: &Head) -> u64 {
        BODY_BYTES_MAX
    }

    /// Whether a request is cancelled when its client disconnects or closes its sending side. It must be safe to drop halfway.
    fn ends_with_client(&self, _request: &Request) -> bool {
        false
    }
}

/// Accepts and serves connections until another process takes over the listener; open ones are then served for [`HANDOVER_GRACE`]. Over
/// TCP, only requests for these hosts are answered.
pub(crate) async fn serve(
    accepting: Accepting,
    hosts: Hosts,
    service: impl Service,
    mut is_handed_over: watch::Receiver<bool>,
) {
    let listener = match accepting.register() {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(target: "forebay::admin", cause = %error, "cannot accept connections");
            return;
        }
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let crowded = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = is_handed_over.wait_for(|over| *over) => break,
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(target: "forebay::admin", cause = %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if places.available_permits() == 0 {
            crowded.notify_one();
        }
        let place = places.clone().acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let (service, hosts, crowded) = (service.clone(), hosts.clone(), crowded.clone());
        tokio::spawn(async move {
            match accepted {
                Accepted::Tcp(socket, _) | Accepted::Tls(socket, _) => {
                    Connection::new(socket, Some(hosts))
                        .serve(&service, &crowded)
                        .await;
                }
                Accepted::Unix(socket) => Connection::new(socket, None).serve(&service, &crowded).await,
            }
            drop(place);
        });
    }
    drop(listener);
    // Times out if connections are left.
    let _ = timeout(HANDOVER_GRACE, places.acquire_many(CONNECTIONS_MAX as u32)).await;
}

struct Connection<S> {
    socket: S,
    input: Vec<u8>,
    /// None on Unix sockets: file permissions decide who may connect.
    hosts: Option<Hosts>,
}

/// Why no request could be read.
enum NoRequest {
    Refused(Refusal),
    /// The client has left, or is too slow.
    Gone,
}

impl From<Refusal> for NoRequest {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(socket: S, hosts: Option<Hosts>) -> Self {
        Self {
            socket,
            input: Vec::new(),
            hosts,
        }
    }

    /// Serves requests until one side ends the connection, or until a new connection needs this one's place while it is idle.
    async fn serve(mut self, service: &impl Service, crowded: &Notify) {
        loop {
            let read = tokio::select! {
                biased;
                read = timeout(PATIENCE, self.read(service)) => read.unwrap_or(Err(NoRequest::Gone)),
                () = crowded.notified() => Err(NoRequest::Gone),
            };
            let goes_on = match read {
                Err(NoRequest::Gone) => false,
                Err(NoRequest::Refused(refusal)) => {
                    let response = Response::problem(refusal.status(), &refusal.to_string());
                    let manner = Manner {
                        close: true,
                        head_only: false,
                        http10: false,
                    };
                    let _ = self.send(response, manner).await;
                    false
                }
                Ok((request, manner)) => {
                    let response = if !self
                        .hosts
                        .as_ref()
                        .is_none_or(|hosts| hosts.admits(request.head.host()))
                    {
                        Some(Response::problem(
                            421,
                            "this listener answers under an address, localhost and the names of admin.hosts",
                        ))
                    } else if service.ends_with_client(&request) {
                        self.unless_gone(service.answer(request)).await
                    } else {
                        Some(service.answer(request).await)
                    };
                    match response {
                        Some(response) => self.send(response, manner).await.is_ok() && !manner.close,
                        None => false,
                    }
                }
            };
            if !goes_on {
                // The client may have disconnected already.
                let _ = self.socket.shutdown().await;
                return;
            }
        }
    }

    /// Awaits the response, or returns `None` once the client disconnects. Input received meanwhile is kept, up to the size of a head.
    async fn unless_gone(&mut self, answer: impl Future<Output = Response>) -> Option<Response> {
        let mut answer = pin!(answer);
        loop {
            tokio::select! {
                response = &mut answer => return Some(response),
                filled = self.fill(), if self.input.len() < HEAD_BYTES_MAX => filled.ok()?,
            }
        }
    }

    /// Reads a request, and how its response has to be framed.
    async fn read(&mut self, service: &impl Service) -> Result<(Request, Manner), NoRequest> {
        let mut head = Head::default();
        loop {
            if let Parsed::Whole(length) = head.parse(&self.input, HEAD_BYTES_MAX)? {
                self.input.drain(..length);
                break;
            }
            self.fill().await?;
        }
        if head.expects_continue {
            self.write(reply::CONTINUE).await.map_err(|_| NoRequest::Gone)?;
        }
        let mut decoder = Decoder::new(head.framing);
        decoder.limit(service.body_bytes_max(&head))?;
        let mut body = Vec::new();
        loop {
            let used = match decoder.step(&self.input)? {
                Step::End => break,
                Step::Data { bytes, used } => {
                    body.extend_from_slice(bytes);
                    used
                }
                Step::Framing { used } | Step::Trailer { used, .. } => used,
            };
            self.input.drain(..used);
            if used == 0 {
                self.fill().await?;
            }
        }
        let manner = Manner {
            close: head.is_http10 || !head.keep_alive,
            head_only: head.method() == "HEAD",
            http10: head.is_http10,
        };
        let request = Request {
            method: head.method().to_owned(),
            path: head.path().to_owned(),
            query: String::from_utf8_lossy(head.query()).into_owned(),
            body,
            head,
        };
        Ok((request, manner))
    }

    async fn fill(&mut self) -> Result<(), NoRequest> {
        match self.socket.read_buf(&mut self.input).await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(NoRequest::Gone),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        timeout(PATIENCE, self.socket.write_all(bytes)).await?
    }

    async fn send(&mut self, response: Response, manner: Manner) -> std::io::Result<()> {
        let mut out = response.head(manner);
        match response.body {
            _ if manner.head_only => self.write(&out).await,
            Body::Whole(bytes) => {
                out.extend_from_slice(&bytes);
                self.write(&out).await
            }
            Body::Events(events) => {
                self.write(&out).await?;
                self.send_events(*events, !manner.http10).await
            }
        }
    }

    /// Sends events until the feed ends or the client disconnects.
    async fn send_events(&mut self, mut events: Events, chunked: bool) -> std::io::Result<()> {
        loop {
            let mut sent_meanwhile = [0; 1];
            let lines = tokio::select! {
                lines = events.next() => lines,
                // A client that follows has nothing more to send: this is its disconnect, or input that it should not send.
                _ = self.socket.read(&mut sent_meanwhile) => return Err(std::io::ErrorKind::ConnectionAborted.into()),
            };
            match (lines, chunked) {
                (Some(lines), true) => {
                    let mut chunk = Vec::new();
                    reply::put_chunk(&mut chunk, &lines);
                    self.write(&chunk).await?;
                }
                (Some(lines), false) => self.write(&lines).await?,
                (None, true) => return self.write(reply::LAST_CHUNK).await,
                (None, false) => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[derive(Clone)]
    struct Echo;

    impl Service for Echo {
        async fn answer(&self, request: Request) -> Response {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            Response::text(
                "text/plain",
                format!("{} {} {} {body}", request.method, request.path, request.query),
            )
        }
    }

    /// Never answers long requests, and reports when one is cancelled.
    #[derive(Clone)]
    struct Slow(mpsc::UnboundedSender<()>);

    impl Service for Slow {
        async fn answer(&self, request: Request) -> Response {
            if request.path == "/long" {
                let _given_up = GivenUp(self.0.clone());
                std::future::pending::<()>().await;
            }
            Response::text("text/plain", String::new())
        }

        fn ends_with_client(&self, request: &Request) -> bool {
            request.path == "/long"
        }
    }

    struct GivenUp(mpsc::UnboundedSender<()>);

    impl Drop for GivenUp {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }

    #[tokio::test]
    async fn what_takes_long_is_given_up_when_its_client_has_gone_and_not_before() {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let (sender, mut given_up) = mpsc::unbounded_channel();
        let serving = tokio::spawn(async move {
            Connection::new(server, None)
                .serve(&Slow(sender), &Notify::new())
                .await;
        });
        let requests = "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /long HTTP/1.1\r\nHost: x\r\n\r\n";
        client.write_all(requests.as_bytes()).await.unwrap();
        client.write_all(b"GET /next").await.unwrap();
        let mut answer = [0; 15];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        assert!(given_up.is_empty());
        drop(client);
        assert_eq!(timeout(PATIENCE, given_up.recv()).await, Ok(Some(())));
        serving.await.unwrap();
    }

    /// The service's responses to these bytes, without their Date lines.
    async fn exchange(sent: &str) -> String {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        client.write_all(sent.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        Connection::new(server, None).serve(&Echo, &Notify::new()).await;
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        let lines = received
            .split_inclusive("\r\n")
            .filter(|line| !line.starts_with("date: "));
        lines.collect()
    }

    #[tokio::test]
    async fn requests_on_one_connection_are_answered_in_turn() {
        let received = exchange(
            "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n\
             POST /d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n\
             HEAD /e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\nHost: x\r\n\r\n",
        )
        .await;
        let head =
            "HTTP/1.1 200 OK\r\nserver: forebay\r\ncache-control: no-store\r\ncontent-type: text/plain\r\n";
        assert_eq!(
            received,
            format!(
                "{head}content-length: 11\r\n\r\nGET /a b=c {head}content-length: 11\r\n\r\nPOST /d  hi\
                 {head}content-length: 9\r\nconnection: close\r\n\r\n"
            )
        );
    }

    #[tokio::test]
    async fn what_is_malformed_or_too_large_is_refused_and_ends_the_connection() {
        for (sent, status) in [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400 Bad Request"),
            (
                format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(HEAD_BYTES_MAX)),
                "431 Request Header Fields Too Large",
            ),
            (
                "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n".to_owned(),
                "413 Content Too Large",
            ),
        ] {
            let received = exchange(&sent).await;
            assert!(
                received.starts_with(&format!("HTTP/1.1 {status}\r\n")),
                "{received}"
            );
            assert!(
                received.contains("connection: close\r\n") && received.contains("application/problem+json")
            );
        }
    }
}
