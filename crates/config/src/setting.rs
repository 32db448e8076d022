//! The types that keys have as values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Secret;
use crate::build::Context;
use crate::fields::{Fields, Spot, Value};
use crate::key::{Default, Form, Key, Kind, flattened};
use crate::print::{Table, text, text_map, texts};
use crate::section::{At, Section, Setting};
use crate::substitute::is_name;
use crate::units::{print_duration, print_size};

/// A type that is written as one text, alone or in a list.
pub(crate) trait Text: Sized {
    /// `None` after a problem was noted.
    fn parse<'f>(written: &str, line: usize, at: At<'f>, context: &mut Context<'f>) -> Option<Self>;

    /// As it is printed.
    fn to_text(&self) -> String;
}

/// Makes types of [`Text`] the values of keys.
macro_rules! text_settings {
    ($($type:ty),+) => {$(
        impl $crate::section::Setting for $type {
            const KIND: $crate::key::Kind = $crate::key::Kind::Text($crate::key::Form::Plain);

            fn read<'f>(at: $crate::section::At<'f>, context: &mut $crate::build::Context<'f>) -> Option<Self> {
                $crate::setting::Text::parse(at.text(context)?, at.line(), at, context)
            }

            fn print(&self, key: &$crate::key::Key, out: &mut $crate::print::Table) {
                out.put(key.name, &$crate::print::text(&$crate::setting::Text::to_text(self)));
            }
        }
    )+};
}
pub(crate) use text_settings;

/// Implements [`Text`] for types that parse and print themselves. Errors follow `prefix`.
macro_rules! parsed {
    ($prefix:literal: $($type:ty),+) => {$(
        impl $crate::setting::Text for $type {
            fn parse<'f>(
                written: &str,
                line: usize,
                at: $crate::section::At<'f>,
                context: &mut $crate::build::Context<'f>,
            ) -> Option<Self> {
                let parsed: Result<Self, _> = written.parse();
                parsed.map_err(|error| at.note(context, line, format!(concat!($prefix, "{}"), error))).ok()
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        }
        $crate::setting::text_settings!($type);
    )+};
}
pub(crate) use parsed;

impl<'f> At<'f> {
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

    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        match at.value(context)? {
            Value::Flag(flag) => Some(*flag),
            other => at.wrong(other),
        }
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, &self.to_string());
    }
}

impl Setting for f64 {
    const KIND: Kind = Kind::Share;

    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        match at.value(context)? {
            Value::Share(share) => Some(*share),
            other => at.wrong(other),
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

            fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
                match at.value(context)? {
                    Value::Integer(number) => Some(<$type>::try_from(*number).unwrap_or(<$type>::MAX)),
                    other => at.wrong(other),
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
    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        let Value::Duration(own) = at.value(context)? else {
            at.wrong(at.value(context)?)
        };
        if let (Default::From(outer), Some(Value::Duration(most))) = (at.key.default, context.inherited(&at))
            && own > most
        {
            let message = format!(
                "found {}, which is more than {} ({}); a route may only narrow it",
                print_duration(*own),
                at.outer_name(outer),
                print_duration(*most)
            );
            at.note(context, at.line(), message);
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

    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        match at.value(context) {
            None => Some(None),
            Some(Value::Text(text)) if text == OFF && can_be_off(at.key) => Some(None),
            // After a problem, the others are looked for.
            Some(_) => Some(T::read(at, context)),
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
    const KIND: Kind = Kind::Texts {
        min: 0,
        form: Form::Plain,
    };

    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        let spots = at.texts(context)?.iter();
        Some(
            spots
                .filter_map(|spot| T::parse(&spot.text, spot.line, at, context))
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

    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        let Value::TableMap(tables) = at.value(context)? else {
            at.wrong(at.value(context)?)
        };
        let read = |(name, fields): &'f (String, Fields)| Some((name.clone(), T::read(fields, context)?));
        Some(tables.iter().filter_map(read).collect())
    }

    fn print(&self, key: &Key, out: &mut Table) {
        let table = |table: &T| {
            let mut printed = Table::default();
            table.print(&mut printed);
            printed
        };
        let tables = self.iter().map(|(name, value)| (name, table(value)));
        out.put_tables(key, flattened(T::KEYS).len(), tables.collect());
    }
}

/// An empty table.
impl Setting for () {
    const KIND: Kind = Kind::Table(&[]);

    fn read<'f>(at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        at.table(context).map(|_| ())
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, "{}");
    }
}

impl Text for String {
    fn parse<'f>(written: &str, line: usize, at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        if let Form::Name(section) = at.form()
            && let Some(message) = context.none_such(section, written)
        {
            at.note(context, line, message);
        }
        Some(written.to_owned())
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

impl Text for PathBuf {
    fn parse<'f>(written: &str, line: usize, at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        let path = context.resolve(at.fields, written);
        let parent = path.parent().unwrap_or(Path::new("/"));
        let problem = match at.form() {
            Form::File if !path.is_file() => format!("there is no file `{}`", path.display()),
            Form::Folder if !path.is_dir() => format!("there is no folder `{}`", path.display()),
            Form::NewFile if !parent.is_dir() => format!("there is no folder `{}`", parent.display()),
            Form::Program if !Path::new(written).is_absolute() || !path.is_file() => {
                format!("found {written:?}, expected the absolute path of a program that is there")
            }
            _ => return Some(path),
        };
        at.note(context, line, problem);
        // The others are checked as if it were there.
        Some(path)
    }

    fn to_text(&self) -> String {
        self.to_string_lossy().into_owned()
    }
}

/// The value of an environment variable, whose name is written.
impl Text for Secret {
    fn parse<'f>(written: &str, line: usize, at: At<'f>, context: &mut Context<'f>) -> Option<Self> {
        if is_name(written) {
            return context.secret(written, at);
        }
        let message = format!("found {written:?}, expected the name of an environment variable");
        at.note(context, line, message);
        None
    }

    fn to_text(&self) -> String {
        self.shown().to_owned()
    }
}
text_settings!(String, PathBuf, Secret);

impl At<'_> {
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
