//! The grammar of assertions: `METRIC COMPARISON LIMIT`, several with commas between.

use hdrhistogram::Histogram;

use crate::{report::verdict::FAILED_MAX, search::Promise};

/// What is accepted, for messages.
const METRICS: &str = "p50, p99, p99.9 and other percentiles, mean, max, min, errors, rps, requests, server-cpu, server-rss, regression, \
                       regression-p99 and its like";
/// Most assertions in one text.
const ASSERTIONS_MAX: usize = 100;
const TIME_UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
];
const COUNT_UNITS: [(&str, f64); 4] = [("", 1.0), ("k", 1e3), ("K", 1e3), ("M", 1e6)];
const BYTE_UNITS: [(&str, f64); 7] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Something that must hold for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// As it was written, without spaces around it.
    pub(super) text: String,
    pub(super) metric: Metric,
    pub(super) comparison: Comparison,
    /// Nanoseconds, a share from 0 to 1, a count or bytes, as the metric has it.
    pub(super) limit: f64,
}

impl std::fmt::Display for Assertion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a text is no assertion.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AssertError {
    /// No `<` or its like in it, or nothing at all.
    #[error("`{text}` compares nothing; write METRIC<LIMIT, as in p99<10ms; <, <=, > and >= are accepted")]
    Comparison {
        /// What was given.
        text: String,
    },
    /// A metric that is not known.
    #[error("`{metric}` in `{text}` is not measured; accepted are {METRICS}")]
    Metric {
        /// What was given.
        text: String,
        /// Its metric.
        metric: String,
    },
    /// A limit that is no number, or has a unit that does not fit.
    #[error("`{limit}` in `{text}` is no limit for {metric}; accepted is a number with {accepted}")]
    Limit {
        /// What was given.
        text: String,
        /// Its metric.
        metric: String,
        /// Its limit.
        limit: String,
        /// Units.
        accepted: &'static str,
    },
    /// A regression that must be large.
    #[error("`{text}` asks for a run that is worse; a regression takes < or <=")]
    Worse {
        /// What was given.
        text: String,
    },
    /// Too many.
    #[error("{number} assertions are more than the {ASSERTIONS_MAX} that are accepted")]
    TooMany {
        /// How many.
        number: usize,
    },
    /// Something that no rate can be searched for.
    #[error(
        "`{text}` cannot be kept by a lower rate; a searched rate takes percentiles, max and a share of errors with < or <=, as in p99<10ms,errors<0.1%"
    )]
    Promise {
        /// What was given.
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Metric {
    Latency(Latency),
    Failed(Failed),
    Rate,
    Requests,
    /// CPU time of the server for one request.
    ServerCpu,
    ServerRss,
    /// How much worse than a saved run; of the rate, or of a latency.
    Regression(Option<Latency>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Latency {
    Mean,
    Min,
    Max,
    /// From above 0 to below 100.
    Percentile(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Share,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percentile(percentile) => write!(f, "p{}", super::words::percentile(*percentile)),
        }
    }
}

impl Latency {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "mean" | "avg" => return Some(Self::Mean),
            "min" => return Some(Self::Min),
            "max" => return Some(Self::Max),
            _ => {}
        }
        let digits = name.strip_prefix('p')?.replace('_', ".");
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percentile: f64 = digits.parse().ok().filter(|_| plain)?;
        (percentile > 0.0 && percentile < 100.0).then_some(Self::Percentile(percentile))
    }

    /// The figure in nanoseconds.
    pub(super) fn of(self, latency_ns: &Histogram<u64>) -> f64 {
        match self {
            Self::Mean => latency_ns.mean(),
            Self::Min => latency_ns.min() as f64,
            Self::Max => latency_ns.max() as f64,
            Self::Percentile(percentile) => latency_ns.value_at_quantile(percentile / 100.0) as f64,
        }
    }
}

