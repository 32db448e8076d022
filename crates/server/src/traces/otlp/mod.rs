//! Exports request traces to an OpenTelemetry collector.
//!
//! The caller's trace context decides whether a request is sampled; without one, chance does. Spans wait in a bounded queue that one task
//! sends from; no request waits for the collector.

mod body;
mod sending;

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_trace::{Record, Span};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::{Notify, watch};

use self::sending::send_all;
use super::{
    context::{self, Caller, SpanId, TraceId},
    xorshift,
};
use crate::{
    config,
    front::{Head, Version},
    target::Request,
};

/// Outcomes of spans.
pub(crate) const SPAN_OUTCOMES: [&str; 3] = ["sent", "dropped", "failed"];
/// Spans per batch; spans of one request stay together.
const BATCH_SPANS: usize = 512;
/// How long a span may wait for others to fill its batch.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Most time that the collector gets for the remaining spans when the server stops.
const END_MAX: Duration = Duration::from_secs(5);
/// Longest path, host or other text of a request; longer ones are truncated.
const TEXT_BYTES_MAX: usize = 256;

/// The outcome of a span; its discriminant is the index in [`SPAN_OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanOutcome {
    Sent,
    Dropped,
    Failed,
}

/// The queue of spans for the collector, and counts of all others by outcome.
#[derive(Debug)]
pub(super) struct Exporter {
    share: f64,
    queue_max: usize,
    queue: Mutex<Queue>,
    /// Signals that the queue is no longer empty or that a batch is full.
    filled: Notify,
    /// True once no more spans will be added.
    ending: watch::Sender<bool>,
    counts: [AtomicU64; SPAN_OUTCOMES.len()],
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    served: VecDeque<Served>,
    /// Total number of spans in the queue.
    spans: usize,
    /// When the oldest one was queued.
    since: Option<Instant>,
}

/// A sampled request, with the data for its span.
#[derive(Debug)]
pub(super) struct Sampled {
    trace: TraceId,
    span: SpanId,
    caller: Option<SpanId>,
    state: String,
    method: String,
    pattern: String,
    path: String,
    host: String,
    user_agent: String,
    request_id: String,
    version: Version,
    is_secure: bool,
}

/// A finished request.
#[derive(Debug)]
struct Served {
    request: Box<Sampled>,
    begun: Instant,
    until: Instant,
    /// 0 if the client has left.
    status: u16,
    /// Size of the response body.
    bytes: u64,
    spans: Vec<Span>,
    left_out: usize,
}

impl Served {
    fn spans(&self) -> usize {
        1 + self.spans.len()
    }
}

impl Exporter {
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub(super) fn start(config: &config::Trace) -> Arc<Self> {
        let exporter = Arc::new(Self::new(config));
        let task = tokio::spawn(send_all(exporter.clone(), config.clone()));
        *exporter.task.lock() = Some(task);
        exporter
    }

    fn new(config: &config::Trace) -> Self {
        Self {
            share: config.share,
            queue_max: config.queue_max,
            queue: Mutex::default(),
            filled: Notify::new(),
            ending: watch::Sender::new(false),
            counts: Default::default(),
            task: Mutex::default(),
        }
    }

    /// The data for a request's span, if the request is sampled.
    pub(super) fn sample(&self, request: &Request<'_>) -> Option<Box<Sampled>> {
        let caller = Caller::of(request.head);
        let is_sampled = caller.map_or_else(|| self.is_drawn(), |caller| caller.is_sampled);
        if !is_sampled {
            return None;
        }
        Sampled::new(request, caller)
    }

    fn is_drawn(&self) -> bool {
        // A float holds the upper 53 bits exactly.
        self.share >= 1.0 || ((draw() >> 11) as f64) < self.share * (1_u64 << 53) as f64
    }

    /// Queues the spans of a finished request, or drops them if the queue is full.
    pub(super) fn over(
        &self,
        request: Box<Sampled>,
        (begun, until): (Instant, Instant),
        (status, bytes): (u16, u64),
        record: Record,
    ) {
        let served = Served {
            request,
            begun,
            until,
            status,
            bytes,
            spans: record.spans,
            left_out: record.left_out,
        };
        if self.put(served) {
            self.filled.notify_one();
        }
    }

    /// Queues a request's spans. Returns whether the sending task must be woken.
    fn put(&self, served: Served) -> bool {
        let spans = served.spans();
        let mut queue = self.queue.lock();
        if queue.spans + spans > self.queue_max {
            drop(queue);
            self.count(SpanOutcome::Dropped, spans);
            return false;
        }
        let before = queue.spans;
        queue.since.get_or_insert_with(Instant::now);
        queue.spans += spans;
        queue.served.push_back(served);
        before == 0 || (before < BATCH_SPANS && queue.spans >= BATCH_SPANS)
    }

    /// A batch that is due. Otherwise the error says when one will be, if anything is queued.
    fn take(&self, at: Instant) -> Result<Vec<Served>, Option<Instant>> {
        let mut queue = self.queue.lock();
        let due = queue.since.ok_or(None)? + BATCH_TIME;
        if queue.spans < BATCH_SPANS && at < due && !*self.ending.borrow() {
            return Err(Some(due));
        }
        let (mut batch, mut spans) = (Vec::new(), 0);
        while spans < BATCH_SPANS
            && let Some(served) = queue.served.pop_front()
        {
            spans += served.spans();
            batch.push(served);
        }
        queue.spans -= spans;
        if queue.spans == 0 {
            queue.since = None;
        }
        Ok(batch)
    }

