//! What is kept of single answers where an option asks for it. By default that is nothing but a closer look at the very first one.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::window::slice_latencies;

/// Most requests that are told apart.
pub const URLS_MAX: usize = 100;

/// What is kept of single answers.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Whether different requests are told apart, up to [`URLS_MAX`] of them.
    pub urls: bool,
    /// Whether the first answer is looked at closely.
    pub first_answer: bool,
}

/// The very first answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstAnswer {
    /// Its status.
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// The SHA-256 of its body in hexadecimal digits; `None` if it is too long to be kept.
    pub sha256: Option<String>,
    /// Its Server field.
    pub server: Option<String>,
    /// Its head with the status line, at most [`HEAD_MAX`] characters of it.
    #[serde(default)]
    pub head: String,
}

/// Most characters of a first answer's head.
pub(super) const HEAD_MAX: usize = 4 * 1024;

impl FirstAnswer {
    /// It in a line: `200, 13 bytes, sha256 315f5bdb...`.
    pub fn line(&self) -> String {
        let hash = self.sha256.as_deref().unwrap_or("unknown, as it is too long");
        format!("{}, {} bytes, sha256 {hash}", self.status, self.body_bytes)
    }
}

/// What was measured of one of several requests.
#[derive(Clone, Debug)]
pub struct UrlWindow {
    /// Whole answers, whatever they say.
    pub answers: u64,
    /// What failed, with an answer or without.
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
