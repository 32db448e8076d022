//! Asks an index for records.

use std::{collections::HashSet, ops::Bound};

use crate::{
    error::StoreError,
    json::Json,
    key::{ABOVE_CHILDREN, Subscript},
    sys::{Cursor, Seek},
    tree::Reader,
};

use super::{Catalogue, EACH, Index, entries};

/// Which records of an index are wanted: values for the first fields, and bounds for the one after them. All values are JSON scalars.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the first fields are equal to, in order; may be empty.
    pub equal: Vec<Vec<u8>>,
    /// Least value of the next field.
    pub from: Bound<Vec<u8>>,
    /// Greatest value of the next field.
    pub to: Bound<Vec<u8>>,
    /// From the greatest to the least.
    pub reverse: bool,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            equal: Vec::new(),
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            reverse: false,
        }
    }
}

/// Walks over the subscripts of records, in the order of the index's values; each record once.
#[derive(Debug)]
pub struct QueryWalk<'t> {
    cursor: Cursor<'t>,
    fields: usize,
    /// Entries wanted are at least this and less than `end`.
    start: Vec<u8>,
    end: Vec<u8>,
    reverse: bool,
    begun: bool,
    over: bool,
    /// Where a record can have several entries: those that have come.
    seen: Option<HashSet<Subscript>>,
}

impl<'t> QueryWalk<'t> {
    pub(crate) fn new(reader: &Reader<'t>, name: &str, query: &Query) -> Result<Self, StoreError> {
        let catalogue = Catalogue::read(reader.transaction, reader.tables)?;
        let index = catalogue.find(name).ok_or_else(|| StoreError::Index {
            name: name.into(),
            reason: "there is no such index".into(),
        })?;
        let (start, end) = bounds(index, query)?;
        let fields = &index.definition.fields;
        let several = fields.iter().flatten().any(|step| step == EACH) && query.equal.len() < fields.len();
        Ok(Self {
            cursor: reader.transaction.cursor(reader.tables.index)?,
            fields: fields.len(),
            start,
            end,
            reverse: query.reverse,
            begun: false,
            over: false,
            seen: several.then(HashSet::new),
        })
    }

    fn step(&mut self) -> Result<Option<Subscript>, StoreError> {
        loop {
            let found = match (std::mem::replace(&mut self.begun, true), self.reverse) {
                (false, false) => self.cursor.seek(Seek::AtLeast, &self.start)?,
                (false, true) => self.cursor.seek(Seek::Below, &self.end)?,
                (true, false) => self.cursor.next()?,
                (true, true) => self.cursor.previous()?,
            };
            let Some((entry, _)) =
                found.filter(|(entry, _)| *entry >= &self.start[..] && *entry < &self.end[..])
            else {
                return Ok(None);
            };
            let mut rest = entry.get(4..).unwrap_or_default();
            for _ in 0..self.fields {
                rest = &rest[entries::encoded_length(rest)..];
            }
            if rest.is_empty() {
                return Err(StoreError::Damaged {
                    what: "an entry of an index names no record".into(),
                });
            }
            let record = Subscript::from_encoded(rest);
            if self.seen.as_mut().is_none_or(|seen| seen.insert(record.clone())) {
                return Ok(Some(record));
            }
        }
    }
}

impl Iterator for QueryWalk<'_> {
    type Item = Result<Subscript, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let outcome = self.step();
        self.over = !matches!(outcome, Ok(Some(_)));
        outcome.transpose()
    }
}

/// The bytes that the wanted entries lie between.
fn bounds(index: &Index, query: &Query) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    let wrong = |reason: String| StoreError::Index {
        name: index.definition.name.clone(),
        reason,
    };
    let fields = index.definition.fields.len();
    let ranged = !matches!((&query.from, &query.to), (Bound::Unbounded, Bound::Unbounded));
    if query.equal.len() + usize::from(ranged) > fields {
        return Err(wrong(format!(
            "it has {fields} fields, and more values were given"
        )));
    }
    let mut begun = index.prefix().to_vec();
    let with = |begun: &[u8], value: &[u8]| {
        let Json::Scalar(text) = Json::read(value)? else {
            return Err(wrong("only scalars are in an index".into()));
        };
        let mut longer = begun.to_vec();
        entries::encode(text.as_bytes(), &mut longer);
        Ok(longer)
    };
    for value in &query.equal {
        begun = with(&begun, value)?;
    }
    let above = |mut bytes: Vec<u8>| {
        bytes.push(ABOVE_CHILDREN);
        bytes
    };
    let start = match &query.from {
        Bound::Included(value) => with(&begun, value)?,
        Bound::Excluded(value) => above(with(&begun, value)?),
        Bound::Unbounded => begun.clone(),
    };
    let end = match &query.to {
        Bound::Included(value) => above(with(&begun, value)?),
        Bound::Excluded(value) => with(&begun, value)?,
        Bound::Unbounded => above(begun),
    };
    Ok((start, end))
}
