//! Runs that choose their own loads: the best number of connections, the highest rate, a comparison of two servers. Each trial is shown as it
//! happens; the finding goes to standard output.

use std::{fmt::Write as _, time::Duration};

use forebay_load::{
    Session,
    plan::Pace,
    report::{assert, html, verdict::Verdict},
    search::{
        Comparison, Point, Promise, RateSearch, Sweep, Versus, best_connections, compare, highest_rate,
        warm_up,
    },
    stats::Ratio,
};
use serde_json::{Value, json};

use super::{arguments::Options, interrupt::Interrupt, outputs, plan::Job};
use crate::{failure::UsageError, output};

/// Default limit of connections for --find-best.
const CONNECTIONS_MAX: usize = 1024;
/// Default time limit of --vs.
const DURATION: Duration = Duration::from_mins(1);
/// Settling time before each measurement.
const SETTLE: Duration = Duration::from_millis(300);
/// The first rate that --find-rate tries.
pub(super) const FIRST_RATE: f64 = 500.0;
/// Length of a turn of --vs; shorter, together with its settling time, where -d leaves less time for the fewest pairs.
const TURN: Duration = Duration::from_secs(1);
/// Fewest pairs of a comparison.
const PAIRS_MIN: usize = 2;
/// Pairs in which a server is compared with itself.
const SELF_PAIRS: usize = 5;
/// A comparison ends when its ratio is known this closely.
const PRECISION: f64 = 0.01;

/// The search that the options ask for.
#[derive(Debug)]
pub(crate) enum Search {
    Best,
    Rate(Promise),
    Versus,
}

/// The finding of a search, as text and as JSON.
struct Finding {
    text: String,
    json: Value,
}

/// Checks that the options fit the search, before anything is connected.
pub(crate) fn check(options: &Options) -> Result<Option<Search>, UsageError> {
    let (search, name) = if options.find_best {
        (Search::Best, "--find-best")
    } else if let Some(text) = &options.slo {
        let promise = assert::promise(text).map_err(|error| UsageError(format!("--slo: {error}")))?;
        (Search::Rate(promise), "--find-rate")
    } else if options.vs.is_some() || options.vs_cmd.is_some() {
        (Search::Versus, "--vs")
    } else {
        return Ok(None);
    };
    let of_one_run = [
        (!options.assertions.is_empty(), "--assert"),
        (options.forms.save.is_some(), "--save"),
        (options.bail.is_some(), "--bail"),
    ];
    match of_one_run.into_iter().find(|(asked, _)| *asked) {
        Some((_, option)) => Err(UsageError(format!(
            "{option} is for a single run; {name} makes several, and --json has them all"
        ))),
        None => Ok(Some(search)),
    }
}

/// Most connections that a search may use.
pub(crate) fn connections_max(options: &Options) -> Option<usize> {
    options
        .find_best
        .then(|| options.connections.unwrap_or(CONNECTIONS_MAX))
}

