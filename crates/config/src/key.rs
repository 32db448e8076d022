//! The declaration of a key, as the reader, the schema and the reference share it.

use std::time::Duration;

use crate::units::{print_duration, print_size};

/// A section of the file.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// One sentence for the reference.
    meaning: &'static str,
    pub(crate) keys: &'static [Key],
}

/// How many times a section may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `[name]`, once.
    Once,
    /// `[name.NAME]`, once for each NAME. The text says in errors what has the NAME.
    Named(&'static str),
    /// `[[name]]`, any number.
    Repeated,
}

/// A key of a section.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Default,
    /// As the lines of a doc comment, each with a space before it.
    pub(crate) about: &'static str,
    /// The response to a client when the limit is exceeded; empty if the key is not such a limit.
    pub(crate) exceeded: &'static str,
}

/// The type of a key's value. Bounds are inclusive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Flag,
    Integer {
        min: u64,
        max: u64,
    },
    /// A number of bytes.
    Size {
        min: u64,
        max: u64,
    },
    /// A fraction from 0 to 1.
    Share,
    /// Bounds in milliseconds.
    Duration {
        min: u64,
        max: u64,
    },
    Choice(&'static [&'static str]),
    Text(Form),
    /// A list of at least `min` texts.
    Texts {
        min: usize,
        form: Form,
    },
    /// Texts under names that the author chose.
    TextMap,
    /// Any JSON value.
    Json,
    Table(&'static [Key]),
    /// Tables with these keys under names that the author chose.
    TableMap(&'static [Key]),
    /// No key but several, which together make one value.
    Group(&'static [Key]),
}

/// The form of a text, checked when all files have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Anything, or what its Rust type parses.
    Plain,
    /// An existing file.
    File,
    /// An existing folder.
    Folder,
    /// A file that will be made in an existing folder.
    NewFile,
    /// The absolute path of an existing file.
    Program,
    /// The NAME of a section of this kind.
    Name(&'static str),
}

/// The value of a key that is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Default {
    /// It must be written.
    Required,
    /// This text, as it would be written. For lists and tables: the empty value, or a single text.
    Is(&'static str),
    /// No value, or as `about` describes.
    Nothing,
    /// The value of this key in another section.
    From(&'static str),
}

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const TIB: u64 = 1 << 40;
pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const YEAR: u64 = 365 * 24 * HOUR;

pub(crate) const TIMEOUT: Kind = duration(1, 24 * HOUR);
pub(crate) const FILE: Kind = Kind::Text(Form::File);
pub(crate) const FOLDER: Kind = Kind::Text(Form::Folder);
pub(crate) const NEW_FILE: Kind = Kind::Text(Form::NewFile);
pub(crate) const FILES: Kind = list(Form::File);
pub(crate) const FOLDERS: Kind = list(Form::Folder);
pub(crate) const PROGRAMS: Kind = list(Form::Program);

pub(crate) const fn integer(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max }
}

pub(crate) const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

pub(crate) const fn duration(min: u64, max: u64) -> Kind {
    Kind::Duration { min, max }
}

/// A list of so many texts.
pub(crate) const fn at_least(min: usize) -> Kind {
    Kind::Texts {
        min,
        form: Form::Plain,
    }
}

/// A list of texts of this form.
const fn list(form: Form) -> Kind {
    Kind::Texts { min: 0, form }
}

/// The NAME of such a section.
pub(crate) const fn name(section: &'static str) -> Kind {
    Kind::Text(Form::Name(section))
}

/// NAMEs of such sections.
pub(crate) const fn names(section: &'static str) -> Kind {
    list(Form::Name(section))
}

/// The keys of a type stand beside the others, not in a table.
pub(crate) const fn group(keys: &'static [Key]) -> Kind {
    Kind::Group(keys)
}

impl Section {
    pub(crate) const fn of<T: crate::section::Section>(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            meaning: T::ABOUT,
            keys: T::KEYS,
        }
    }

    pub(crate) fn meaning(&self) -> &'static str {
        self.meaning.trim_start()
    }

    /// The header as written in a file: `[server]`, `[pool.NAME]`, `[[route]]`.
    pub(crate) fn heading(&self) -> String {
        match self.shape {
            Shape::Once => format!("[{}]", self.name),
            Shape::Named(_) => format!("[{}.NAME]", self.name),
            Shape::Repeated => format!("[[{}]]", self.name),
        }
    }
}

impl Key {
    /// One or two sentences for the reference.
    pub(crate) fn meaning(&self) -> &'static str {
        self.about.trim_start()
    }
}

/// The keys as they are written: those of groups in the place of these.
pub(crate) fn flattened(keys: &'static [Key]) -> Vec<&'static Key> {
    let each = |key: &'static Key| match key.kind {
        Kind::Group(keys) => flattened(keys),
        _ => vec![key],
    };
    keys.iter().flat_map(each).collect()
}

/// The values a kind accepts, to end a sentence with.
pub(crate) fn accepted(kind: &Kind) -> String {
    let names = |keys| listed(flattened(keys).iter().map(|key| key.name));
    match kind {
        Kind::Flag => "true or false".to_owned(),
        Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Size { min, max } => format!(
            "a number of bytes from {} to {}, such as \"64KiB\", \"1MB\" or 4096",
            print_size(*min),
            print_size(*max)
        ),
        Kind::Share => "a number from 0 to 1, such as 0.1".to_owned(),
        Kind::Duration { min, max } => format!(
            "a duration from {} to {}, such as \"300ms\", \"10s\", \"5m\" or \"1h\"",
            print_duration(Duration::from_millis(*min)),
            print_duration(Duration::from_millis(*max))
        ),
        Kind::Choice(choices) => format!("one of {}", listed(choices.iter().map(|c| format!("{c:?}")))),
        Kind::Text(_) => "text without NUL".to_owned(),
        Kind::Texts { min: 0, .. } => "a text or a list of texts".to_owned(),
        Kind::Texts { min, .. } => format!(
            "a text or a list of at least {min} text{}",
            if *min == 1 { "" } else { "s" }
        ),
        Kind::TextMap => "a table of texts".to_owned(),
        Kind::Json => "a value that JSON can say".to_owned(),
        Kind::Table([]) => "an empty table".to_owned(),
        Kind::Table(keys) | Kind::Group(keys) => format!("a table with {}", names(keys)),
        Kind::TableMap(keys) => format!("tables with {}, each under a name", names(keys)),
    }
}

/// Names in one sentence.
pub(crate) fn listed<T: AsRef<str>>(names: impl Iterator<Item = T>) -> String {
    names
        .map(|name| name.as_ref().to_owned())
        .collect::<Vec<_>>()
        .join(", ")
}
