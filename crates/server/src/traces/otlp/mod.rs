//! Exports request traces to an OpenTelemetry collector.
//!
//! The caller's trace context decides whether a request is sampled; without one, chance does.

mod spans;

use std::{cell::Cell, sync::Arc, time::Instant};

use forebay_trace::{Record, Span};
use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    TracedRequests,
    context::{self, Caller, SpanId, TraceId},
    xorshift,
};
use crate::{
    config,
    front::{Head, Version},
    otlp::{Exporter as Queue, Item, OUTCOMES},
    target::Request,
};

/// Longest path, host or other text of a request; longer ones are truncated.
const TEXT_BYTES_MAX: usize = 256;

/// Decides which requests are exported, and queues their spans.
#[derive(Debug)]
pub(super) struct Exporter {
    share: f64,
    queue: Arc<Queue<Served>>,
    requests: Arc<TracedRequests>,
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

impl Item for Served {
    const PATH: &'static str = "/v1/traces";
    const UNITS: &'static str = "spans";
    const REJECTED: &'static str = "rejectedSpans";
    /// Spans of one request stay together.
    const BATCH_SIZE: usize = 512;

    fn units(&self) -> usize {
        1 + self.spans.len()
    }

    fn size(&self) -> usize {
        self.units()
    }

    fn encode(batch: &[Self], service: &str) -> Vec<u8> {
        spans::of(batch, service)
    }
}

impl Exporter {
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub(super) fn start(config: &config::Trace) -> Self {
        Self {
            share: config.share,
            queue: Queue::start(config, config.queue_max),
            requests: Arc::default(),
        }
    }

    /// The data for a request's span, if the request is sampled.
    pub(super) fn sample(&self, request: &Request<'_>) -> Option<Box<Sampled>> {
        let caller = Caller::of(request.head);
        let is_sampled = caller.map_or_else(|| self.is_drawn(), |caller| caller.is_sampled);
        if !is_sampled {
            return None;
        }
        let sampled = Sampled::new(request, caller)?;
        self.requests.put(request.id, sampled.trace, sampled.span);
        Some(sampled)
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
        self.queue.put(Served {
            request,
            begun,
            until,
            status,
            bytes,
            spans: record.spans,
            left_out: record.left_out,
        });
    }

    /// The requests that were last sampled.
    pub(super) fn requests(&self) -> Arc<TracedRequests> {
        Arc::clone(&self.requests)
    }

    /// Numbers of spans by outcome.
    pub(super) fn counts(&self) -> [u64; OUTCOMES.len()] {
        self.queue.counts()
    }

    pub(super) async fn end(&self, deadline: tokio::time::Instant) {
        self.queue.end(deadline).await;
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
    fn about_the_share_is_drawn() {
        let drawn = |share| {
            let exporter = Exporter {
                share,
                queue: Arc::new(Queue::new(10)),
                requests: Arc::default(),
            };
            (0..10_000).filter(|_| exporter.is_drawn()).count()
        };
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        assert!((2_000..3_000).contains(&drawn(0.25)));
    }
}
