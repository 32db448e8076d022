//! Runs that choose their loads themselves: the best number of connections, the highest rate, a mean known closely, two servers beside
//! each other. What was tried is shown while it goes on; the finding goes to standard output.

mod versus;

use std::{fmt::Write as _, time::Duration};

use forebay_load::{
    Session,
    plan::Pace,
    report::{Report, assert, html},
    search::{
        Best, Point, Precision, RateSearch, Repeated, Sustained, Sweep, best_connections, highest_rate,
        until_precise, warm_up,
    },
};
use serde_json::{Value, json};

use super::{
    arguments::Options,
    interrupt::Interrupt,
    outputs,
    plan::Job,
    run::{Observed, unix_ms},
    trials::Trials,
};
use crate::{failure::UsageError, output};

/// Most connections that --find-best tries when -c does not say.
const CONNECTIONS_MAX: usize = 1024;
/// How long --until-ci and --vs may take when -d does not say.
const DURATION: Duration = Duration::from_mins(1);
/// Length of a run of --until-ci; shorter where -d leaves less time for as many as it takes to know anything.
const RUN: Duration = Duration::from_secs(1);
const RUNS_MIN: u32 = 5;
/// What is sent before each measurement.
const SETTLE: Duration = Duration::from_millis(300);
/// The first rate that --find-rate tries.
pub(super) const FIRST_RATE: f64 = 500.0;

/// What a search has found: its text, and the same for programs.
pub(super) struct Finding {
    pub(super) text: String,
    pub(super) json: Value,
}

/// Whether options fit what is searched, before anything is connected.
pub(crate) fn check(options: &Options) -> Result<(), UsageError> {
    if let Some(text) = &options.slo {
        assert::promise(text).map_err(|error| UsageError(format!("--slo: {error}")))?;
    }
    let named = [
        (options.find_best, "--find-best"),
        (options.find_rate, "--find-rate"),
        (options.vs.is_some(), "--vs"),
        (options.vs_cmd.is_some(), "--vs-cmd"),
    ];
    let Some((_, search)) = named.into_iter().find(|(asked, _)| *asked) else {
        return Ok(());
    };
    let of_one_run = [
        (!options.assertions.is_empty(), "--assert"),
        (options.forms.save.is_some(), "--save"),
        (options.compare.is_some(), "--compare"),
        (options.bail.is_some(), "--bail"),
    ];
    match of_one_run.into_iter().find(|(asked, _)| *asked) {
        Some((_, name)) => Err(UsageError(format!(
            "{name} is for a single run; {search} makes several, and --json has them all"
        ))),
        None => Ok(()),
    }
}

/// Connections that a search may use at most.
pub(crate) fn connections_max(options: &Options) -> Option<usize> {
    options
        .find_best
        .then(|| options.connections.unwrap_or(CONNECTIONS_MAX))
}

/// Runs the search that the options ask for, if they ask for one; a mean that is known closely is a report.
pub(crate) fn run(
    options: &Options,
    job: &Job,
    second: Option<&Job>,
    observed: &Observed,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let start = |job: &Job| {
        let session = Session::start(job.plan.clone())?;
        interrupt.stops(session.stopper());
        anyhow::Ok(session)
    };
    let tell = |text: String| {
        if !options.quiet {
            output::complaint(&text);
        }
    };
    let mut reports = Vec::new();
    let mut tries = Trials::new(job, options.forms.html.is_some());
    let finding = if options.find_best {
        let usual = Sweep::default();
        let measure = options.duration.unwrap_or(usual.measure);
        let sweep = Sweep {
            connections_max: job.connections_max,
            measure,
            settle: usual.settle.min(measure),
        };
        let mut session = start(job)?;
        let best = best_connections(&mut session, sweep, &mut |point, stretch| {
            tell(row(point));
            tries.add(stretch);
        });
        session.finish();
        best_found(&best)
    } else if options.find_rate {
        let text = options.slo.as_deref().unwrap_or_default();
        let promise = assert::promise(text).map_err(|error| UsageError(format!("--slo: {error}")))?;
        let search = RateSearch {
            connections: job.load.connections,
            arrivals: options.arrivals.unwrap_or_default(),
            first_per_second: FIRST_RATE,
            settle: SETTLE,
            measure: options.duration.unwrap_or(Duration::from_secs(2)),
        };
        let mut session = start(job)?;
        let found = highest_rate(&mut session, search, &promise, &mut |point, broken, stretch| {
            tell(tried(point, broken));
            tries.add(stretch);
        });
        session.finish();
        rate_found(&found, text)
    } else if let Some(relative) = options.until_ci {
        let report = precise(options, job, relative, start(job)?, observed, &tell);
        return Ok(Some(Outcome::Report(Box::new(report))));
    } else if let Some(second) = second {
        versus::versus(
            options,
            [job, second],
            [start(job)?, start(job)?, start(second)?],
            &mut reports,
            &tell,
        )
    } else {
        return Ok(None);
    };
    Ok(Some(Outcome::Finding {
        text: finding.text,
        json: finding.json,
        interrupted: interrupt.came(),
        reports: tries.reports().into_iter().chain(reports).collect(),
    }))
}

/// What a search ends with.
pub(crate) enum Outcome {
    /// A report like that of any run.
    Report(Box<Report>),
    /// What no report has a place for.
    Finding {
        text: String,
        json: Value,
        interrupted: bool,
        /// What was measured, where a page is to show it.
        reports: Vec<Report>,
    },
}

