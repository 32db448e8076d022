//! A report as one HTML page, in the style of `forebay load`.

use forebay_load::report::{
    format::{rate, several},
    html::{
        chart::{Drawing, Scale},
        lines, page,
    },
};

use super::{Best, Report, text};

/// CSS classes of the contenders' curves.
const CLASSES: [&str; 8] = [
    "run c1", "run c2", "run c3", "run c4", "run c5", "run c6", "run c7", "run c8",
];

/// The report as an HTML page.
pub fn write(report: &Report) -> String {
    let body = format!(
        "<main>\n<h1>forebay bench pool</h1>\n{}{}</main>\n",
        lines(&text::write(report)),
        curves(report)
    );
    page("forebay bench pool", &body)
}

/// The result of a sweep over worker counts, in one sentence.
pub(super) fn verdict(best: &Best) -> String {
    let enough = if best.enough == best.workers {
        String::new()
    } else {
        let are = if best.enough == 1 { "is" } else { "are" };
        format!("; {} {are} enough for nine tenths of it", best.enough)
    };
    format!(
        "best with {}: {}/s{enough}; the worst size has {:.0} % of it",
        several(best.workers as u64, "worker"),
        rate(best.rate),
        best.lowest_share * 100.0
    )
}

fn curves(report: &Report) -> String {
    let drawn: Vec<_> = report
        .suite
        .contenders
        .iter()
        .zip(CLASSES)
        .filter_map(|(contender, class)| Some((contender, class, report.best(*contender)?)))
        .collect();
    let Some(highest) = drawn.iter().map(|(_, _, best)| best.rate).reduce(f64::max) else {
        return String::new();
    };
    let most = report.suite.workers.iter().copied().max().unwrap_or(1);
    let mut drawing = Drawing::new(
        "Messages a second by number of workers",
        "Messages a second by number of workers",
        Scale::linear(most as f64, |value| format!("{value}")),
        Scale::linear(highest, rate),
    );
    for (contender, class, _) in &drawn {
        let points: Vec<_> = report
            .curve(**contender)
            .iter()
            .map(|(workers, rate)| (*workers as f64, *rate))
            .collect();
        drawing.name(class, &contender.name());
        drawing.line(class, &points);
    }
    format!("<h2>How many workers</h2>\n{}", drawing.write())
}
