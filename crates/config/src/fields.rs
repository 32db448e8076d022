//! The fields of one table of the file, each of the kind that its key requires.
//!
//! Getters may only be called for keys of the table's section and for their kind there. Anything else is a bug that the first test reading
//! such a section reveals.

use std::time::Duration;

use super::error::Noted;
use super::keys::Key;

/// The fields of one table: one for each key the section defines.
#[derive(Debug)]
pub(super) struct Fields {
    /// The table's full name, such as `pool.api`.
    pub(super) path: String,
    /// The line where the table begins.
    pub(super) line: usize,
    pub(super) keys: &'static [Key],
    pub(super) entries: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// `None` if the key is absent and has no default.
    pub(super) value: Option<Value>,
    pub(super) line: usize,
    pub(super) written: bool,
}

/// A value of its [`Kind`].
#[derive(Debug)]
pub(super) enum Value {
    Flag(bool),
    /// Also used for numbers of bytes.
    Integer(u64),
    /// From 0 to 1, inclusive.
    Share(f64),
    Duration(Duration),
    Text(String),
    Texts(Vec<Spot>),
    TextMap(Vec<(String, Spot)>),
    /// JSON as text.
    Json(String),
    Table(Fields),
    /// Tables under names that the author chose.
    TableMap(Vec<(String, Fields)>),
}

/// A text and its position.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Fields {
    pub(super) fn flag(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Flag(flag)) => *flag,
            other => unreachable!("`{name}` is a flag with a default: {other:?}"),
        }
    }

    /// An integer or a number of bytes.
    pub(super) fn integer(&self, name: &str) -> u64 {
        self.opt_integer(name)
            .unwrap_or_else(|| unreachable!("`{name}` has a default"))
    }

    pub(super) fn opt_integer(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Integer(number) => Some(*number),
            other => unreachable!("`{name}` is a number: {other:?}"),
        }
    }

    /// A value from 0 to 1.
    pub(super) fn share(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Share(share)) => *share,
            other => unreachable!("`{name}` is a share with a default: {other:?}"),
        }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.opt_duration(name)
            .unwrap_or_else(|| unreachable!("`{name}` has a default"))
    }

    pub(super) fn opt_duration(&self, name: &str) -> Option<Duration> {
        match self.value(name)? {
            Value::Duration(duration) => Some(*duration),
            other => unreachable!("`{name}` is a duration: {other:?}"),
        }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.opt_text(name)
            .unwrap_or_else(|| unreachable!("`{name}` is required or has a default"))
    }

    /// A text, or the word of a choice.
    pub(super) fn opt_text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            other => unreachable!("`{name}` is a text: {other:?}"),
        }
    }

    /// Empty if the key is absent.
    pub(super) fn texts(&self, name: &str) -> &[Spot] {
        match self.value(name) {
            None => &[],
            Some(Value::Texts(texts)) => texts,
            other => unreachable!("`{name}` is a list: {other:?}"),
        }
    }

    pub(super) fn text_map(&self, name: &str) -> &[(String, Spot)] {
        match self.value(name) {
            Some(Value::TextMap(entries)) => entries,
            other => unreachable!("`{name}` is a table of texts with a default: {other:?}"),
        }
    }

    pub(super) fn opt_json(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Json(json) => Some(json),
            other => unreachable!("`{name}` is JSON: {other:?}"),
        }
    }

    pub(super) fn table(&self, name: &str) -> &Fields {
        self.opt_table(name)
            .unwrap_or_else(|| unreachable!("`{name}` has a default"))
    }

    pub(super) fn opt_table(&self, name: &str) -> Option<&Fields> {
        match self.value(name)? {
            Value::Table(fields) => Some(fields),
            other => unreachable!("`{name}` is a table: {other:?}"),
        }
    }

    pub(super) fn table_map(&self, name: &str) -> &[(String, Fields)] {
        match self.value(name) {
            Some(Value::TableMap(tables)) => tables,
            other => unreachable!("`{name}` is a table of tables with a default: {other:?}"),
        }
    }

    /// Whether the key is present in the file.
    pub(super) fn written(&self, name: &str) -> bool {
        self.field(name).written
    }

    /// The key's line, or the line of its table if the key is absent.
    pub(super) fn line_of(&self, name: &str) -> usize {
        self.field(name).line
    }

    /// A problem with one key.
    pub(super) fn problem(&self, name: &str, message: impl Into<String>) -> Noted {
        self.problem_at(self.line_of(name), name, message)
    }

    /// A problem with one entry of a key's value.
    pub(super) fn problem_at(&self, line: usize, name: &str, message: impl Into<String>) -> Noted {
        Noted {
            line,
            key: format!("{}.{name}", self.path),
            message: message.into(),
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.field(name).value.as_ref()
    }

    fn field(&self, name: &str) -> &Field {
        let at = self.keys.iter().position(|key| key.name == name);
        &self.entries[at.unwrap_or_else(|| unreachable!("{} has a key `{name}`", self.path))]
    }
}
