//! Declares sections: a key is written once, as the field of a struct.
//!
//! ```text
//! section! {
//!     /// What the section is for. This and the comments of its keys are in the reference and in the schema.
//!     #[rules(Example::rules)]
//!     #[check(Example::check)]
//!     #[unused(Example::unused)]
//!     pub struct Example {
//!         /// The meaning of a key that must be written.
//!         name: String,
//!         /// A number of bytes with bounds, a default, and the response when it is exceeded.
//!         body_bytes_max: u64 as size(KIB, GIB) = "1MiB" => "413",
//!         /// Without a value, that of another section.
//!         deadline: Duration as TIMEOUT | "server.deadline",
//!         /// A key that may be absent.
//!         file: Option<PathBuf> as FILE,
//!         /// Several keys that make one value, declared elsewhere.
//!         limits: Limits as group(Limits::KEYS),
//!     }
//! }
//! ```
//!
//! `rules` checks what is written, also if a value is invalid. `check` has all values, and fills in what the machine determines. `unused`
//! names keys that have no effect beside the others: they are not printed, and an error says why if they are written. With `for Type` in
//! the place of `pub struct Example` the struct is one of another crate.

use crate::build::Context;
use crate::fields::{Fields, Value};
use crate::key::{Default, Key, Kind};
use crate::print::Table;

/// A type whose fields are the keys of a table.
pub(crate) trait Section: Sized {
    /// The purpose of the section, as the lines of a doc comment.
    const ABOUT: &'static str;
    const KEYS: &'static [Key];

    /// `None` after a problem was noted.
    fn read<'f>(fields: &'f Fields, context: &mut Context<'f>) -> Option<Self>;

    fn print(&self, out: &mut Table);
}

/// A type of a key's value.
pub(crate) trait Setting: Sized {
    /// The values that such a key accepts unless its declaration says more.
    const KIND: Kind;
    /// The default if the declaration has none.
    const DEFAULT: Default = Default::Required;

    /// `None` after a problem was noted.
    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self>;

    fn print(&self, key: &Key, out: &mut Table);
}

/// A key in a table of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'f> {
    pub(crate) fields: &'f Fields,
    pub(crate) key: &'static Key,
}

