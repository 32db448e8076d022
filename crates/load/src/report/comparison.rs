//! Two runs side by side, figure by figure, with whether they differ.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{Options, Report, format, percentile};

/// Most characters of a run's name.
const NAME_MAX: usize = 300;

/// Two runs, compared: the second with the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    figures: Vec<Figure>,
    /// Whether the 95 % intervals of the rates lie apart. `None` where there are none.
    differs: Option<bool>,
}

/// One figure of both runs. The first one is the rate.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    name: String,
    unit: Unit,
    values: [f64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    PerSecond,
    Nanoseconds,
    /// A part of all, from 0 to 1.
    Share,
}

impl Comparison {
    /// Compares two runs. A figure that one of them does not have is left out.
    pub fn of(runs: [&Report; 2], options: &Options) -> Self {
        let mut figures = Vec::new();
        let mut add = |name: &str, unit: Unit, of: &dyn Fn(&Report) -> Option<f64>| {
            if let [Some(first), Some(second)] = runs.map(of) {
                let (name, values) = (name.to_owned(), [first, second]);
                figures.push(Figure { name, unit, values });
            }
        };
        let latency = |report: &Report, of: &dyn Fn(&Report) -> f64| {
            (!report.latency_ns.is_empty()).then(|| of(report))
        };
        add("answers/s", Unit::PerSecond, &|report| Some(report.per_second));
        for &percent in &options.percentiles {
            let name = format!("p{}", format::percentile(percent));
            add(&name, Unit::Nanoseconds, &|report| {
                latency(report, &|report| percentile(&report.latency_ns, percent) as f64)
            });
        }
        add("mean", Unit::Nanoseconds, &|report| {
            latency(report, &|report| report.latency_ns.mean())
        });
        add("max", Unit::Nanoseconds, &|report| {
            latency(report, &|report| report.latency_ns.max() as f64)
        });
        add("failed", Unit::Share, &|report| {
            (report.asked() > 0).then(|| report.failed() as f64 / report.asked() as f64)
        });
        let (server, generator) = (Report::server_ns_per_answer, Report::generator_ns_per_answer);
        add("server CPU a request", Unit::Nanoseconds, &server);
        add("generator CPU a request", Unit::Nanoseconds, &generator);
        let [first, second] = runs.map(Report::rate_interval);
        Self {
            figures,
            differs: first.zip(second).map(|(first, second)| !first.overlaps(&second)),
        }
    }

    /// A table for the terminal.
    pub fn text(&self, names: [&str; 2]) -> String {
        let mut text = String::new();
        for (letter, name) in ["A", "B"].into_iter().zip(names) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{letter}  {}", format::plain(name, NAME_MAX));
        }
        let _ = writeln!(text, "\n{:<24}{:>12}{:>14}{:>12}", "", "A", "B", "B / A");
        for (at, figure) in self.figures.iter().enumerate() {
            let [first, second] = figure.values.map(|value| match figure.unit {
                Unit::PerSecond => format::rate(value),
                Unit::Nanoseconds => format::duration(value),
                Unit::Share => format!("{:.3} %", value * 100.0),
            });
            let change = figure
                .change()
                .map_or(String::new(), |change| format!("{:+.1} %", change * 100.0));
            let differs = match self.differs.filter(|_| at == 0) {
                Some(true) => "   they differ",
                Some(false) => "   no difference can be seen",
                None => "",
            };
            let name = &figure.name;
            let _ = writeln!(text, "{name:<24}{first:>12}{second:>14}{change:>12}{differs}");
        }
        text + "\nThey differ: their 95 % intervals lie apart. Runs one after the other differ by what the machine did meanwhile, too; --vs takes \
                turns.\n"
    }

    /// The comparison as JSON; latencies in milliseconds.
    pub fn json(&self, names: [&str; 2]) -> Value {
        let mut figures = Map::new();
        for figure in &self.figures {
            let (unit, scale) = match figure.unit {
                Unit::PerSecond => ("per_second", 1.0),
                Unit::Nanoseconds => ("ms", 1e-6),
                Unit::Share => ("share", 1.0),
            };
            let [first, second] = figure.values.map(|value| value * scale);
            let value = json!({"unit": unit, "first": first, "second": second, "change": figure.change()});
            figures.insert(figure.name.clone(), value);
        }
        figures["answers/s"]["differs"] = self.differs.into();
        json!({"compare": {"runs": names, "figures": figures}})
    }
}

impl Figure {
    /// Relative change from the first to the second. `None` if the first is 0.
    fn change(&self) -> Option<f64> {
        let [first, second] = self.values;
        (first > 0.0).then(|| second / first - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_beside_itself_does_not_differ_and_a_slower_one_does() {
        let run = Report::example();
        let mut slow = run.clone();
        slow.per_second /= 2.0;
        for slice in &mut slow.timeline.slices {
            slice.answers /= 2;
        }
        let compared = |other| Comparison::of([&run, other], &Options::default());
        assert_eq!(
            (compared(&run).differs, compared(&slow).differs),
            (Some(false), Some(true))
        );
        let text = compared(&slow).text(["before", "after"]);
        let row = "237,000       118,500     -50.0 %   they differ";
        assert!(text.contains(row), "{text}");
        let json = &compared(&slow).json(["before", "after"])["compare"]["figures"];
        assert_eq!(
            (&json["answers/s"]["differs"], &json["max"]["unit"]),
            (&true.into(), &"ms".into())
        );
        let mut empty = run.clone();
        empty.latency_ns.reset();
        empty.usage = None;
        let left: Vec<_> = compared(&empty)
            .figures
            .into_iter()
            .map(|figure| figure.name)
            .collect();
        assert_eq!(left, ["answers/s", "failed", "generator CPU a request"]);
    }
}
