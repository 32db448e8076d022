//! What must hold for a result: assertions, and a saved run to compare with. Read before the run, judged after it.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Context as _;
use forebay_load::report::{
    Report,
    assert::{self, Assertion, Measured},
    saved,
};

use super::{LoadError, arguments::Options};
use crate::{failure::UsageError, output};

/// What is told about a saved run when no assertion says more.
const COMPARED: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("max", 100.0)];

/// What must hold.
#[derive(Debug)]
pub(crate) struct Gates {
    assertions: Vec<Assertion>,
    saved: Option<Report>,
}

impl Gates {
    /// Reads assertions and the saved run.
    pub(crate) fn read(options: &Options) -> anyhow::Result<Self> {
        let mut assertions = Vec::new();
        for text in &options.assertions {
            let read = assert::parse(text).map_err(|error| UsageError(format!("--assert: {error}")))?;
            assertions.extend(read);
        }
        let saved = options.compare.as_deref().map(read).transpose()?;
        let needs_one = assertions
            .iter()
            .find(|assertion| assertion.to_string().starts_with("regression"));
        if let (Some(assertion), None) = (needs_one, &saved) {
            return Err(UsageError(format!(
                "--assert: {assertion} needs --compare FILE, the run to compare with"
            ))
            .into());
        }
        Ok(Self { assertions, saved })
    }

    /// Judges a result and says what was found, on standard error. A run that was interrupted passes: it is not what was asked for.
    pub(crate) fn judge(&self, report: &Report) -> anyhow::Result<()> {
        if let Some(saved) = &self.saved {
            output::complaint(&compared(saved, report));
        }
        if self.assertions.is_empty() {
            return Ok(());
        }
        if report.interrupted {
            output::complaint("the run was interrupted: its assertions are not judged");
            return Ok(());
        }
        let outcomes = assert::judge(&self.assertions, &Measured::new(report, self.saved.as_ref()));
        for outcome in &outcomes {
            let held = if outcome.held { "holds" } else { "does not hold" };
            output::complaint(&format!("{} {held}: {}", outcome.assertion, outcome.found));
        }
        match outcomes.iter().filter(|outcome| !outcome.held).count() {
            0 => Ok(()),
            failed => Err(LoadError::Assertions {
                failed,
                all: outcomes.len(),
            }
            .into()),
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let refused = || UsageError(format!("--compare: cannot use {}", file.display()));
    let text = fs::read_to_string(file).with_context(refused)?;
    saved::read(&text).with_context(refused)
}

/// A saved run beside this one, in a line.
fn compared(saved: &Report, report: &Report) -> String {
    let change = |now: f64, then: f64| format!("{:+.1} %", (now / then - 1.0) * 100.0);
    let rates = change(report.per_second, saved.per_second);
    let mut text = format!(
        "compared with the saved run: {:.0} answers/s, {rates}",
        report.per_second
    );
    for (name, percent) in COMPARED {
        let of = |report: &Report| report.latency_ns.value_at_percentile(percent) as f64;
        let (now, then) = (of(report), of(saved));
        if then > 0.0 {
            let _ = write!(text, "; {name} {:.3} ms, {}", now / 1e6, change(now, then));
        }
    }
    let by_noise = saved
        .rate_interval()
        .zip(report.rate_interval())
        .is_some_and(|(then, now)| then.overlaps(&now));
    if by_noise {
        text += "; the rates' intervals overlap, so noise may be all of their difference";
    }
    text
}
