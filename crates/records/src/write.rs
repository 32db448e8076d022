//! Records made, changed and removed, each in a transaction that its caller holds.

use std::collections::HashMap;

use forebay_store::{Key, Read, StoreError, Subscript, Transaction, json};

use crate::{
    DIRECTORY, KINDS,
    ended::Ended,
    error::RecordsError,
    kind::kind_of,
    lookup, name,
    permission::{Action, Denial, Permission},
    reference::{REFERENCE_MAX, Reference},
    settings::Settings,
};

/// What has become of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its reference.
    pub reference: Reference,
    /// The kind that it has now.
    pub kind: String,
}

/// Refuses a kind that is not the caller's.
pub(crate) fn check(permission: &impl Permission, kind: &str, action: Action) -> Result<(), RecordsError> {
    permission
        .check(kind, action)
        .map_err(|denial| RecordsError::Denied {
            kind: kind.to_owned(),
            action,
            denial,
        })
}

/// Refuses a record, found by its reference, that is not the caller's. Of what kind it is, is told only to those who may read it, and that it
/// is there not to somebody whom no token helps.
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

/// Makes a record of a document, given as JSON, under the next reference that nothing of its kind has. `now_ms` are milliseconds since 1970
/// UTC: a kind that has ended as a whole by then begins anew.
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

/// Makes a record that has a name as well, which no record has.
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

/// Replaces a record, whose reference stays; with another kind it moves. `now_ms` are milliseconds since 1970 UTC: what has ended by then is
/// not there.
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
    // The kind may change with it, and nothing may be half done then.
    let document = transaction.document_within(&key, bytes_max)?;
    let document = document.ok_or_else(|| missing(reference))?.into_owned();
    let mut merged = Vec::new();
    merge(&document, &patch, &mut merged);
    let merged = json::canonical(&merged).map_err(StoreError::from)?;
    if kind_of(&merged, settings)? == kind {
        // A record that stays where it is lasts as long as before.
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

/// Removes a record and gives up its reference for ever; says which kind it had.
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

/// Whether a reference is that of the record of a kind. What else lies in a kind's global was not made as a record: nobody has given it a
/// reference, which may be that of another record then.
fn is_known(transaction: &Transaction, reference: Reference, kind: &str) -> Result<bool, RecordsError> {
    Ok(lookup::known(transaction, reference)?.is_some_and(|known| known == kind))
}

/// Replaces a record that is known to exist, by canonical JSON. The times are the present, in milliseconds since 1970 UTC, and when the
/// record ends from then on, if it does: what has ended is no obstacle to it.
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
    // The document is what can be refused, so it comes first.
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

/// Before anything is changed: a transaction that fails half way is lost.
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

/// The reference after the last one, or after all that there are in the kind where something lies there that was not made as a record.
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

/// Whether a patch says something of the kind, or of what holds it.
fn touches(patch: &[u8], type_key: &[String]) -> bool {
    type_key
        .first()
        .is_some_and(|first| json::find(patch, first).is_some())
}

/// Applies a merge patch to canonical JSON; what comes out is JSON, not in canonical order.
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
