//! A record by its reference.

use std::borrow::Cow;

use forebay_store::{Key, Read, StoreError};

use crate::{ended::Ended, kind::text_of, reference::Reference};

/// The kind of the record that has a reference; `None` when there is no such record.
pub fn kind_at(read: &impl Read, reference: Reference, now_ms: u64) -> Result<Option<String>, StoreError> {
    let Some((kind, key)) = find(read, reference, now_ms)? else {
        return Ok(None);
    };
    // It may have been removed by somebody who knows nothing of references.
    Ok(read.defined(&key)?.exists().then_some(kind))
}

/// Where the record of a reference is, with its kind, unless it has ended by itself; there may be nothing.
pub fn find(
    read: &impl Read,
    reference: Reference,
    now_ms: u64,
) -> Result<Option<(String, Key)>, StoreError> {
    let Some(kind) = known(read, reference)? else {
        return Ok(None);
    };
    // What somebody else has written there may be no kind.
    let Some(key) = reference.key(&kind).ok().filter(|_| !kind.starts_with('%')) else {
        return Ok(None);
    };
    let has_ended = Ended::by(now_ms, read)?.has(&key, read)?;
    Ok((!has_ended).then_some((kind, key)))
}

/// The kind that the directory says.
pub(crate) fn known(read: &impl Read, reference: Reference) -> Result<Option<String>, StoreError> {
    Ok(read.get(&reference.entry()?)?.and_then(text_of))
}

/// The record of a reference, if it has that kind, as canonical JSON: one look-up.
pub fn find_of_kind<'r>(
    read: &'r impl Read,
    kind: &str,
    reference: Reference,
    bytes_max: usize,
    now_ms: u64,
) -> Result<Option<Cow<'r, [u8]>>, StoreError> {
    match place_in_kind(read, kind, reference, now_ms)? {
        Some(key) => read.document_within(&key, bytes_max),
        None => Ok(None),
    }
}

/// Where the record of a reference is, if it has that kind, unless it has ended by itself; there may be nothing.
pub fn place_in_kind(
    read: &impl Read,
    kind: &str,
    reference: Reference,
    now_ms: u64,
) -> Result<Option<Key>, StoreError> {
    let key = reference.key(kind)?;
    let has_ended = Ended::by(now_ms, read)?.has(&key, read)?;
    Ok((!has_ended).then_some(key))
}
