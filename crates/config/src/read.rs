//! Turns text into checked fields: every key is known, every value is of its kind and within its bounds.
//!
//! Checks that involve several keys, files or programs are done in `build`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use toml_edit::{Document, Item, TableLike, Value as TomlValue};

use crate::build::{INCLUDE, SECTIONS};
use crate::error::{Noted, nearest};
use crate::fields::{Field, Fields, Spot, Value};
use crate::key::{Default, Form, Key, Kind, Section, Shape, accepted, flattened, listed};
use crate::substitute::substitute;
use crate::units::{parse_duration, parse_size};

/// Characters of an invalid value shown in an error.
const SHOWN_MAX: usize = 60;

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Sections {
    /// Files to include.
    pub(crate) include: Vec<Spot>,
    /// Sections present in the file that may appear once per server: name and first line.
    pub(crate) once: Vec<(&'static str, usize)>,
    /// The tables of each section, with their NAMEs. Sections that may appear once have a table in any case, unless they require keys.
    pub(crate) tables: BTreeMap<&'static str, Vec<(String, Fields)>>,
}

impl Sections {
    /// Whether the file has a section that may appear once.
    pub(crate) fn has(&self, section: &str) -> bool {
        self.once.iter().any(|(name, _)| *name == section)
    }

    pub(crate) fn of(&self, section: &str) -> &[(String, Fields)] {
        self.tables.get(section).map_or(&[], Vec::as_slice)
    }

    /// The table of a section that may appear once, or that has this NAME.
    pub(crate) fn find(&self, section: &str, name: &str) -> Option<&Fields> {
        let found = self.of(section).iter().find(|(own, _)| own == name);
        found.map(|(_, fields)| fields)
    }
}

/// Reads a whole file; `lines_before` is the number of lines in files read earlier. The error lists every problem found.
pub(crate) fn read(
    text: &str,
    lines_before: usize,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Sections, Vec<Noted>> {
    let lines = Lines::of(text, lines_before);
    let document = Document::parse(text).map_err(|error| vec![syntax_problem(&lines, &error)])?;
    let mut reader = Reader {
        text,
        lines,
        env,
        problems: Vec::new(),
    };
    let sections = reader.sections(document.as_table());
    if reader.problems.is_empty() {
        return Ok(sections);
    }
    Err(reader.problems)
}

fn syntax_problem(lines: &Lines, error: &toml_edit::TomlError) -> Noted {
    let start = error.span().map_or(0, |span| span.start);
    let message = error.message().trim_end().replace('\n', "; ");
    Noted {
        line: lines.at(start),
        key: String::new(),
        suggestion: None,
        message: format!("not TOML: {message}"),
    }
}

/// The byte offsets at which lines start.
struct Lines {
    starts: Vec<usize>,
    before: usize,
}

impl Lines {
    fn of(text: &str, before: usize) -> Self {
        Self {
            starts: memchr::memchr_iter(b'\n', text.as_bytes())
                .map(|newline| newline + 1)
                .collect(),
            before,
        }
    }

    /// The line of a byte offset.
    fn at(&self, byte: usize) -> usize {
        self.before + self.starts.partition_point(|start| *start <= byte) + 1
    }

    fn first(&self) -> usize {
        self.before + 1
    }
}

struct Reader<'t> {
    text: &'t str,
    lines: Lines,
    env: &'t dyn Fn(&str) -> Option<String>,
    problems: Vec<Noted>,
}

impl Reader<'_> {
    fn sections(&mut self, root: &dyn TableLike) -> Sections {
        self.refuse_unknown_sections(root);
        let tables = SECTIONS.iter().map(|section| {
            let line = self.key_line(root, section.name);
            let requires = section.keys.iter().any(|key| key.default == Default::Required);
            let tables = match (section.shape, root.get(section.name)) {
                (Shape::Once, Some(item)) => self.once(section, item, line),
                (Shape::Named(_), Some(item)) => self.named(section, item, line),
                (Shape::Repeated, Some(item)) => self.repeated(section, item, line),
                (Shape::Once, None) if !requires => {
                    vec![(String::new(), self.absent(section.keys, section.name, line))]
                }
                (_, None) => Vec::new(),
            };
            (section.name, tables)
        });
        Sections {
            tables: tables.collect(),
            include: self.include(root),
            once: self.present(root),
        }
    }

    /// The files of `include`. An empty text names none, so that an environment variable can decide.
    fn include(&mut self, root: &dyn TableLike) -> Vec<Spot> {
        let Some(item) = root.get(INCLUDE.name) else {
            return Vec::new();
        };
        let line = self.key_line(root, INCLUDE.name);
        let mut files = self
            .texts(item, &INCLUDE.kind, INCLUDE.name, line)
            .unwrap_or_default();
        files.retain(|file| !file.text.is_empty());
        files
    }

    /// The sections that may appear once and do, with their lines.
    fn present(&self, root: &dyn TableLike) -> Vec<(&'static str, usize)> {
        SECTIONS
            .iter()
            .filter(|section| section.shape == Shape::Once && root.contains_key(section.name))
            .map(|section| (section.name, self.key_line(root, section.name)))
            .collect()
    }

    fn refuse_unknown_sections(&mut self, root: &dyn TableLike) {
        for (name, _) in root.iter() {
            let names = || SECTIONS.iter().map(|section| section.name).chain([INCLUDE.name]);
            if names().any(|known| known == name) {
                continue;
            }
            let rest = format!(
                "; this version has {}",
                listed(SECTIONS.iter().map(Section::heading))
            );
            self.refuse_name(root, name, "section", name.to_owned(), names(), &rest);
        }
    }

    fn once(&mut self, section: &Section, item: &Item, line: usize) -> Vec<(String, Fields)> {
        match item.as_table_like() {
            Some(table) => vec![(String::new(), self.table(table, section.keys, section.name, line))],
            None => self.wrong_section(section, item, section.name, line),
        }
    }

    fn named(&mut self, section: &Section, item: &Item, line: usize) -> Vec<(String, Fields)> {
        let Some(tables) = item.as_table_like() else {
            return self.wrong_section(section, item, section.name, line);
        };
        let mut read = Vec::new();
        for (name, item) in tables.iter() {
            let path = format!("{}.{name}", section.name);
            let line = self.key_line(tables, name);
            match item.as_table_like() {
                Some(table) => read.push((name.to_owned(), self.table(table, section.keys, &path, line))),
                None => read.extend(self.wrong_section(section, item, &path, line)),
            }
        }
        read
    }

    fn repeated(&mut self, section: &Section, item: &Item, line: usize) -> Vec<(String, Fields)> {
        let tables: Vec<(&dyn TableLike, _)> = match item {
            Item::ArrayOfTables(tables) => tables
                .iter()
                .map(|table| (table as &dyn TableLike, table.span()))
                .collect(),
            Item::Value(TomlValue::Array(array)) if array.iter().all(TomlValue::is_inline_table) => array
                .iter()
                .filter_map(|value| Some((value.as_inline_table()? as &dyn TableLike, value.span())))
                .collect(),
            _ => return self.wrong_section(section, item, section.name, line),
        };
        let each = tables.into_iter().map(|(table, span)| {
            let line = self.line_of(span).unwrap_or(line);
            (String::new(), self.table(table, section.keys, section.name, line))
        });
        each.collect()
    }

    /// Reports a section that is no table. There is nothing to read in it.
    fn wrong_section(
        &mut self,
        section: &Section,
        item: &Item,
        path: &str,
        line: usize,
    ) -> Vec<(String, Fields)> {
        let expected = match section.shape {
            Shape::Repeated => "tables that each begin with",
            Shape::Once | Shape::Named(_) => "a table that begins with",
        };
        let message = format!(
            "found {}, expected {expected} {}",
            self.found(item),
            section.heading()
        );
        self.note(line, path, message);
        Vec::new()
    }

    fn table(&mut self, table: &dyn TableLike, keys: &'static [Key], path: &str, line: usize) -> Fields {
        let keys = flattened(keys);
        self.refuse_unknown_keys(table, &keys, path);
        let entries = keys.into_iter().map(|key| {
            let Some(item) = table.get(key.name).filter(|item| !item.is_none()) else {
                return self.unwritten(key, path, line);
            };
            let line = self.key_line(table, key.name);
            let value = self.value(item, key, path, line);
            Field {
                key,
                value: value.or_else(|| self.default(key, path, line)),
                line,
                is_written: true,
            }
        });
        Fields {
            entries: entries.collect(),
            path: path.to_owned(),
            line,
        }
    }

    /// An absent table: all its keys have their defaults.
    fn absent(&mut self, keys: &'static [Key], path: &str, line: usize) -> Fields {
        let keys = flattened(keys).into_iter();
        Fields {
            entries: keys.map(|key| self.unwritten(key, path, line)).collect(),
            path: path.to_owned(),
            line,
        }
    }

    fn unwritten(&mut self, key: &'static Key, path: &str, line: usize) -> Field {
        if key.default == Default::Required {
            let message = format!("missing; expected {}", accepted(&key.kind));
            self.note(line, &format!("{path}.{}", key.name), message);
        }
        Field {
            key,
            value: self.default(key, path, line),
            line,
            is_written: false,
        }
    }

    fn default(&mut self, key: &Key, path: &str, line: usize) -> Option<Value> {
        let Default::Is(text) = key.default else {
            return None;
        };
        match &key.kind {
            Kind::Table(keys) => Some(Value::Table(self.absent(
                keys,
                &format!("{path}.{}", key.name),
                line,
            ))),
            Kind::TextMap => Some(Value::TextMap(Vec::new())),
            Kind::TableMap(_) => Some(Value::TableMap(Vec::new())),
            Kind::Texts { .. } if text.is_empty() => Some(Value::Texts(Vec::new())),
            Kind::Texts { .. } => Some(Value::Texts(vec![Spot {
                text: text.to_owned(),
                line,
            }])),
            kind => Some(scalar(kind, text).expect("each default in the table of keys is valid")),
        }
    }

    fn refuse_unknown_keys(&mut self, table: &dyn TableLike, keys: &[&Key], path: &str) {
        for (name, _) in table.iter() {
            if keys.iter().any(|key| key.name == name) {
                continue;
            }
            let names = || keys.iter().map(|key| key.name);
            let rest = match keys {
                [] => "; the table is empty".to_owned(),
                _ => format!("; accepted: {}", listed(names())),
            };
            self.refuse_name(table, name, "key", format!("{path}.{name}"), names(), &rest);
        }
    }

    /// Reports an unknown name in a table, with the one of `names` that may be meant.
    fn refuse_name<'n>(
        &mut self,
        table: &dyn TableLike,
        name: &str,
        what: &str,
        key: String,
        names: impl Iterator<Item = &'n str>,
        rest: &str,
    ) {
        let suggestion = nearest(name, names).map(str::to_owned);
        let meant = suggestion
            .as_ref()
            .map(|name| format!(" (did you mean `{name}`?)"));
        self.problems.push(Noted {
            line: self.key_line(table, name),
            key,
            message: format!("no such {what}{}{rest}", meant.unwrap_or_default()),
            suggestion,
        });
    }

    /// Returns `None` after reporting a problem.
    fn value(&mut self, item: &Item, key: &Key, path: &str, line: usize) -> Option<Value> {
        let path = format!("{path}.{}", key.name);
        match (&key.kind, item) {
            (Kind::Table(keys), item) if item.is_table_like() => {
                Some(Value::Table(self.table(item.as_table_like()?, keys, &path, line)))
            }
            (Kind::TableMap(keys), item) if item.is_table_like() => Some(Value::TableMap(self.table_map(
                item.as_table_like()?,
                keys,
                &path,
            ))),
            (Kind::TextMap, item) if item.is_table_like() => {
                self.text_map(item.as_table_like()?, &path).map(Value::TextMap)
            }
            (Kind::Json, item) => self.json(item, &path, line).map(Value::Text),
            (Kind::Texts { .. }, item) => self.texts(item, &key.kind, &path, line).map(Value::Texts),
            (Kind::Flag, Item::Value(TomlValue::Boolean(flag))) => Some(Value::Flag(*flag.value())),
            (kind @ (Kind::Integer { .. } | Kind::Size { .. }), Item::Value(TomlValue::Integer(number))) => {
                let value = scalar(kind, &number.value().to_string());
                value.or_else(|| self.wrong(item, kind, &path, line))
            }
            (Kind::Share, Item::Value(number @ (TomlValue::Integer(_) | TomlValue::Float(_)))) => {
                let number = number
                    .as_float()
                    .or_else(|| number.as_integer().map(|whole| whole as f64));
                let share = number.filter(|share| (0.0..=1.0).contains(share));
                share
                    .map(Value::Share)
                    .or_else(|| self.wrong(item, &key.kind, &path, line))
            }
            (
                Kind::Flag
                | Kind::Share
                | Kind::Integer { .. }
                | Kind::Size { .. }
                | Kind::Duration { .. }
                | Kind::Choice(_)
                | Kind::Text(_),
                Item::Value(TomlValue::String(text)),
            ) => {
                let text = self.substituted(text.value(), &path, line)?;
                scalar(&key.kind, &text).or_else(|| self.wrong_text(item, &text, &key.kind, &path, line))
            }
            (kind, item) => self.wrong(item, kind, &path, line),
        }
    }

    /// A list of texts, or one text that stands for a list of one.
    fn texts(&mut self, item: &Item, kind: &Kind, path: &str, line: usize) -> Option<Vec<Spot>> {
        let array = match (kind, item) {
            (_, Item::Value(TomlValue::String(text))) => {
                let text = self.substituted(text.value(), path, line)?;
                return Some(vec![Spot { text, line }]);
            }
            (Kind::Texts { min, .. }, Item::Value(TomlValue::Array(array))) if array.len() >= *min => array,
            _ => {
                self.wrong(item, kind, path, line);
                return None;
            }
        };
        let problems = self.problems.len();
        let mut texts = Vec::new();
        for value in array {
            let line = self.line_of(value.span()).unwrap_or(line);
            match value {
                TomlValue::String(text) => {
                    texts.extend(
                        self.substituted(text.value(), path, line)
                            .map(|text| Spot { text, line }),
                    );
                }
                other => {
                    let message = format!("found {} in the list, expected text", self.shown(other.span()));
                    self.note(line, path, message);
                }
            }
        }
        (self.problems.len() == problems).then_some(texts)
    }

    fn text_map(&mut self, table: &dyn TableLike, path: &str) -> Option<Vec<(String, Spot)>> {
        let problems = self.problems.len();
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let line = self.key_line(table, name);
            let path = format!("{path}.{name}");
            match item.as_str() {
                Some(text) => {
                    let text = self.substituted(text, &path, line);
                    entries.extend(text.map(|text| (name.to_owned(), Spot { text, line })));
                }
                None => {
                    self.wrong(item, &Kind::Text(Form::Plain), &path, line);
                }
            }
        }
        (self.problems.len() == problems).then_some(entries)
    }

    fn table_map(
        &mut self,
        table: &dyn TableLike,
        keys: &'static [Key],
        path: &str,
    ) -> Vec<(String, Fields)> {
        let mut tables = Vec::new();
        for (name, item) in table.iter() {
            let line = self.key_line(table, name);
            let path = format!("{path}.{name}");
            match item.as_table_like() {
                Some(table) => tables.push((name.to_owned(), self.table(table, keys, &path, line))),
                None => drop(self.wrong(item, &Kind::Table(keys), &path, line)),
            }
        }
        tables
    }

    /// JSON text; members keep their order.
    fn json(&mut self, item: &Item, path: &str, line: usize) -> Option<String> {
        match item {
            Item::None => None,
            Item::Value(value) => self.json_value(value, path, line),
            Item::Table(table) => self.json_object(table, path, line),
            Item::ArrayOfTables(tables) => {
                let items: Option<Vec<String>> = tables
                    .iter()
                    .map(|table| self.json_object(table, path, line))
                    .collect();
                items.map(|items| format!("[{}]", items.join(",")))
            }
        }
    }

    fn json_value(&mut self, value: &TomlValue, path: &str, line: usize) -> Option<String> {
        match value {
            TomlValue::String(text) => self
                .substituted(text.value(), path, line)
                .map(|text| json_string(&text)),
            TomlValue::Integer(number) => Some(number.value().to_string()),
            TomlValue::Boolean(flag) => Some(flag.value().to_string()),
            TomlValue::Datetime(datetime) => Some(json_string(&datetime.value().to_string())),
            TomlValue::Float(number) if number.value().is_finite() => {
                Some(serde_json::Value::from(*number.value()).to_string())
            }
            TomlValue::Float(number) => {
                let message = format!("found {}, which JSON has no way to say", number.value());
                self.note(line, path, message);
                None
            }
            TomlValue::Array(array) => {
                let items: Option<Vec<String>> = array
                    .iter()
                    .map(|value| self.json_value(value, path, line))
                    .collect();
                items.map(|items| format!("[{}]", items.join(",")))
            }
            TomlValue::InlineTable(table) => self.json_object(table, path, line),
        }
    }

    fn json_object(&mut self, table: &dyn TableLike, path: &str, line: usize) -> Option<String> {
        let members: Option<Vec<String>> = table
            .iter()
            .map(|(name, item)| {
                let path = format!("{path}.{name}");
                self.json(item, &path, line)
                    .map(|json| format!("{}:{json}", json_string(name)))
            })
            .collect();
        members.map(|members| format!("{{{}}}", members.join(",")))
    }

    /// Returns `None` after reporting a problem.
    fn substituted(&mut self, text: &str, path: &str, line: usize) -> Option<String> {
        match substitute(text, self.env) {
            Ok(text) => Some(text.into_owned()),
            Err(error) => {
                self.note(line, path, error.to_string());
                None
            }
        }
    }

    fn wrong(&mut self, item: &Item, kind: &Kind, path: &str, line: usize) -> Option<Value> {
        let message = format!("found {}, expected {}", self.found(item), accepted(kind));
        self.note(line, path, message);
        None
    }

    /// As [`Self::wrong`], for a text that may come from a substitution.
    fn wrong_text(&mut self, item: &Item, text: &str, kind: &Kind, path: &str, line: usize) -> Option<Value> {
        if item.as_str() == Some(text) {
            return self.wrong(item, kind, path, line);
        }
        let found = self.found(item);
        let message = format!(
            "found {found}, which is {:?} here; expected {}",
            shorten(text),
            accepted(kind)
        );
        self.note(line, path, message);
        None
    }

    fn note(&mut self, line: usize, key: &str, message: String) {
        self.problems.push(Noted {
            line,
            key: key.to_owned(),
            suggestion: None,
            message,
        });
    }

    /// The value as written in the file.
    fn found(&self, item: &Item) -> Cow<'static, str> {
        match item {
            Item::Table(_) => Cow::Borrowed("a table"),
            Item::ArrayOfTables(_) => Cow::Borrowed("a list of tables"),
            other => Cow::Owned(self.shown(other.span())),
        }
    }

    fn shown(&self, span: Option<Range<usize>>) -> String {
        let text = span.and_then(|span| self.text.get(span)).unwrap_or("a value");
        shorten(text)
    }

    fn key_line(&self, table: &dyn TableLike, name: &str) -> usize {
        self.line_of(table.get_key_value(name).and_then(|(key, _)| key.span()))
            .unwrap_or_else(|| self.lines.first())
    }

    fn line_of(&self, span: Option<Range<usize>>) -> Option<usize> {
        span.map(|span| self.lines.at(span.start))
    }
}

