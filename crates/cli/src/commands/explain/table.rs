//! Samples as a table, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    phases::{Figures, PHASES, RouteSummary, Summary},
    timeline::us,
};

/// A table for each route.
pub(super) fn text(summary: &Summary) -> String {
    if summary.routes.is_empty() {
        return "no request came: `forebay load URL` in another terminal sends some\n".to_owned();
    }
    let mut text = String::new();
    for route in &summary.routes {
        put(&mut text, route);
        text.push('\n');
    }
    text.push_str(&remarks(summary));
    text
}

/// What is to be known of the samples as a whole, in lines.
pub(super) fn remarks(summary: &Summary) -> String {
    let kept: usize = summary.routes.iter().map(|route| route.samples).sum();
    let mut text = format!(
        "{kept} of {} requests, chosen at random. Times are the server's own: from the moment the request was there to be read until its answer was written.\n",
        summary.seen
    );
    if summary.left_out > 0 {
        // A String takes everything.
        let _ = writeln!(
            text,
            "{} samples had more spans than there was room for: requests with many statements are too few here.",
            summary.left_out
        );
    }
    text
}

fn put(text: &mut String, route: &RouteSummary) {
    let Figures { mean, p50, p99 } = route.total;
    // A String takes everything.
    let _ = writeln!(
        text,
        "{}: {} samples, {:.1} statements each\n",
        route.name, route.samples, route.statements
    );
    let _ = writeln!(
        text,
        "{:<13}  {:>6}  {:>10}  {:>10}  {:>10}",
        "PHASE", "SHARE", "MEAN", "P50", "P99"
    );
    for (phase, figures) in PHASES.iter().zip(&route.phases) {
        if figures.mean > 0.0 {
            let share = figures.mean / mean * 100.0;
            let _ = writeln!(
                text,
                "{:<13}  {share:>4.1} %  {:>10}  {:>10}  {:>10}",
                phase.name,
                us(figures.mean),
                us(figures.p50),
                us(figures.p99)
            );
        }
    }
    let _ = writeln!(
        text,
        "{:<13}  {:>6}  {:>10}  {:>10}  {:>10}",
        "all",
        "100 %",
        us(mean),
        us(p50),
        us(p99)
    );
}

/// The same for programs.
pub(super) fn json(summary: &Summary) -> Value {
    let figures =
        |Figures { mean, p50, p99 }: Figures| json!({ "mean_us": mean, "p50_us": p50, "p99_us": p99 });
    let routes: Vec<Value> = summary
        .routes
        .iter()
        .map(|route| {
            let phases: serde_json::Map<String, Value> = PHASES
                .iter()
                .zip(route.phases)
                .map(|(phase, of)| (phase.name.to_owned(), figures(of)))
                .collect();
            json!({
                "route": route.name, "samples": route.samples, "statements": route.statements,
                "total": figures(route.total), "phases": phases,
            })
        })
        .collect();
    json!({ "seen": summary.seen, "left_out": summary.left_out, "routes": routes })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{phases::tests::report, report::Sampled},
        *,
    };

    fn summary() -> Summary {
        Summary::of(&Sampled {
            seen: 3,
            left_out: 1,
            samples: vec![report(), report()],
        })
    }

    #[test]
    fn a_table_has_a_line_for_each_phase_that_took_any_time() {
        let text = text(&summary());
        assert!(
            text.starts_with("/queries2: 2 samples, 2.0 statements each\n"),
            "{text}"
        );
        assert!(
            text.contains("\nsql server     45.0 %      450 us      450 us      450 us\n"),
            "{text}"
        );
        assert!(
            text.contains("\nall             100 %     1000 us     1000 us     1000 us\n"),
            "{text}"
        );
        assert!(!text.contains("\nhandler "), "{text}");
        assert!(
            text.contains("2 of 3 requests") && text.contains("1 samples had more"),
            "{text}"
        );
        let none = Summary::of(&Sampled {
            seen: 0,
            left_out: 0,
            samples: Vec::new(),
        });
        assert!(super::text(&none).starts_with("no request came"));
    }

    #[test]
    fn json_has_all_phases() {
        let json = json(&summary());
        assert_eq!(json["routes"][0]["phases"]["sql server"]["p99_us"], 450.0);
        assert_eq!(json["routes"][0]["phases"]["handler"]["mean_us"], 0.0);
        assert_eq!(
            (&json["seen"], &json["routes"][0]["total"]["mean_us"]),
            (&json!(3), &json!(1000.0))
        );
    }
}
