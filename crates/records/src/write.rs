//! Creates, changes and removes records, in a transaction of the caller.

use std::collections::HashMap;

use forebay_store::{Key, Read, StoreError, Subscript, Transaction, json};

use crate::{
    DIRECTORY, KINDS,
    error::RecordsError,
    expired::Ended,
    kind::kind_of,
    lookup, name,
    permission::{Action, Denial, Permission},
    reference::{REFERENCE_MAX, Reference},
    settings::Settings,
};

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Reference of the record written.
    pub reference: Reference,
    /// Its kind after the write.
    pub kind: String,
}

/// Rejects a kind that the caller may not access.
pub(crate) fn check(permission: &impl Permission, kind: &str, action: Action) -> Result<(), RecordsError> {
    permission
        .check(kind, action)
        .map_err(|denial| RecordsError::Denied {
            kind: kind.to_owned(),
            action,
            denial,
        })
}

/// Rejects a record, found by its reference, that the caller may not access. Its kind is revealed only to callers that
/// may read it, and its existence only to callers that a token would help.
pub fn check_record(
    permission: &impl Permission,
    reference: Reference,
    kind: &str,
    action: Action,
) -> Result<(), RecordsError> {
    let Err(denial) = permission.check(kind, action) else {
        return Ok(());
    };
    if permission.check(kind, Action::Read).is_ok() {
        return check(permission, kind, action);
    }
    Err(match denial {
        Denial::Nobody => missing(reference),
        Denial::TokenNeeded | Denial::WrongToken => RecordsError::RecordDenied {
            reference,
            action,
            denial,
        },
    })
}

/// Creates a record from a JSON document, under the next free reference. `now_ms` are milliseconds since 1970 UTC: if
/// the kind has expired as a whole by then, it starts anew.
pub fn create(
    transaction: &mut Transaction,
    document: &[u8],
    settings: &Settings,
    permission: &impl Permission,
    now_ms: u64,
) -> Result<Written, RecordsError> {
    let document = json::canonical(document).map_err(StoreError::from)?;
    let kind = kind_of(&document, settings)?;
    check(permission, &kind, Action::Write)?;
    check_length(&document, transaction)?;
    let reference = next_reference(transaction, &kind)?;
    put(transaction, reference, &kind, &document, now_ms)?;
    transaction.set(&Key::global(DIRECTORY)?, reference.to_string().as_bytes())?;
    transaction.set(&reference.entry()?, &json::string(&kind))?;
    Ok(Written { reference, kind })
}

/// Creates a record with a name that no other record has.
pub fn create_named(
    transaction: &mut Transaction,
    name: &str,
    document: &[u8],
    settings: &Settings,
    permission: &impl Permission,
    now_ms: u64,
) -> Result<Written, RecordsError> {
    let written = create(transaction, document, settings, permission, now_ms)?;
    name::give(transaction, name, written.reference)?;
    Ok(written)
}

/// Replaces a record, which keeps its reference; a change of kind moves it. `now_ms` are milliseconds since 1970 UTC:
/// what has expired by then does not exist.
pub fn replace(
    transaction: &mut Transaction,
    reference: Reference,
    document: &[u8],
    settings: &Settings,
    permission: &impl Permission,
    now_ms: u64,
) -> Result<Written, RecordsError> {
    let before = existing(transaction, reference, permission, now_ms)?;
    let document = json::canonical(document).map_err(StoreError::from)?;
    let times = (now_ms, None);
    replace_in(
        transaction,
        reference,
        &before,
        &document,
        settings,
        permission,
        times,
    )
}

