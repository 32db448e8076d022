//! An HTTP/1.1 server for tests of load generators: it responds at once, late, slowly, wrongly or never, as the path says, and counts
//! exactly what it has done.
//!
//! | Path | Answer |
//! |---|---|
//! | `/` | 13 bytes, always the same |
//! | `/bytes/N`, `/chunked/N` | N bytes, with their length or in chunks |
//! | `/status/N` | an empty answer with this status |
//! | `/echo` | the body of the request |
//! | `/delay/MS` | after so many milliseconds; other connections are not held up |
//! | `/delay/dist?p50=MS&p99=MS` | after a random time with these percentiles, log-normally distributed |
//! | `/close` | announces that it closes, and closes |
//! | `/fault/NAME?p=SHARE` | misbehaves, on a share of the requests only with `p`; see [`FAULTS`] |

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};

const HELLO: &[u8] = b"Hello, World!";
/// Names of `/fault/NAME`, except `slow?bytes_per_s=N`, which sends its response at this rate.
pub const FAULTS: [&str; 11] = [
    "reset",
    "silent",
    "truncate",
    "half-head",
    "garbage",
    "never",
    "two-lengths",
    "overlong-head",
    "bad-chunk",
    "unsolicited",
    "interim",
];
/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// Requests for one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Requests read to their end.
    pub received: u64,
    /// Requests whose response was handed to the system to its last byte.
    pub answered: u64,
}

/// Counts of a server since its start.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// All requests together.
    pub total: PathCounts,
    /// Requests by path and query.
    pub paths: BTreeMap<String, PathCounts>,
    /// Nanoseconds from when a request was read until its response was handed to the system.
    pub service_ns: Histogram<u64>,
    /// As above, until just before the response was handed over: no client can have it sooner.
    pub ready_ns: Histogram<u64>,
    /// Number of stalls.
    pub stalls: u64,
    /// Total length of the stalls in nanoseconds.
    pub stalled_ns: u64,
}

impl Stats {
    /// The counts of a path, with its query as typed.
    pub fn path(&self, path: &str) -> PathCounts {
        self.paths.get(path).copied().unwrap_or_default()
    }
}

/// State that the threads share.
struct Shared {
    began: Instant,
    stats: Mutex<Stats>,
    /// End of the current stall, in nanoseconds since the server began.
    stall_end: AtomicU64,
    random: AtomicU64,
    stop: watch::Sender<bool>,
}

impl Shared {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().expect("nobody panics with the counts locked")
    }

    /// Blocks this thread, and so all its connections, while the server stalls.
    fn stand_still(&self) {
        let (began, end) = (self.now(), self.stall_end.load(Ordering::Acquire));
        if began < end {
            std::thread::sleep(Duration::from_nanos(end - began));
            let stalled = self.now() - began;
            let mut stats = self.stats();
            (stats.stalls, stats.stalled_ns) = (stats.stalls + 1, stats.stalled_ns + stalled);
        }
    }

    /// A random number from 0 up to, not including, 1 (`SplitMix64`).
    fn unit(&self) -> f64 {
        let mut number = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((number ^ (number >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens on a free port of this machine, with this number of event loops. Raises the limit of open files as far as possible.
    pub fn start(threads: usize) -> Self {
        raise_descriptor_limit();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        // The standard library allows a backlog of 128; a load generator opens thousands of connections at once.
        rustix::net::listen(&listener, 65_535).expect("it listens already");
        let address = listener.local_addr().expect("it is bound");
        let mut server = Self::new(address);
        for _ in 0..threads {
            let listener = listener.try_clone().expect("a file descriptor");
            server.spawn(listener);
        }
        server
    }

    fn new(address: SocketAddr) -> Self {
        let histogram = || Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
        let stats = Stats {
            accepted: 0,
            open: 0,
            total: PathCounts::default(),
            paths: BTreeMap::new(),
            service_ns: histogram(),
            ready_ns: histogram(),
            stalls: 0,
            stalled_ns: 0,
        };
        let shared = Shared {
            began: Instant::now(),
            stats: Mutex::new(stats),
            stall_end: AtomicU64::new(0),
            random: AtomicU64::new(1),
            stop: watch::Sender::new(false),
        };
        Self {
            shared: Arc::new(shared),
            address,
            threads: Vec::new(),
        }
    }

    fn spawn(&mut self, listener: TcpListener) {
        let shared = self.shared.clone();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("an event queue");
            let mut stop = shared.stop.subscribe();
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, shared) => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
            });
        };
        self.threads.push(std::thread::spawn(run));
    }

    /// The TCP address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats().clone()
    }

    /// Stalls the whole server for this long from now on.
    pub fn stall(&self, length: Duration) {
        let end = self.shared.now() + length.as_nanos() as u64;
        self.shared.stall_end.store(end, Ordering::Release);
    }

    /// Closes everything, and returns the counts.
    pub fn stop(mut self) -> Stats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        self.shared.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // Its panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    listener.set_nonblocking(true).expect("a socket has modes");
    let listener = tokio::net::TcpListener::from_std(listener).expect("it can be watched");
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(connection(stream, shared.clone()));
        }
    }
}