/// Reads assertions with commas between, such as `p99<10ms,errors<0.1%`.
///
/// Latencies (`pN`, `mean`, `min`, `max`) take a time with its unit, `errors` a share in percent or a number, `rps` (or `rate`) and `requests` a
/// number that may end in k or M, `server-cpu` the CPU time for one request, `server-rss` bytes with their unit, `regression` (of the rate) and
/// `regression-pN` the percentage by which a run may be worse than the saved one.
pub fn parse(text: &str) -> Result<Vec<Assertion>, AssertError> {
    let number = text.split(',').count();
    if number > ASSERTIONS_MAX {
        return Err(AssertError::TooMany { number });
    }
    text.split(',').map(|part| one(part.trim())).collect()
}

fn one(text: &str) -> Result<Assertion, AssertError> {
    let nothing = || AssertError::Comparison {
        text: text.to_owned(),
    };
    let at = text.find(['<', '>']).ok_or_else(nothing)?;
    let (name, rest) = (text[..at].trim(), &text[at..]);
    let (comparison, limit) = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Below),
        (">", Comparison::Above),
    ]
    .into_iter()
    .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?.trim())))
    .ok_or_else(nothing)?;
    let metric = metric(name, limit).ok_or_else(|| AssertError::Metric {
        text: text.to_owned(),
        metric: name.to_owned(),
    })?;
    if matches!(metric, Metric::Regression(_))
        && !matches!(comparison, Comparison::Below | Comparison::AtMost)
    {
        return Err(AssertError::Worse {
            text: text.to_owned(),
        });
    }
    let (units, accepted): (&[(&str, f64)], _) = match metric {
        Metric::Latency(_) | Metric::ServerCpu => (&TIME_UNITS, "ns, us, ms, s or min, as in 10ms"),
        Metric::Failed(Failed::Share) => (&[("%", 0.01)], "%, as in 0.1%, or a whole number"),
        Metric::Failed(Failed::Count) => (&COUNT_UNITS, "%, as in 0.1%, or a whole number"),
        Metric::Regression(_) => (&[("%", 0.01)], "%, as in 5%"),
        Metric::Rate | Metric::Requests => (&COUNT_UNITS, "nothing, k or M after it, as in 10k"),
        Metric::ServerRss => (&BYTE_UNITS, "B, kB, MB, GB, KiB, MiB or GiB, as in 100MB"),
    };
    let limit = number(limit, units).ok_or_else(|| AssertError::Limit {
        text: text.to_owned(),
        metric: name.to_owned(),
        limit: limit.to_owned(),
        accepted,
    })?;
    Ok(Assertion {
        text: text.to_owned(),
        metric,
        comparison,
        limit,
    })
}

fn metric(name: &str, limit: &str) -> Option<Metric> {
    Some(match name {
        "errors" if limit.ends_with('%') => Metric::Failed(Failed::Share),
        "errors" => Metric::Failed(Failed::Count),
        "rps" | "rate" => Metric::Rate,
        "requests" => Metric::Requests,
        "server-cpu" => Metric::ServerCpu,
        "server-rss" => Metric::ServerRss,
        "regression" => Metric::Regression(None),
        _ => match name.strip_prefix("regression-") {
            Some(of) => Metric::Regression(Some(Latency::parse(of)?)),
            None => Metric::Latency(Latency::parse(name)?),
        },
    })
}

/// A number with one of the units, in what the unit stands for.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim());
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<f64>().ok().map(|number| number * factor)
}

