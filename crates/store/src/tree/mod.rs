//! The tree of nodes, on top of the engine's ordered key table.
//!
//! A node may have a value (a scalar, or the empty containers `{}` and `[]`), children, or both. A node exists while it
//! has either. Its children are the members of an object or the elements of an array; they are elements as long as
//! their subscripts are 0, 1, 2, ... without a gap, and become members when a write breaks that.
//!
//! **Physical layout.** One record per node that has a value or is an array. A subtree that was written as a whole is
//! kept *packed*: a single record with its canonical text at the node where it was written. A packed node has no stored
//! descendants, so the greatest key at or before a path decides: it is the node's own record, the pack that contains
//! it, or neither. A pack longer than [`Tables::pack_bytes_max`] is split into its children. Readers cannot tell the
//! two apart.

pub(crate) mod document;
pub(crate) mod read;
mod record;
pub(crate) mod write;

use crate::engine::Table;

pub(crate) use read::Reader;
pub(crate) use record::Record;

/// Table handles of a store, and the settings of its physical layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) nodes: Table,
    /// Metadata of the store: format, boot id of the last recovery, index catalogue.
    pub(crate) meta: Table,
    /// Index entries.
    pub(crate) index: Table,
    /// Expiry times, by node.
    pub(crate) expiry: Table,
    /// The same, by time.
    pub(crate) due: Table,
    /// Longest packed subtree, in bytes of text.
    pub(crate) pack_bytes_max: usize,
    /// Longest value, in bytes of canonical text.
    pub(crate) value_bytes_max: usize,
}

/// Whether a node has a value and children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defined {
    /// The node has a value of its own.
    pub value: bool,
    /// The node has at least one child.
    pub children: bool,
}

impl Defined {
    /// Whether the node exists.
    pub fn exists(self) -> bool {
        self.value || self.children
    }
}
