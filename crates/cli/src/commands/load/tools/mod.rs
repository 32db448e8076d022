//! Command lines of other tools. A tool is a table of its flags; each says what it sets among the options of `forebay load`, or why it
//! is refused. What a tool does by default and this does otherwise is set by its table too, so that a line means here what it means there.

mod ab;
mod autocannon;
mod flags;
mod go_wrk;
mod hose;
mod jmeter;
pub(super) mod words;
mod wrk;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use forebay_load::report::style::{Extra, Style, ab::Attributes};

use self::words::{Grammar, Table};
use super::arguments::Options;

/// What only command lines of other tools can ask for.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Extras {
    /// Numbers of connections to measure one after the other.
    pub(crate) steps: Vec<usize>,
    /// Requests of each connection.
    pub(crate) loops: Option<u64>,
    /// The time in which users start.
    pub(crate) ramp_up: Option<Duration>,
    /// Time between two new connections of a thread at the start.
    pub(crate) between_connections: Option<Duration>,
    /// Until it is interrupted.
    pub(crate) forever: bool,
    /// Latencies from when a request was written, not from when it was due.
    pub(crate) raw_latency: bool,
    /// What the tool prints only when asked.
    pub(crate) more: Vec<Extra>,
    /// Milliseconds of a sample, as autocannon takes them.
    pub(crate) sample_ms: Option<u64>,
    /// Attributes of ab's HTML tables.
    pub(crate) attributes: Option<Attributes>,
    /// How much ab tells of requests and answers.
    pub(crate) verbosity: u32,
    /// The name of the server is not told in TLS handshakes.
    pub(crate) nameless: bool,
    /// User and password for the proxy.
    pub(crate) proxy_user: Option<String>,
    /// A file for percentiles in whole per cents, as ab writes it.
    pub(crate) percentages: Option<PathBuf>,
    /// A file for latencies in gnuplot's form, as ab writes it.
    pub(crate) gnuplot: Option<PathBuf>,
    /// Whether `[<id>]` is filled in.
    pub(crate) ids: bool,
    /// Whether `${sequence}` is filled in.
    pub(crate) sequence: bool,
    /// Whether a body that is not as long as the first counts as failed.
    pub(crate) same_length: bool,
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

    fn style(self) -> Style {
        match self {
            Self::Autocannon => Style::Autocannon,
            Self::Ab => Style::Ab,
            Self::Hose => Style::Hose,
            Self::GoWrk => Style::GoWrk,
            Self::Wrk => Style::Wrk,
            Self::Wrk2 => Style::Wrk2,
            Self::Jmeter => Style::Jmeter,
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
        let mut options = Options::default();
        options.forms.style = Some(self.style());
        (table.defaults)(&mut options);
        let Some(operands) = words::read(&table, words, &mut options)? else {
            return Ok(Line::Help(words::help(self.name(), &table)));
        };
        (table.finish)(&mut options, &operands)?;
        Ok(Line::Run(Box::new(options)))
    }
}

/// Operands that are one URL.
fn one_url(options: &mut Options, operands: &[String]) -> Result<(), String> {
    match operands {
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
