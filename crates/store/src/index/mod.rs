//! Secondary indexes: map values to the records that contain them, and are updated in the transaction that changes the
//! records.
//!
//! The children of one node are an index's **records**. A **field** is a path inside a record; `*` in it stands for
//! every element of an array. A record is indexed if every field yields a scalar, with one entry for each combination
//! of elements.
//!
//! ```text
//! key of an entry = the index's number 4, big-endian | a value for each field | the record's subscript
//! value           = 10 null | 11 false | 12 true | a number or string as in `key`
//! ```
//!
//! So values sort as null, false, true, numbers by value, strings by their bytes. Only the first 18 digits of a number
//! count.

mod entries;
mod field;
mod query;
mod upkeep;

use std::{cell::RefCell, sync::Arc};

use crate::{
    engine::{Seek, Transaction},
    error::StoreError,
    json::{self, Json},
    key::{Key, decode, within},
    read::{Read, each_record},
    tree::{Reader, Tables, read::Range},
};

pub(crate) use entries::{Entries, entries};
pub use field::{FieldError, field_text, parse_field, split_field};
pub use query::{Place, Query, QueryWalk, Step};
pub(crate) use upkeep::{Reach, Upkeep};

/// Most indexes of a store.
pub const INDEXES_MAX: usize = 256;
/// Most fields of an index.
pub const FIELDS_MAX: usize = 8;
/// Longest entry, in bytes: all values and the record's subscript, encoded.
pub const ENTRY_BYTES_MAX: usize = 1900;
/// Most entries of one record in one index.
pub const ENTRIES_PER_RECORD_MAX: usize = 1000;
/// Field step that stands for every element of an array.
pub const EACH: &str = "*";

/// Key of the catalogue in the metadata.
pub(crate) const CATALOGUE: &[u8] = b"indexes";

/// Definition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Name, unique in the store.
    pub name: String,
    /// The node whose children are the records.
    pub records: Key,
    /// Paths inside a record, as lists of member names; [`EACH`] occurs at most once in all of them.
    pub fields: Vec<Vec<String>>,
    /// Whether two records may not have the same values.
    pub unique: bool,
}

/// An index that exists, with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) number: u32,
    pub(crate) definition: Definition,
}

/// All indexes of a store, in one state of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    pub(crate) indexes: Vec<Index>,
    next: u32,
}

impl Index {
    /// Prefix of every entry of the index.
    pub(crate) fn prefix(&self) -> [u8; 4] {
        self.number.to_be_bytes()
    }
}

impl Definition {
    /// Validates the definition.
    pub fn check(&self) -> Result<(), StoreError> {
        let wrong = |reason: String| StoreError::Index {
            name: self.name.clone(),
            reason,
        };
        if self.name.is_empty() || self.name.len() > 64 {
            return Err(wrong("its name must have 1 to 64 bytes".into()));
        }
        if self.fields.is_empty() || self.fields.len() > FIELDS_MAX {
            return Err(wrong(format!("it must have 1 to {FIELDS_MAX} fields")));
        }
        if self.fields.iter().flatten().filter(|step| *step == EACH).count() > 1 {
            return Err(wrong(format!("`{EACH}` can stand only once in its fields")));
        }
        Ok(())
    }

    /// As JSON: `{"fields":[["name"]],"name":"by_name","records":["Person","data"],"unique":false}`.
    pub fn to_json(&self) -> Vec<u8> {
        self.as_json().to_text()
    }

    /// Reads the output of [`Definition::to_json`]; `unique` is optional.
    pub fn from_json(text: &[u8]) -> Result<Self, StoreError> {
        Self::read(&Json::read(text)?).ok_or_else(|| StoreError::Index {
            name: String::new(),
            reason: "a definition has `name`, `records` (an array that begins with a global) and `fields` (an array of arrays)".into(),
        })
    }

