//! The fields of one table of the file, each of the kind that its key requires.

use std::time::Duration;

use crate::error::Noted;
use crate::key::Key;

/// The fields of one table: one for each key the section defines.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The table's full name, such as `pool.api`.
    pub(crate) path: String,
    /// The line where the table begins.
    pub(crate) line: usize,
    pub(crate) entries: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static Key,
    /// `None` if the key is absent and has no default.
    pub(crate) value: Option<Value>,
    pub(crate) line: usize,
    pub(crate) is_written: bool,
}

/// A value of its [`Kind`](crate::key::Kind).
#[derive(Debug)]
pub(crate) enum Value {
    Flag(bool),
    /// Also used for numbers of bytes.
    Integer(u64),
    /// From 0 to 1, inclusive.
    Share(f64),
    Duration(Duration),
    /// Also used for the word of a choice, and for JSON.
    Text(String),
    Texts(Vec<Spot>),
    TextMap(Vec<(String, Spot)>),
    Table(Fields),
    /// Tables under names that the author chose.
    TableMap(Vec<(String, Fields)>),
}

/// A text and its position.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Fields {
    /// Whether the key is present in the file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.field(name).is_some_and(|field| field.is_written)
    }

    /// The key's line, or the line of the table if the key is absent.
    pub(crate) fn line_of(&self, name: &str) -> usize {
        self.field(name).map_or(self.line, |field| field.line)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Texts of a list with their positions; empty if the key is absent.
    pub(crate) fn texts(&self, name: &str) -> &[Spot] {
        match self.value(name) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// A problem with one key.
    pub(crate) fn problem(&self, name: &str, message: impl Into<String>) -> Noted {
        self.problem_at(self.line_of(name), name, message)
    }

    /// A problem with one entry of a key's value.
    pub(crate) fn problem_at(&self, line: usize, name: &str, message: impl Into<String>) -> Noted {
        Noted {
            line,
            key: format!("{}.{name}", self.path),
            suggestion: None,
            message: message.into(),
        }
    }

    /// A problem with the table as a whole.
    pub(crate) fn whole_problem(&self, message: impl Into<String>) -> Noted {
        Noted {
            line: self.line,
            key: self.path.clone(),
            suggestion: None,
            message: message.into(),
        }
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.field(name)?.value.as_ref()
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.entries.iter().find(|field| field.key.name == name)
    }
}
