//! The types that keys have as values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Secret;
use crate::build::Context;
use crate::fields::{Fields, Spot, Value};
use crate::key::{Default, Form, Key, Kind, at_least, flattened};
use crate::print::{Table, text, text_map, texts};
use crate::section::{Entry, Section, Setting};
use crate::substitute::is_name;
use crate::units::{print_duration, print_size};

/// A type that is written as one text, alone or in a list.
pub(crate) trait Text: Sized {
    /// `None` after a problem was noted.
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self>;

    /// As it is printed.
    fn to_text(&self) -> String;
}

/// Makes types of [`Text`] the values of keys.
macro_rules! text_settings {
    ($($type:ty),+) => {$(
        impl $crate::section::Setting for $type {
            const KIND: $crate::key::Kind = $crate::key::Kind::Text($crate::key::Form::Plain);

            fn read<'f>(entry: $crate::section::Entry<'f>, context: &mut $crate::build::Context<'f>) -> Option<Self> {
                $crate::setting::Text::parse(entry.text(context)?, entry.line(), entry, context)
            }

            fn print(&self, key: &$crate::key::Key, out: &mut $crate::print::Table) {
                out.put(key.name, &$crate::print::text(&$crate::setting::Text::to_text(self)));
            }
        }
    )+};
}
pub(crate) use text_settings;

/// Implements [`Text`] for types that parse and print themselves; `hidden` ones are not printed. Errors follow `prefix`.
macro_rules! parsed {
    ($prefix:literal: hidden $($type:ty),+) => {$(
        $crate::setting::parsed!(@ $prefix, $type, |_: &$type| $crate::secret::HIDDEN.to_owned());
    )+};
    ($prefix:literal: $($type:ty),+) => {$(
        $crate::setting::parsed!(@ $prefix, $type, ToString::to_string);
    )+};
    (@ $prefix:literal, $type:ty, $to_text:expr) => {
        impl $crate::setting::Text for $type {
            fn parse<'f>(
                written: &str,
                line: usize,
                entry: $crate::section::Entry<'f>,
                context: &mut $crate::build::Context<'f>,
            ) -> Option<Self> {
                let parsed: Result<Self, _> = written.parse();
                parsed.map_err(|error| entry.note(context, line, format!(concat!($prefix, "{}"), error))).ok()
            }

            fn to_text(&self) -> String {
                $to_text(self)
            }
        }
        $crate::setting::text_settings!($type);
    };
}
pub(crate) use parsed;

impl<'f> Entry<'f> {
    pub(crate) fn text(&self, context: &Context<'f>) -> Option<&'f str> {
        match self.value(context)? {
            Value::Text(text) => Some(text),
            other => self.wrong(other),
        }
    }

    pub(crate) fn texts(&self, context: &Context<'f>) -> Option<&'f [Spot]> {
        match self.value(context)? {
            Value::Texts(texts) => Some(texts),
            other => self.wrong(other),
        }
    }

    pub(crate) fn text_map(&self, context: &Context<'f>) -> Option<&'f [(String, Spot)]> {
        match self.value(context)? {
            Value::TextMap(entries) => Some(entries),
            other => self.wrong(other),
        }
    }

    pub(crate) fn table(&self, context: &Context<'f>) -> Option<&'f Fields> {
        match self.value(context)? {
            Value::Table(fields) => Some(fields),
            other => self.wrong(other),
        }
    }

    fn wrong(&self, value: &Value) -> ! {
        unreachable!(
            "the kind of `{}` is not that of its type: {value:?}",
            self.key.name
        )
    }
}

impl Setting for bool {
    const KIND: Kind = Kind::Flag;

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        match entry.value(context)? {
            Value::Flag(flag) => Some(*flag),
            other => entry.wrong(other),
        }
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, &self.to_string());
    }
}

impl Setting for f64 {
    const KIND: Kind = Kind::Share;

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        match entry.value(context)? {
            Value::Share(share) => Some(*share),
            other => entry.wrong(other),
        }
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, &format!("{self:?}"));
    }
}

/// A number, or a number of bytes.
macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            const KIND: Kind = panic!("a number has bounds: `as integer(0, 9)` or `as size(KIB, GIB)`");

            fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
                match entry.value(context)? {
                    Value::Integer(number) => Some(<$type>::try_from(*number).unwrap_or(<$type>::MAX)),
                    other => entry.wrong(other),
                }
            }

            #[allow(clippy::cast_lossless, reason = "one text for all of them")]
            fn print(&self, key: &Key, out: &mut Table) {
                match key.kind {
                    Kind::Size { .. } => out.put(key.name, &text(&print_size(*self as u64))),
                    _ => out.put(key.name, &self.to_string()),
                }
            }
        }
    )+};
}
numbers!(u8, u16, u32, u64, usize);