    fn as_json(&self) -> Json<'static> {
        let texts = |texts: Vec<String>| Json::Array(texts.iter().map(|text| Json::string(text)).collect());
        let mut records = vec![self.records.global_name().to_owned()];
        records.extend(self.records.texts());
        Json::object([
            (
                "fields",
                Json::Array(self.fields.iter().map(|field| texts(field.clone())).collect()),
            ),
            ("name", Json::string(&self.name)),
            ("records", texts(records)),
            (
                "unique",
                Json::Scalar(if self.unique { "true" } else { "false" }.into()),
            ),
        ])
    }

    fn read(value: &Json<'_>) -> Option<Self> {
        let texts = |value: &Json<'_>| match value {
            Json::Array(elements) => elements.iter().map(Json::as_string).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let records = texts(value.member("records")?)?;
        let (global, subscripts) = records.split_first()?;
        let mut key = Key::global(global).ok()?;
        for subscript in subscripts {
            key.push(subscript).ok()?;
        }
        let Json::Array(fields) = value.member("fields")? else {
            return None;
        };
        Some(Self {
            name: value.member("name")?.as_string()?,
            records: key,
            fields: fields.iter().map(texts).collect::<Option<_>>()?,
            unique: value
                .member("unique")
                .is_some_and(|unique| unique.as_scalar() == Some("true")),
        })
    }
}

impl Catalogue {
    /// The indexes in one state of the store; parsed only if they differ from those last read on this thread.
    pub(crate) fn read(transaction: &Transaction, tables: Tables) -> Result<Arc<Self>, StoreError> {
        thread_local! {
            /// Last catalogue read, with the text it was parsed from: equal text means an equal catalogue, whichever
            /// store it is from.
            static LAST: RefCell<(Vec<u8>, Arc<Catalogue>)> = RefCell::default();
        }
        let text = Self::text(transaction, tables)?;
        LAST.with_borrow_mut(|last| {
            if last.0 != text {
                *last = (text.to_vec(), Arc::new(Self::parse(text)?));
            }
            Ok(Arc::clone(&last.1))
        })
    }

    /// Stored form of the catalogue; empty if there are no indexes.
    pub(crate) fn text(transaction: &Transaction, tables: Tables) -> Result<&[u8], StoreError> {
        Ok(transaction.get(tables.meta, CATALOGUE)?.unwrap_or_default())
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self, StoreError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let read = || {
            let Json::Array(entries) = Json::read(text).ok()? else {
                return None;
            };
            let indexes = entries.iter().map(|entry| {
                Some(Index {
                    number: entry.member("number")?.as_scalar()?.parse().ok()?,
                    definition: Definition::read(entry.member("definition")?)?,
                })
            });
            indexes.collect::<Option<Vec<_>>>()
        };
        let indexes = read().ok_or_else(|| StoreError::Damaged {
            what: "the catalogue of indexes".into(),
        })?;
        let next = indexes.iter().map(|index| index.number + 1).max().unwrap_or(0);
        Ok(Self { indexes, next })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.definition.name == name)
    }

    fn write(&self, transaction: &mut Transaction, tables: Tables) -> Result<(), StoreError> {
        let entries = self.indexes.iter().map(|index| {
            Json::object([
                ("definition", index.definition.as_json()),
                ("number", Json::Scalar(index.number.to_string().into())),
            ])
        });
        let text = Json::Array(entries.collect()).to_text();
        transaction.put(tables.meta, CATALOGUE, &[&text])
    }

    /// Creates an index and adds all existing records.
    pub(crate) fn define(
        &mut self,
        transaction: &mut Transaction,
        tables: Tables,
        definition: &Definition,
    ) -> Result<(), StoreError> {
        definition.check()?;
        let wrong = |reason: &str| StoreError::Index {
            name: definition.name.clone(),
            reason: reason.into(),
        };
        if let Some(index) = self.find(&definition.name) {
            // Defining the same index twice is not an error: programs define their indexes at every start.
            return if index.definition == *definition {
                Ok(())
            } else {
                Err(wrong("there is another index of this name; drop that first"))
            };
        }
        if self.indexes.len() == INDEXES_MAX {
            return Err(wrong("a store can have no more than 256 indexes"));
        }
        let index = Index {
            number: self.next,
            definition: definition.clone(),
        };
        self.next += 1;
        enter_all(transaction, tables, &index)?;
        self.indexes.push(index);
        self.write(transaction, tables)
    }

    /// Drops an index; `false` if there was none.
    pub(crate) fn drop_index(
        &mut self,
        transaction: &mut Transaction,
        tables: Tables,
        name: &str,
    ) -> Result<bool, StoreError> {
        let Some(at) = self
            .indexes
            .iter()
            .position(|index| index.definition.name == name)
        else {
            return Ok(false);
        };
        clear(transaction, tables, &self.indexes.remove(at))?;
        self.write(transaction, tables)?;
        Ok(true)
    }
}

