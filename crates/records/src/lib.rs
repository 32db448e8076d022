//! Records on top of the store: JSON objects, each with a kind and a permanent reference, and TQL to query and change
//! them.
//!
//! A kind is the global of that name in the store: record 11 of kind `Article` is the document at `Article(11)`. So a
//! kind is one range of the store, its indexes are the store's own, and access to a global is access to the kind. In
//! addition, [`DIRECTORY`] maps every reference to the kind of its record. Everything here is synchronous and works on
//! a snapshot or in a transaction that its caller holds.

#![forbid(unsafe_code)]

mod error;
mod expired;
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

/// Global that maps each reference to the kind of its record; its own value is the last reference assigned.
pub const DIRECTORY: &str = "%Ref";
/// Global whose children are the names of all kinds that ever had a record.
pub const KINDS: &str = "%Kind";
/// Global that maps each name to the reference of its record.
pub const NAMES: &str = "%Name";
