//! What the page draws: how latency is distributed, and how the run went.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{
    chart::{Drawing, Scale, nines},
    escape,
};
use crate::report::{
    Report, Stage, steps,
    steps::Step,
    words::{self, count, duration, rate, short_duration},
};

/// Points of the curve of percentiles.
pub(super) const CURVE_POINTS: u32 = 240;
/// Parts of a curve with a hint of their own.
const HINTS: u32 = 60;

/// The distribution of latency.
pub(super) fn latency(report: &Report) -> String {
    let from = escape(words::latency_from(&report.run));
    let mut html = format!("<h2>How long answers took</h2>\n<p class=\"note\">Latency counts {from}.</p>\n");
    let latency = &report.latency_ns;
    if latency.is_empty() {
        html.push_str("<p class=\"card\">Nothing was answered.</p>\n");
        return html;
    }
    let least = latency
        .min()
        .min(report.service_ns.as_ref().map_or(u64::MAX, Histogram::min));
    let x = Scale::nines(latency.len());
    let end = x.high();
    let says = format!(
        "Latency by percentile: 50 % {}, 99 % {}, longest {}",
        duration(steps::percentile(latency, 50.0) as f64),
        duration(steps::percentile(latency, 99.0) as f64),
        duration(latency.max() as f64)
    );
    let y = Scale::logarithmic(least as f64, latency.max() as f64, short_duration);
    let mut drawing = Drawing::new("So many percent of answers took at most", &says, x, y);
    let curves =
        std::iter::once(("one", latency)).chain(report.service_ns.as_ref().map(|service| ("two", service)));
    for (class, histogram) in curves {
        let at = |nines: f64| (nines, steps::percentile(histogram, percent(nines)) as f64);
        let points = (0..=CURVE_POINTS).map(|part| Some(at(end * f64::from(part) / f64::from(CURVE_POINTS))));
        drawing.line(class, &points.collect::<Vec<_>>());
        for shown in [50.0, 90.0, 99.0, 99.9, 99.99, 99.999] {
            if nines(shown) <= end {
                drawing.dot(class, at(nines(shown)));
            }
        }
    }
    if report.service_ns.is_some() {
        drawing.name("one", "from when due");
        drawing.name("two", "from when sent");
    }
    for part in 0..HINTS {
        let (from, to) = (
            end * f64::from(part) / f64::from(HINTS),
            end * f64::from(part + 1) / f64::from(HINTS),
        );
        let middle = percent(f64::midpoint(from, to));
        let took = duration(steps::percentile(latency, middle) as f64);
        drawing.hint(
            from,
            to,
            &format!("{} % took at most {took}", words::percentile(middle)),
        );
    }
    html + &drawing.write()
}

/// The percentile with so many nines.
pub(super) fn percent(nines: f64) -> f64 {
    100.0 * (1.0 - 10_f64.powf(-nines))
}

/// Rate, latency and failures over time.
pub(super) fn over_time(report: &Report) -> String {
    let mut html = String::from("<h2>How the run went</h2>\n");
    let steps: Vec<Step> = steps::of(report).into_iter().filter(|step| step.whole).collect();
    if steps.len() < 2 {
        html.push_str("<p class=\"card\">The run was too short to show its course.</p>\n");
        return html;
    }
    let slice = duration(report.timeline.slice_ns as f64);
    let _ = writeln!(
        html,
        "<p class=\"note\">In slices of {slice}. Every scale of requests begins at 0; those of latency are logarithmic.</p>"
    );
    html += &stages(report);
    html += &rates(report, &steps);
    html += &latencies(report, &steps);
    html + &failures(report, &steps)
}

/// Which stages the dashed lines stand for.
fn stages(report: &Report) -> String {
    let told = |stage: &Stage| format!("{} s: {}", rate(stage.at_seconds), stage.load);
    let told: Vec<String> = report.run.stages.iter().map(told).collect();
    if told.is_empty() {
        return String::new();
    }
    let told = escape(&told.join("; "));
    format!("<p class=\"note\">Dotted lines show where a stage begins: {told}.</p>\n")
}

