//! The result of one measurement. Field names are those of the driver's JSON lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The figures of one measurement of one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Measured messages, without the warm-up.
    pub messages: u64,
    /// Seconds from the first submission to the last reply.
    pub elapsed_s: f64,
    /// Messages per second.
    pub rate: f64,
    /// Time from submission to reply.
    pub latency: Times,
    /// Time messages waited for a worker, if the pool reports it.
    #[serde(default)]
    pub wait: Option<Times>,
    /// Time handlers ran, if the pool reports it.
    pub run: Option<Times>,
    /// CPU time of the dispatching thread per message, in microseconds.
    pub main_us: Option<f64>,
    /// CPU time per message of the dispatching thread, the other threads of its process, and the workers, in microseconds.
    pub all_us: Option<f64>,
    /// Share of the machine's CPU time used by other processes meanwhile; `None` if the run was too short to tell.
    #[serde(default)]
    pub others_share: Option<f64>,
    /// Resident memory of the dispatcher's process after the warm-up.
    #[serde(default)]
    pub rss_before_bytes: Option<u64>,
    /// Resident memory of the dispatcher's process at the end.
    pub rss_bytes: Option<u64>,
    /// Messages answered by each worker, under the pool's own name for it.
    pub workers: Vec<Handled>,
    /// Messages without a valid reply.
    pub errors: u64,
    /// The first few distinct error texts with their counts.
    pub error_texts: Vec<ErrorText>,
    /// The delay between blocks when the run ended.
    pub delay_ms: f64,
    /// Most messages awaiting a reply at any time.
    pub outstanding_max: u64,
    /// Milliseconds until the pool was ready.
    #[serde(default)]
    pub start_ms: f64,
    /// The version of the pool's package.
    #[serde(default)]
    pub version: String,
    /// Settings of the pool that differ from its defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
}

impl Outcome {
    /// Settings in one line.
    pub(crate) fn settings_line(&self) -> String {
        let settings: Vec<String> = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        settings.join(", ")
    }
}

/// Percentiles of durations, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the percentile of its name")]
pub struct Times {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// Messages answered by one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handled {
    /// The worker's name in its pool.
    pub worker: String,
    /// Messages that it answered.
    pub messages: u64,
}

/// An error text and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// The error message.
    pub text: String,
    /// Number of occurrences.
    pub count: u64,
}
