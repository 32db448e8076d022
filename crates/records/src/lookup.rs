//! Looks up records by reference.

use std::borrow::Cow;

use forebay_store::{Key, Read, StoreError};

use crate::{expired::Ended, kind::text_of, reference::Reference};

/// The kind of a reference's record; `None` if there is no such record.
pub fn kind_at(read: &impl Read, reference: Reference, now_ms: u64) -> Result<Option<String>, StoreError> {
    let Some((kind, key)) = find(read, reference, now_ms)? else {
        return Ok(None);
    };
    // A program unaware of references may have removed it.
    Ok(read.defined(&key)?.exists().then_some(kind))
}

/// Kind and path of a reference's record, unless it has expired. The node may be empty.
pub fn find(
    read: &impl Read,
    reference: Reference,
    now_ms: u64,
) -> Result<Option<(String, Key)>, StoreError> {
    let Some(kind) = known(read, reference)? else {
        return Ok(None);
    };
    // Another program may have written an invalid kind there.
    let Some(key) = reference.key(&kind).ok().filter(|_| !kind.starts_with('%')) else {
        return Ok(None);
    };
    let has_ended = Ended::by(now_ms, read)?.has(&key, read)?;
    Ok((!has_ended).then_some((kind, key)))
}

/// The kind in the directory.
pub(crate) fn known(read: &impl Read, reference: Reference) -> Result<Option<String>, StoreError> {
    Ok(read.get(&reference.entry()?)?.and_then(text_of))
}

/// A reference's record as canonical JSON, if it has that kind: a single lookup.
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

/// Path of a reference's record in a kind, unless it has expired. The node may be empty.
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
