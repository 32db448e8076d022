//! The tree of nodes over the engine's table of keys.
//!
//! A node may have a value (a scalar, or the empty containers `{}` and `[]`), children, or both. A node exists while it has one
//! of them. Its children are the members of an object or the elements of an array; they are elements as long as their
//! subscripts are 0, 1, 2, ... without a gap, and become members when a write breaks that.
//!
//! **Physical layout.** A record per node that has a value or is an array. A subtree that was written as a whole is kept
//! *packed*: one record with its canonical text at the node where it was written. A packed node has no stored
//! descendants, so the greatest key at or before a path says all: it is the node's own record, or the pack that
//! holds it, or neither. Packs over [`Tables::pack_bytes_max`] are kept as their children. Nobody outside can tell the two apart.

pub(crate) mod document;
pub(crate) mod read;
mod record;
pub(crate) mod write;

use crate::sys::Table;

pub(crate) use read::Reader;
pub(crate) use record::Record;

/// The tables of a store, and what decides how it is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) nodes: Table,
    /// What is known about the store: its format, its log, its indexes.
    pub(crate) meta: Table,
    /// Entries of indexes.
    pub(crate) index: Table,
    /// When nodes end, by node.
    pub(crate) expiry: Table,
    /// The same, by time.
    pub(crate) due: Table,
    /// Longest text of a packed subtree, in bytes.
    pub(crate) pack_bytes_max: usize,
    /// Longest value, in bytes of canonical text.
    pub(crate) value_bytes_max: usize,
}

/// What there is at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defined {
    /// A value.
    pub value: bool,
    /// Children.
    pub children: bool,
}

impl Defined {
    /// Whether the node exists.
    pub fn exists(self) -> bool {
        self.value || self.children
    }
}
