//! Why a transfer ends early.

use std::io;

use crate::{error::StoreError, json::JsonError, key::KeyError};

/// Why an export or import did not get to its end.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store cannot be read, or not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export's lines are not taken.
    #[error("cannot write the export")]
    Write(#[source] io::Error),
    /// The import's lines cannot be read.
    #[error("cannot read line {line}; the lines up to {committed} are in the store")]
    Read {
        /// The line, counted from 1.
        line: u64,
        /// The last line that is in the store.
        committed: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line that says nothing that can be stored.
    #[error("line {line}: {reason}; the lines up to {committed} are in the store")]
    Line {
        /// The line, counted from 1.
        line: u64,
        /// The last line that is in the store.
        committed: u64,
        /// What is wrong with it.
        reason: LineError,
    },
    /// A global that M has no name for.
    #[error(
        "global `{name}` cannot be written as ZWR: M names are `%` or a letter, then letters and digits, at most 31"
    )]
    NotAnMName {
        /// Its name.
        name: String,
    },
}

impl From<KeyError> for TransferError {
    fn from(error: KeyError) -> Self {
        Self::Store(error.into())
    }
}

/// What is wrong with a line of an import.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is not what lines of this format look like.
    #[error("{reason} at byte {offset}")]
    Form {
        /// Where in the line, counted from 0.
        offset: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// It is longer than any line can be that says something.
    #[error("it has more than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// A member that lines do not have.
    #[error(
        "`{name}` is no member of such a line: `path` with `value`, `document`, `array` or `expires`; or `index`"
    )]
    Member {
        /// Its name.
        name: String,
    },
    /// Bytes that are not text.
    #[error("it has bytes that are not UTF-8, which no string of JSON can hold")]
    NotText,
    /// Not a file of this format at all.
    #[error(
        "this is neither NDJSON (a line begins with `{{`) nor ZWR (two lines of heading, the second with `ZWR` at its end)"
    )]
    UnknownFormat,
    /// A time for nothing.
    #[error("there is no such node to end at a time")]
    NoNode,
    /// More globals than are remembered.
    #[error("more than {max} globals are to be replaced")]
    TooManyGlobals {
        /// The limit.
        max: usize,
    },
    /// A subscript that cannot be.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A value that cannot be.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// What the store says to it.
    #[error(transparent)]
    Store(#[from] StoreError),
}