/// A value written as one word. `None` if it is not of this kind or is out of bounds.
fn scalar(kind: &Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Flag => text.parse().ok().map(Value::Flag),
        Kind::Integer { min, max } => bounded(text.parse().ok()?, *min, *max).map(Value::Integer),
        Kind::Size { min, max } => bounded(parse_size(text)?, *min, *max).map(Value::Integer),
        Kind::Share => {
            let share: f64 = text.parse().ok()?;
            (0.0..=1.0).contains(&share).then_some(Value::Share(share))
        }
        Kind::Duration { min, max } => {
            let duration = parse_duration(text)?;
            bounded(u64::try_from(duration.as_millis()).ok()?, *min, *max)?;
            Some(Value::Duration(duration))
        }
        Kind::Choice(choices) => choices.contains(&text).then(|| Value::Text(text.to_owned())),
        Kind::Text(_) => (!text.contains('\0')).then(|| Value::Text(text.to_owned())),
        Kind::Texts { .. }
        | Kind::TextMap
        | Kind::Json
        | Kind::Table(_)
        | Kind::TableMap(_)
        | Kind::Group(_) => None,
    }
}

fn bounded(number: u64, min: u64, max: u64) -> Option<u64> {
    (min..=max).contains(&number).then_some(number)
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn shorten(text: &str) -> String {
    let line = text.replace(['\n', '\r'], " ");
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
