//! Two runs side by side, figure by figure, with whether they differ.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Options, Report, percentile, words};

/// Reads a figure of a report, if the report has it.
type Of<'a> = &'a dyn Fn(&Report) -> Option<f64>;

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Figures in the order in which they are shown.
    pub figures: Vec<Figure>,
}

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the figure, such as `p99`.
    pub name: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// Value in the first run.
    pub first: f64,
    /// Value in the second run.
    pub second: f64,
    /// Whether their 95 % intervals do not overlap. `None` where there are none.
    pub differs: Option<bool>,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Events per second.
    PerSecond,
    /// Time in nanoseconds.
    Nanoseconds,
    /// A part of all, from 0 to 1.
    Share,
}

impl Comparison {
    /// Compares the second run with the first. A figure that one of them does not have is left out.
    pub fn of(first: &Report, second: &Report, options: &Options) -> Self {
        let mut figures = vec![Figure {
            name: "answers/s".to_owned(),
            unit: Unit::PerSecond,
            first: first.per_second,
            second: second.per_second,
            differs: first
                .rate_interval()
                .zip(second.rate_interval())
                .map(|(first, second)| !first.overlaps(&second)),
        }];
        let empty = [first, second].iter().any(|report| report.latency_ns.is_empty());
        for &percent in options.percentiles.iter().filter(|_| !empty) {
            let value = |report: &Report| percentile(&report.latency_ns, percent) as f64;
            figures.push(Figure {
                name: format!("p{}", words::percentile(percent)),
                unit: Unit::Nanoseconds,
                first: value(first),
                second: value(second),
                differs: None,
            });
        }
        let mean = |report: &Report| (!report.latency_ns.is_empty()).then(|| report.latency_ns.mean());
        let most = |report: &Report| (!report.latency_ns.is_empty()).then(|| report.latency_ns.max() as f64);
        let failed =
            |report: &Report| (report.asked() > 0).then(|| report.failed() as f64 / report.asked() as f64);
        let others: [(&str, Unit, Of<'_>); 5] = [
            ("mean", Unit::Nanoseconds, &mean),
            ("max", Unit::Nanoseconds, &most),
            ("failed", Unit::Share, &failed),
            (
                "server CPU a request",
                Unit::Nanoseconds,
                &Report::server_ns_per_answer,
            ),
            (
                "generator CPU a request",
                Unit::Nanoseconds,
                &Report::generator_ns_per_answer,
            ),
        ];
        for (name, unit, of) in others {
            if let (Some(first), Some(second)) = (of(first), of(second)) {
                figures.push(Figure {
                    name: name.to_owned(),
                    unit,
                    first,
                    second,
                    differs: None,
                });
            }
        }
        Self { figures }
    }

    /// A table for the terminal.
    pub fn text(&self, names: [&str; 2]) -> String {
        let mut text = String::new();
        for (letter, name) in ["A", "B"].into_iter().zip(names) {
            let _ = writeln!(text, "{letter}  {}", words::plain(name, NAME_MAX));
        }
        let _ = writeln!(text, "\n{:<24}{:>12}{:>14}{:>12}", "", "A", "B", "B / A");
        for figure in &self.figures {
            let shown = |value| match figure.unit {
                Unit::PerSecond => words::rate(value),
                Unit::Nanoseconds => words::duration(value),
                Unit::Share => format!("{:.3} %", value * 100.0),
            };
            let change = figure
                .change()
                .map_or(String::new(), |change| format!("{:+.1} %", change * 100.0));
            let differs = match figure.differs {
                Some(true) => "   they differ",
                Some(false) => "   no difference can be seen",
                None => "",
            };
            let (first, second) = (shown(figure.first), shown(figure.second));
            let _ = writeln!(
                text,
                "{:<24}{first:>12}{second:>14}{change:>12}{differs}",
                figure.name
            );
        }
        text + "\nThey differ: their 95 % intervals lie apart. Runs one after the other differ by what the machine did meanwhile, too; --vs takes \
                turns.\n"
    }

    /// The comparison as JSON; latencies in milliseconds.
    pub fn json(&self, names: [&str; 2]) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let (unit, scale) = match figure.unit {
                Unit::PerSecond => ("per_second", 1.0),
                Unit::Nanoseconds => ("ms", 1e-6),
                Unit::Share => ("share", 1.0),
            };
            let (first, second) = (figure.first * scale, figure.second * scale);
            let value = json!({
                "unit": unit, "first": first, "second": second, "change": figure.change(), "differs": figure.differs,
            });
            (figure.name.clone(), value)
        });
        let figures: serde_json::Map<String, Value> = figures.collect();
        json!({"compare": {"runs": names, "figures": figures}})
    }
}

/// Most characters of a run's name.
const NAME_MAX: usize = 300;

impl Figure {
    /// Relative change from the first to the second. `None` if the first is 0.
    pub fn change(&self) -> Option<f64> {
        (self.first > 0.0).then(|| self.second / self.first - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_beside_itself_does_not_differ_and_a_slower_one_does() {
        let options = Options::default();
        let run = Report::example();
        let same = Comparison::of(&run, &run, &options);
        let rate = &same.figures[0];
        assert_eq!((rate.differs, rate.change()), (Some(false), Some(0.0)));
        let mut slow = run.clone();
        slow.per_second /= 2.0;
        for slice in &mut slow.timeline.slices {
            slice.answers /= 2;
        }
        let found = Comparison::of(&run, &slow, &options);
        assert_eq!(
            (found.figures[0].differs, found.figures[0].change()),
            (Some(true), Some(-0.5))
        );
        let text = found.text(["before", "after"]);
        assert!(
            text.contains("237,000       118,500     -50.0 %   they differ"),
            "{text}"
        );
        let json = found.json(["before", "after"]);
        assert_eq!(json["compare"]["figures"]["answers/s"]["differs"], true);
        assert_eq!(json["compare"]["figures"]["max"]["unit"], "ms");
    }

    #[test]
    fn what_one_run_does_not_have_is_left_out() {
        let run = Report::example();
        let mut empty = run.clone();
        empty.latency_ns.reset();
        empty.usage = None;
        let names: Vec<String> = Comparison::of(&run, &empty, &Options::default())
            .figures
            .into_iter()
            .map(|figure| figure.name)
            .collect();
        assert_eq!(names, ["answers/s", "failed", "generator CPU a request"]);
    }
}
