//! A run of earlier, from the JSON that was written of it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::stats::{self, Interval};

/// What a saved run is compared by.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Answers a second.
    pub per_second: f64,
    /// Their interval, if the run's course was saved.
    pub interval: Option<Interval>,
    /// Latencies in nanoseconds under their names, such as `p99_9`.
    pub latency_ns: BTreeMap<String, f64>,
}

/// Why a file is no saved run.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// Not JSON.
    #[error("it is not JSON; a saved run is what --json writes")]
    Json {
        /// Where it ends to be.
        #[source]
        source: serde_json::Error,
    },
    /// JSON of something else.
    #[error("it has no {key}; a saved run is what --json writes")]
    Key {
        /// What is missing, or no number above 0.
        key: &'static str,
    },
}

impl Saved {
    /// Reads the JSON of a report.
    pub fn read(text: &str) -> Result<Self, SavedError> {
        let value: Value = serde_json::from_str(text).map_err(|source| SavedError::Json { source })?;
        let per_second = value["requests"]["per_second"]
            .as_f64()
            .filter(|rate| *rate > 0.0);
        let per_second = per_second.ok_or(SavedError::Key {
            key: "requests.per_second",
        })?;
        let latencies = value["latency_ms"].as_object().into_iter().flatten();
        let latency_ns = latencies
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64().filter(|ms| *ms > 0.0)? * 1e6)));
        let steps = value["timeline"].as_array().map_or(&[][..], Vec::as_slice);
        // The first and the last step may not be whole.
        let whole = match steps {
            [_, whole @ .., _] => whole,
            _ => &[],
        };
        let rates: Vec<_> = whole
            .iter()
            .filter_map(|step| step["per_second"].as_f64())
            .collect();
        Ok(Self {
            per_second,
            interval: stats::batch_means(&rates).map(|means| means.interval),
            latency_ns: latency_ns.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_run_is_read_as_far_as_it_goes() {
        let saved =
            Saved::read(r#"{"requests": {"per_second": 5.5}, "latency_ms": {"p99": 2, "max": null}}"#)
                .unwrap();
        assert_eq!(
            (saved.per_second.to_bits(), saved.interval),
            (5.5_f64.to_bits(), None)
        );
        assert_eq!(saved.latency_ns.len(), 1);
    }

    #[test]
    fn what_is_no_saved_run_is_refused() {
        for text in [
            "[]",
            "5",
            "{}",
            r#"{"requests": 5}"#,
            r#"{"requests": {"per_second": 0}}"#,
            r#"{"requests": {"per_second": "9"}}"#,
        ] {
            let message = Saved::read(text).unwrap_err().to_string();
            assert_eq!(
                message, "it has no requests.per_second; a saved run is what --json writes",
                "{text}"
            );
        }
        assert!(matches!(Saved::read("{"), Err(SavedError::Json { .. })));
    }
}
