//! What stands behind one stored key: flags, a checksum, a text.
//!
//! ```text
//! flags 1 | CRC-32C of key, flags and text 4, little-endian | text
//! ```

use crate::{error::StoreError, json, key::Key, sys::Transaction};

use super::Tables;

/// The node has a value; without it the record only says what the node is.
const VALUE: u8 = 1;
/// The node's children are the elements of an array.
const ARRAY: u8 = 2;

/// A record in memory that the engine lends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'t> {
    flags: u8,
    text: &'t [u8],
}

impl<'t> Record<'t> {
    /// Takes a stored value apart, if it is what was once written under this key.
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

    /// The text of the subtree, where one is kept in this record. No descendants are stored then.
    pub(crate) fn pack(&self) -> Option<&'t [u8]> {
        self.text().filter(|text| json::container(text).is_some())
    }

    /// Whether the stored children are the elements of an array.
    pub(crate) fn is_array(&self) -> bool {
        self.flags & ARRAY != 0
    }
}

/// Stores what a node is by itself; a node that is nothing by itself has no record.
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
