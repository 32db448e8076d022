//! Index maintenance: which records a change can affect, and their entries before and after it.

use smallvec::SmallVec;

use crate::{
    engine::Transaction,
    error::StoreError,
    json::Json,
    key::{Key, Subscript, Subscripts, decode, within},
    tree::{Reader, Tables, read::Range},
};

use super::{Catalogue, EACH, Entries, Index, clear, enter, enter_all, entries};

/// Most bytes of entries of one index that are remembered during a change. A change that exceeds this rebuilds the
/// index.
const REMEMBERED_BYTES_MAX: usize = 64 << 20;

/// The part of a node's subtree that a change can affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach<'a> {
    /// The node's own value.
    Value,
    /// The whole subtree.
    Subtree,
    /// The nodes that this document names.
    Document(&'a [u8]),
    /// The nodes that exist below another node.
    CopyOf(&'a Key),
}

/// The affected indexes and their entries before a change.
#[derive(Debug)]
pub(crate) struct Upkeep<'c> {
    indexes: Vec<(&'c Index, Records)>,
}

#[derive(Debug)]
enum Records {
    /// These records, with their previous entries.
    Some(SmallVec<[(Key, Entries); 1]>),
    All,
}

impl<'c> Upkeep<'c> {
    /// Records the entries of the records that a change will affect. An unreadable document is ignored: the change will
    /// fail.
    pub(crate) fn before(
        reader: &Reader<'_>,
        catalogue: &'c Catalogue,
        changed: &Key,
        reach: Reach<'_>,
    ) -> Result<Self, StoreError> {
        let mut indexes = Vec::new();
        let mut document = None;
        for index in &catalogue.indexes {
            let records = index.definition.records.as_bytes();
            if let Some(path) = records
                .strip_prefix(changed.as_bytes())
                .filter(|_| within(records, changed.as_bytes()))
            {
                let path = Subscripts { rest: path };
                let reached = match reach {
                    // The value of a node above the records is part of none.
                    Reach::Value => continue,
                    Reach::Subtree => Records::All,
                    Reach::Document(text) if text.len() > reader.tables.value_bytes_max => continue,
                    Reach::Document(text) => {
                        let document = document.get_or_insert_with(|| Json::read(text).ok());
                        let named = document.as_ref().and_then(|document| at(document, path));
                        let Some(named) = named else { continue };
                        remember(
                            reader,
                            index,
                            named.child_names().map(|name| Ok(Subscript::new(&name))),
                        )?
                    }
                    Reach::CopyOf(from) => {
                        let mut source = from.clone();
                        if source.push_bytes(path.rest).is_err() {
                            // The path is too long to exist.
                            continue;
                        }
                        remember(reader, index, reader.children(&source, Range::default())?)?
                    }
                };
                indexes.push((index, reached));
            } else if let Some(record) = index.record_of(changed) {
                let before = entries(reader, index, &record)?;
                indexes.push((index, Records::Some(SmallVec::from_iter([(record, before)]))));
            }
        }
        Ok(Self { indexes })
    }

    /// Updates the indexes after the change.
    pub(crate) fn finish(self, transaction: &mut Transaction, tables: Tables) -> Result<(), StoreError> {
        for (index, records) in self.indexes {
            let Records::Some(records) = records else {
                clear(transaction, tables, index)?;
                enter_all(transaction, tables, index)?;
                continue;
            };
            let alone = records.len() == 1;
            for (record, before) in &records {
                let after = entries(&Reader { transaction, tables }, index, record)?;
                for entry in before.keys.difference(&after.keys) {
                    transaction.delete(tables.index, entry)?;
                }
                if alone {
                    enter(transaction, tables, index, before, &after)?;
                }
                transaction.forget_read();
            }
            // A record may have got a value that another one gave up, so all removals come before the first addition.
            // Each record's entries are computed twice, because remembering them would take unbounded memory.
            for (record, before) in records.iter().filter(|_| !alone) {
                let after = entries(&Reader { transaction, tables }, index, record)?;
                enter(transaction, tables, index, before, &after)?;
                transaction.forget_read();
            }
        }
        Ok(())
    }
}

impl Index {
    /// The record whose entries can change with a node at or below the records' parent, if any.
    fn record_of(&self, changed: &Key) -> Option<Key> {
        let records = self.definition.records.as_bytes();
        if !within(changed.as_bytes(), records) {
            return None;
        }
        let mut inside = Subscripts {
            rest: &changed.as_bytes()[records.len()..],
        };
        let record = inside.next()?;
        let mut fields = self.definition.fields.iter();
        fields.any(|field| concerns(field, inside.clone())).then(|| {
            let length = records.len() + record.len();
            Key::from_encoded(&changed.as_bytes()[..length])
        })
    }
}

/// Whether a change inside a record can change the values of a field. A new element can turn an array into an object,
/// so a change of one element affects all of them.
fn concerns(field: &[String], changed: Subscripts<'_>) -> bool {
    for (step, subscript) in field.iter().zip(changed) {
        if step == EACH {
            return true;
        }
        if Subscript::new(step).as_bytes() != subscript {
            return false;
        }
    }
    true
}

/// The part of a document at a path.
fn at<'d, 'a>(document: &'d Json<'a>, path: Subscripts<'_>) -> Option<&'d Json<'a>> {
    let mut found = document;
    for subscript in path {
        found = found.child(&decode(subscript))?;
    }
    Some(found)
}

/// The entries of the given records, unless they exceed the memory limit.
fn remember(
    reader: &Reader<'_>,
    index: &Index,
    records: impl Iterator<Item = Result<Subscript, StoreError>>,
) -> Result<Records, StoreError> {
    let mut remembered = SmallVec::new();
    let mut bytes = 0;
    for record in records {
        let mut key = index.definition.records.clone();
        key.push_encoded(&record?)?;
        let before = entries(reader, index, &key)?;
        bytes += size_of::<(Key, Entries)>() + key.len() + before.bytes();
        if bytes > REMEMBERED_BYTES_MAX {
            return Ok(Records::All);
        }
        remembered.push((key, before));
    }
    Ok(Records::Some(remembered))
}
