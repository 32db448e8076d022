//! Stored form of a node: flags, a checksum and a text.
//!
//! ```text
//! flags 1 | CRC-32C of key, flags and text 4, little-endian | text
//! ```

use crate::{engine::Transaction, error::StoreError, json, key::Key};

use super::Tables;

/// The node has a value; without this flag the record only marks an array.
const VALUE: u8 = 1;
/// The node's children are the elements of an array.
const ARRAY: u8 = 2;

/// A decoded record in memory borrowed from the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'t> {
    flags: u8,
    text: &'t [u8],
}

impl<'t> Record<'t> {
    /// Decodes a stored value and verifies that it was written under this key.
    pub(crate) fn read(key: &[u8], stored: &'t [u8]) -> Result<Self, StoreError> {
        let whole = (|| {
            let (flags, rest) = stored.split_first()?;
            let (sum, text) = rest.split_first_chunk::<4>()?;
            (checksum(key, *flags, text) == u32::from_le_bytes(*sum)).then_some(Self { flags: *flags, text })
        })();
        whole.ok_or_else(|| StoreError::Damaged {
            what: format!("the value of {} is not what was written", Key::from_encoded(key)),
        })
    }

    /// The value, if the node has one: a scalar, or a whole subtree.
    pub(crate) fn text(&self) -> Option<&'t [u8]> {
        (self.flags & VALUE != 0).then_some(self.text)
    }

    /// Text of the packed subtree, if this record holds one. No descendants are stored then.
    pub(crate) fn pack(&self) -> Option<&'t [u8]> {
        self.text().filter(|text| json::container(text).is_some())
    }

    /// Whether the stored children are array elements.
    pub(crate) fn is_array(&self) -> bool {
        self.flags & ARRAY != 0
    }
}

/// Stores a node's own record, or removes it if the node has neither a value nor is an array.
pub(super) fn write(
    transaction: &mut Transaction,
    tables: Tables,
    key: &Key,
    text: Option<&[u8]>,
    array: bool,
) -> Result<(), StoreError> {
    let flags = (u8::from(text.is_some()) * VALUE) | (u8::from(array) * ARRAY);
    if flags == 0 {
        transaction.delete(tables.nodes, key.as_bytes())?;
        return Ok(());
    }
    let text = text.unwrap_or_default();
    let sum = checksum(key.as_bytes(), flags, text).to_le_bytes();
    transaction.put(tables.nodes, key.as_bytes(), &[&[flags], &sum, text])
}

fn checksum(key: &[u8], flags: u8, text: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(key), &[flags]), text)
}