/// Serves a connection, and keeps count of it.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    struct Open(Arc<Shared>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.stats().open -= 1;
        }
    }
    {
        let mut stats = shared.stats();
        (stats.accepted, stats.open) = (stats.accepted + 1, stats.open + 1);
    }
    let _open = Open(shared.clone());
    let mut connection = Connection {
        stream,
        shared,
        input: Vec::new(),
        out: Vec::new(),
        answered: Vec::new(),
    };
    if connection.serve().await == End::Reset {
        // A close without lingering is a reset.
        let _ = rustix::net::sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO));
    }
}

/// How a connection ends.
#[derive(PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

struct Request {
    head_only: bool,
    target: String,
    body: Vec<u8>,
    /// HTTP/1.0.
    old: bool,
    keep_alive: bool,
}

struct Connection {
    stream: TcpStream,
    shared: Arc<Shared>,
    input: Vec<u8>,
    /// Responses that have not been written.
    out: Vec<u8>,
    /// Targets of those responses, and when their requests were read.
    answered: Vec<(String, u64)>,
}

impl Connection {
    async fn serve(&mut self) -> End {
        loop {
            self.shared.stand_still();
            let since = self.shared.now();
            while let Some((request, length)) = parse(&self.input) {
                self.input.drain(..length);
                {
                    let mut stats = self.shared.stats();
                    stats.total.received += 1;
                    stats.paths.entry(request.target.clone()).or_default().received += 1;
                }
                if let Some(end) = self.answer(&request, since).await {
                    return end;
                }
            }
            if self.flush().await.is_none() {
                return End::Closed;
            }
            self.input.reserve(64 * 1024);
            match self.stream.read_buf(&mut self.input).await {
                Ok(1..) => {}
                _ => return End::Closed,
            }
        }
    }

    /// Writes the pending responses, and counts them. `None`: the client has gone.
    async fn flush(&mut self) -> Option<()> {
        if self.out.is_empty() && self.answered.is_empty() {
            return Some(());
        }
        let ready = self.shared.now();
        self.stream.write_all(&self.out).await.ok()?;
        self.out.clear();
        let now = self.shared.now();
        let mut stats = self.shared.stats();
        for (target, since) in self.answered.drain(..) {
            stats.total.answered += 1;
            stats.paths.entry(target).or_default().answered += 1;
            stats.service_ns.saturating_record(now - since);
            stats.ready_ns.saturating_record(ready - since);
        }
        Some(())
    }