fn mark_stages(drawing: &mut Drawing, report: &Report) {
    // The first one begins where everything does.
    for stage in report.run.stages.iter().skip(1) {
        drawing.mark(stage.at_seconds, &stage.load);
    }
}

fn time(steps: &[Step]) -> Scale {
    let end = steps.last().map_or(0.0, |step| step.at_seconds + step.seconds);
    Scale::exact(end, |seconds| {
        let text = format!("{seconds:.2}");
        format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
    })
}

pub(super) fn middle(step: &Step) -> f64 {
    step.at_seconds + step.seconds / 2.0
}

fn rates(report: &Report, steps: &[Step]) -> String {
    let most = steps.iter().map(|step| step.per_second).fold(0.0, f64::max);
    let least = steps.iter().map(|step| step.per_second).fold(most, f64::min);
    let says = format!(
        "Requests a second over time: between {} and {}",
        rate(least),
        rate(most)
    );
    let y = Scale::linear(most, rate);
    let mut drawing = Drawing::new("Requests a second", &says, time(steps), y).low();
    mark_stages(&mut drawing, report);
    let points: Vec<_> = steps.iter().map(|step| (middle(step), step.per_second)).collect();
    drawing.area("one", &points);
    drawing.line("one", &points.iter().copied().map(Some).collect::<Vec<_>>());
    drawing.level("one", report.per_second);
    drawing.name("", &format!("mean {}", rate(report.per_second)));
    for step in steps {
        hint(&mut drawing, step, &format!("{} a second", rate(step.per_second)));
    }
    drawing.write()
}

fn latencies(report: &Report, steps: &[Step]) -> String {
    let known = || steps.iter().filter_map(|step| step.latency);
    let (Some(least), Some(most)) = (
        known().map(|latency| latency.p50).min(),
        known().map(|latency| latency.p99).max(),
    ) else {
        return String::new();
    };
    let says = format!(
        "Latency over time: median from {}, 99 % up to {}",
        duration(least as f64),
        duration(most as f64)
    );
    let y = Scale::logarithmic(least as f64, most as f64, short_duration);
    let mut drawing = Drawing::new("Latency", &says, time(steps), y).low();
    mark_stages(&mut drawing, report);
    let line = |value: fn(steps::Latency) -> u64| -> Vec<_> {
        steps
            .iter()
            .map(|step| step.latency.map(|latency| (middle(step), value(latency) as f64)))
            .collect()
    };
    drawing.line("two", &line(|latency| latency.p99));
    drawing.line("one", &line(|latency| latency.p50));
    drawing.name("one", "50 %");
    drawing.name("two", "99 %");
    for step in steps {
        let text = step.latency.map_or("nothing was answered".into(), |latency| {
            format!(
                "50 % {}, 99 % {}",
                duration(latency.p50 as f64),
                duration(latency.p99 as f64)
            )
        });
        hint(&mut drawing, step, &text);
    }
    drawing.write()
}

fn failures(report: &Report, steps: &[Step]) -> String {
    let most = steps.iter().map(|step| step.failures).max().unwrap_or_default();
    if most == 0 {
        return String::new();
    }
    let says = format!(
        "Failures over time: {} in all, at most {} in a slice",
        count(report.failed()),
        count(most)
    );
    let y = Scale::linear(most as f64, rate);
    let mut drawing = Drawing::new("Failures in a slice", &says, time(steps), y).low();
    mark_stages(&mut drawing, report);
    let boxes = steps.iter().filter(|step| step.failures > 0).map(|step| {
        let end = step.at_seconds + step.seconds;
        ((step.at_seconds, 0.0), (end, step.failures as f64))
    });
    drawing.boxes("bad", 1.0, &boxes.collect::<Vec<_>>());
    for step in steps {
        hint(&mut drawing, step, &words::several(step.failures, "failure"));
    }
    drawing.write()
}

fn hint(drawing: &mut Drawing, step: &Step, text: &str) {
    let end = step.at_seconds + step.seconds;
    drawing.hint(
        step.at_seconds,
        end,
        &format!("{:.1} to {end:.1} s: {text}", step.at_seconds),
    );
}