impl Search {
    /// Runs the search and prints its finding; `second`: the server to compare with.
    pub(crate) fn run(
        &self,
        options: &Options,
        job: &Job,
        second: Option<&Job>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
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
        let Finding { text, mut json } = match (self, second) {
            (Self::Rate(promise), _) => highest(options, job, start(job)?, promise, &tell),
            (Self::Versus, Some(second)) => {
                let sessions = [start(job)?, start(job)?, start(second)?];
                versus(options, [job, second], sessions, &tell)
            }
            (Self::Best | Self::Versus, _) => best(options, job, start(job)?, &tell),
        };
        if let Some(file) = &options.forms.html {
            let page = html::write(&[], &text, &outputs::style(&options.forms));
            outputs::put(file, &page)?;
        }
        if interrupt.came() {
            output::complaint("interrupted: this is what was found until then");
        }
        json["interrupted"] = interrupt.came().into();
        outputs::print(&options.forms, &text, &format!("{json:#}\n"))
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn rate_of(point: &Point) -> Option<f64> {
    match point.load.pace {
        Pace::Open { per_second } => Some(per_second),
        Pace::Closed => None,
    }
}

fn point_json(point: &Point) -> Value {
    json!({
        "connections": point.load.connections,
        "rate": rate_of(point),
        "per_second": point.per_second,
        "latency_ms": {"p50": ms(point.p50_ns), "p99": ms(point.p99_ns)},
        "failed": point.failed,
    })
}

/// A point of a sweep as a line of text.
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

fn best(options: &Options, job: &Job, mut session: Session, tell: &dyn Fn(String)) -> Finding {
    let usual = Sweep::default();
    let measure = options.duration.unwrap_or(usual.measure);
    let sweep = Sweep {
        connections_max: job.connections_max,
        measure,
        settle: usual.settle.min(measure),
    };
    warm(&mut session, job, tell);
    let best = best_connections(&mut session, sweep, &mut |point| tell(row(point)));
    session.finish();
    let chosen = &best.curve[best.chosen];
    let mut text = String::new();
    for (at, point) in best.curve.iter().enumerate() {
        let mark = if at == best.chosen { '*' } else { ' ' };
        // Writing to a String cannot fail.
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
            "curve": best.curve.iter().map(point_json).collect::<Vec<_>>(),
        }}),
    }
}

/// A rate that was tried as a line of text.
fn tried(point: &Point, broken: Option<&str>) -> String {
    let kept = broken.map_or("kept".to_owned(), |why| format!("broken: {why}"));
    format!(
        "{:>11.0}/s asked {:>11.0}/s   p50 {:>9.3} ms   p99 {:>9.3} ms   {kept}",
        rate_of(point).unwrap_or_default(),
        point.per_second,
        ms(point.p50_ns),
        ms(point.p99_ns)
    )
}

fn highest(
    options: &Options,
    job: &Job,
    mut session: Session,
    promise: &Promise,
    tell: &dyn Fn(String),
) -> Finding {
    let slo = options.slo.as_deref().unwrap_or_default();
    let search = RateSearch {
        connections: job.load.connections,
        first_per_second: FIRST_RATE,
        settle: SETTLE,
        measure: options.duration.unwrap_or(Duration::from_secs(2)),
    };
    warm(&mut session, job, tell);
    let found = highest_rate(&mut session, search, promise, &mut |point, broken| {
        tell(tried(point, broken));
    });
    session.finish();
    let mut text = String::new();
    for (point, broken) in &found.tried {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", tried(point, broken.as_deref()));
    }
    let _ = match (&found.per_second, &found.confirmed) {
        (Some(rate), Some(point)) => writeln!(
            text,
            "\nHighest rate with {slo}: {rate:.0} requests/s, confirmed with p50 {:.3} ms and p99 {:.3} ms",
            ms(point.p50_ns),
            ms(point.p99_ns)
        ),
        _ => writeln!(text, "\nNo rate was found that keeps {slo}"),
    };
    let each = |(point, broken): &(Point, Option<String>)| {
        let mut value = point_json(point);
        value["broken"] = broken.clone().into();
        value
    };
    Finding {
        text,
        json: json!({"find_rate": {
            "slo": slo,
            "per_second": found.per_second,
            "confirmed": found.confirmed.as_ref().map(point_json),
            "tried": found.tried.iter().map(each).collect::<Vec<_>>(),
        }}),
    }
}

/// Warms a server up before a search, and reports when that did not make it steady.
fn warm(session: &mut Session, job: &Job, tell: &dyn Fn(String)) {
    let found = warm_up(session, job.load, job.warm_up, &mut |_| {});
    if found.steady == Some(false) {
        tell(format!(
            "{} was not steady after {:.1} s of warm-up; --warmup gives it more",
            job.run.urls[0], found.seconds
        ));
    }
    session.pause();
}

