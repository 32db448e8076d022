//! A record by its reference.

use std::borrow::Cow;

use forebay_store::{Key, Read, StoreError};

use crate::{kind::text_of, reference::Reference};

/// The kind of the record that has a reference; `None` when there is no such record.
pub fn kind_at(read: &impl Read, reference: Reference) -> Result<Option<String>, StoreError> {
    let Some(text) = read.get(&reference.entry()?)? else {
        return Ok(None);
    };
    // What somebody else has written there is no kind.
    Ok(text_of(text).filter(|kind| crate::kind::check_kind(kind).is_ok()))
}

/// Where the record of a reference is, with its kind.
pub fn find(read: &impl Read, reference: Reference) -> Result<Option<(String, Key)>, StoreError> {
    let Some(kind) = kind_at(read, reference)? else {
        return Ok(None);
    };
    let key = reference.key(&kind)?;
    Ok(Some((kind, key)))
}

/// The record of a reference, if it has that kind, as canonical JSON: one look-up.
pub fn find_of_kind<'r>(
    read: &'r impl Read,
    kind: &str,
    reference: Reference,
    bytes_max: usize,
) -> Result<Option<Cow<'r, [u8]>>, StoreError> {
    read.document_within(&reference.key(kind)?, bytes_max)
}
