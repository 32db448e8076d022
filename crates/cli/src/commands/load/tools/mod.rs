//! Command lines of other tools. A tool is a table of its flags; each says what it sets among the options of `forebay load`, or why it
//! is refused. What a tool does by default and this does otherwise is set by its table too, so that a line means here what it means there.

mod ab;
mod autocannon;
mod go_wrk;
mod hose;
mod jmeter;
mod words;
mod wrk;

use std::ffi::OsString;

use self::words::{Grammar, Table};
use super::arguments::{Options, StyleName};

/// What only command lines of other tools can ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Extras {
    /// Failures after which the run ends.
    pub(crate) failures_max: Option<u64>,
    /// Numbers of connections to measure one after the other.
    pub(crate) steps: Vec<usize>,
    /// Requests of each connection.
    pub(crate) loops: Option<u64>,
    /// Until it is interrupted.
    pub(crate) forever: bool,
    /// Latencies from when a request was written, not from when it was due.
    pub(crate) raw_latency: bool,
    /// Ask the tool's own way of printing for more of it.
    pub(crate) detailed: bool,
    /// Print statuses too, where the tool does that only when asked.
    pub(crate) statuses: bool,
    /// Print the result as the tool's JSON.
    pub(crate) json: bool,
    /// A whole request as it goes over the wire.
    pub(crate) raw_request: Option<std::path::PathBuf>,
    /// `user:password` for Basic authentication.
    pub(crate) user: Option<String>,
    /// The name for TLS, if not the URL's host.
    pub(crate) server_name: Option<String>,
    /// What to tell on standard error before the run.
    pub(crate) notes: Vec<String>,
}

/// What a tool's command line asks for.
#[derive(Debug)]
pub(crate) enum Line {
    /// A run.
    Run(Box<Options>),
    /// Its help.
    Help(String),
}

/// A tool whose command lines are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Autocannon,
    Ab,
    Hose,
    GoWrk,
    Wrk,
    Wrk2,
    Jmeter,
}

impl Tool {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 7] = [
        Self::Autocannon,
        Self::Ab,
        Self::Hose,
        Self::GoWrk,
        Self::Wrk,
        Self::Wrk2,
        Self::Jmeter,
    ];

    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Autocannon => "autocannon",
            Self::Ab => "ab",
            Self::Hose => "hose",
            Self::GoWrk => "go-wrk",
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::Jmeter => "jmeter",
        }
    }

    fn style(self) -> StyleName {
        match self {
            Self::Autocannon => StyleName::Autocannon,
            Self::Ab => StyleName::Ab,
            Self::Hose => StyleName::Hose,
            Self::GoWrk => StyleName::GoWrk,
            Self::Wrk => StyleName::Wrk,
            Self::Wrk2 => StyleName::Wrk2,
            Self::Jmeter => StyleName::Jmeter,
        }
    }

    pub(super) fn table(self) -> Table {
        match self {
            Self::Autocannon => autocannon::TABLE,
            Self::Ab => ab::TABLE,
            Self::Hose => hose::TABLE,
            Self::GoWrk => go_wrk::TABLE,
            Self::Wrk => wrk::TABLE,
            Self::Wrk2 => wrk::TABLE_2,
            Self::Jmeter => jmeter::TABLE,
        }
    }

    /// Reads its command line, without the tool's name.
    pub(crate) fn read(self, words: &[OsString]) -> Result<Line, String> {
        let table = self.table();
        let mut options = Options {
            style: Some(self.style()),
            ..Options::default()
        };
        (table.defaults)(&mut options);
        let Some(operands) = words::read(&table, words, &mut options)? else {
            return Ok(Line::Help(words::help(self.name(), &table)));
        };
        (table.finish)(&mut options, operands)?;
        Ok(Line::Run(Box::new(options)))
    }
}

/// Operands that are one URL.
fn one_url(options: &mut Options, operands: Vec<String>) -> Result<(), String> {
    match operands.as_slice() {
        [url] => {
            options.url.push(url.clone());
            Ok(())
        }
        [] => Err("a URL is missing, such as http://localhost:8080/".to_owned()),
        [_, other, ..] => Err(format!("found {other:?} after the URL, expected nothing more")),
    }
}

#[cfg(test)]
mod tests;
