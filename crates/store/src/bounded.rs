//! Documents no longer than a caller has room for.

use std::borrow::Cow;

use crate::{
    error::StoreError,
    key::{Key, within},
    sys::Seek,
    tree::{Reader, Record},
};

/// The document of a subtree. What is stored for it in parts is measured first, so that no more than about `bytes_max` is ever put
/// together.
pub(crate) fn document<'t>(
    reader: Reader<'t>,
    key: &Key,
    bytes_max: usize,
) -> Result<Option<Cow<'t, [u8]>>, StoreError> {
    let root = key.as_bytes();
    let cursor = reader.transaction.cursor(reader.tables.nodes)?;
    let mut found = cursor.seek(Seek::AtLeast, root)?;
    // Most documents are one text, and that has been found then.
    if let Some((key, stored)) = found
        && key == root
        && let Some(text) = Record::read(key, stored)?.pack()
    {
        return Ok(Some(Cow::Borrowed(text)));
    }
    let mut bytes = 0;
    while let Some((_, stored)) = found.filter(|(key, _)| within(key, root)) {
        bytes += stored.len();
        if bytes > bytes_max {
            return Err(StoreError::ValueTooLong {
                bytes,
                max: bytes_max,
            });
        }
        found = cursor.next()?;
    }
    drop(cursor);
    reader.document_text(key)
}