/// Applies a merge patch (RFC 7396) to a record.
pub fn patch(
    transaction: &mut Transaction,
    reference: Reference,
    patch: &[u8],
    settings: &Settings,
    permission: &impl Permission,
    now_ms: u64,
) -> Result<Written, RecordsError> {
    let kind = existing(transaction, reference, permission, now_ms)?;
    let patch = json::canonical(patch).map_err(StoreError::from)?;
    if json::container(&patch) != Some(false) {
        return Err(RecordsError::NotAnObject {
            found: crate::error::beginning(&patch),
        });
    }
    let key = reference.key(&kind)?;
    let bytes_max = transaction.value_bytes_max();
    if !touches(&patch, &settings.type_key) {
        transaction.patch(&key, &patch)?;
        return Ok(Written { reference, kind });
    }
    // The patch may change the kind, and a failure must leave nothing half done.
    let document = transaction.document_within(&key, bytes_max)?;
    let document = document.ok_or_else(|| missing(reference))?.into_owned();
    let mut merged = Vec::new();
    merge(&document, &patch, &mut merged);
    let merged = json::canonical(&merged).map_err(StoreError::from)?;
    if kind_of(&merged, settings)? == kind {
        // A record that stays in its kind keeps its expiry time.
        transaction.patch(&key, &patch)?;
        return Ok(Written { reference, kind });
    }
    let times = (now_ms, transaction.expires(&key)?);
    replace_in(
        transaction,
        reference,
        &kind,
        &merged,
        settings,
        permission,
        times,
    )
}

/// Removes a record and retires its reference for good; returns the kind it had.
pub fn delete(
    transaction: &mut Transaction,
    reference: Reference,
    permission: &impl Permission,
    now_ms: u64,
) -> Result<Written, RecordsError> {
    let kind = existing(transaction, reference, permission, now_ms)?;
    remove(transaction, reference, &kind)?;
    Ok(Written { reference, kind })
}

pub(crate) fn remove(
    transaction: &mut Transaction,
    reference: Reference,
    kind: &str,
) -> Result<(), RecordsError> {
    let is_its_own = is_known(transaction, reference, kind)?;
    transaction.kill(&reference.key(kind)?)?;
    if is_its_own {
        name::take(transaction, reference)?;
        transaction.kill(&reference.entry()?)?;
    }
    Ok(())
}

/// Whether a reference belongs to the record of this kind. Other data in a kind's global was not created as a record:
/// its number was never assigned, and may be the reference of a record of another kind.
fn is_known(transaction: &Transaction, reference: Reference, kind: &str) -> Result<bool, RecordsError> {
    Ok(lookup::known(transaction, reference)?.is_some_and(|known| known == kind))
}

/// Replaces an existing record with canonical JSON. The two times are the present, in milliseconds since 1970 UTC, and
/// the record's new expiry time, if any. Expired data at the target is no obstacle.
pub(crate) fn replace_in(
    transaction: &mut Transaction,
    reference: Reference,
    before: &str,
    document: &[u8],
    settings: &Settings,
    permission: &impl Permission,
    (now_ms, ends): (u64, Option<u64>),
) -> Result<Written, RecordsError> {
    let kind = kind_of(document, settings)?;
    check_length(document, transaction)?;
    let becomes = reference.key(&kind)?;
    if kind == before {
        put(transaction, reference, &kind, document, now_ms)?;
        if ends.is_some() {
            transaction.expire(&becomes, ends)?;
        }
        return Ok(Written { reference, kind });
    }
    check(permission, &kind, Action::Write)?;
    let ended = Ended::by(now_ms, transaction)?;
    if transaction.defined(&becomes)?.exists() && !ended.has(&becomes, transaction)? {
        return Err(RecordsError::ReferenceTaken { reference, kind });
    }
    let is_its_own = is_known(transaction, reference, before)?;
    // The document can be rejected, so it is written first.
    put(transaction, reference, &kind, document, now_ms)?;
    if ends.is_some() {
        transaction.expire(&becomes, ends)?;
    }
    if is_its_own {
        transaction.set(&reference.entry()?, &json::string(&kind))?;
    }
    transaction.kill(&reference.key(before)?)?;
    Ok(Written { reference, kind })
}

/// The kind of a record that exists and may be written.
fn existing(
    transaction: &Transaction,
    reference: Reference,
    permission: &impl Permission,
    now_ms: u64,
) -> Result<String, RecordsError> {
    let kind = lookup::kind_at(transaction, reference, now_ms)?.ok_or_else(|| missing(reference))?;
    check_record(permission, reference, &kind, Action::Write)?;
    Ok(kind)
}

