//! Errors of records and statements.

use std::{fmt, time::Duration};

use forebay_store::{KeyError, StoreError};

use crate::{
    permission::{Action, Denial},
    reference::Reference,
};

/// Position in a statement: line and column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line number, from 1.
    pub line: usize,
    /// Column in the line, from 1, in characters.
    pub column: usize,
}

impl Position {
    /// Position of a byte offset in a text.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}", self.line, self.column)
    }
}

/// A statement that is malformed or meaningless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({position})")]
pub struct StatementError {
    /// Where the error was found.
    pub position: Position,
    /// Description of the error, and what would be accepted.
    pub what: String,
    /// Whether the text is not TQL at all; otherwise it is well-formed, but asks for something impossible.
    pub syntax: bool,
}

/// Why an operation on records failed. Nothing has been changed then, except after a [`RecordsError::Store`] in the
/// middle of a transaction, which can only be rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An invalid statement.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// A record that is not a JSON object.
    #[error("a record is a JSON object, found {found}")]
    NotAnObject {
        /// Beginning of the value found.
        found: String,
    },
    /// A kind that is not a string.
    #[error("the kind of a record (`{type_key}`) is a text, found {found}")]
    KindNotText {
        /// Name of the member that holds the kind.
        type_key: String,
        /// Beginning of the value found.
        found: String,
    },
    /// A kind that cannot be the name of a global.
    #[error("{name:?} cannot be a kind: {reason}")]
    KindName {
        /// The rejected kind.
        name: String,
        /// Why it is not a valid kind.
        reason: String,
    },
    /// A reference without a record, or without one of the expected kind.
    #[error("there is no record {reference}{}", of_kind(kind.as_ref()))]
    NoRecord {
        /// The reference that was looked up.
        reference: Reference,
        /// The expected kind.
        kind: Option<String>,
    },
    /// A name without a record.
    #[error("there is no record named `{name}`")]
    NoName {
        /// The name that was looked up.
        name: String,
    },
    /// An INSERT whose WHERE matches a record.
    #[error("already exists: record {reference} matches")]
    AlreadyExists {
        /// The first match.
        reference: Reference,
    },
    /// An UPDATE whose LIMIT is less than its number of matches.
    #[error("more than {limit} match, and LIMIT {limit} allows no more to be updated; nothing was done")]
    LimitExceeded {
        /// The statement's LIMIT.
        limit: u64,
    },
    /// A kind that the caller may not read or write.
    #[error("{}", denied(kind, *action, *denial))]
    Denied {
        /// The kind in question.
        kind: String,
        /// The attempted action.
        action: Action,
        /// Why it is denied.
        denial: Denial,
    },
    /// A record of a kind that requires a token the caller does not have.
    #[error("{}", record_denied(*reference, *action, *denial))]
    RecordDenied {
        /// The reference that was looked up.
        reference: Reference,
        /// The attempted action.
        action: Action,
        /// Why it is denied.
        denial: Denial,
    },
    /// A statement that examines too many records.
    #[error(
        "the statement examines more than {max} records (records.examined_max); an index, or a narrower WHERE, has it examine fewer"
    )]
    ExaminedMax {
        /// The limit, [`Settings::examined_max`](crate::Settings::examined_max).
        max: u64,
    },
    /// A record too long for everything that the statement examines in it.
    #[error(
        "record {reference} is too long for this statement: functions, patterns and SELECT together look at more than {max} bytes of it"
    )]
    WorkMax {
        /// Reference of the record.
        reference: Reference,
        /// Most bytes that the statement may examine, which grows with the record.
        max: usize,
    },
    /// A page too far from the beginning of a list.
    #[error(
        "page {page} of {size} records each passes over more than {max} records; `after` goes on behind a reference"
    )]
    PageMax {
        /// Number of the page.
        page: u64,
        /// Records per page.
        size: u64,
        /// Most records that a list may skip.
        max: u64,
    },
    /// A statement that changes too many records, or parts of records.
    #[error(
        "the statement changes more than {max} records or parts of them (records.rows_max); nothing was changed"
    )]
    RowsMax {
        /// The limit, [`Settings::rows_max`](crate::Settings::rows_max).
        max: u64,
    },
    /// A statement whose answer, or intermediate result, is too long.
    #[error("the answer has more than {max} bytes (records.answer_bytes_max)")]
    AnswerBytesMax {
        /// The limit, [`Settings::answer_bytes_max`](crate::Settings::answer_bytes_max).
        max: usize,
    },
    /// A statement that blocks other writers for too long.
    #[error(
        "the statement takes longer than {max:?} to find and change what it concerns (records.change_time_max); nothing was changed"
    )]
    ChangeTimeMax {
        /// The limit, [`Settings::change_time_max`](crate::Settings::change_time_max).
        max: Duration,
    },
    /// A statement that was not finished by its deadline.
    #[error("the statement was not done by its deadline; nothing was changed")]
    DeadlinePassed,
    /// A cursor of another statement, or of a plan that has changed since.
    #[error(
        "the cursor does not belong to this statement as it is planned now; begin again with an empty one"
    )]
    Cursor,
    /// A record whose place is taken by something that was not created as a record.
    #[error("{kind} has something at {reference} that was not made as a record; nothing was changed")]
    ReferenceTaken {
        /// Reference that the record would have.
        reference: Reference,
        /// Kind that it would have.
        kind: String,
    },
    /// References are exhausted.
    #[error("no reference is left after {last}")]
    NoReferenceLeft {
        /// The last reference in the directory.
        last: String,
    },
}

impl From<KeyError> for RecordsError {
    fn from(error: KeyError) -> Self {
        Self::Store(error.into())
    }
}

fn of_kind(kind: Option<&String>) -> String {
    kind.map(|kind| format!(" of kind {kind}")).unwrap_or_default()
}

fn denied(kind: &str, action: Action, denial: Denial) -> String {
    let action = action.name();
    match denial {
        Denial::Nobody => format!("no one may {action} records of kind {kind} here (store.access)"),
        Denial::TokenNeeded => format!("a bearer token is needed to {action} records of kind {kind}"),
        Denial::WrongToken => format!("this token may not {action} records of kind {kind}"),
    }
}

fn record_denied(reference: Reference, action: Action, denial: Denial) -> String {
    let action = action.name();
    match denial {
        Denial::Nobody => format!("no one may {action} record {reference} here"),
        Denial::TokenNeeded => format!("a bearer token is needed to {action} record {reference}"),
        Denial::WrongToken => format!("this token may not {action} record {reference}"),
    }
}

impl RecordsError {
    /// Numeric code of the error in TQL answers: 17 and 166 as in the original language, -1 for any other.
    pub fn code(&self) -> i32 {
        match self {
            Self::AlreadyExists { .. } => 17,
            Self::NoRecord { .. } | Self::NoName { .. } => 166,
            _ => -1,
        }
    }

    /// Whether the caller's input was rejected without any change, so that a transaction can continue.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Store(error) => error.is_input(),
            _ => true,
        }
    }
}

/// Beginning of a text, for error messages.
pub(crate) fn beginning(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into_owned(),
    }
}