    fn count(&self, outcome: SpanOutcome, spans: usize) {
        self.counts[outcome as usize].fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Numbers of spans by outcome.
    pub(super) fn counts(&self) -> [u64; SPAN_OUTCOMES.len()] {
        std::array::from_fn(|outcome| self.counts[outcome].load(Ordering::Relaxed))
    }

    /// Sends the remaining spans, without further retries. Returns when they are sent or time is up: at the deadline, or after [`END_MAX`]
    /// if that is earlier.
    pub(super) async fn end(&self, deadline: tokio::time::Instant) {
        let deadline = deadline.min(tokio::time::Instant::now() + END_MAX);
        self.ending.send_replace(true);
        let Some(mut task) = self.task.lock().take() else {
            return;
        };
        if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
            task.abort();
            let spans = self.queue.lock().spans;
            tracing::warn!(target: "forebay::trace", spans, "the collector is too slow; what waits for it is lost");
        }
    }
}

impl Sampled {
    fn new(request: &Request<'_>, caller: Option<Caller>) -> Option<Box<Self>> {
        let mut random = [0; 24];
        // The system lacks randomness only early during boot, before there are requests.
        getrandom(&mut random, GetRandomFlags::empty()).ok()?;
        let (trace, span) = random.split_first_chunk::<16>().expect("there are 24 bytes");
        let span = span.first_chunk::<8>().expect("there are 8 bytes left");
        let drawn = TraceId(u128::from_ne_bytes(*trace).max(1));
        let head = request.head;
        Some(Box::new(Self {
            trace: caller.map_or(drawn, |caller| caller.trace),
            span: SpanId(u64::from_ne_bytes(*span).max(1)),
            caller: caller.map(|caller| caller.span),
            state: caller.map(|_| context::state(head)).unwrap_or_default(),
            method: short(head.method().as_bytes()),
            pattern: request.pattern.to_owned(),
            path: short(head.path_bytes()),
            host: short(head.host_bytes()),
            user_agent: field(head, "user-agent"),
            request_id: request.id.to_owned(),
            version: head.version,
            is_secure: request.is_secure,
        }))
    }

    /// The request's span as the parent of what others record (W3C Trace Context, 3.2).
    pub(super) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.span)
    }
}

fn field(head: &Head, name: &str) -> String {
    short(head.field(name).unwrap_or_default())
}

fn short(text: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]).into_owned();
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

thread_local! {
    static DRAWN: Cell<u64> = Cell::new(seed());
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    // If randomness is unavailable, all threads share a seed, which sampling tolerates.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_ne_bytes(bytes) | 1
}

fn draw() -> u64 {
    DRAWN.with(|drawn| {
        drawn.set(xorshift(drawn.get()));
        drawn.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn exporter(share: f64, queue_max: usize) -> Exporter {
        Exporter::new(&config::Trace {
            otlp: "http://127.0.0.1:4318".parse().unwrap(),
            share,
            headers: Vec::new(),
            service: "shop".to_owned(),
            queue_max,
        })
    }

    pub(super) fn served(spans: usize) -> Served {
        let now = Instant::now();
        let span = Span::new(forebay_trace::Kind::Statement, "select 1", now, now);
        Served {
            request: Box::new(Sampled {
                trace: TraceId(1),
                span: SpanId(u64::MAX),
                caller: None,
                state: String::new(),
                method: "GET".to_owned(),
                pattern: "/orders/:id".to_owned(),
                path: "/orders/7".to_owned(),
                host: "shop.example".to_owned(),
                user_agent: String::new(),
                request_id: "0".to_owned(),
                version: Version::Http11,
                is_secure: false,
            }),
            begun: now,
            until: now,
            status: 200,
            bytes: 3,
            spans: vec![span; spans - 1],
            left_out: 0,
        }
    }

    #[test]
    fn a_batch_is_due_when_it_is_whole_or_has_waited() {
        let exporter = exporter(1.0, 10_000);
        assert_eq!(exporter.take(Instant::now()).unwrap_err(), None);
        assert!(exporter.put(served(2)), "something waits now");
        assert!(!exporter.put(served(2)), "that was known");
        let due = exporter.take(Instant::now()).unwrap_err().expect("it waits");
        assert_eq!(exporter.take(due).unwrap().len(), 2);
        assert!(exporter.put(served(BATCH_SPANS - 1)));
        assert!(exporter.put(served(2)), "a batch is whole now");
        assert!(!exporter.put(served(5)));
        let now = Instant::now();
        assert_eq!(exporter.take(now).unwrap().len(), 2);
        assert!(exporter.take(now).unwrap_err().is_some(), "5 are no batch");
        exporter.ending.send_replace(true);
        assert_eq!(exporter.take(now).unwrap().len(), 1);
        assert_eq!(exporter.take(now).unwrap_err(), None);
    }

    #[test]
    fn what_the_queue_has_no_room_for_is_dropped_whole_and_counted() {
        let exporter = exporter(1.0, 10);
        for spans in [6, 5, 4, 1] {
            exporter.put(served(spans));
        }
        assert_eq!(exporter.counts(), [0, 6, 0]);
        assert_eq!(exporter.queue.lock().spans, 10);
    }

    #[test]
    fn about_the_share_is_drawn() {
        let drawn = |share| {
            let exporter = exporter(share, 10);
            (0..10_000).filter(|_| exporter.is_drawn()).count()
        };
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        assert!((2_000..3_000).contains(&drawn(0.25)));
    }
}
