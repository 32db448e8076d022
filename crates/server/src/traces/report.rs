//! The trace of a request as reported over the control socket.

use std::time::{Duration, Instant};

use forebay_trace::{Record, Span};
use serde::{Serialize, Serializer};

use crate::target::Request;

/// Longest request target shown; longer ones are truncated.
const TARGET_BYTES_MAX: usize = 256;

/// A request's trace. Times are in microseconds from the start of the request.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TraceReport {
    request_id: String,
    method: String,
    target: String,
    route: String,
    pub(super) status: u16,
    pub(super) bytes: u64,
    #[serde(rename = "total_us", serialize_with = "micros")]
    total: Duration,
    pub(super) spans: Vec<SpanReport>,
    spans_left_out: usize,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct SpanReport {
    kind: &'static str,
    detail: String,
    #[serde(rename = "from_us", serialize_with = "micros")]
    from: Duration,
    #[serde(rename = "took_us", serialize_with = "micros")]
    took: Duration,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: &'static str,
    #[serde(rename = "took_us", serialize_with = "micros")]
    took: Duration,
}

/// Microseconds with one decimal.
fn micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let tenths = u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX);
    serializer.serialize_f64(tenths as f64 / 10.0)
}

impl TraceReport {
    pub(super) fn of(request: &Request<'_>, route: &str) -> Self {
        let head = request.head;
        let mut target = head.path().to_owned();
        if !head.query().is_empty() {
            target.push('?');
            target.push_str(&String::from_utf8_lossy(head.query()));
        }
        target.truncate(target.floor_char_boundary(TARGET_BYTES_MAX));
        Self {
            request_id: request.id.to_owned(),
            method: head.method().to_owned(),
            target,
            route: route.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn fill(&mut self, begun: Instant, until: Instant, record: &Record) {
        self.total = until.saturating_duration_since(begun);
        self.spans_left_out = record.left_out;
        self.spans = record
            .spans
            .iter()
            .map(|span| SpanReport::of(span, begun))
            .collect();
        self.spans.sort_by_key(|span| span.from);
    }
}

impl SpanReport {
    fn of(span: &Span, begun: Instant) -> Self {
        let mut before = span.from;
        let parts = span.parts.iter().map(|&(name, at)| {
            let took = at.saturating_duration_since(before);
            before = before.max(at);
            Part { name, took }
        });
        Self {
            kind: span.kind.name(),
            parts: parts.collect(),
            detail: span.detail.clone(),
            from: span.from.saturating_duration_since(begun),
            took: span.until.saturating_duration_since(span.from),
        }
    }
}
