//! Errors of exports and imports.

use std::io;

use crate::{error::StoreError, json::JsonError, key::KeyError};

/// Why an export or import failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export's output failed.
    #[error("cannot write the export")]
    Write(#[source] io::Error),
    /// The import's input failed.
    #[error("cannot read line {line}; the lines up to {committed} are in the store")]
    Read {
        /// Line number, from 1.
        line: u64,
        /// Last line whose effect is in the store.
        committed: u64,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A malformed line.
    #[error("line {line}: {reason}; the lines up to {committed} are in the store")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// Last line whose effect is in the store.
        committed: u64,
        /// Why the line is rejected.
        reason: LineError,
    },
    /// A global whose name is not valid in M.
    #[error(
        "global `{name}` cannot be written as ZWR: M names are `%` or a letter, then letters and digits, at most 31"
    )]
    NotAnMName {
        /// Name of the global.
        name: String,
    },
}

impl From<KeyError> for TransferError {
    fn from(error: KeyError) -> Self {
        Self::Store(error.into())
    }
}

/// Why a line of an import is rejected.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line does not have the syntax of this format.
    #[error("{reason} at byte {offset}")]
    Form {
        /// Byte offset in the line, from 0.
        offset: usize,
        /// Description of the error.
        reason: &'static str,
    },
    /// It is longer than any valid line can be.
    #[error("it has more than {max} bytes")]
    TooLong {
        /// Longest line, in bytes.
        max: usize,
    },
    /// A member that lines of this format do not have.
    #[error(
        "`{name}` is no member of such a line: `path` with `value`, `document`, `array` or `expires`; or `index`"
    )]
    Member {
        /// Name of the member.
        name: String,
    },
    /// Bytes that are not UTF-8.
    #[error("it has bytes that are not UTF-8, which no string of JSON can hold")]
    NotText,
    /// The input is in neither format.
    #[error(
        "this is neither NDJSON (a line begins with `{{`) nor ZWR (two lines of heading, the second with `ZWR` at its end)"
    )]
    UnknownFormat,
    /// An expiry time for a node that does not exist.
    #[error("there is no such node to end at a time")]
    NoNode,
    /// More globals than one import can replace.
    #[error("more than {max} globals are to be replaced")]
    TooManyGlobals {
        /// Most globals that one import can replace.
        max: usize,
    },
    /// An invalid subscript.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An invalid value.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The store rejected the line.
    #[error(transparent)]
    Store(#[from] StoreError),
}
