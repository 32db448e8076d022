//! What the server tells of requests.

use serde::Deserialize;

/// Where the time of a request went; times are in microseconds, from its beginning.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Report {
    pub(super) request_id: String,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) route: String,
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) total_us: f64,
    pub(super) spans: Vec<Span>,
    pub(super) spans_left_out: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Span {
    pub(super) kind: String,
    pub(super) detail: String,
    pub(super) from_us: f64,
    pub(super) took_us: f64,
    #[serde(default)]
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) took_us: f64,
}

/// What a run of samples has brought.
#[derive(Debug, Deserialize)]
pub(super) struct Sampled {
    pub(super) seen: u64,
    pub(super) left_out: u64,
    pub(super) samples: Vec<Report>,
}
