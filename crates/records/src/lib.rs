//! Records over the store: JSON objects of kinds, each with a reference for life, and TQL to ask for them and to change them.
//!
//! A kind is a global of the store of that name: record 11 of kind `Article` is the document at `Article(11)`. So a kind is one range
//! of the store, its indexes are the store's own, and who may reach a global may reach the kind. Beside it [`DIRECTORY`] says of every
//! reference which kind its record has. Everything here is synchronous and works on a snapshot or in a transaction that its caller holds.

#![forbid(unsafe_code)]

mod ended;
mod error;
pub mod facade;
mod kind;
mod layout;
mod list;
mod lookup;
mod name;
mod number;
mod operand;
mod path;
mod permission;
mod reference;
mod settings;
mod time;
pub mod tql;
mod work;
mod write;

pub use error::{Position, RecordsError, StatementError};
pub use kind::{check_kind, kind_of, kinds};
pub use layout::{INDENT_MAX, indented};
pub use list::{List, Page};
pub use lookup::{find, find_of_kind, kind_at, place_in_kind};
pub use name::{NAME_BYTES_MAX, is_name, named};
pub use permission::{Action, Denial, Everything, Permission};
pub use reference::Reference;
pub use settings::{Detect, Settings, TimeFormat, TimeNumber, parse_zone, zone_text};
pub use write::{Written, check_record, create, create_named, delete, patch, replace};

/// The global that says of a reference which kind its record has; its own value is the last reference that was given.
pub const DIRECTORY: &str = "%Ref";
/// The global whose children are the names of all kinds that ever had a record.
pub const KINDS: &str = "%Kind";
/// The global that says of a name which reference its record has.
pub const NAMES: &str = "%Name";