impl Setting for Duration {
    const KIND: Kind = panic!("a duration has bounds: `as duration(0, HOUR)`");

    /// With the value of another section as the default, that is also the longest.
    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let Value::Duration(own) = entry.value(context)? else {
            entry.wrong(entry.value(context)?)
        };
        if let (Default::From(outer), Some(Value::Duration(most))) =
            (entry.key.default, context.inherited(&entry))
            && own > most
        {
            let message = format!(
                "found {}, which is more than {} ({}); a route may only narrow it",
                print_duration(*own),
                entry.outer_name(outer),
                print_duration(*most)
            );
            entry.note(context, entry.line(), message);
        }
        Some(*own)
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, &text(&print_duration(*self)));
    }
}

/// A key that may be absent. One that has a text as its default is switched off by `off`.
impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
    const DEFAULT: Default = Default::Nothing;

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        match entry.value(context) {
            None => Some(None),
            Some(Value::Text(text)) if text == OFF && can_be_off(entry.key) => Some(None),
            // After a problem, the others are looked for.
            Some(_) => Some(T::read(entry, context)),
        }
    }

    fn print(&self, key: &Key, out: &mut Table) {
        match self {
            Some(value) => value.print(key, out),
            None if can_be_off(key) => out.put(key.name, &text(OFF)),
            None => {}
        }
    }
}

const OFF: &str = "off";

fn can_be_off(key: &Key) -> bool {
    matches!((key.kind, key.default), (Kind::Text(_), Default::Is(_)))
}

impl<T: Text> Setting for Vec<T> {
    const KIND: Kind = at_least(0);

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let spots = entry.texts(context)?.iter();
        Some(
            spots
                .filter_map(|spot| T::parse(&spot.text, spot.line, entry, context))
                .collect(),
        )
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, &texts(self.iter().map(Text::to_text)));
    }
}

/// Tables under names that the author chose.
impl<T: Section> Setting for BTreeMap<String, T> {
    const KIND: Kind = Kind::TableMap(T::KEYS);
    const DEFAULT: Default = Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let Value::TableMap(tables) = entry.value(context)? else {
            entry.wrong(entry.value(context)?)
        };
        let read = |(name, fields): &'f (String, Fields)| Some((name.clone(), context.read(fields)?));
        Some(tables.iter().filter_map(read).collect())
    }

    fn print(&self, key: &Key, out: &mut Table) {
        let table = |(name, table)| (name, Table::of(String::new(), table));
        let tables = self.iter().map(table);
        out.put_tables(key, flattened(T::KEYS).len(), tables.collect());
    }
}

/// An empty table.
impl Setting for () {
    const KIND: Kind = Kind::Table(&[]);

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        entry.table(context).map(|_| ())
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, "{}");
    }
}

impl Text for String {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        if let Form::Name(section) = entry.form()
            && let Some(message) = context.none_such(section, written)
        {
            entry.note(context, line, message);
        }
        Some(written.to_owned())
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

impl Text for PathBuf {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let path = context.resolve(entry.fields, written);
        let parent = path.parent().unwrap_or(Path::new("/"));
        let problem = match entry.form() {
            Form::File if !path.is_file() => format!("there is no file `{}`", path.display()),
            Form::Folder if !path.is_dir() => format!("there is no folder `{}`", path.display()),
            Form::NewFile if !parent.is_dir() => format!("there is no folder `{}`", parent.display()),
            Form::Program if !Path::new(written).is_absolute() || !path.is_file() => {
                format!("found {written:?}, expected the absolute path of a program that is there")
            }
            _ => return Some(path),
        };
        entry.note(context, line, problem);
        // The others are checked as if it were there.
        Some(path)
    }

    fn to_text(&self) -> String {
        self.to_string_lossy().into_owned()
    }
}

/// The value of an environment variable, whose name is written.
impl Text for Secret {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        if is_name(written) {
            return context.secret(written, entry);
        }
        let message = format!("found {written:?}, expected the name of an environment variable");
        entry.note(context, line, message);
        None
    }

    fn to_text(&self) -> String {
        self.shown().to_owned()
    }
}
text_settings!(String, PathBuf, Secret);

impl Entry<'_> {
    fn form(&self) -> Form {
        match self.key.kind {
            Kind::Text(form) | Kind::Texts { form, .. } => form,
            _ => Form::Plain,
        }
    }
}

/// Prints texts under names, in a line.
pub(crate) fn print_map<'e, T: AsRef<str> + 'e>(
    entries: impl Iterator<Item = (&'e String, &'e T)>,
    key: &Key,
    out: &mut Table,
) {
    let entries = entries.map(|(name, value)| (name, value.as_ref()));
    out.put(key.name, &text_map(entries));
}