/// Reads what a searched rate must keep. Percentiles, `max` and the share of errors can be kept by a lower rate; what else is asked for is refused.
pub fn promise(text: &str) -> Result<Promise, AssertError> {
    // Without a word on errors, next to none is accepted.
    let mut promise = Promise {
        latencies: Vec::new(),
        failed_max: FAILED_MAX,
    };
    for assertion in parse(text)? {
        let refused = || AssertError::Promise {
            text: assertion.text.clone(),
        };
        if !matches!(assertion.comparison, Comparison::Below | Comparison::AtMost) {
            return Err(refused());
        }
        match assertion.metric {
            Metric::Latency(Latency::Percentile(percentile)) => {
                promise
                    .latencies
                    .push((percentile / 100.0, assertion.limit as u64));
            }
            Metric::Latency(Latency::Max) => promise.latencies.push((1.0, assertion.limit as u64)),
            Metric::Failed(Failed::Share) => promise.failed_max = assertion.limit,
            _ => return Err(refused()),
        }
    }
    Ok(promise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Random;

    #[test]
    fn assertions_are_read_with_their_units() {
        for (text, metric, comparison, limit) in [
            (
                "p99<10ms",
                Metric::Latency(Latency::Percentile(99.0)),
                Comparison::Below,
                1e7,
            ),
            (
                " p99.9 <= 1.5 s ",
                Metric::Latency(Latency::Percentile(99.9)),
                Comparison::AtMost,
                1.5e9,
            ),
            (
                "p99_9<200µs",
                Metric::Latency(Latency::Percentile(99.9)),
                Comparison::Below,
                2e5,
            ),
            (
                "mean<=2ms",
                Metric::Latency(Latency::Mean),
                Comparison::AtMost,
                2e6,
            ),
            ("max<1s", Metric::Latency(Latency::Max), Comparison::Below, 1e9),
            (
                "errors<10",
                Metric::Failed(Failed::Count),
                Comparison::Below,
                10.0,
            ),
            ("rps>1000", Metric::Rate, Comparison::Above, 1e3),
            ("rate>=1.5k", Metric::Rate, Comparison::AtLeast, 1500.0),
            ("regression<5%", Metric::Regression(None), Comparison::Below, 0.05),
            (
                "regression-p99<=5%",
                Metric::Regression(Some(Latency::Percentile(99.0))),
                Comparison::AtMost,
                0.05,
            ),
            ("server-cpu<20us", Metric::ServerCpu, Comparison::Below, 2e4),
            ("server-rss<100MB", Metric::ServerRss, Comparison::Below, 1e8),
        ] {
            let found = parse(text).unwrap().remove(0);
            assert_eq!((found.metric, found.comparison), (metric, comparison), "{text}");
            assert!(
                (found.limit / limit - 1.0).abs() < 1e-12,
                "{text}: {}",
                found.limit
            );
        }
        let several = parse("p99<10ms, errors<0.1%").unwrap();
        assert_eq!(
            several.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["p99<10ms", "errors<0.1%"]
        );
    }

    #[test]
    fn what_is_no_assertion_is_refused_with_what_is_accepted() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("p99").starts_with("`p99` compares nothing; write METRIC<LIMIT"));
        assert!(message("").contains("compares nothing"));
        assert!(message("p99<1ms,").contains("compares nothing"));
        assert!(message("p101<1ms").starts_with("`p101` in `p101<1ms` is not measured; accepted are p50"));
        assert!(message("pinf<1ms").contains("is not measured"));
        assert!(message("<1ms").contains("is not measured"));
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
        assert!(message("regression>5%").ends_with("a regression takes < or <="));
        assert!(message(&"p99<1s,".repeat(101)).starts_with("102 assertions"));
    }

    #[test]
    fn a_searched_rate_keeps_percentiles_and_errors() {
        let promise_of = |text| promise(text).unwrap();
        assert_eq!(
            promise_of("p99<10ms,errors<0.1%"),
            Promise {
                latencies: vec![(0.99, 10_000_000)],
                failed_max: 0.1 * 0.01
            }
        );
        assert_eq!(promise_of("max<=1s").latencies, [(1.0, 1_000_000_000)]);
        for text in ["mean<1ms", "rps>5", "errors<5", "p99>1ms", "regression<5%"] {
            assert!(
                matches!(promise(text), Err(AssertError::Promise { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        let pieces = [
            "p",
            "99",
            ".",
            "9",
            "<",
            "=",
            ">",
            "ms",
            "µs",
            "%",
            ",",
            " ",
            "errors",
            "regression-",
            "\u{0}",
            "é",
            "1",
        ];
        let mut random = Random::new(11);
        for _ in 0..20_000 {
            let length = random.below(8);
            let text: String = (0..length).map(|_| pieces[random.below(pieces.len())]).collect();
            let _ = parse(&text);
            let _ = promise(&text);
        }
    }
}
