//! Writes settings as TOML.

use crate::key::Key;
use crate::section::Section;
use crate::substitute::escape;

/// The lines of a table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The full name, as in a heading.
    path: String,
    /// Each as `key = value`.
    entries: Vec<String>,
    /// The tables below it.
    below: String,
}

impl Table {
    /// The printed form of a section. `path` matters to one with tables below it.
    pub(crate) fn of<T: Section>(path: String, section: &T) -> Self {
        let mut table = Self {
            path,
            ..Self::default()
        };
        section.print(&mut table);
        table
    }

    /// Adds a key with its value in TOML.
    pub(crate) fn put(&mut self, key: &str, value: &str) {
        self.entries.push(format!("{key} = {value}"));
    }

    /// Adds a table in one line, unless it is empty as by default.
    pub(crate) fn put_table(&mut self, key: &Key, table: &Self) {
        if !table.entries.is_empty() || key.default == crate::key::Default::Nothing {
            self.put(key.name, &table.inline());
        }
    }

    /// Adds tables under names that the author chose. Those of one or two keys have a line each.
    pub(crate) fn put_tables(&mut self, key: &Key, keys: usize, tables: Vec<(&String, Self)>) {
        let path = format!("{}.{}", self.path, key.name);
        if keys > 2 {
            for (name, table) in tables {
                self.below += &table.lines(&format!("[{path}.{}]", quoted(name)));
            }
        } else if !tables.is_empty() {
            let mut lines = Self::default();
            for (name, table) in tables {
                lines.put(&quoted(name), &table.inline());
            }
            self.below += &lines.lines(&format!("[{path}]"));
        }
    }

    /// The table below its heading, after an empty line.
    pub(crate) fn lines(&self, heading: &str) -> String {
        format!("\n{heading}\n{}\n{}", self.entries.join("\n"), self.below)
    }

    fn inline(&self) -> String {
        inline(&self.entries)
    }
}

/// Texts under names, in one line.
pub(crate) fn text_map<'e>(entries: impl Iterator<Item = (&'e String, &'e str)>) -> String {
    let entry = |(name, value): (&String, &str)| format!("{} = {}", quoted(name), text(value));
    inline(&entries.map(entry).collect::<Vec<_>>())
}

fn inline(entries: &[String]) -> String {
    if entries.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{ {} }}", entries.join(", "))
    }
}

pub(crate) fn texts<T: AsRef<str>>(all: impl Iterator<Item = T>) -> String {
    let all: Vec<String> = all.map(|one| text(one.as_ref())).collect();
    format!("[{}]", all.join(", "))
}

/// A text that reads back as `value` after substitution.
pub(crate) fn text(value: &str) -> String {
    quoted(&escape(value))
}

/// A TOML 1.0 basic string. JSON's escapes are valid there; they cover all control characters but DEL.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}
