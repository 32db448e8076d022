//! A record by its reference.

use std::borrow::Cow;

use forebay_store::{Key, Read, StoreError};

use crate::{kind::text_of, reference::Reference};

/// The kind of the record that has a reference; `None` when there is no such record.
pub fn kind_at(read: &impl Read, reference: Reference) -> Result<Option<String>, StoreError> {
    Ok(find(read, reference)?.map(|(kind, _)| kind))
}

/// Where the record of a reference is, with its kind.
pub fn find(read: &impl Read, reference: Reference) -> Result<Option<(String, Key)>, StoreError> {
    let Some(kind) = read.get(&reference.entry()?)?.and_then(text_of) else {
        return Ok(None);
    };
    // What somebody else has written there may be no kind.
    let key = reference.key(&kind).ok().filter(|_| !kind.starts_with('%'));
    Ok(key.map(|key| (kind, key)))
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