    /// Queues a response, or does whatever else the path says; returns how the connection ends, if it does.
    async fn answer(&mut self, request: &Request, since: u64) -> Option<End> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(known, _)| *known == name)?.1;
            Some(
                value
                    .parse::<f64>()
                    .unwrap_or_else(|_| panic!("{}", request.target)),
            )
        };
        let number = |text: &str| {
            text.parse::<f64>()
                .unwrap_or_else(|_| panic!("no number: {path}"))
        };
        let mut keep_alive = request.keep_alive;
        if let Some(delay) = path.strip_prefix("/delay/") {
            let ms = if delay == "dist" {
                let (p50, p99) = (parameter("p50").unwrap_or(5.0), parameter("p99").unwrap_or(50.0));
                let (one, two) = (1.0 - self.shared.unit(), self.shared.unit());
                let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
                p50 * ((p99 / p50).ln() / NORMAL_P99 * normal).exp()
            } else {
                number(delay)
            };
            let _ = self.flush().await;
            let due = self.shared.began + Duration::from_nanos(since + (ms * 1e6) as u64);
            tokio::time::sleep_until(due.into()).await;
            self.shared.stand_still();
            self.put(request, 200, HELLO, false);
        } else if let Some(fault) = path.strip_prefix("/fault/") {
            let hit = parameter("p").is_none_or(|share| self.shared.unit() < share);
            if hit {
                if let Some(end) = self.fail(request, fault, parameter("bytes_per_s"), since).await {
                    return Some(end);
                }
            } else {
                self.put(request, 200, HELLO, false);
            }
        } else if let Some(bytes) = path.strip_prefix("/bytes/") {
            self.put(request, 200, &vec![b'x'; number(bytes) as usize], false);
        } else if let Some(bytes) = path.strip_prefix("/chunked/") {
            self.put(request, 200, &vec![b'x'; number(bytes) as usize], true);
        } else if let Some(status) = path.strip_prefix("/status/") {
            self.put(request, number(status) as u16, b"", false);
        } else {
            let body = if path == "/echo" { &request.body[..] } else { HELLO };
            keep_alive &= path != "/close";
            let closing = Request {
                keep_alive,
                target: request.target.clone(),
                body: Vec::new(),
                ..*request
            };
            self.put(&closing, 200, body, false);
        }
        self.answered.push((request.target.clone(), since));
        if keep_alive {
            return None;
        }
        let _ = self.flush().await;
        Some(self.close().await)
    }

    fn put(&mut self, request: &Request, status: u16, body: &[u8], chunked: bool) {
        let mut head = format!("HTTP/1.1 {status} Status\r\nserver: forebay-testkit\r\n");
        let has_body = !matches!(status, 204 | 304);
        if has_body && chunked {
            head += "transfer-encoding: chunked\r\n";
        } else if has_body {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        if !request.keep_alive {
            head += "connection: close\r\n";
        } else if request.old {
            head += "connection: keep-alive\r\n";
        }
        self.out.extend_from_slice(head.as_bytes());
        self.out.extend_from_slice(b"\r\n");
        if request.head_only || !has_body {
            return;
        }
        if !chunked {
            self.out.extend_from_slice(body);
            return;
        }
        for part in body.chunks(10_000) {
            self.out
                .extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            self.out.extend_from_slice(part);
            self.out.extend_from_slice(b"\r\n");
        }
        self.out.extend_from_slice(b"0\r\n\r\n");
    }

    /// Misbehaves as `fault` says. `None`: the connection continues as after a response.
    async fn fail(&mut self, request: &Request, fault: &str, rate: Option<f64>, since: u64) -> Option<End> {
        let wrong: &[u8] = match fault {
            "reset" => {
                let _ = self.flush().await;
                return Some(End::Reset);
            }
            "never" => {
                let _ = self.flush().await;
                let mut rest = [0; 4096];
                while matches!(self.stream.read(&mut rest).await, Ok(1..)) {}
                return Some(End::Closed);
            }
            "unsolicited" | "interim" => {
                if fault == "interim" {
                    let interim =
                        b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
                    self.out.extend_from_slice(interim);
                } else {
                    self.put(request, 200, HELLO, false);
                }
                self.put(request, 200, HELLO, false);
                return None;
            }
            "slow" => {
                let _ = self.flush().await;
                self.put(request, 200, &[b'x'; 256], false);
                let bytes = std::mem::take(&mut self.out);
                for (at, byte) in bytes.iter().enumerate() {
                    let due = since + (at as f64 * 1e9 / rate.unwrap_or(100.0)) as u64;
                    if due > self.shared.now() {
                        tokio::time::sleep_until((self.shared.began + Duration::from_nanos(due)).into())
                            .await;
                    }
                    if self.stream.write_all(&[*byte]).await.is_err() {
                        return Some(End::Closed);
                    }
                }
                return None;
            }
            "silent" => b"",
            "truncate" => b"HTTP/1.1 200 OK\r\ncontent-length: 256\r\n\r\nhalf of it",
            "half-head" => b"HTTP/1.1 200 OK\r\ncontent-len",
            "garbage" => b"\x16\x03\x01 this is \0 no answer at all\r\n\r\n",
            "two-lengths" => {
                b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\ncontent-length: 14\r\n\r\nHello, World!"
            }
            "bad-chunk" => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nfive\r\n",
            "overlong-head" => {
                self.out.extend_from_slice(b"HTTP/1.1 200 OK\r\nx: ");
                self.out.resize(self.out.len() + 256 * 1024, b'y');
                b""
            }
            _ => panic!(
                "there is no fault `{fault}`; there are slow, {}",
                FAULTS.join(", ")
            ),
        };
        self.out.extend_from_slice(wrong);
        let _ = self.flush().await;
        Some(self.close().await)
    }

    /// Closes in an orderly way: with unread input it would be a reset, and could cost the client its response.
    async fn close(&mut self) -> End {
        let _ = self.stream.shutdown().await;
        let mut rest = [0; 4096];
        let drain = async { while matches!(self.stream.read(&mut rest).await, Ok(1..)) {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
        End::Closed
    }
}

/// The first request in the input, and its length, if it is complete.
fn parse(input: &[u8]) -> Option<(Request, usize)> {
    let end = input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&input[..end]).expect("heads of requests are text");
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let old = first.next() == Some("HTTP/1.0");
    let mut keep_alive = !old;
    let mut length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length is a number");
        } else if name.eq_ignore_ascii_case("connection") {
            keep_alive = value.trim().eq_ignore_ascii_case("keep-alive");
        }
    }
    let body = input.get(end..end + length)?.to_vec();
    let request = Request {
        head_only: method == "HEAD",
        target: target.to_owned(),
        body,
        old,
        keep_alive,
    };
    Some((request, end + length))
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    // With a lower limit it serves fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
}
