//! Two servers beside each other, and the first beside itself.

use std::{fmt::Write as _, time::Duration};

use forebay_load::{
    Session,
    engine::Stretch,
    report::{Report, verdict::Verdict},
    search::{Comparison, Point, Versus, compare, warm_up},
    stats::Ratio,
};
use serde_json::json;

use super::{DURATION, Finding, SETTLE, ms, point_json};
use crate::commands::load::{arguments::Options, plan::Job};

/// Length of a turn; shorter, with what comes before it, where -d leaves less time for the fewest pairs.
const TURN: Duration = Duration::from_secs(1);
/// Fewest pairs of a comparison.
const PAIRS_MIN: usize = 2;
/// Pairs in which a server is compared with itself.
const SELF_PAIRS: usize = 5;
/// A comparison ends when its ratio is known this closely.
const PRECISION: f64 = 0.01;

/// Warms a server up, and says so when that did not make it steady: a comparison has no verdict that could.
fn warm(session: &mut Session, job: &Job, tell: &dyn Fn(String)) {
    let found = warm_up(session, job.load, job.warm_up, &mut |_| {});
    if found.steady == Some(false) {
        tell(format!(
            "{} was not steady after {:.1} s of warm-up; --warmup gives it more",
            job.run.urls[0], found.seconds
        ));
    }
}

/// First the first server beside itself: what differs there is the machine's noise, and no smaller difference can be seen.
pub(super) fn versus(
    options: &Options,
    jobs: [&Job; 2],
    sessions: [Session; 3],
    reports: &mut Vec<Report>,
    tell: &dyn Fn(String),
) -> Finding {
    let [mut first, mut again, mut second] = sessions;
    let [job, other] = jobs;
    let longest = options.duration.unwrap_or(DURATION).as_secs_f64();
    let pair = 2.0 * (TURN + SETTLE).as_secs_f64();
    // Both comparisons with the fewest pairs fit into the time that there is.
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
    first.pause();
    let itself = compare(&mut first, &mut again, comparison, &mut |_| {});
    again.finish();
    let floor = itself.per_second.as_ref().map(shown);
    tell(format!(
        "the first server beside itself: {}",
        floor.as_deref().unwrap_or("not known")
    ));
    warm(&mut second, other, tell);
    second.pause();
    let comparison = Comparison {
        pairs_max: pairs,
        ..comparison
    };
    let found = compare(&mut first, &mut second, comparison, &mut |found| {
        if let Some(ratio) = &found.per_second {
            tell(format!("{} pairs: {}", found.pairs.len(), shown(ratio)));
        }
    });
    first.finish();
    second.finish();
    for (job, stretch) in [(job, &found.first), (other, &found.second)] {
        let mut run = job.run.clone();
        run.duration_seconds = None;
        reports.push(Report::new(run, stretch, &Stretch::nothing(job.load)));
    }
    versus_found(&itself, &found, [&job.run.urls[0], &other.run.urls[0]])
}

fn shown(ratio: &Ratio) -> String {
    format!(
        "{:.3} times (95 %: {:.3} to {:.3})",
        ratio.value, ratio.low, ratio.high
    )
}

/// Nothing where nothing has failed.
fn failed_share(failed: f64) -> String {
    match failed {
        0.0 => String::new(),
        _ => format!("   failed {:.2} %", failed * 100.0),
    }
}

fn versus_found(itself: &Versus, found: &Versus, urls: [&String; 2]) -> Finding {
    let mut text = String::new();
    for (name, url, stretch) in [("A", urls[0], &found.first), ("B", urls[1], &found.second)] {
        let latency = &stretch.total.latency;
        let _ = writeln!(
            text,
            "{name}  {url}\n   {:.0} answers/s   p50 {:.3} ms   p99 {:.3} ms{}",
            stretch.per_second(),
            ms(latency.value_at_quantile(0.5)),
            ms(latency.value_at_quantile(0.99)),
            failed_share(Point::of(stretch).failed)
        );
    }
    text.push('\n');
    let figures = [
        ("answers/s", &found.per_second),
        ("p50", &found.p50),
        ("p99", &found.p99),
    ];
    for (name, ratio) in figures {
        let told = ratio.as_ref().map_or("not known".to_owned(), |ratio| {
            let differs = if ratio.differs() {
                "they differ"
            } else {
                "no difference can be seen"
            };
            format!("{}; {differs}", shown(ratio))
        });
        let _ = writeln!(text, "B / A  {name:<10} {told}");
    }
    let floor = itself.per_second.as_ref().map_or("not known".to_owned(), shown);
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
    Finding {
        text,
        json: json!({
            "versus": {
                "urls": urls,
                "per_second": ratio(&found.per_second),
                "p50": ratio(&found.p50),
                "p99": ratio(&found.p99),
                "self": ratio(&itself.per_second),
                "pairs": found.pairs.iter().map(|(a, b)| json!([point_json(a), point_json(b)])).collect::<Vec<_>>(),
            },
            "verdict": verdict.kind.name(),
            "verdict_reasons": verdict.reasons,
        }),
    }
}
