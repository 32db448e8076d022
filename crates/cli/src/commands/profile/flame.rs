//! Stacks as flame graphs on one page for a browser, which loads nothing, and as lines for programs that draw their own.

use std::fmt::Write as _;

use forebay_load::report::html::{escape, page};

use super::report::{Process, Report};
use crate::commands::flame_graph::{self, COLOURS, put_box};

const TITLE: &str = "Which functions take the time";
/// What is narrower, as a part of its process, is not drawn.
const DRAWN_MIN: f64 = 0.001;

/// A line for each stack: functions with semicolons between them, then microseconds.
pub(super) fn folded(report: &Report) -> String {
    let mut lines = String::new();
    for process in &report.processes {
        for stack in &process.stacks {
            lines.push_str(&process.name.replace(';', ","));
            for frame in &stack.frames {
                lines.push(';');
                lines.push_str(&frame.replace(';', ","));
            }
            // A String takes everything.
            let _ = writeln!(lines, " {}", stack.us);
        }
    }
    lines
}

/// The page of a profile.
pub(super) fn html(report: &Report, heading: &str) -> String {
    let mut body = format!(
        "<style>{}</style>\n<header>\n<h1>{TITLE}</h1>\n<p>{}</p>\n</header>\n<main>\n",
        flame_graph::STYLE,
        escape(heading)
    );
    // A String takes everything.
    for process in &report.processes {
        let _ = writeln!(body, "<h2>{}</h2>", escape(&process.heading()));
        body.push_str(&flame(process));
    }
    for unseen in &report.unseen {
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&unseen.text()));
    }
    body.push_str(
        "<p class=\"note\">A box is a function, as wide as the time that was spent in it and in what it called, which stands below it: CPU time of the server; of a worker, the time in which its thread was not idle, also where it stood still. Whatever took less than a thousandth is not drawn.</p>\n</main>\n",
    );
    page(TITLE, &body)
}

/// A function where it was called from.
#[derive(Debug, Default)]
struct Call<'t> {
    name: &'t str,
    us: u64,
    calls: Vec<Self>,
}

impl<'t> Call<'t> {
    fn add(&mut self, frames: &'t [String], us: u64) {
        let mut at = self;
        at.us += us;
        for frame in frames {
            let known = at.calls.iter().position(|call| call.name == frame);
            let index = known.unwrap_or_else(|| {
                at.calls.push(Call {
                    name: frame,
                    ..Call::default()
                });
                at.calls.len() - 1
            });
            at = &mut at.calls[index];
            at.us += us;
        }
    }

    /// Its box, and those of what it called in the rows below.
    fn draw(&self, depth: usize, from: f64, whole: f64, rows: &mut Vec<String>) {
        let share = self.us as f64 / whole;
        if share < DRAWN_MIN {
            return;
        }
        if rows.len() == depth {
            rows.push(String::new());
        }
        let report = format!(
            "{}: {:.1} ms, {:.1} %",
            self.name,
            self.us as f64 / 1e3,
            share * 100.0
        );
        put_box(
            &mut rows[depth],
            colour(self.name),
            from,
            share,
            &report,
            self.name,
        );
        let mut at = from;
        let mut calls: Vec<&Self> = self.calls.iter().collect();
        calls.sort_by(|a, b| a.name.cmp(b.name));
        for call in calls {
            call.draw(depth + 1, at, whole, rows);
            at += call.us as f64 / whole;
        }
    }
}

fn flame(process: &Process) -> String {
    if process.stacks.is_empty() {
        return "<p>No function was seen.</p>\n".to_owned();
    }
    let mut all = Call {
        name: &process.name,
        ..Call::default()
    };
    for stack in &process.stacks {
        all.add(&stack.frames, stack.us);
    }
    let mut rows = Vec::new();
    all.draw(0, 0.0, (all.us as f64).max(1.0), &mut rows);
    flame_graph::figure("", &rows)
}

/// Each function has its own by its name, on every page.
fn colour(name: &str) -> &'static str {
    let sum = name.bytes().fold(0_usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    COLOURS[sum % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::{super::functions::tests::report, *};

    #[test]
    fn a_page_has_all_it_needs_and_escapes_what_comes_from_outside() {
        let html = html(&report(), "GET /<script>");
        for outside in ["<script", "src=\"", "href=", "url(", "<b>"] {
            assert!(!html.contains(outside), "{outside} in {html}");
        }
        assert!(html.contains("title=\"read: 600.0 ms, 60.0 %\""), "{html}");
        assert!(html.contains("title=\"poll: 600.0 ms, 60.0 %\""), "{html}");
        assert!(html.contains("handle &lt;b&gt; a.mjs:3"), "{html}");
    }

    #[test]
    fn a_folded_line_has_a_stack_and_its_time() {
        let folded = folded(&report());
        assert!(
            folded.starts_with("server;io-0;main;poll;read 600000\n"),
            "{folded}"
        );
        assert_eq!(folded.lines().count(), 4);
    }
}
