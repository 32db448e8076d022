//! TQL: a statement is parsed from JSON or friendly text, planned with the store's indexes, and executed in steps.
//!
//! A statement is about **nodes**: records, or with AT the parts of records at a path. WHERE and FILTER select the
//! nodes, and a verb says what to do with them.

mod branch;
mod calls;
mod change;
mod cursor;
mod execution;
mod explain;
mod expression;
mod friendly;
mod json;
mod plan;
mod reader;
mod rows;
mod sorted;
mod template;
mod walk;

use crate::{path::Path, reference::Reference, settings::Settings};

pub(crate) use self::expression::{Comparison, Expression};
pub use self::{
    change::{Timing, change},
    execution::{Budget, Execution, Progress},
};
use self::{cursor::Cursor, reader::Reader, template::Template};
use crate::error::StatementError;

/// A parsed statement, which can be executed any number of times.
#[derive(Debug)]
pub struct Statement {
    /// Returned with the answer, as a JSON string.
    pub(crate) rid: Option<Vec<u8>>,
    pub(crate) subject: Subject,
    pub(crate) filter: Option<Expression>,
    /// Parts of records that the statement is about; `None` for whole records.
    pub(crate) at: Option<At>,
    pub(crate) verb: Verb,
    pub(crate) limit: Option<u64>,
    pub(crate) sort: Option<Sort>,
    pub(crate) unique: Option<Path>,
    pub(crate) page: Option<Page>,
    pub(crate) cursor: Option<Cursor>,
    /// Whether only the plan is requested.
    pub(crate) explain: bool,
}

/// Subject of a WHERE clause.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Without a WHERE clause.
    All,
    Record(Reference),
    Matching(Expression),
}

/// Target of an AT clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    Path(Path),
    /// `**`: every object and array of the record, including itself.
    Everywhere,
}

#[derive(Debug)]
pub(crate) enum Verb {
    /// Without a template, `{"id":$ref,"data":$}`.
    Select(Option<Template>),
    /// Canonical JSON.
    Insert(Vec<u8>),
    /// Canonical JSON.
    Update(Vec<u8>),
    Delete,
}

#[derive(Debug)]
pub(crate) struct Sort {
    pub(crate) path: Path,
    pub(crate) reverse: bool,
}

/// A page of rows; `number` counts from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) size: u64,
    pub(crate) number: u64,
}

impl Statement {
    /// Parses a statement: JSON if it begins with `{`, otherwise friendly text.
    pub fn read(text: &[u8], settings: &Settings) -> Result<Self, StatementError> {
        if text.trim_ascii_start().starts_with(b"{") {
            Self::read_json(text, settings)
        } else {
            Self::read_friendly(text, settings)
        }
    }

    /// Parses a JSON statement.
    pub fn read_json(text: &[u8], settings: &Settings) -> Result<Self, StatementError> {
        json::statement(&mut Reader::new(text)?, settings)
    }

    /// Parses a statement in friendly text.
    pub fn read_friendly(text: &[u8], settings: &Settings) -> Result<Self, StatementError> {
        friendly::statement(&mut Reader::new(text)?, settings)
    }

    /// Whether the statement changes nothing.
    pub fn only_reads(&self) -> bool {
        self.explain || matches!(self.verb, Verb::Select(_))
    }
}
