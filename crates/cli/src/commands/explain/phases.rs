//! Each moment of a request is charged to one phase, so that the phases of a request add up to its time.

use std::collections::BTreeMap;

use super::report::{Report, Sampled, Span};

/// Phases, in the order in which they come.
pub(super) const PHASES: [Phase; 12] = [
    phase("front", "the head is read and the route found"),
    phase("queue", "waiting for a worker or a thread"),
    phase("code", "the handler's code runs"),
    phase(
        "handler",
        "in the handler but not running: the round trip to a worker, or another wait",
    ),
    phase("upstream", "another server has the request and has not answered"),
    phase("sql wait", "statements wait for a place or a connection"),
    phase("sql send", "statements are being sent"),
    phase("sql server", "PostgreSQL has not begun to answer"),
    phase("sql rows", "answers are coming and are decoded"),
    phase("sql hand-over", "rows are decoded, their caller is not awake yet"),
    phase(
        "between",
        "none of these: threads are being woken, or run other tasks",
    ),
    phase("write", "the answer is made and written"),
];
const COUNT: usize = PHASES.len();
pub(super) const FRONT: usize = 0;
pub(super) const QUEUE: usize = 1;
pub(super) const CODE: usize = 2;
pub(super) const HANDLER: usize = 3;
pub(super) const UPSTREAM: usize = 4;
pub(super) const SQL: usize = 5;
/// The phases of statements, from [`SQL`] on.
pub(super) const STATEMENTS: std::ops::Range<usize> = SQL..BETWEEN;
pub(super) const BETWEEN: usize = 10;
pub(super) const WRITE: usize = 11;
/// Which of several simultaneous phases is charged.
const PRECEDENCE: [usize; COUNT] = [
    CODE,
    SQL + 2,
    SQL + 3,
    SQL + 1,
    SQL,
    SQL + 4,
    QUEUE,
    HANDLER,
    UPSTREAM,
    WRITE,
    FRONT,
    BETWEEN,
];

/// A phase of requests.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
}

const fn phase(name: &'static str, meaning: &'static str) -> Phase {
    Phase { name, meaning }
}

/// The samples of a run by their routes.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) seen: u64,
    pub(super) left_out: u64,
    pub(super) routes: Vec<RouteSummary>,
}

#[derive(Debug)]
pub(super) struct RouteSummary {
    pub(super) name: String,
    pub(super) samples: usize,
    pub(super) total: Figures,
    /// In the order of [`PHASES`].
    pub(super) phases: [Figures; COUNT],
    /// Statements per request, on average.
    pub(super) statements: f64,
    /// The median request, and one at the 99th percentile.
    pub(super) median: Report,
    pub(super) slow: Report,
}

/// Figures of a phase, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Figures {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let at = |part: f64| values.get(rank(values.len(), part)).copied().unwrap_or(0.0);
        Self {
            mean,
            p50: at(0.5),
            p99: at(0.99),
        }
    }
}

/// Index of a percentile among sorted values.
fn rank(count: usize, part: f64) -> usize {
    ((count as f64 * part).ceil() as usize).saturating_sub(1)
}

impl Summary {
    pub(super) fn of(sampled: &Sampled) -> Self {
        let mut routes: BTreeMap<&str, Vec<&Report>> = BTreeMap::new();
        for report in &sampled.samples {
            routes.entry(&report.route).or_default().push(report);
        }
        let mut routes: Vec<_> = routes
            .into_iter()
            .map(|(name, samples)| RouteSummary::of(name, samples))
            .collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.samples));
        Self {
            seen: sampled.seen,
            left_out: sampled.left_out,
            routes,
        }
    }
}

impl RouteSummary {
    fn of(name: &str, mut samples: Vec<&Report>) -> Self {
        samples.sort_by(|a, b| a.total_us.total_cmp(&b.total_us));
        let charged: Vec<_> = samples.iter().map(|report| charge(report)).collect();
        let statements = samples
            .iter()
            .flat_map(|report| &report.spans)
            .filter(|span| span.kind == "statement");
        let count = samples.len();
        Self {
            name: name.to_owned(),
            samples: count,
            total: Figures::of(samples.iter().map(|report| report.total_us).collect()),
            phases: std::array::from_fn(|phase| {
                Figures::of(charged.iter().map(|charged| charged[phase]).collect())
            }),
            statements: statements.count() as f64 / count as f64,
            median: samples[rank(count, 0.5)].clone(),
            slow: samples[rank(count, 0.99)].clone(),
        }
    }
}

