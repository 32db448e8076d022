//! What one measurement came to. The names are those of the driver's lines of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One measurement of one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Messages that were measured.
    pub messages: u64,
    /// Seconds from the first submission to the last reply.
    pub elapsed_s: f64,
    /// Messages a second.
    pub rate: f64,
    /// From submission to reply.
    pub latency: Times,
    /// How long messages waited for a worker, where their pool tells.
    #[serde(default)]
    pub wait: Option<Times>,
    /// How long handlers ran, where their pool tells.
    pub run: Option<Times>,
    /// CPU time of the thread that dispatches, for each message.
    pub main_us: Option<f64>,
    /// CPU time of everything: that thread, the others of its process, and the workers.
    pub all_us: Option<f64>,
    /// The part of the machine that others used meanwhile; `None` of runs too short to say.
    #[serde(default)]
    pub others_share: Option<f64>,
    /// Resident memory of the dispatcher's process after the warm-up.
    #[serde(default)]
    pub rss_before_bytes: Option<u64>,
    /// The same at the end.
    pub rss_bytes: Option<u64>,
    /// What each worker has answered, by its pool's name for it.
    pub workers: Vec<Handled>,
    /// Messages without a proper reply.
    pub errors: u64,
    /// Why, for the first few kinds.
    pub error_texts: Vec<ErrorText>,
    /// The delay between blocks at the end.
    pub delay_ms: f64,
    /// Most messages that were without a reply at a time.
    pub outstanding_max: u64,
    /// Milliseconds until the pool was ready.
    #[serde(default)]
    pub start_ms: f64,
    /// Which version of the pool it was.
    #[serde(default)]
    pub version: String,
    /// Its settings that are not its defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
}

impl Outcome {
    /// Its settings in one line.
    pub(crate) fn settings_line(&self) -> String {
        let settings: Vec<String> = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        settings.join(", ")
    }
}

/// Percentiles of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the percentile of its name")]
pub struct Times {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// What one worker has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handled {
    /// The worker.
    pub worker: String,
    /// Its messages.
    pub messages: u64,
}

/// One kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// What it says.
    pub text: String,
    /// How often it came.
    pub count: u64,
}
