//! Everything that can fail here.

use std::{fmt, time::Duration};

use forebay_store::{KeyError, StoreError};

use crate::{
    permission::{Action, Denial},
    reference::Reference,
};

/// Where in a statement, both counted from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column in it.
    pub column: usize,
}

impl Position {
    /// The position of a byte of a text.
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

/// A statement that cannot be read, or that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({position})")]
pub struct StatementError {
    /// Where.
    pub position: Position,
    /// What is wrong there and what is accepted.
    pub what: String,
    /// Whether the text is not TQL at all; otherwise it is, and asks for what cannot be.
    pub syntax: bool,
}

/// Why something was not done with records. Nothing has been changed then, unless it is a [`RecordsError::Store`] in the middle of a
/// transaction, which can only be rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A statement that is not one.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// Something other than an object where a record is.
    #[error("a record is a JSON object, found {found}")]
    NotAnObject {
        /// The beginning of it.
        found: String,
    },
    /// A kind that is no text.
    #[error("the kind of a record (`{type_key}`) is a text, found {found}")]
    KindNotText {
        /// The member that says the kind.
        type_key: String,
        /// The beginning of what is there.
        found: String,
    },
    /// A kind that cannot be the name of a global.
    #[error("{name:?} cannot be a kind: {reason}")]
    KindName {
        /// The kind.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A reference that no record has, or none of that kind.
    #[error("there is no record {reference}{}", of_kind(kind.as_ref()))]
    NoRecord {
        /// The reference.
        reference: Reference,
        /// The kind that it should have had.
        kind: Option<String>,
    },
    /// A name that no record has.
    #[error("there is no record named `{name}`")]
    NoName {
        /// The name.
        name: String,
    },
    /// An INSERT whose WHERE finds something.
    #[error("already exists: record {reference} matches")]
    AlreadyExists {
        /// The first that was found.
        reference: Reference,
    },
    /// An UPDATE whose LIMIT is less than what it finds.
    #[error("more than {limit} match, and LIMIT {limit} allows no more to be updated; nothing was done")]
    LimitExceeded {
        /// The limit.
        limit: u64,
    },
    /// A kind that is not the caller's to read or write.
    #[error("{}", denied(kind, *action, *denial))]
    Denied {
        /// The kind.
        kind: String,
        /// What was tried.
        action: Action,
        /// Why not.
        denial: Denial,
    },
    /// A record of a kind that a token opens, which the caller has not.
    #[error("{}", record_denied(*reference, *action, *denial))]
    RecordDenied {
        /// The reference by which it was asked for.
        reference: Reference,
        /// What was tried.
        action: Action,
        /// Why not.
        denial: Denial,
    },
    /// A statement that looks at too many records before it has an answer.
    #[error(
        "the statement examines more than {max} records (records.examined_max); an index, or a narrower WHERE, has it examine fewer"
    )]
    ExaminedMax {
        /// The limit.
        max: u64,
    },
    /// A record that is too long for what the statement looks at in it.
    #[error(
        "record {reference} is too long for this statement: functions, patterns and SELECT together look at more than {max} bytes of it"
    )]
    WorkMax {
        /// The record.
        reference: Reference,
        /// The limit, which is greater for longer records.
        max: usize,
    },
    /// A page of a list that lies too far behind its beginning.
    #[error(
        "page {page} of {size} records each passes over more than {max} records; `after` goes on behind a reference"
    )]
    PageMax {
        /// The page.
        page: u64,
        /// Records of a page.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// A statement that changes too many records, or too many parts of records.
    #[error(
        "the statement changes more than {max} records or parts of them (records.rows_max); nothing was changed"
    )]
    RowsMax {
        /// The limit.
        max: u64,
    },
    /// A statement that keeps too much before it has an answer.
    #[error("the answer has more than {max} bytes (records.answer_bytes_max)")]
    AnswerBytesMax {
        /// The limit.
        max: usize,
    },
    /// A statement that keeps others from writing for too long.
    #[error(
        "the statement takes longer than {max:?} to find and change what it concerns (records.change_time_max); nothing was changed"
    )]
    ChangeTimeMax {
        /// The limit.
        max: Duration,
    },
    /// A statement that was not done by its deadline.
    #[error("the statement was not done by its deadline; nothing was changed")]
    DeadlinePassed,
    /// A cursor that belongs to another statement, or to a plan that is another one by now.
    #[error(
        "the cursor does not belong to this statement as it is planned now; begin again with an empty one"
    )]
    Cursor,
    /// A record that would lie where something lies that was not made as a record.
    #[error("{kind} has something at {reference} that was not made as a record; nothing was changed")]
    ReferenceTaken {
        /// The reference that the record would have.
        reference: Reference,
        /// The kind that it would have.
        kind: String,
    },
    /// No number is left to be a reference.
    #[error("no reference is left after {last}")]
    NoReferenceLeft {
        /// What the directory has as the last one.
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
    /// The number that stands for the error in answers of TQL: 17 and 166 as in the language it is from, -1 for any other.
    pub fn code(&self) -> i32 {
        match self {
            Self::AlreadyExists { .. } => 17,
            Self::NoRecord { .. } | Self::NoName { .. } => 166,
            _ => -1,
        }
    }

    /// Whether the caller's input was refused with nothing changed, so that a transaction can go on.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Store(error) => error.is_input(),
            _ => true,
        }
    }
}

/// The beginning of a text, to show what was found.
pub(crate) fn beginning(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into_owned(),
    }
}
