//! Progress of a measurement: on a terminal a line that is redrawn in place; elsewhere a line for each measurement. The lines of `QOper8`'s
//! benchmark are part of the result.

use forebay_bench::pool::SuiteEvent;
use forebay_load::report::format::{count, plain, rate};

use crate::output::{self, OutputError};

/// Most characters shown of a text that a foreign pool has printed.
const STRAY_MAX: usize = 500;
/// Returns to the start of the line and clears it (ECMA-48: EL).
const ERASE: &str = "\r\x1b[K";

/// Shows the progress.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    /// Whether standard output still accepts lines.
    lines: bool,
    drawn: bool,
    what: String,
    failed: Option<OutputError>,
}

impl Progress {
    pub(crate) fn new(quiet: bool, lines: bool) -> Self {
        Self {
            quiet,
            lines,
            drawn: false,
            what: String::new(),
            failed: None,
        }
    }

    pub(crate) fn hear(&mut self, news: SuiteEvent<'_>) {
        match news {
            SuiteEvent::Begins { name, number, of } => {
                self.what = format!("{number} of {of}: {name}");
                self.draw(&self.what.clone());
            }
            SuiteEvent::Progress {
                warming_up,
                answered,
                messages,
            } => {
                let part = if warming_up { ", warming up" } else { "" };
                self.draw(&format!(
                    "{}{part}, {} of {}",
                    self.what,
                    count(answered),
                    count(messages)
                ));
            }
            SuiteEvent::Line(line) => {
                self.erase();
                if !self.lines {
                    output::complaint(line);
                } else if let Err(error) = output::line(line) {
                    self.failed.get_or_insert(error);
                }
            }
            SuiteEvent::Stray(line) => {
                self.erase();
                output::complaint(&plain(line, STRAY_MAX));
            }
            SuiteEvent::Ends { outcome } => {
                self.erase();
                if self.quiet {
                    return;
                }
                match outcome {
                    Ok(outcome) => {
                        output::complaint(&format!("{}: {} messages/s", self.what, rate(outcome.rate)));
                    }
                    // The error text comes from a foreign pool.
                    Err(error) => output::complaint(&plain(&format!("{}: {error}", self.what), STRAY_MAX)),
                }
            }
        }
    }

    /// Fails if standard output did not accept a line.
    pub(crate) fn end(mut self) -> Result<(), OutputError> {
        self.erase();
        self.failed.map_or(Ok(()), Err)
    }

    fn draw(&mut self, text: &str) {
        if !self.quiet && output::has_pictures() {
            output::picture(&format!("{ERASE}{text}"));
            self.drawn = true;
        }
    }

    fn erase(&mut self) {
        if self.drawn {
            output::picture(ERASE);
            self.drawn = false;
        }
    }
}
