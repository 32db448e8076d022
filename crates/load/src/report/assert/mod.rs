//! What must hold for a run, such as `p99<10ms,errors<0.1%`: read ([`parse`]), and judged ([`judge`]). The same grammar says what a searched rate must keep ([`promise`]).

mod grammar;

use hdrhistogram::Histogram;

pub use self::grammar::{AssertError, Assertion, parse, promise};
use self::grammar::{Comparison, Failed, Latency, Metric};
use super::{Report, words};
use crate::{
    machine::ServerUsage,
    stats::{self, Interval},
};

/// Whether an assertion held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The assertion, as it was written.
    pub assertion: String,
    /// Whether it held. What cannot be told has not held.
    pub held: bool,
    /// What was found, in a sentence.
    pub found: String,
}

/// What assertions look at.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    latency_ns: &'a Histogram<u64>,
    answers: u64,
    asked: u64,
    failed: u64,
    per_second: f64,
    interval: Option<Interval>,
    server: Option<ServerUsage>,
    saved: Option<&'a Report>,
}

impl<'a> Measured<'a> {
    /// A run, and the saved one it is compared with.
    pub fn new(report: &'a Report, saved: Option<&'a Report>) -> Self {
        Self {
            latency_ns: &report.latency_ns,
            answers: report.answers,
            asked: report.asked(),
            failed: report.failed(),
            per_second: report.per_second,
            interval: report.rate_interval(),
            server: report.usage.as_ref().and_then(|usage| usage.server),
            saved,
        }
    }
}

/// Judges assertions, in their order.
pub fn judge(assertions: &[Assertion], measured: &Measured<'_>) -> Vec<Outcome> {
    let judge = |assertion: &Assertion| {
        let (held, found) = match found(assertion, measured) {
            Ok((held, found)) => (held, found),
            Err(why) => (false, why),
        };
        Outcome {
            assertion: assertion.text.clone(),
            held,
            found,
        }
    };
    assertions.iter().map(judge).collect()
}

/// Whether it held and what was found, or why that cannot be told.
fn found(assertion: &Assertion, measured: &Measured<'_>) -> Result<(bool, String), String> {
    let compared =
        |value: f64, shown: String| Ok((assertion.comparison.holds(value, assertion.limit), shown));
    let none = || "no request was answered".to_owned();
    match &assertion.metric {
        Metric::Latency(latency) => {
            let value = latency_ns(*latency, assertion, measured)?;
            compared(value, format!("{latency} was {}", words::duration(value)))
        }
        Metric::Failed(Failed::Share) => {
            let (failed, asked) = (measured.failed, measured.asked);
            if asked == 0 {
                return Err(none());
            }
            let shown = format!(
                "{} of {} failed",
                words::percent(failed, asked),
                words::count(asked)
            );
            compared(failed as f64 / asked as f64, shown)
        }
        Metric::Failed(Failed::Count) => compared(
            measured.failed as f64,
            format!("{} failed", words::count(measured.failed)),
        ),
        Metric::Rate => compared(
            measured.per_second,
            format!("{} requests a second", words::rate(measured.per_second)),
        ),
        Metric::Requests => compared(
            measured.answers as f64,
            format!("{} answers", words::count(measured.answers)),
        ),
        Metric::ServerCpu => {
            let server = measured
                .server
                .ok_or("the server's CPU time is known only with --server-pid")?;
            let each = server.cpu_us_per_request(measured.answers).ok_or_else(none)? * 1e3;
            compared(
                each,
                format!("the server used {} of CPU time a request", words::duration(each)),
            )
        }
        Metric::ServerRss => {
            let server = measured
                .server
                .ok_or("the server's memory is known only with --server-pid")?;
            let bytes = server.rss_bytes as f64;
            compared(bytes, format!("the server held {}", words::bytes(bytes)))
        }
        Metric::Regression(what) => regression(*what, assertion, measured),
    }
}

/// The figure in nanoseconds, unless too few samples tell it and it might be on either side of the limit.
fn latency_ns(latency: Latency, assertion: &Assertion, measured: &Measured<'_>) -> Result<f64, String> {
    let histogram = measured.latency_ns;
    if histogram.is_empty() {
        return Err("no request was answered".to_owned());
    }
    if let Latency::Percentile(percentile) = latency {
        let ends = [histogram.min() as f64, histogram.max() as f64];
        let certain = ends
            .iter()
            .all(|end| assertion.comparison.holds(*end, assertion.limit));
        if !certain && !stats::enough_samples(percentile, histogram.len()) {
            let (has, needs) = (
                words::count(histogram.len()),
                words::count(stats::samples_needed(percentile)),
            );
            return Err(format!(
                "{latency} cannot be told from {has} samples; {needs} are needed"
            ));
        }
    }
    Ok(latency.of(histogram))
}

