//! Names: texts by which a record can be addressed besides its reference. A record has at most one, assigned at
//! creation and released on removal. [`NAMES`] maps names to references; the directory holds a record's name next to
//! its kind.

use forebay_store::{Key, Read, StoreError, Transaction, json};

use crate::{NAMES, RecordsError, kind::text_of, lookup, reference::Reference};

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Member of a directory entry that holds the name.
const NAME: &str = "name";

/// Whether a record can have that name. It must begin with a letter, so that it cannot be mistaken for a number, must
/// not be a reference of 16 hexadecimal digits, and must contain neither slashes nor control characters.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(char::is_alphabetic)
        && Reference::from_hex(text).is_none()
        && !text.contains(|character: char| character == '/' || character.is_control())
}

/// Reference of the record with that name; `None` if there is no such record.
pub fn named(read: &impl Read, name: &str, now_ms: u64) -> Result<Option<Reference>, StoreError> {
    let Some(reference) = read.get(&entry(name)?)?.and_then(reference_of) else {
        return Ok(None);
    };
    // It may have expired, or been removed by a program unaware of names.
    let is_there = lookup::kind_at(read, reference, now_ms)?.is_some();
    Ok(is_there.then_some(reference))
}

/// Assigns a name to a newly created record, overwriting an earlier assignment.
pub(crate) fn give(
    transaction: &mut Transaction,
    name: &str,
    reference: Reference,
) -> Result<(), RecordsError> {
    transaction.set(&entry(name)?, reference.to_string().as_bytes())?;
    transaction.set(&reference.entry()?.child(NAME)?, &json::string(name))?;
    Ok(())
}

/// Releases the name of a record about to be removed.
pub(crate) fn take(transaction: &mut Transaction, reference: Reference) -> Result<(), RecordsError> {
    let Some(name) = transaction
        .get(&reference.entry()?.child(NAME)?)?
        .and_then(text_of)
    else {
        return Ok(());
    };
    let entry = entry(&name)?;
    if transaction.get(&entry)?.and_then(reference_of) == Some(reference) {
        transaction.kill(&entry)?;
    }
    Ok(())
}

fn entry(name: &str) -> Result<Key, StoreError> {
    Ok(Key::global(NAMES)?.child(name)?)
}

fn reference_of(digits: &[u8]) -> Option<Reference> {
    Reference::from_decimal(std::str::from_utf8(digits).ok()?)
}