impl<'f> Entry<'f> {
    pub(crate) fn value(&self, context: &Context<'f>) -> Option<&'f Value> {
        let value = self.fields.value(self.key.name);
        value.or_else(|| context.inherited(self))
    }

    /// The full name of a key in another section: `pool.NAME.key` is that of the pool that the table names.
    pub(crate) fn outer_name(&self, outer: &str) -> String {
        let section = outer.split('.').next().unwrap_or_default();
        match self.fields.text(section) {
            Some(name) => outer.replace("NAME", name),
            None => outer.to_owned(),
        }
    }

    pub(crate) fn line(&self) -> usize {
        self.fields.line_of(self.key.name)
    }

    pub(crate) fn note(&self, context: &mut Context<'f>, line: usize, message: impl Into<String>) {
        context.note(self.fields.problem_at(line, self.key.name, message));
    }
}

/// Keys that have no effect, each with the reason why it may not be written; without a reason it may be.
pub(crate) type Unused = Vec<(&'static str, String)>;

/// These keys, unless they have an effect.
pub(crate) fn unless(is_used: bool, keys: &[&'static str], why: &str) -> Unused {
    let keys = keys.iter().filter(|_| !is_used);
    keys.map(|key| (*key, why.to_owned())).collect()
}

/// The key of a section with that name.
pub(crate) fn key_of(keys: &'static [Key], name: &str) -> &'static Key {
    let found = keys.iter().find(|key| key.name == name);
    found.expect("the section declares the key")
}

/// Declares a section; see the module.
macro_rules! section {
    (
        $(#[doc = $about:literal])+ $(#[rules($rules:path)])? $(#[check($check:path)])? $(#[unused($unused:path)])? $(#[derive($derive:ident)])?
        $vis:vis struct $name:ident { $($keys:tt)* }
    ) => {
        section! { @struct [$($about)+] [$($derive)?] $vis $name $($keys)* }
        section! { @impl [$($about)+] [$($rules)?] [$($check)?] [$($unused)?] $name; $($keys)* }
    };
    (
        $(#[doc = $about:literal])+ $(#[rules($rules:path)])? $(#[check($check:path)])? $(#[unused($unused:path)])?
        for $name:ty { $($keys:tt)* }
    ) => {
        section! { @impl [$($about)+] [$($rules)?] [$($check)?] [$($unused)?] $name; $($keys)* }
    };
    (@struct [$($about:literal)+] [$($derive:ident)?] $vis:vis $name:ident $(
        $(#[doc = $meaning:literal])+
        $key:ident: $type:ty $(as $kind:ident $(($($bound:expr),*))?)? $(= $default:literal)? $(| $from:literal)? $(=> $exceeded:literal)?
    ),* $(,)?) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq $(, $derive)?)]
        #[allow(clippy::doc_markdown, reason = "the comments are the text of the reference")]
        $vis struct $name {
            $($(#[doc = $meaning])+ $vis $key: $type,)*
        }
    };
    (@impl [$($about:literal)+] [$($rules:path)?] [$($check:path)?] [$($unused:path)?] $name:ty; $(
        $(#[doc = $meaning:literal])+
        $key:ident: $type:ty $(as $kind:ident $(($($bound:expr),*))?)? $(= $default:literal)? $(| $from:literal)? $(=> $exceeded:literal)?
    ),* $(,)?) => {
        impl $crate::section::Section for $name {
            const ABOUT: &'static str = concat!($($about),+);
            const KEYS: &'static [$crate::key::Key] = &[$($crate::key::Key {
                name: stringify!($key),
                kind: section!(@kind $type $(, $kind $(($($bound),*))?)?),
                default: section!(@default $type $(, is $default)? $(, from $from)?),
                about: concat!($($meaning),+),
                exceeded: concat!($($exceeded)?),
            }),*];

            fn read<'f>(
                fields: &'f $crate::fields::Fields,
                context: &mut $crate::build::Context<'f>,
            ) -> Option<Self> {
                $($rules(fields, context);)?
                $(let $key = $crate::section::Setting::read(
                    $crate::section::Entry { fields, key: $crate::section::key_of(Self::KEYS, stringify!($key)) },
                    context,
                );)*
                let section = Self { $($key: $key?),* };
                $(context.refuse(fields, &$unused(&section));)?
                $(let section = { let mut section = section; $check(&mut section, fields, context); section };)?
                Some(section)
            }

            fn print(&self, out: &mut $crate::print::Table) {
                let unused = section!(@unused self $(, $unused)?);
                $(if !unused.iter().any(|(name, _)| *name == stringify!($key)) {
                    let key = $crate::section::key_of(Self::KEYS, stringify!($key));
                    $crate::section::Setting::print(&self.$key, key, out);
                })*
            }
        }
        $crate::section::table_setting!($name);
    };
    (@unused $section:expr) => { $crate::section::Unused::new() };
    (@unused $section:expr, $unused:path) => { $unused($section) };
    (@kind $type:ty) => { <$type as $crate::section::Setting>::KIND };
    (@kind $type:ty, $kind:ident $(($($bound:expr),*))?) => { $crate::key::$kind $(($($bound),*))? };
    (@default $type:ty) => { <$type as $crate::section::Setting>::DEFAULT };
    (@default $type:ty, is $default:literal) => { $crate::key::Default::Is($default) };
    (@default $type:ty, from $from:literal) => { $crate::key::Default::From($from) };
}
pub(crate) use section;

/// Makes a section the value of a key: its keys are in a table, or beside the others if the key is declared as a group.
macro_rules! table_setting {
    ($type:ty) => {
        impl $crate::section::Setting for $type {
            const KIND: $crate::key::Kind =
                $crate::key::Kind::Table(<Self as $crate::section::Section>::KEYS);
            const DEFAULT: $crate::key::Default = $crate::key::Default::Is("");

            fn read<'f>(
                entry: $crate::section::Entry<'f>,
                context: &mut $crate::build::Context<'f>,
            ) -> Option<Self> {
                let fields = match entry.key.kind {
                    $crate::key::Kind::Group(_) => entry.fields,
                    _ => entry.table(context)?,
                };
                $crate::section::Section::read(fields, context)
            }

            fn print(&self, key: &$crate::key::Key, out: &mut $crate::print::Table) {
                if let $crate::key::Kind::Group(_) = key.kind {
                    return $crate::section::Section::print(self, out);
                }
                out.put_table(key, &$crate::print::Table::of(String::new(), self));
            }
        }
    };
}
pub(crate) use table_setting;

/// Reads and prints a type by the keys of another one: `Type::of(keys, fields, context)` and `Type::keys(&self)` convert.
macro_rules! by_keys {
    ($type:ty, $keys:ty) => {
        impl $crate::section::Section for $type {
            const ABOUT: &'static str = <$keys as $crate::section::Section>::ABOUT;
            const KEYS: &'static [$crate::key::Key] = <$keys as $crate::section::Section>::KEYS;

            fn read<'f>(
                fields: &'f $crate::fields::Fields,
                context: &mut $crate::build::Context<'f>,
            ) -> Option<Self> {
                let keys = <$keys as $crate::section::Section>::read(fields, context)?;
                Self::of(keys, fields, context)
            }

            fn print(&self, out: &mut $crate::print::Table) {
                $crate::section::Section::print(&self.keys(), out);
            }
        }
        $crate::section::table_setting!($type);
    };
}
pub(crate) use by_keys;

/// Declares an enum by the words of the configuration, or gives words to one of another crate.
macro_rules! words {
    ($(#[$attribute:meta])* $vis:vis enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// The word used in the configuration.
            $vis fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
        $crate::section::words! { for $name { $($variant = $word,)+ } }
    };
    (for $name:ty { $($variant:ident = $word:literal,)+ }) => {
        impl $crate::section::Setting for $name {
            const KIND: $crate::key::Kind = $crate::key::Kind::Choice(&[$($word),+]);

            fn read<'f>(
                entry: $crate::section::Entry<'f>,
                context: &mut $crate::build::Context<'f>,
            ) -> Option<Self> {
                let word = entry.text(context)?;
                $(if word == $word {
                    return Some(Self::$variant);
                })+
                None
            }

            fn print(&self, key: &$crate::key::Key, out: &mut $crate::print::Table) {
                let word = match self { $(Self::$variant => $word,)+ };
                out.put(key.name, &$crate::print::text(word));
            }
        }
    };
}
pub(crate) use words;
