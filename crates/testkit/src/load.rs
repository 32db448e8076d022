//! Load with proof: every request carries a unique marker, and every response is checked against it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Client, Server};

/// Connections that send POST requests one after another, each with a unique marker as its body.
#[derive(Clone, Debug)]
pub struct Load {
    address: SocketAddr,
    target: String,
    connections: usize,
    requests: usize,
    body_bytes: usize,
    json: bool,
    pause_after_refusal: Duration,
    ended: Arc<AtomicBool>,
}

/// Results of the requests.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests that were sent.
    pub sent: usize,
    /// Complete responses by status.
    pub by_status: BTreeMap<u16, usize>,
    /// Bodies of responses with status 200 that were not the request's own.
    pub foreign: Vec<String>,
    /// Requests whose connection ended before a complete response.
    pub unanswered: usize,
    /// Connections that were not accepted; each ends the requests that would have followed on it.
    pub turned_away: usize,
    /// The first few responses that were neither 200 nor cut off.
    pub failures: Vec<String>,
    /// Times of the responses with status 200, sorted.
    pub times: Vec<Duration>,
    /// Times of all other responses, sorted.
    pub refusal_times: Vec<Duration>,
    /// Duration of the whole run.
    pub elapsed: Duration,
}

/// Most failures whose text is kept.
const FAILURES_KEPT: usize = 3;

impl Load {
    /// Load on a route that responds with the request's body.
    pub fn on(server: &Server, target: &str) -> Self {
        Self {
            address: server.address(),
            target: target.to_owned(),
            connections: 16,
            requests: usize::MAX,
            body_bytes: 0,
            json: false,
            pause_after_refusal: Duration::ZERO,
            ended: Arc::default(),
        }
    }

    /// Number of simultaneous connections.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Total number of requests; without this, until [`Load::end`].
    #[must_use]
    pub fn requests(mut self, requests: usize) -> Self {
        self.requests = requests;
        self
    }

    /// Pads each body to at least this length.
    #[must_use]
    pub fn body_bytes(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// Makes each body a JSON text.
    #[must_use]
    pub fn json(mut self) -> Self {
        self.json = true;
        self
    }

    /// Each connection waits this long after a response other than 200 before its next request.
    #[must_use]
    pub fn pause_after_refusal(mut self, pause: Duration) -> Self {
        self.pause_after_refusal = pause;
        self
    }

    /// Sends no further request; those in flight are still awaited.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether [`Load::end`] was called.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Sends all requests and returns the results.
    pub fn run(&self) -> Report {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let next = AtomicUsize::new(0);
        let mut whole = Report::default();
        thread::scope(|scope| {
            let connection = |number| {
                scope.spawn({
                    let next = &next;
                    move || self.connection(run, number, next)
                })
            };
            let connections: Vec<_> = (0..self.connections).map(connection).collect();
            for connection in connections {
                whole.add(
                    connection
                        .join()
                        .expect("a connection of the load does not panic"),
                );
            }
        });
        whole.times.sort_unstable();
        whole.refusal_times.sort_unstable();
        whole.elapsed = begun.elapsed();
        whole
    }

    /// Runs in the background; joining returns the result of [`Load::run`].
    pub fn start(&self) -> thread::JoinHandle<Report> {
        let load = self.clone();
        thread::spawn(move || load.run())
    }

    fn connection(&self, run: usize, number: usize, next: &AtomicUsize) -> Report {
        let mut report = Report::default();
        let mut client = None;
        while !self.is_ended() && next.fetch_add(1, Ordering::Relaxed) < self.requests {
            let opened = client.take().map_or_else(|| Client::try_tcp(self.address), Ok);
            let Ok(mut open) = opened else {
                report.turned_away += 1;
                return report;
            };
            let mut marker = format!("<{run}.{number}.{}>", report.sent);
            while marker.len() < self.body_bytes {
                marker.push_str("..........");
            }
            if self.json {
                marker = format!("\"{marker}\"");
            }
            let refusals = report.refusal_times.len();
            if report.exchange(&mut open, &self.target, &marker) {
                client = Some(open);
            }
            if report.refusal_times.len() > refusals {
                thread::sleep(self.pause_after_refusal);
            }
        }
        report
    }
}

impl Report {
    /// One request and its response. False when the connection cannot be used any more.
    fn exchange(&mut self, client: &mut Client, target: &str, marker: &str) -> bool {
        let begun = Instant::now();
        self.sent += 1;
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n",
            marker.len()
        );
        // A server that ends the connection may have responded before.
        let _ = client.try_send((head + marker).as_bytes());
        let answer = match client.try_response("POST") {
            Ok(answer) if answer.whole => answer,
            _ => {
                self.unanswered += 1;
                return false;
            }
        };
        *self.by_status.entry(answer.status).or_default() += 1;
        if answer.status == 200 {
            self.times.push(begun.elapsed());
            if answer.body != marker.as_bytes() {
                self.foreign
                    .push(format!("{marker} got {}", String::from_utf8_lossy(&answer.body)));
            }
        } else {
            self.refusal_times.push(begun.elapsed());
            if self.failures.len() < FAILURES_KEPT {
                self.failures
                    .push(String::from_utf8_lossy(&answer.body).into_owned());
            }
        }
        answer.header("connection") != Some("close")
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        for (status, count) in other.by_status {
            *self.by_status.entry(status).or_default() += count;
        }
        self.foreign.extend(other.foreign);
        self.unanswered += other.unanswered;
        self.turned_away += other.turned_away;
        self.failures.extend(other.failures);
        self.failures.truncate(FAILURES_KEPT);
        self.times.extend(other.times);
        self.refusal_times.extend(other.refusal_times);
    }

    /// Number of responses with this status.
    pub fn with_status(&self, status: u16) -> usize {
        self.by_status.get(&status).copied().unwrap_or(0)
    }

    /// Panics unless every request got exactly one complete response with one of these statuses, and each 200 was its own.
    pub fn assert_each_answered(&self, statuses: &[u16]) {
        assert_eq!(self.turned_away, 0, "connections that were not accepted: {self}");
        assert_eq!(self.unanswered, 0, "requests without an answer: {self}");
        assert!(self.foreign.is_empty(), "answers to others' requests: {self}");
        let answered: usize = self.by_status.values().sum();
        assert_eq!(answered, self.sent, "one answer a request: {self}");
        assert!(
            self.by_status.keys().all(|status| statuses.contains(status)),
            "other statuses than {statuses:?}: {self}"
        );
    }

    /// The time within which `percent` per cent of the responses with status 200 arrived.
    pub fn percentile(&self, percent: usize) -> Duration {
        assert!(!self.times.is_empty(), "there are no answers to time: {self}");
        self.times[(self.times.len() - 1) * percent / 100]
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            sent,
            by_status,
            foreign,
            unanswered,
            failures,
            ..
        } = self;
        write!(
            f,
            "{sent} sent, {by_status:?}, {unanswered} unanswered, foreign {foreign:?}, failures {failures:?}"
        )
    }
}