/// Removes all entries of an index.
fn clear(transaction: &mut Transaction, tables: Tables, index: &Index) -> Result<(), StoreError> {
    let end = (index.number + 1).to_be_bytes();
    transaction.delete_range(tables.index, &index.prefix(), &end)?;
    Ok(())
}

/// Adds all existing records to an empty index.
fn enter_all(transaction: &mut Transaction, tables: Tables, index: &Index) -> Result<(), StoreError> {
    let mut range = Range::default();
    loop {
        let batch = Reader { transaction, tables }.next_children(&index.definition.records, &mut range)?;
        if batch.is_empty() {
            return Ok(());
        }
        for record in &batch {
            let mut key = index.definition.records.clone();
            key.push_encoded(record)?;
            let found = entries(&Reader { transaction, tables }, index, &key)?;
            enter(transaction, tables, index, &Entries::default(), &found)?;
            transaction.forget_read();
        }
    }
}

/// Compares an index with the records; returns the number of its entries.
pub(crate) fn verify(read: &mut impl Read, index: &Index) -> Result<u64, StoreError> {
    let damaged = |what: &str| StoreError::Damaged {
        what: format!("index `{}` {what}", index.definition.name),
    };
    let mut expected = 0;
    read.each_child(&index.definition.records, |read, record| {
        let mut key = index.definition.records.clone();
        key.push_encoded(record)?;
        let reader = read.reader();
        for entry in entries(&reader, index, &key)?.keys {
            expected += 1;
            if reader.transaction.get(reader.tables.index, &entry)?.is_none() {
                return Err(damaged(&format!("has no entry for {key}")));
            }
        }
        Ok(true)
    })?;
    let mut count = 0;
    let table = read.reader().tables.index;
    each_record(read, table, &index.prefix(), |_, (entry, _)| {
        let is_of_index = entry.starts_with(&index.prefix());
        count += u64::from(is_of_index);
        Ok::<_, StoreError>(is_of_index)
    })?;
    if count != expected {
        return Err(damaged(&format!(
            "has {count} entries, and the records ask for {expected}"
        )));
    }
    Ok(count)
}

/// Adds the entries that a record has now and did not have before.
fn enter(
    transaction: &mut Transaction,
    tables: Tables,
    index: &Index,
    before: &Entries,
    after: &Entries,
) -> Result<(), StoreError> {
    for entry in after.keys.difference(&before.keys) {
        if index.definition.unique {
            let values = &entry[..entry.len() - after.record_bytes];
            let cursor = transaction.cursor(tables.index)?;
            let other = cursor.seek(Seek::AtLeast, values)?;
            if let Some((other, _)) = other.filter(|(other, _)| within(other, values) && *other != &entry[..])
            {
                return Err(StoreError::NotUnique {
                    index: index.definition.name.clone(),
                    record: decode(&other[values.len()..]).into_owned(),
                });
            }
        }
        transaction.put(tables.index, entry, &[])?;
    }
    Ok(())
}

/// The text if it is a scalar, otherwise `None`.
fn scalar(text: &[u8]) -> Option<&[u8]> {
    json::container(text).is_none().then_some(text)
}
