//! A finished run in the words of another tool, for people and scripts that know that tool's output. A [`Report`] goes in; the
//! tool's text comes out, with its units, rounding and column widths. Each module below holds one format and says which version of
//! which tool it is and where the format is written down.
//!
//! No figure is invented. Where a tool shows what a report does not have, the module says from what it is derived, or writes what
//! the tool itself writes when it has nothing. The figures are Forebay's own: latency is measured as Forebay measures it, without
//! the corrections that some of these tools make unasked. Text from outside cannot steer a terminal.
//!
//! Some formats have no place for a figure: wrk, ab and hose say nothing of requests that an open load dropped, and none knows
//! whether a run was interrupted. The report's other forms do.

pub mod ab;
mod autocannon;
mod bombardier;
mod figures;
mod go_wrk;
mod hey;
mod hose;
pub mod jmeter;
mod oha;
mod table;
mod units;
mod vegeta;
mod wrk;
mod wrk2;

#[cfg(test)]
mod golden;

use std::{
    io::{self, Write},
    str::FromStr,
};

use super::{Report, Run};

/// Most characters of an example or a name from outside.
const TEXT_MAX: usize = 160;

/// A tool whose output is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// autocannon: tables on standard error, or JSON on standard output.
    Autocannon,
    /// `ApacheBench`.
    Ab,
    /// wrk.
    Wrk,
    /// wrk2.
    Wrk2,
    /// hose, which later became perfer.
    Hose,
    /// go-wrk.
    GoWrk,
    /// The Summary Report of `JMeter`.
    Jmeter,
    /// oha.
    Oha,
    /// hey.
    Hey,
    /// bombardier.
    Bombardier,
    /// vegeta.
    Vegeta,
}

impl Style {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 11] = [
        Self::Autocannon,
        Self::Ab,
        Self::Wrk,
        Self::Wrk2,
        Self::Hose,
        Self::GoWrk,
        Self::Jmeter,
        Self::Oha,
        Self::Hey,
        Self::Bombardier,
        Self::Vegeta,
    ];

    /// The name on the command line, such as `go-wrk`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Autocannon => "autocannon",
            Self::Ab => "ab",
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::Hose => "hose",
            Self::GoWrk => "go-wrk",
            Self::Jmeter => "jmeter",
            Self::Oha => "oha",
            Self::Hey => "hey",
            Self::Bombardier => "bombardier",
            Self::Vegeta => "vegeta",
        }
    }
}

impl std::fmt::Display for Style {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Style {
    type Err = StyleError;

    fn from_str(text: &str) -> Result<Self, StyleError> {
        let found = Self::ALL.into_iter().find(|style| style.name() == text);
        found.ok_or_else(|| StyleError::Unknown {
            text: text.to_owned(),
        })
    }
}

/// Why a style cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StyleError {
    /// A name that no style has.
    #[error("there is no style `{text}`; accepted are {}", Style::ALL.map(Style::name).join(", "))]
    Unknown {
        /// What was given.
        text: String,
    },
}

/// What a tool writes only when it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extra {
    /// The distribution of latency: `-l` of autocannon and bombardier, `--latency` of wrk and wrk2.
    Latency,
    /// The latency from when a request was sent, besides that from when it was due: `-U` of wrk2.
    Uncorrected,
    /// The table of statuses: `--renderStatusCodes` of autocannon.
    Statuses,
    /// The form for programs instead of the one for people: JSON of autocannon (`-j`), CSV of `JMeter`, HTML tables of ab (`-w`).
    Machine,
    /// Percentiles of autocannon in hundredths of a millisecond. That tool cuts them to whole ones.
    Hundredths,
    /// Answers may differ in length: `-l` of ab.
    AnyLength,
    /// No percentages: `-d` of ab.
    NoPercentages,
    /// No medians and deviations: `-S` of ab.
    NoDeviations,
    /// How many answers had the text that was looked for: `-s` of go-wrk.
    Matches,
}

/// How a tool's output is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyleOptions {
    /// What is written besides the usual. What a style does not know, it ignores.
    pub extras: Vec<Extra>,
    /// Whether [`announce`] has written what the tool writes before a run. Otherwise [`write`] does.
    pub announced: bool,
    /// Milliseconds of a sample of autocannon (`-L`); 1000 if not given.
    pub sample_ms: Option<u64>,
    /// Attributes of ab's HTML tables.
    pub attributes: Option<ab::Attributes>,
    /// How much ab tells of requests and answers (`-v`).
    pub verbosity: u32,
    /// A request as it is sent, if it is known; ab shows it from verbosity 2 on.
    pub request: String,
}

impl StyleOptions {
    fn has(&self, extra: Extra) -> bool {
        self.extras.contains(&extra)
    }
}

/// Writes what a tool writes before a run.
pub fn announce(
    style: Style,
    run: &Run,
    options: &StyleOptions,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> io::Result<()> {
    match style {
        Style::Autocannon => autocannon::announce(run, options, stderr),
        Style::Ab => ab::announce(run, options, stdout),
        Style::Wrk | Style::Wrk2 => wrk::announce(run, stdout),
        Style::Bombardier => bombardier::announce(run, stdout),
        Style::Hose | Style::GoWrk | Style::Jmeter | Style::Oha | Style::Hey | Style::Vegeta => Ok(()),
    }
}

/// Writes a run as a tool does: most to standard output, autocannon its tables to standard error.
pub fn write(
    style: Style,
    report: &Report,
    options: &StyleOptions,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> io::Result<()> {
    if !options.announced {
        announce(style, &report.run, options, stdout, stderr)?;
    }
    match style {
        Style::Autocannon => autocannon::write(report, options, stdout, stderr),
        Style::Ab => ab::write(report, options, stdout, stderr),
        Style::Wrk => wrk::write(report, options, stdout),
        Style::Wrk2 => wrk2::write(report, options, stdout),
        Style::Hose => hose::write(report, stdout),
        Style::GoWrk => go_wrk::write(report, options, stdout),
        Style::Jmeter => jmeter::write(report, options, stdout),
        Style::Oha => oha::write(report, stdout),
        Style::Hey => hey::write(report, stdout),
        Style::Bombardier => bombardier::write(report, options, stdout),
        Style::Vegeta => vegeta::write(report, stdout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_found_by_its_name() {
        for style in Style::ALL {
            assert_eq!(style.to_string().parse(), Ok(style));
        }
    }

    #[test]
    fn an_unknown_style_is_refused_with_the_names_that_there_are() {
        let error = "perfer".parse::<Style>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no style `perfer`; accepted are autocannon, ab, wrk, wrk2, hose, go-wrk, jmeter, oha, hey, bombardier, \
             vegeta"
        );
    }
}
