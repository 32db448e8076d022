//! Computes the index entries of a record.

use std::collections::BTreeSet;

use crate::{
    error::StoreError,
    json,
    key::{Key, Subscript},
    tree::{Reader, read::Range},
};

use super::{EACH, ENTRIES_PER_RECORD_MAX, ENTRY_BYTES_MAX, Index, scalar};

/// The entries of one record in one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) keys: BTreeSet<Vec<u8>>,
    /// Length of the record's subscript at the end of each entry, in bytes.
    pub(crate) record_bytes: usize,
}

impl Entries {
    /// Approximate memory they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.iter().map(|key| size_of::<Vec<u8>>() + key.len()).sum()
    }
}

/// The entries that a record should have, given its current content. If the record is stored in parts, only its fields
/// are read.
pub(crate) fn entries(reader: &Reader<'_>, index: &Index, record: &Key) -> Result<Entries, StoreError> {
    let subscript = record.subscripts().last().expect("a record is a child");
    let mut found = Entries {
        keys: BTreeSet::new(),
        record_bytes: subscript.len(),
    };
    let packed = reader.packed(record)?;
    let mut partial = vec![index.prefix().to_vec()];
    for field in &index.definition.fields {
        let values = match packed {
            Some(text) => values(text, field),
            None => stored_values(reader, record, field)?,
        };
        let combined = partial.iter().flat_map(|begun| {
            values.iter().map(move |value| {
                let mut longer = begun.clone();
                encode(value, &mut longer);
                longer
            })
        });
        partial = combined.collect();
    }
    let too_many = |reason: String| StoreError::Index {
        name: index.definition.name.clone(),
        reason,
    };
    if partial.len() > ENTRIES_PER_RECORD_MAX {
        return Err(too_many(format!(
            "{record} would have more than {ENTRIES_PER_RECORD_MAX} entries"
        )));
    }
    for mut entry in partial {
        entry.extend_from_slice(subscript);
        if entry.len() > ENTRY_BYTES_MAX {
            return Err(too_many(format!(
                "the values of {record} take {} bytes (at most {ENTRY_BYTES_MAX})",
                entry.len()
            )));
        }
        found.keys.insert(entry);
    }
    Ok(found)
}

/// The scalars of a field in the text of a record: several where `*` stands for elements, but no more than needed to
/// see that they exceed the limit.
fn values<'t>(record: &'t [u8], field: &[String]) -> Vec<&'t [u8]> {
    let mut found = vec![record];
    for step in field {
        found = if step == EACH {
            let arrays = found
                .into_iter()
                .filter(|text| json::container(text) == Some(true));
            arrays
                .flat_map(|text| json::children(text).map(|child| child.text))
                .collect()
        } else {
            found
                .into_iter()
                .filter_map(|text| json::find(text, step))
                .collect()
        };
    }
    let scalars = found.into_iter().filter_map(scalar);
    scalars.take(ENTRIES_PER_RECORD_MAX + 1).collect()
}

/// The same for a record that is stored in parts.
fn stored_values<'t>(
    reader: &Reader<'t>,
    record: &Key,
    field: &[String],
) -> Result<Vec<&'t [u8]>, StoreError> {
    let Some(each) = field.iter().position(|step| step == EACH) else {
        return Ok(scalar_at(reader, record, field)?.into_iter().collect());
    };
    let mut found = Vec::new();
    let Some(array) = descendant(record, &field[..each]) else {
        return Ok(found);
    };
    if let Some(text) = reader.packed(&array)? {
        return Ok(values(text, &field[each..]));
    }
    if !reader.is_array(&array)? {
        return Ok(found);
    }
    for element in reader.children(&array, Range::default())? {
        let mut key = array.clone();
        key.push_encoded(&element?)?;
        found.extend(scalar_at(reader, &key, &field[each + 1..])?);
        if found.len() > ENTRIES_PER_RECORD_MAX {
            break;
        }
    }
    Ok(found)
}

fn scalar_at<'t>(reader: &Reader<'t>, node: &Key, field: &[String]) -> Result<Option<&'t [u8]>, StoreError> {
    match descendant(node, field) {
        Some(key) => reader.scalar(&key),
        None => Ok(None),
    }
}

/// The node that a field leads to; `None` if its path would be longer than paths can be.
fn descendant(node: &Key, field: &[String]) -> Option<Key> {
    field
        .iter()
        .try_fold(node.clone(), |key, step| key.child(step).ok())
}

/// Appends a JSON scalar in an order-preserving encoding, none of which is a prefix of another.
pub(super) fn encode(scalar: &[u8], out: &mut Vec<u8>) {
    match scalar {
        b"null" => out.push(0x10),
        b"false" => out.push(0x11),
        b"true" => out.push(0x12),
        [b'"', content @ .., b'"'] => {
            let content = std::str::from_utf8(content).expect("canonical JSON is text");
            let content = json::unescape(content).expect("canonical JSON has only known escapes");
            Subscript::string(&content).append_to(out);
        }
        number => {
            let text = std::str::from_utf8(number).expect("canonical JSON is text");
            Subscript::rounded(text).append_to(out);
        }
    }
}

/// Length in bytes of the value at the beginning of an entry.
pub(super) fn encoded_length(bytes: &[u8]) -> usize {
    match bytes.first() {
        None => 0,
        Some(0x10..=0x12) => 1,
        Some(_) => crate::key::subscript_length(bytes),
    }
}