impl Outcome {
    /// Prints a finding, as JSON too where that is asked for.
    pub(crate) fn print(
        text: &str,
        json: &Value,
        interrupted: bool,
        reports: &[Report],
        options: &Options,
    ) -> anyhow::Result<()> {
        if let Some(file) = &options.forms.html {
            outputs::put(
                file,
                &html::write_all(reports, text, &outputs::style(&options.forms)),
            )?;
        }
        let mut json = json.clone();
        json["interrupted"] = interrupted.into();
        if interrupted {
            output::complaint("interrupted: this is what was found until then");
        }
        let written = format!("{json:#}\n");
        if let Some(file) = &options.forms.json {
            outputs::put(file, &written)?;
            if file.as_os_str() == "-" {
                return Ok(());
            }
        }
        Ok(output::whole(text)?)
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// A point in a line.
fn row(point: &Point) -> String {
    format!(
        "{:>11} connections {:>11.0}/s   p50 {:>9.3} ms   p99 {:>9.3} ms   failed {:.2} %",
        point.load.connections,
        point.per_second,
        ms(point.p50_ns),
        ms(point.p99_ns),
        point.failed * 100.0
    )
}

fn tried(point: &Point, broken: Option<&str>) -> String {
    let asked = match point.load.pace {
        Pace::Open { per_second, .. } => per_second,
        Pace::Closed => 0.0,
    };
    let kept = broken.map_or("kept".to_owned(), |why| format!("broken: {why}"));
    format!(
        "{asked:>11.0}/s asked {:>11.0}/s   p50 {:>9.3} ms   p99 {:>9.3} ms   {kept}",
        point.per_second,
        ms(point.p50_ns),
        ms(point.p99_ns)
    )
}

fn point_json(point: &Point) -> Value {
    let rate = match point.load.pace {
        Pace::Open { per_second, .. } => Some(per_second),
        Pace::Closed => None,
    };
    json!({
        "connections": point.load.connections,
        "rate": rate,
        "per_second": point.per_second,
        "latency_ms": {"p50": ms(point.p50_ns), "p99": ms(point.p99_ns)},
        "failed": point.failed,
    })
}

fn best_found(best: &Best) -> Finding {
    let chosen = &best.curve[best.chosen];
    let mut text = String::new();
    for (at, point) in best.curve.iter().enumerate() {
        let mark = if at == best.chosen { '*' } else { ' ' };
        let _ = writeln!(text, "{mark}{}", row(point));
    }
    let _ = writeln!(
        text,
        "\nBest: {} connections, {:.0} answers/s, p99 {:.3} ms\n{}",
        chosen.load.connections,
        chosen.per_second,
        ms(chosen.p99_ns),
        best.reason
    );
    Finding {
        text,
        json: json!({"find_best": {
            "connections": chosen.load.connections,
            "chosen": point_json(chosen),
            "reason": best.reason,
            "knee": best.knee,
            "curve": best.curve.iter().map(point_json).collect::<Vec<_>>(),
        }}),
    }
}

fn rate_found(found: &Sustained, promise: &str) -> Finding {
    let mut text = String::new();
    for (point, broken) in &found.tried {
        let _ = writeln!(text, "{}", tried(point, broken.as_deref()));
    }
    let _ = match (&found.per_second, &found.confirmed) {
        (Some(rate), Some(point)) => writeln!(
            text,
            "\nHighest rate with {promise}: {rate:.0} requests/s, confirmed with p50 {:.3} ms and p99 {:.3} ms",
            ms(point.p50_ns),
            ms(point.p99_ns)
        ),
        _ => writeln!(text, "\nNo rate was found that keeps {promise}"),
    };
    let each = |(point, broken): &(Point, Option<String>)| {
        let mut value = point_json(point);
        value["broken"] = broken.clone().into();
        value
    };
    Finding {
        text,
        json: json!({"find_rate": {
            "slo": promise,
            "per_second": found.per_second,
            "confirmed": found.confirmed.as_ref().map(point_json),
            "tried": found.tried.iter().map(each).collect::<Vec<_>>(),
        }}),
    }
}

fn precise(
    options: &Options,
    job: &Job,
    relative: f64,
    mut session: Session,
    observed: &Observed,
    tell: &dyn Fn(String),
) -> Report {
    let warm_up = warm_up(&mut session, job.load, job.warm_up, &mut |_| {});
    let longest = options.duration.unwrap_or(DURATION);
    let run = RUN.min(longest / RUNS_MIN);
    let precision = Precision {
        load: job.load,
        relative,
        run,
        runs_max: (longest.as_secs_f64() / run.as_secs_f64()).round() as usize,
    };
    let started_unix_ms = unix_ms();
    let mut told = |repeated: &Repeated| {
        if let Some(interval) = &repeated.interval {
            tell(format!(
                "{} runs: {:.0} answers/s, 95 % interval {:.0} to {:.0} (half of it {:.2} %)",
                repeated.per_second.len(),
                interval.value,
                interval.low,
                interval.high,
                interval.relative_half_width() * 100.0
            ));
        }
    };
    let (found, usage) = observed.during(|| until_precise(&mut session, precision, &mut told));
    let first_answer = session.first_answer().cloned();
    let after = session.finish();
    if !found.reached {
        output::complaint(&format!(
            "the interval is not as narrow as {:.2} % after {} runs; -d gives more time",
            relative * 100.0,
            found.per_second.len()
        ));
    }
    let mut run = job.run.clone();
    run.duration_seconds = None;
    run.started_unix_ms = started_unix_ms;
    let mut report = Report::new(run, &found.all, &after);
    report.warm_up = warm_up;
    report.first_answer = first_answer;
    report.environment = Some(observed.machine.environment());
    report.usage = usage;
    report
}
