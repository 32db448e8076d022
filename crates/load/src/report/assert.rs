//! Assertions on a run, such as `p99<10ms,errors<0.1%`: parsed by [`parse`], and evaluated by [`judge`]. The same grammar expresses the
//! promise of a rate search ([`promise`]).

use super::{Report, format, percentile, verdict::FAILED_MAX};
use crate::{search::Promise, stats};

/// Accepted metrics, for error messages.
const METRICS: &str =
    "p50, p99, p99.9 and other percentiles, mean, max, min, errors, rps, requests, server-cpu, server-rss";
/// Most assertions in one text.
const ASSERTIONS_MAX: usize = 100;
const TIME_UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];
const COUNT_UNITS: [(&str, f64); 3] = [("", 1.0), ("k", 1e3), ("M", 1e6)];
const BYTE_UNITS: [(&str, f64); 4] = [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];

/// A condition on a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// The text as written, without spaces around it.
    text: String,
    metric: Metric,
    /// `<`, `<=`, `>` or `>=`.
    sign: &'static str,
    /// Nanoseconds, a share from 0 to 1, a count or bytes, depending on the metric.
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// A percentile of latency; 0 is the shortest, 100 the longest.
    Percentile(f64),
    Mean,
    FailedShare,
    Failed,
    Rate,
    Requests,
    /// CPU time of the server per request.
    ServerCpu,
    ServerRss,
}

/// Why a text is not an assertion.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AssertError {
    /// No comparison such as `<` in it, or an empty text.
    #[error("`{text}` compares nothing; write METRIC<LIMIT, as in p99<10ms; <, <=, > and >= are accepted")]
    Comparison {
        /// The text as given.
        text: String,
    },
    /// An unknown metric.
    #[error("`{metric}` in `{text}` is not measured; accepted are {METRICS}")]
    Metric {
        /// The text as given.
        text: String,
        /// The metric as written.
        metric: String,
    },
    /// A limit that is not a number, or whose unit does not suit the metric.
    #[error("`{limit}` in `{text}` is no limit for {metric}; accepted is a number with {accepted}")]
    Limit {
        /// The text as given.
        text: String,
        /// The metric as written.
        metric: String,
        /// The limit as written.
        limit: String,
        /// The accepted units.
        accepted: &'static str,
    },
    /// More assertions than are accepted.
    #[error("{number} assertions are more than the {ASSERTIONS_MAX} that are accepted")]
    TooMany {
        /// Number of assertions.
        number: usize,
    },
    /// A condition that a lower rate cannot meet.
    #[error(
        "`{text}` cannot be kept by a lower rate; a searched rate takes percentiles, max and a share of errors with < or <=, as in p99<10ms,errors<0.1%"
    )]
    Promise {
        /// The text as given.
        text: String,
    },
}

/// Whether an assertion held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The assertion, as it was written.
    pub assertion: String,
    /// Whether it held. An assertion that cannot be decided has not held.
    pub held: bool,
    /// The finding, in a sentence.
    pub found: String,
}

/// Parses assertions separated by commas, such as `p99<10ms,errors<0.1%`.
///
/// Latencies (`pN`, `mean`, `min`, `max`) take a time with its unit, `errors` a share in percent or a number, `rps` (or `rate`) and
/// `requests` a number that may end in k or M, `server-cpu` the CPU time of one request, `server-rss` bytes with their unit.
pub fn parse(text: &str) -> Result<Vec<Assertion>, AssertError> {
    let number = text.split(',').count();
    if number > ASSERTIONS_MAX {
        return Err(AssertError::TooMany { number });
    }
    text.split(',').map(|part| one(part.trim())).collect()
}

fn one(text: &str) -> Result<Assertion, AssertError> {
    let own = || text.to_owned();
    let nothing = || AssertError::Comparison { text: own() };
    let at = text.find(['<', '>']).ok_or_else(nothing)?;
    let (name, rest) = (text[..at].trim(), &text[at..]);
    let signs = ["<=", ">=", "<", ">"];
    let sign = signs.into_iter().find(|sign| rest.starts_with(sign));
    let sign = sign.ok_or_else(nothing)?;
    let limit = rest[sign.len()..].trim();
    let metric = match name {
        "errors" if limit.ends_with('%') => Some(Metric::FailedShare),
        "errors" => Some(Metric::Failed),
        "rps" | "rate" => Some(Metric::Rate),
        "requests" => Some(Metric::Requests),
        "server-cpu" => Some(Metric::ServerCpu),
        "server-rss" => Some(Metric::ServerRss),
        "mean" | "avg" => Some(Metric::Mean),
        "min" => Some(Metric::Percentile(0.0)),
        "max" => Some(Metric::Percentile(100.0)),
        _ => name
            .strip_prefix('p')
            .and_then(|digits| number(&digits.replace('_', "."), &[("", 1.0)]))
            .filter(|percent| *percent > 0.0 && *percent < 100.0)
            .map(Metric::Percentile),
    };
    let metric = metric.ok_or_else(|| AssertError::Metric {
        text: own(),
        metric: name.to_owned(),
    })?;
    let (units, accepted): (&[(&str, f64)], _) = match metric {
        Metric::Percentile(_) | Metric::Mean | Metric::ServerCpu => {
            (&TIME_UNITS, "ns, us, ms, s or min, as in 10ms")
        }
        Metric::FailedShare => (&[("%", 0.01)], "%, as in 0.1%, or a whole number"),
        Metric::Failed => (&COUNT_UNITS, "%, as in 0.1%, or a whole number"),
        Metric::Rate | Metric::Requests => (&COUNT_UNITS, "nothing, k or M after it, as in 10k"),
        Metric::ServerRss => (&BYTE_UNITS, "B, kB, MB or GB, as in 100MB"),
    };
    let value = number(limit, units).ok_or_else(|| AssertError::Limit {
        text: own(),
        metric: name.to_owned(),
        limit: limit.to_owned(),
        accepted,
    })?;
    Ok(Assertion {
        text: own(),
        metric,
        sign,
        limit: value,
    })
}

