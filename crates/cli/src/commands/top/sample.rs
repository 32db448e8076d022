//! Samples of the server's counters, and the difference of two.

use std::{
    collections::HashMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::control::{Control, ControlError};

/// Longest time without a byte from the server.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The server's status and metrics.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: Value,
    metrics: Metrics,
}

/// Samples of Prometheus' text format by their series, as the text has it.
#[derive(Debug, Default)]
struct Metrics {
    values: HashMap<String, f64>,
    /// Bounds of the buckets in ascending order, each with the count of what is not above it.
    buckets: HashMap<String, Vec<(f64, f64)>>,
}

impl Sample {
    pub(super) fn take(control: &Control) -> Result<Self, ControlError> {
        let ask = |target| control.ask_within("GET", target, "", SILENCE_MAX);
        let status = ask("/status")?;
        let metrics = Metrics::read(&ask("/metrics")?);
        Ok(Self {
            at: Instant::now(),
            status: serde_json::from_str(&status).map_err(|error| control.broken(error.into()))?,
            metrics,
        })
    }
}

impl Metrics {
    /// Skips what is no sample.
    fn read(text: &str) -> Self {
        let mut metrics = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse::<f64>() else {
                continue;
            };
            let bucket = series.rsplit_once(",le=\"").and_then(|(of, bound)| {
                let bound: f64 = bound.strip_suffix("\"}")?.parse().ok()?;
                Some((format!("{of}}}"), bound))
            });
            match bucket {
                Some((of, bound)) => metrics.buckets.entry(of).or_default().push((bound, value)),
                None => {
                    metrics.values.insert(series.to_owned(), value);
                }
            }
        }
        metrics
    }
}

/// A series' name with its labels, as the metrics have it.
pub(super) fn series(name: &str, labels: &[(&str, &str)]) -> String {
    let mut series = name.to_owned();
    for (place, (label, value)) in labels.iter().enumerate() {
        let open = if place == 0 { '{' } else { ',' };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        write!(series, "{open}{label}=\"{value}\"").expect("a String takes everything");
    }
    if !labels.is_empty() {
        series.push('}');
    }
    series
}

/// Two samples of the same process. Before there are two of it, no rates are known.
#[derive(Debug)]
pub(super) struct Interval {
    before: Option<Sample>,
    pub(super) now: Sample,
}

impl Interval {
    pub(super) fn first(now: Sample) -> Self {
        Self { before: None, now }
    }

    /// The interval from the last sample to this one. After a restart all counts begin anew.
    pub(super) fn advance(&mut self, now: Sample) {
        let is_same = self.now.status["pid"] == now.status["pid"]
            && self.now.status["started_at_s"] == now.status["started_at_s"];
        let before = std::mem::replace(&mut self.now, now);
        self.before = is_same.then_some(before);
    }

    fn seconds(&self) -> Option<f64> {
        let before = self.before.as_ref()?;
        let seconds = (self.now.at - before.at).as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }

    /// How much a counter has grown a second. A series that is new began with 0.
    pub(super) fn rate(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let (seconds, series) = (self.seconds()?, series(name, labels));
        let value = |sample: &Sample| sample.metrics.values.get(&series).copied();
        let before = value(self.before.as_ref()?).unwrap_or(0.0);
        Some((value(&self.now)? - before).max(0.0) / seconds)
    }

    /// The current value of a gauge.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.now.metrics.values.get(&series(name, labels)).copied()
    }

    /// The quantiles of what a histogram has recorded in the interval, over all of these values of its label, in seconds; `None` if that is
    /// nothing.
    pub(super) fn quantiles<const N: usize>(
        &self,
        name: &str,
        label: &str,
        values: &[&str],
        shares: [f64; N],
    ) -> [Option<f64>; N] {
        let Some(before) = &self.before else {
            return [None; N];
        };
        let mut sum: Vec<(f64, f64)> = Vec::new();
        for value in values {
            let series = series(&format!("{name}_bucket"), &[(label, value)]);
            let buckets = |sample: &Sample| sample.metrics.buckets.get(&series).cloned().unwrap_or_default();
            let before = buckets(before);
            for (place, (bound, count)) in buckets(&self.now).into_iter().enumerate() {
                let grown = count - before.get(place).map_or(0.0, |(_, count)| *count);
                match sum.get_mut(place) {
                    Some((_, sum)) => *sum += grown,
                    None => sum.push((bound, grown)),
                }
            }
        }
        shares.map(|share| quantile(&sum, share))
    }
}

/// The quantile of cumulative buckets, by linear interpolation within its bucket, as Prometheus' `histogram_quantile` has it.
fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let (_, all) = buckets.last().filter(|(_, all)| *all > 0.0)?;
    let rank = share * all;
    let place = buckets.iter().position(|(_, below)| *below >= rank)?;
    let (from, before) = place.checked_sub(1).map_or((0.0, 0.0), |place| buckets[place]);
    let (until, below) = buckets[place];
    if until.is_infinite() || below <= before {
        return Some(from);
    }
    Some(from + (until - from) * (rank - before) / (below - before))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(at: Instant, started_at: f64, metrics: &str) -> Sample {
        Sample {
            at,
            status: json!({ "pid": 7, "started_at_s": started_at }),
            metrics: Metrics::read(metrics),
        }
    }

    #[test]
    fn rates_and_quantiles_are_those_of_the_interval() {
        let at = Instant::now();
        let text = |count: u64, below: u64| {
            format!(
                "# TYPE h histogram\nh_bucket{{route=\"a\\\"b\",le=\"0.001\"}} {below}\n\
                 h_bucket{{route=\"a\\\"b\",le=\"0.002\"}} {count}\nh_bucket{{route=\"a\\\"b\",le=\"+Inf\"}} {count}\n\
                 n{{route=\"a\\\"b\",class=\"2xx\"}} {count}\n"
            )
        };
        let mut interval = Interval::first(sample(at, 1.0, &text(1_000, 1_000)));
        let labels = [("route", "a\"b"), ("class", "2xx")];
        let quantiles = |interval: &Interval| interval.quantiles("h", "route", &["a\"b"], [0.5, 0.75]);
        assert_eq!(
            (interval.rate("n", &labels), interval.value("n", &labels)),
            (None, Some(1_000.0))
        );
        assert_eq!(quantiles(&interval), [None, None]);
        interval.advance(sample(at + Duration::from_secs(2), 1.0, &text(1_100, 1_050)));
        assert_eq!(interval.rate("n", &labels), Some(50.0));
        assert_eq!(quantiles(&interval), [Some(0.001), Some(0.0015)]);
        interval.advance(sample(at + Duration::from_secs(3), 1.0, &text(1_100, 1_050)));
        assert_eq!(quantiles(&interval), [None, None], "nothing was recorded");
        interval.advance(sample(at + Duration::from_secs(4), 9.0, &text(1, 1)));
        assert_eq!(interval.rate("n", &labels), None, "it is another process");
    }

    #[test]
    fn what_is_beyond_the_last_bound_is_that_bound() {
        assert_eq!(quantile(&[(1.0, 1.0), (f64::INFINITY, 10.0)], 0.99), Some(1.0));
        assert_eq!(quantile(&[(1.0, 4.0), (f64::INFINITY, 4.0)], 0.5), Some(0.5));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
