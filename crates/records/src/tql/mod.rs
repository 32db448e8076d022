//! TQL: a statement is read from JSON or from friendly text, planned over the store's indexes, and executed in steps.
//!
//! A statement is about **nodes**: records, or with AT the parts of records to which a path leads. WHERE and FILTER say which nodes
//! those are, a verb says what is done with them.

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

/// A statement that can be executed any number of times.
#[derive(Debug)]
pub struct Statement {
    /// Given back with the answer, as a JSON string.
    pub(crate) rid: Option<Vec<u8>>,
    pub(crate) subject: Subject,
    pub(crate) filter: Option<Expression>,
    /// Which parts of records it is about; without, records.
    pub(crate) at: Option<At>,
    pub(crate) verb: Verb,
    pub(crate) limit: Option<u64>,
    pub(crate) sort: Option<Sort>,
    pub(crate) unique: Option<Path>,
    pub(crate) page: Option<Page>,
    pub(crate) cursor: Option<Cursor>,
    /// Whether the plan is wanted and nothing else.
    pub(crate) explain: bool,
}

/// What WHERE says.
#[derive(Debug)]
pub(crate) enum Subject {
    /// There is none.
    All,
    Record(Reference),
    Matching(Expression),
}

/// What AT says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    Path(Path),
    /// `**`: every object and array of the record, itself included.
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

/// `number` counts from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) size: u64,
    pub(crate) number: u64,
}

impl Statement {
    /// Reads a statement: JSON when it begins with `{`, friendly text otherwise.
    pub fn read(text: &[u8], settings: &Settings) -> Result<Self, StatementError> {
        if text.trim_ascii_start().starts_with(b"{") {
            Self::read_json(text, settings)
        } else {
            Self::read_friendly(text, settings)
        }
    }

    /// Reads a statement that is JSON.
    pub fn read_json(text: &[u8], settings: &Settings) -> Result<Self, StatementError> {
        json::statement(&mut Reader::new(text)?, settings)
    }

    /// Reads a statement that is friendly text.
    pub fn read_friendly(text: &[u8], settings: &Settings) -> Result<Self, StatementError> {
        friendly::statement(&mut Reader::new(text)?, settings)
    }

    /// Whether it changes nothing.
    pub fn only_reads(&self) -> bool {
        self.explain || matches!(self.verb, Verb::Select(_))
    }
}