/// A number with one of the units, in what the unit stands for.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    let (digits, unit) = text.split_at(text.find(|c| !digit(c)).unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    digits.parse::<f64>().ok().map(|number| number * factor)
}

/// Parses the promise of a rate search. A lower rate can keep percentiles, `max` and the share of errors; other metrics are rejected.
pub fn promise(text: &str) -> Result<Promise, AssertError> {
    // Without a word on errors, next to none is accepted.
    let mut promise = Promise {
        latencies: Vec::new(),
        failed_max: FAILED_MAX,
    };
    for assertion in parse(text)? {
        match assertion.metric {
            _ if assertion.sign.starts_with('>') => {
                return Err(AssertError::Promise { text: assertion.text });
            }
            Metric::Percentile(percent) if percent > 0.0 => {
                promise.latencies.push((percent / 100.0, assertion.limit as u64));
            }
            Metric::FailedShare => promise.failed_max = assertion.limit,
            _ => return Err(AssertError::Promise { text: assertion.text }),
        }
    }
    Ok(promise)
}

/// Judges assertions, in their order.
pub fn judge(assertions: &[Assertion], report: &Report) -> Vec<Outcome> {
    let judge = |assertion: &Assertion| {
        let (held, found) = match assertion.figure(report) {
            Ok((value, found)) => (assertion.holds(value), found),
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

impl Assertion {
    fn holds(&self, value: f64) -> bool {
        match self.sign {
            "<" => value < self.limit,
            "<=" => value <= self.limit,
            ">" => value > self.limit,
            _ => value >= self.limit,
        }
    }

    /// The figure of a run and a sentence on it, or why it is not known.
    fn figure(&self, report: &Report) -> Result<(f64, String), String> {
        let (failed, asked) = (report.failed(), report.asked());
        let server = report.usage.as_ref().and_then(|usage| usage.server);
        let unknown = |what| format!("the server's {what} is known only with --server-pid");
        let none = || "no request was answered".to_owned();
        Ok(match self.metric {
            Metric::Percentile(percent) => {
                let value = self.percentile(percent, report)?;
                let name = match percent {
                    0.0 => "min".to_owned(),
                    100.0 => "max".to_owned(),
                    percent => format!("p{}", format::percentile(percent)),
                };
                (value, format!("{name} was {}", format::duration(value)))
            }
            Metric::Mean if report.latency_ns.is_empty() => return Err(none()),
            Metric::Mean => {
                let value = report.latency_ns.mean();
                (value, format!("mean was {}", format::duration(value)))
            }
            Metric::FailedShare if asked == 0 => return Err(none()),
            Metric::FailedShare => {
                let (part, all) = (format::percent(failed, asked), format::count(asked));
                (failed as f64 / asked as f64, format!("{part} of {all} failed"))
            }
            Metric::Failed => (failed as f64, format!("{} failed", format::count(failed))),
            Metric::Rate => {
                let rate = format::rate(report.per_second);
                (report.per_second, format!("{rate} requests a second"))
            }
            Metric::Requests => {
                let answers = format::count(report.answers);
                (report.answers as f64, format!("{answers} answers"))
            }
            Metric::ServerCpu => {
                server.ok_or_else(|| unknown("CPU time"))?;
                let each = report.server_ns_per_answer().ok_or_else(none)?;
                let shown = format::duration(each);
                (each, format!("the server used {shown} of CPU time a request"))
            }
            Metric::ServerRss => {
                let bytes = server.ok_or_else(|| unknown("memory"))?.rss_bytes as f64;
                (bytes, format!("the server held {}", format::bytes(bytes)))
            }
        })
    }

    /// The percentile in nanoseconds, unless too few samples tell it and it might be on either side of the limit.
    fn percentile(&self, percent: f64, report: &Report) -> Result<f64, String> {
        let histogram = &report.latency_ns;
        if histogram.is_empty() {
            return Err("no request was answered".to_owned());
        }
        let ends = [histogram.min() as f64, histogram.max() as f64];
        let certain = ends.iter().all(|end| self.holds(*end));
        if !certain && !stats::enough_samples(percent, histogram.len()) {
            let (name, has) = (format::percentile(percent), format::count(histogram.len()));
            let needs = format::count(stats::samples_needed(percent));
            return Err(format!(
                "p{name} cannot be told from {has} samples; {needs} are needed"
            ));
        }
        Ok(percentile(histogram, percent) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::latencies,
        machine::{ServerUsage, Usage},
    };

    #[test]
    fn assertions_are_read_with_their_units() {
        for (text, metric, sign, limit) in [
            ("p99<10ms", Metric::Percentile(99.0), "<", 1e7),
            (" p99.9 <= 1.5 s ", Metric::Percentile(99.9), "<=", 1.5e9),
            ("p99_9<200us", Metric::Percentile(99.9), "<", 2e5),
            ("mean<=2ms", Metric::Mean, "<=", 2e6),
            ("max<1s", Metric::Percentile(100.0), "<", 1e9),
            ("errors<10", Metric::Failed, "<", 10.0),
            ("rps>1000", Metric::Rate, ">", 1e3),
            ("rate>=1.5k", Metric::Rate, ">=", 1500.0),
            ("server-cpu<20us", Metric::ServerCpu, "<", 2e4),
            ("server-rss<100MB", Metric::ServerRss, "<", 1e8),
        ] {
            let found = parse(text).unwrap().remove(0);
            assert_eq!((found.metric, found.sign), (metric, sign), "{text}");
            assert!((found.limit / limit - 1.0).abs() < 1e-12, "{text}: {found:?}");
        }
        assert_eq!(parse("p99<10ms, errors<0.1%").unwrap()[1].text, "errors<0.1%");
    }

    #[test]
    fn what_is_no_assertion_is_refused_with_what_is_accepted() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("p99").starts_with("`p99` compares nothing; write METRIC<LIMIT"));
        assert!(message("").contains("compares nothing"));
        assert!(message("p99<1ms,").contains("compares nothing"));
        assert!(message("p101<1ms").starts_with("`p101` in `p101<1ms` is not measured; accepted are p50"));
        for text in ["pinf<1ms", "<1ms", "regression<5%"] {
            assert!(message(text).contains("is not measured"), "{text}");
        }
        assert_eq!(
            message("p99<10"),
            "`10` in `p99<10` is no limit for p99; accepted is a number with ns, us, ms, s or min, as in 10ms"
        );
        for text in [
            "p99<ms",
            "p99<-1ms",
            "p99<1.2.3ms",
            "p99<1e3ms",
            "rps>1%",
            "errors<1ms",
            "server-rss<1",
            "p99<<1ms",
            "p99=<1ms",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(message(&"p99<1s,".repeat(101)).starts_with("102 assertions"));
    }

    #[test]
    fn a_searched_rate_keeps_percentiles_and_errors() {
        let kept = promise("p99<10ms,errors<0.1%").unwrap();
        assert_eq!(kept.latencies, [(0.99, 10_000_000)]);
        assert!((kept.failed_max - 0.001).abs() < 1e-12);
        assert_eq!(promise("max<=1s").unwrap().latencies, [(1.0, 1_000_000_000)]);
        for text in ["mean<1ms", "min<1ms", "rps>5", "errors<5", "p99>1ms"] {
            assert!(
                matches!(promise(text), Err(AssertError::Promise { .. })),
                "{text}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(p|99|[.<=>%,éµ\u{0} ]|ms|errors|1){0,8}") {
            let _ = (parse(&text), promise(&text));
        }
    }

    fn judged(text: &str, report: &Report) -> Outcome {
        judge(&parse(text).unwrap(), report).remove(0)
    }

    #[test]
    fn a_run_is_held_against_its_limits() {
        let mut report = Report::example();
        report.usage = Some(Usage {
            server: Some(ServerUsage {
                pid: 1,
                processes: 2,
                cpu_seconds: 11.85,
                own_cpu_seconds: 11.85,
                rss_bytes: 64_000_000,
            }),
            ..Usage::default()
        });
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
            let outcome = judged(text, &report);
            assert_eq!((outcome.held, outcome.found.as_str()), (held, found), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_told_has_not_held() {
        let mut report = Report::example();
        report.usage = None;
        assert_eq!(
            judged("server-cpu<1s", &report).found,
            "the server's CPU time is known only with --server-pid"
        );
        report.latency_ns = latencies();
        (0..500).for_each(|at| report.latency_ns.record(1_000_000 + at * 10_000).unwrap());
        let outcome = judged("p99<5ms", &report);
        let why = "p99 cannot be told from 500 samples; 1,000 are needed";
        assert_eq!((outcome.held, outcome.found.as_str()), (false, why));
        assert!(judged("p99<20ms", &report).held, "no sample was longer");
        report.latency_ns = latencies();
        (report.answers, report.failures) = (0, Vec::new());
        for text in ["p50<1s", "errors<1%", "requests>0", "mean<1s"] {
            assert!(!judged(text, &report).held, "{text}");
        }
    }
}