/// By how much the run is worse than the saved one. A difference that both runs' noise explains is no regression.
fn regression(
    what: Option<Latency>,
    assertion: &Assertion,
    measured: &Measured<'_>,
) -> Result<(bool, String), String> {
    let saved = measured.saved.ok_or("there is no saved run to compare with")?;
    let (loss, was, is, by_noise) = match what {
        None => {
            let noise = measured
                .interval
                .zip(saved.rate_interval())
                .is_some_and(|(now, then)| now.overlaps(&then));
            let loss = 1.0 - measured.per_second / saved.per_second;
            (
                loss,
                words::rate(saved.per_second),
                format!("{} requests a second", words::rate(measured.per_second)),
                noise,
            )
        }
        Some(latency) => {
            let then = latency.of(&saved.latency_ns);
            if saved.latency_ns.is_empty() {
                return Err("the saved run has no answers".to_owned());
            }
            // No limit of its own: only samples enough make it a figure.
            let now = latency_ns(
                latency,
                &Assertion {
                    limit: f64::NAN,
                    ..assertion.clone()
                },
                measured,
            )?;
            (
                now / then - 1.0,
                words::duration(then),
                format!("{latency} {}", words::duration(now)),
                false,
            )
        }
    };
    let way = if loss > 0.0 { "worse" } else { "better" };
    let change = format!(
        "{:.1} % {way} than the saved run: {was} before, now {is}",
        100.0 * loss.abs()
    );
    let within = assertion.comparison.holds(loss, assertion.limit);
    if by_noise && !within {
        return Ok((
            true,
            format!("{change}; their 95 % intervals overlap, so it may be noise"),
        ));
    }
    Ok((within, change))
}

impl Comparison {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::latencies;

    fn judged(text: &str, measured: &Measured<'_>) -> Outcome {
        judge(&parse(text).unwrap(), measured).remove(0)
    }

    #[test]
    fn a_run_is_held_against_its_limits() {
        let mut report = Report::example();
        let server = ServerUsage {
            pid: 1,
            processes: 2,
            cpu_seconds: 11.85,
            rss_bytes: 64_000_000,
            rss_bytes_before: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
        };
        report.usage = Some(crate::machine::Usage {
            server: Some(server),
            ..Default::default()
        });
        let measured = Measured::new(&report, None);
        for (text, held, found) in [
            ("p50<1ms", true, "p50 was 213.8 us"),
            ("p99<1ms", false, "p99 was 1.042 ms"),
            ("max<3s", true, "max was 2.001 s"),
            ("max<=2s", false, "max was 2.001 s"),
            ("errors<0.1%", true, "0.0007 % of 2,370,005 failed"),
            ("errors<=16", false, "17 failed"),
            ("errors<=17", true, "17 failed"),
            ("rps>237k", false, "237,000 requests a second"),
            ("rate>=237000", true, "237,000 requests a second"),
            ("requests>1M", true, "2,370,000 answers"),
            (
                "server-cpu<6us",
                true,
                "the server used 5.000 us of CPU time a request",
            ),
            ("server-rss<50MB", false, "the server held 64.00 MB"),
        ] {
            let outcome = judged(text, &measured);
            assert_eq!((outcome.held, outcome.found.as_str()), (held, found), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_told_has_not_held() {
        let mut report = Report::example();
        report.usage = None;
        let measured = Measured::new(&report, None);
        assert_eq!(
            judged("server-cpu<1s", &measured).found,
            "the server's CPU time is known only with --server-pid"
        );
        assert_eq!(
            judged("regression<5%", &measured).found,
            "there is no saved run to compare with"
        );
        report.latency_ns = latencies();
        (0..500).for_each(|at| report.latency_ns.record(1_000_000 + at * 10_000).unwrap());
        let few = Measured::new(&report, None);
        let outcome = judged("p99<5ms", &few);
        assert!(!outcome.held);
        assert_eq!(
            outcome.found,
            "p99 cannot be told from 500 samples; 1,000 are needed"
        );
        assert!(judged("p99<20ms", &few).held, "no sample was longer");
        report.latency_ns = latencies();
        (report.answers, report.failures) = (0, Vec::new());
        let nothing = Measured::new(&report, None);
        for text in ["p50<1s", "errors<1%", "requests>0", "mean<1s"] {
            assert!(!judged(text, &nothing).held, "{text}");
        }
    }

    #[test]
    fn a_run_is_held_against_a_saved_one() {
        let report = Report::example();
        let saved = |per_second: f64, spread: u64, p99_ns: u64| {
            let mut saved = Report::example();
            saved.per_second = per_second;
            for (at, slice) in saved.timeline.slices.iter_mut().enumerate() {
                slice.answers = per_second as u64 / 10 + spread * (at as u64 % 2) * 2 - spread;
            }
            saved.latency_ns.reset();
            saved.latency_ns.saturating_record_n(p99_ns, 10_000);
            saved
        };
        let faster = saved(260_000.0, 1, 900_000);
        let measured = Measured::new(&report, Some(&faster));
        let outcome = judged("regression<5%", &measured);
        assert_eq!(
            (outcome.held, outcome.found.as_str()),
            (
                false,
                "8.8 % worse than the saved run: 260,000 before, now 237,000 requests a second"
            )
        );
        assert!(judged("regression<10%", &measured).held);
        assert!(
            !judged("regression-p99<10%", &measured).held && judged("regression-p99<20%", &measured).held
        );
        let slower = saved(200_000.0, 1, 900_000);
        assert!(judged("regression<0%", &Measured::new(&report, Some(&slower))).held);
        // A saved run that varied by much leaves a loss of 8.8 % in doubt.
        let rough = saved(260_000.0, 20_000, 900_000);
        let outcome = judged("regression<5%", &Measured::new(&report, Some(&rough)));
        assert!(
            outcome.held && outcome.found.ends_with("so it may be noise"),
            "{outcome:?}"
        );
    }
}
