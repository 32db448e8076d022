//! Optional records of single responses and of single URLs. By default only the first response is recorded.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::window::slice_latencies;

/// Most requests that are measured separately.
pub const URLS_MAX: usize = 100;

/// Records that a run keeps of single responses.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Whether different requests are measured separately, up to [`URLS_MAX`] of them.
    pub urls: bool,
    /// Whether the first response is recorded.
    pub first_answer: bool,
}

/// The first response of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstAnswer {
    /// Status code.
    pub status: u16,
    /// Length of the body.
    pub body_bytes: u64,
    /// SHA-256 of the body in hexadecimal digits; `None` if the body is too long to be kept.
    pub sha256: Option<String>,
    /// Value of the Server field.
    pub server: Option<String>,
    /// The head with the status line, cut after [`HEAD_MAX`] characters.
    #[serde(default)]
    pub head: String,
}

/// Most characters of a first answer's head.
pub(super) const HEAD_MAX: usize = 4 * 1024;

impl FirstAnswer {
    /// A summary in one line: `200, 13 bytes, sha256 315f5bdb...`.
    pub fn line(&self) -> String {
        let hash = self.sha256.as_deref().unwrap_or("unknown, as it is too long");
        format!("{}, {} bytes, sha256 {hash}", self.status, self.body_bytes)
    }
}

/// Measurements of one of several requests.
#[derive(Clone, Debug)]
pub struct UrlWindow {
    /// Complete responses, whatever their status.
    pub answers: u64,
    /// Failed requests, with a response or without.
    pub failures: u64,
    /// Latencies in nanoseconds, to two digits.
    pub latency: Histogram<u64>,
}

impl Default for UrlWindow {
    fn default() -> Self {
        Self {
            answers: 0,
            failures: 0,
            latency: slice_latencies(),
        }
    }
}

impl UrlWindow {
    pub(super) fn merge(&mut self, other: &Self) {
        self.answers += other.answers;
        self.failures += other.failures;
        self.latency
            .add(&other.latency)
            .expect("all histograms have the same bounds");
    }
}