fn missing(reference: Reference) -> RecordsError {
    RecordsError::NoRecord {
        reference,
        kind: None,
    }
}

fn put(
    transaction: &mut Transaction,
    reference: Reference,
    kind: &str,
    document: &[u8],
    now_ms: u64,
) -> Result<(), RecordsError> {
    let key = reference.key(kind)?;
    transaction.remove_ended(&key, now_ms)?;
    transaction.put(&key, document)?;
    let known = Key::global(KINDS)?.child(kind)?;
    if !transaction.defined(&known)?.value {
        transaction.set(&known, b"true")?;
    }
    Ok(())
}

/// Checked before anything is changed, because a transaction that fails halfway is lost.
fn check_length(document: &[u8], transaction: &Transaction) -> Result<(), StoreError> {
    let max = transaction.value_bytes_max();
    if document.len() > max {
        return Err(StoreError::ValueTooLong {
            bytes: document.len(),
            max,
        });
    }
    Ok(())
}

/// The reference after the last one assigned, or after all numbers in the kind, if something there was not created as a
/// record.
fn next_reference(transaction: &Transaction, kind: &str) -> Result<Reference, RecordsError> {
    let directory = Key::global(DIRECTORY)?;
    let last = String::from_utf8_lossy(transaction.get(&directory)?.unwrap_or(b"0"));
    let after = |last: Option<u64>| {
        last.filter(|last| *last < REFERENCE_MAX)
            .map(|last| Reference(last + 1))
    };
    let is_free = |reference: Reference| -> Result<bool, RecordsError> {
        let known = transaction.defined(&reference.entry()?)?;
        let there = transaction.defined(&reference.key(kind)?)?;
        Ok(!known.exists() && !there.exists())
    };
    let none_left = || RecordsError::NoReferenceLeft {
        last: last.clone().into_owned(),
    };
    let next = after(last.parse().ok()).ok_or_else(none_left)?;
    if is_free(next)? {
        return Ok(next);
    }
    let mut greatest = next;
    for global in [kind, DIRECTORY] {
        // All numbers sort before the first text.
        let before = Subscript::new("");
        let last = transaction.previous(&Key::global(global)?, Some(&before))?;
        let last = last.and_then(|last| last.text().split('.').next()?.parse().ok());
        greatest = greatest.max(Reference(last.unwrap_or(0)));
    }
    let next = after(Some(greatest.0)).ok_or_else(none_left)?;
    if is_free(next)? {
        return Ok(next);
    }
    let kind = kind.to_owned();
    Err(RecordsError::ReferenceTaken {
        reference: next,
        kind,
    })
}

/// Whether a patch affects the kind, or a member that contains it.
fn touches(patch: &[u8], type_key: &[String]) -> bool {
    type_key
        .first()
        .is_some_and(|first| json::find(patch, first).is_some())
}

/// Applies a merge patch to canonical JSON; the result is JSON, but not in canonical order.
fn merge(target: &[u8], patch: &[u8], out: &mut Vec<u8>) {
    if json::container(patch) != Some(false) {
        out.extend_from_slice(patch);
        return;
    }
    let target = if json::container(target) == Some(false) {
        target
    } else {
        b"{}"
    };
    out.push(b'{');
    let start = out.len();
    let name = |name: &str, out: &mut Vec<u8>| {
        if out.len() > start {
            out.push(b',');
        }
        out.extend_from_slice(&json::string(name));
        out.push(b':');
    };
    let mut changes: HashMap<_, _> = json::children(patch)
        .map(|change| (change.name, change.text))
        .collect();
    for member in json::children(target) {
        match changes.remove(&member.name) {
            Some(b"null") => {}
            Some(change) => {
                name(&member.name, out);
                merge(member.text, change, out);
            }
            None => {
                name(&member.name, out);
                out.extend_from_slice(member.text);
            }
        }
    }
    for (new, text) in changes.into_iter().filter(|(_, text)| *text != b"null") {
        name(&new, out);
        merge(b"{}", text, out);
    }
    out.push(b'}');
}