/// Time of a request in each phase, in microseconds.
pub(super) fn charge(report: &Report) -> [f64; COUNT] {
    let mut changes: Vec<(f64, usize, i32)> = Vec::new();
    let mut add = |phase: usize, from: f64, until: f64| {
        let (from, until) = (
            from.clamp(0.0, report.total_us),
            until.clamp(0.0, report.total_us),
        );
        if until > from {
            changes.extend([(from, phase, 1), (until, phase, -1)]);
        }
    };
    for span in &report.spans {
        let until = span.from_us + span.took_us;
        match span.kind.as_str() {
            "front" => add(FRONT, span.from_us, until),
            "queue" => add(QUEUE, span.from_us, until),
            "running" => add(CODE, span.from_us, until),
            "handler" => add(HANDLER, span.from_us, until),
            "upstream" => add(UPSTREAM, span.from_us, until),
            "write" => add(WRITE, span.from_us, until),
            "statement" => parts(span).for_each(|(phase, from, until)| add(phase, from, until)),
            // A span of a later version has no phase here.
            _ => {}
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut charged = [0.0; COUNT];
    let mut under_way = [0; COUNT];
    let mut at = 0.0;
    for (time, phase, change) in changes {
        charged[foremost(&under_way)] += time - at;
        at = time;
        under_way[phase] += change;
    }
    charged[BETWEEN] += report.total_us - at;
    charged
}

fn foremost(under_way: &[i32; COUNT]) -> usize {
    PRECEDENCE
        .into_iter()
        .find(|&phase| under_way[phase] > 0)
        .unwrap_or(BETWEEN)
}

/// The phases of a statement.
fn parts(span: &Span) -> impl Iterator<Item = (usize, f64, f64)> {
    let mut at = span.from_us;
    span.parts.iter().filter_map(move |part| {
        let from = at;
        at += part.took_us;
        let offset = match part.name.as_str() {
            "wait" => 0,
            "send" => 1,
            "server" => 2,
            "rows" => 3,
            "hand-over" => 4,
            // Time of the consumer of the rows, which is charged to the consumer's own phase.
            _ => return None,
        };
        Some((SQL + offset, from, at))
    })
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums of whole numbers are exact")]
pub(super) mod tests {
    use super::{super::report::Part, *};

    pub(in super::super) fn span(kind: &str, from_us: f64, took_us: f64) -> Span {
        Span {
            kind: kind.into(),
            detail: format!("the {kind}"),
            from_us,
            took_us,
            parts: Vec::new(),
        }
    }

    pub(in super::super) fn statement(from_us: f64, parts: &[(&str, f64)]) -> Span {
        let took_us = parts.iter().map(|(_, took)| took).sum();
        Span {
            detail: "select 1 from <t>".into(),
            parts: parts
                .iter()
                .map(|&(name, took_us)| Part {
                    name: name.into(),
                    took_us,
                })
                .collect(),
            ..span("statement", from_us, took_us)
        }
    }

    pub(in super::super) fn report() -> Report {
        Report {
            request_id: "1f".into(),
            method: "GET".into(),
            target: "/queries2?queries=2".into(),
            route: "/queries2".into(),
            status: 200,
            bytes: 64,
            total_us: 1000.0,
            spans: vec![
                span("front", 0.0, 10.0),
                span("queue", 20.0, 30.0),
                span("handler", 50.0, 850.0),
                span("running", 50.0, 50.0),
                statement(
                    100.0,
                    &[
                        ("wait", 10.0),
                        ("send", 40.0),
                        ("server", 250.0),
                        ("hand-over", 20.0),
                    ],
                ),
                statement(
                    100.0,
                    &[
                        ("send", 50.0),
                        ("server", 450.0),
                        ("rows", 50.0),
                        ("hand-over", 50.0),
                    ],
                ),
                span("running", 700.0, 200.0),
                span("write", 950.0, 50.0),
            ],
            spans_left_out: 0,
        }
    }

    #[test]
    fn the_phases_of_a_request_add_up_to_its_time() {
        let charged = charge(&report());
        assert_eq!(charged.iter().sum::<f64>(), 1000.0);
        let of = |name: &str| charged[PHASES.iter().position(|phase| phase.name == name).unwrap()];
        assert_eq!(of("front"), 10.0);
        assert_eq!(of("queue"), 30.0);
        assert_eq!(of("code"), 250.0);
        assert_eq!(of("sql send"), 50.0, "the first waits meanwhile");
        assert_eq!(of("sql server"), 450.0, "both are there at the same time");
        assert_eq!((of("sql rows"), of("sql hand-over")), (50.0, 50.0));
        assert_eq!(of("handler"), 0.0);
        assert_eq!(of("between"), 60.0);
        assert_eq!(of("write"), 50.0);
    }

    #[test]
    fn a_span_that_goes_beyond_its_request_is_charged_up_to_there() {
        let mut report = report();
        report.spans = vec![span("queue", 900.0, 500.0), span("running", -5.0, 10.0)];
        let charged = charge(&report);
        assert_eq!(
            (charged[QUEUE], charged[CODE], charged[BETWEEN]),
            (100.0, 5.0, 895.0)
        );
    }

    #[test]
    fn samples_are_summed_up_by_route_with_the_median_request_and_a_slow_one() {
        let samples: Vec<Report> = (1..=100)
            .map(|number| Report {
                total_us: f64::from(number),
                route: if number == 100 { "/b".into() } else { "/a".into() },
                spans: Vec::new(),
                ..report()
            })
            .collect();
        let summary = Summary::of(&Sampled {
            seen: 5000,
            left_out: 0,
            samples,
        });
        let [a, b] = summary.routes.as_slice() else {
            panic!("{summary:?}")
        };
        assert_eq!((a.name.as_str(), a.samples, b.samples), ("/a", 99, 1));
        assert_eq!((a.total.mean, a.total.p50, a.total.p99), (50.0, 50.0, 99.0));
        assert_eq!((a.median.total_us, a.slow.total_us), (50.0, 99.0));
        assert_eq!((a.phases[BETWEEN].mean, b.total.p99), (50.0, 100.0));
    }
}
