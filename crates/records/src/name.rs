//! Names of records: texts by which a record can be asked for beside its reference. A record has at most one, which it is made with and loses when it
//! is removed. [`NAMES`] says whose each is; beside the kind in the directory stands the name of a record that has one.

use forebay_store::{Key, Read, StoreError, Transaction, json};

use crate::{NAMES, RecordsError, kind::text_of, lookup, reference::Reference};

/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Where the directory has the name, below the reference.
const NAME: &str = "name";

/// Whether a record can have that name: it begins with a letter, so that it looks like no number, is no reference of 16 hexadecimal digits, and
/// has neither slashes nor control characters.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(char::is_alphabetic)
        && Reference::from_hex(text).is_none()
        && !text.contains(|character: char| character == '/' || character.is_control())
}

/// The reference of the record that has a name, if it is there.
pub fn named(read: &impl Read, name: &str, now_ms: u64) -> Result<Option<Reference>, StoreError> {
    let Some(reference) = read.get(&entry(name)?)?.and_then(reference_of) else {
        return Ok(None);
    };
    // It may have ended, or been removed by somebody who knows nothing of names.
    let is_there = lookup::kind_at(read, reference, now_ms)?.is_some();
    Ok(is_there.then_some(reference))
}

/// Gives a name to a record that was just made. Of another that had it nothing is left.
pub(crate) fn give(
    transaction: &mut Transaction,
    name: &str,
    reference: Reference,
) -> Result<(), RecordsError> {
    transaction.set(&entry(name)?, reference.to_string().as_bytes())?;
    transaction.set(&reference.entry()?.child(NAME)?, &json::string(name))?;
    Ok(())
}

/// Takes the name from a record that is about to be removed.
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
