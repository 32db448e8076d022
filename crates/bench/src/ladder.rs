//! The ladder: each way of answering a request beside the one that it is built on, and beside the programs that one would use instead. A
//! server of this version and the peers run side by side, and are loaded in turns.

mod contender;
mod html;
mod json;
mod markdown;
mod place;
mod report;
mod run;
mod saved;
mod site;
mod slice;
mod suite;
mod text;

use std::{io, path::PathBuf};

pub use self::{
    html::write as html,
    json::write as json,
    markdown::{MarkdownError, renew},
    report::{Compared, ComparedTable, MeasuredCurve, Point, Report, Row, Verdict},
    run::{Event, Settings, run},
    saved::{Best, Saved, Slice},
    suite::{Bar, Curve, Entry, Figure, Limit, Measure, Published, Suite, Table},
    text::{environment, write as text},
};

/// Why there is no ladder.
#[derive(Debug, thiserror::Error)]
pub enum LadderError {
    /// No entry has this name.
    #[error("there is no entry {name:?} in the ladder; there are {known}")]
    Unknown {
        /// The name as given.
        name: String,
        /// All names.
        known: String,
    },
    /// A file cannot be read, written or run.
    #[error("{}", path.display())]
    Files {
        /// Path of the file or program.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server under test does not serve.
    #[error("the server does not start: {0}")]
    Server(String),
    /// The saved run has other settings.
    #[error("{} has a run with other settings ({other}) than these ({told}); name another file", path.display())]
    Other {
        /// Path of the saved run.
        path: PathBuf,
        /// Settings of the saved run.
        other: String,
        /// The settings of this run.
        told: String,
    },
    /// The file is no saved run.
    #[error("{} is not a saved run; name another file", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file has something else in it.
    #[error("{} is not a saved run: line {line}: {error}", path.display())]
    NotSaved {
        /// Path of the file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's error.
        error: serde_json::Error,
    },
}