/// Compares two servers. The first one is compared with itself before: differences there are the machine's noise, and no smaller difference
/// can be detected.
fn versus(options: &Options, jobs: [&Job; 2], sessions: [Session; 3], tell: &dyn Fn(String)) -> Finding {
    let [mut first, mut again, mut second] = sessions;
    let [job, other] = jobs;
    let longest = options.duration.unwrap_or(DURATION).as_secs_f64();
    let pair = 2.0 * (TURN + SETTLE).as_secs_f64();
    // Both comparisons with the fewest pairs must fit into the available time.
    let scale = (longest / (2.0 * PAIRS_MIN as f64 * pair)).min(1.0);
    let pairs = ((longest / pair) as usize).max(PAIRS_MIN);
    let comparison = Comparison {
        load: job.load,
        pairs_max: pairs.min(SELF_PAIRS),
        precision: PRECISION,
        settle: SETTLE.mul_f64(scale),
        measure: TURN.mul_f64(scale),
        seed: job.plan.seed,
    };
    warm(&mut first, job, tell);
    let itself = compare(&mut first, &mut again, comparison, &mut |_| {});
    again.finish();
    tell(format!(
        "the first server beside itself: {}",
        shown(itself.per_second.as_ref())
    ));
    warm(&mut second, other, tell);
    let comparison = Comparison {
        pairs_max: pairs,
        ..comparison
    };
    let found = compare(&mut first, &mut second, comparison, &mut |found| {
        if found.per_second.is_some() {
            tell(format!(
                "{} pairs: {}",
                found.pairs.len(),
                shown(found.per_second.as_ref())
            ));
        }
    });
    first.finish();
    second.finish();
    versus_found(&itself, &found, [&job.run.urls[0], &other.run.urls[0]])
}

fn shown(ratio: Option<&Ratio>) -> String {
    ratio.map_or("not known".to_owned(), |ratio| {
        let Ratio { value, low, high, .. } = ratio;
        format!("{value:.3} times (95 %: {low:.3} to {high:.3})")
    })
}

fn versus_found(itself: &Versus, found: &Versus, urls: [&String; 2]) -> Finding {
    let mut text = String::new();
    for (name, url, stretch) in [("A", urls[0], &found.first), ("B", urls[1], &found.second)] {
        let point = Point::of(stretch);
        let failed = match point.failed {
            0.0 => String::new(),
            failed => format!("   failed {:.2} %", failed * 100.0),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name}  {url}\n   {:.0} answers/s   p50 {:.3} ms   p99 {:.3} ms{failed}",
            point.per_second,
            ms(point.p50_ns),
            ms(point.p99_ns),
        );
    }
    text.push('\n');
    let figures = [
        ("answers/s", &found.per_second),
        ("p50", &found.p50),
        ("p99", &found.p99),
    ];
    for (name, ratio) in figures {
        let differs = match ratio.as_ref().map(Ratio::differs) {
            Some(true) => "; they differ",
            Some(false) => "; no difference can be seen",
            None => "",
        };
        let _ = writeln!(text, "B / A  {name:<10} {}{differs}", shown(ratio.as_ref()));
    }
    let floor = shown(itself.per_second.as_ref());
    let _ = writeln!(
        text,
        "A / A  {:<10} {floor}; what lies within this is noise",
        "answers/s"
    );
    let verdict = Verdict::of_comparison(itself, found);
    let _ = writeln!(text, "\nVerdict  {verdict}");
    let ratio = |ratio: &Option<Ratio>| {
        ratio.as_ref().map(|ratio| {
            json!({"value": ratio.value, "low": ratio.low, "high": ratio.high, "pairs": ratio.pairs, "differs": ratio.differs()})
        })
    };
    let pairs = found.pairs.iter().map(|(a, b)| [point_json(a), point_json(b)]);
    Finding {
        text,
        json: json!({
            "versus": {
                "urls": urls,
                "per_second": ratio(&found.per_second),
                "p50": ratio(&found.p50),
                "p99": ratio(&found.p99),
                "self": ratio(&itself.per_second),
                "pairs": pairs.collect::<Vec<_>>(),
            },
            "verdict": verdict.kind.name(),
            "verdict_reasons": verdict.reasons,
        }),
    }
}
