//! Queries on an index.

use std::{collections::HashSet, ops::Bound};

use crate::{
    engine::{Cursor, Record, Seek},
    error::StoreError,
    json::Json,
    key::{ABOVE_CHILDREN, Subscript},
    tree::Reader,
};

use super::{Catalogue, Definition, EACH, ENTRY_BYTES_MAX, Index, entries};

/// A query on an index: values for the first fields, and a range for the next one. All values are JSON scalars.
#[derive(Clone, Debug)]
pub struct Query {
    /// Values that the first fields must equal, in order; may be empty.
    pub equal: Vec<Vec<u8>>,
    /// Lower bound of the next field.
    pub from: Bound<Vec<u8>>,
    /// Upper bound of the next field.
    pub to: Bound<Vec<u8>>,
    /// Descending order.
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

/// Most bytes of record subscripts that a walk remembers.
const SEEN_BYTES_MAX: usize = 1 << 20;

/// Position of a walk, from which another walk of the same query can continue.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Last entry visited, without the index's number.
    entry: Option<Vec<u8>>,
    seen: Seen,
}

/// Records already returned, so that their further entries need no look at the record. Forgetting them costs only time.
#[derive(Clone, Debug, Default)]
struct Seen {
    records: HashSet<Subscript>,
    bytes: usize,
}

/// Result of visiting one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next record.
    Record(Subscript),
    /// Another entry of a record that was returned already.
    Repeated,
    /// No more entries.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Begun,
    Over,
}

/// Iterates over the subscripts of the matching records in index order, each record once.
#[derive(Debug)]
pub struct QueryWalk<'t> {
    reader: Reader<'t>,
    index: Index,
    cursor: Cursor<'t>,
    /// Matching entries are in `start..end`.
    start: Vec<u8>,
    end: Vec<u8>,
    reverse: bool,
    phase: Phase,
    /// Whether one record can have several matching entries.
    several: bool,
    place: Place,
}

impl Place {
    /// Restores a position from [`Place::bytes`]; `None` if it is longer than any entry.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= ENTRY_BYTES_MAX).then(|| Self {
            entry: Some(bytes.to_vec()),
            seen: Seen::default(),
        })
    }

    /// Serialised position, without the remembered records; `None` at the beginning.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.entry.as_deref()
    }
}

impl Seen {
    fn has(&self, record: &Subscript) -> bool {
        self.records.contains(record)
    }

    fn add(&mut self, record: Subscript) {
        if self.bytes > SEEN_BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += record.as_bytes().len() + size_of::<Subscript>();
        self.records.insert(record);
    }
}

impl<'t> QueryWalk<'t> {
    pub(crate) fn new(
        reader: &Reader<'t>,
        name: &str,
        query: &Query,
        place: Place,
    ) -> Result<Self, StoreError> {
        let catalogue = Catalogue::read(reader.transaction, reader.tables)?;
        let index = catalogue.find(name).cloned().ok_or_else(|| StoreError::Index {
            name: name.into(),
            reason: "there is no such index".into(),
        })?;
        let (start, end) = bounds(&index, query)?;
        let fields = &index.definition.fields;
        let several = fields.iter().flatten().any(|step| step == EACH) && query.equal.len() < fields.len();
        Ok(Self {
            reader: *reader,
            cursor: reader.transaction.cursor(reader.tables.index)?,
            index,
            start,
            end,
            reverse: query.reverse,
            phase: Phase::New,
            several,
            place,
        })
    }

    /// Current position of the walk.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Definition of the queried index.
    pub(crate) fn definition(&self) -> &Definition {
        &self.index.definition
    }

    /// As [`QueryWalk::place`], consuming the walk.
    pub fn into_place(self) -> Place {
        self.place
    }

    /// Visits the next entry. If a record can have several matching entries, the record itself is read to tell whether
    /// this is its first. So memory stays small whatever the size of the index, and a continued walk returns the same
    /// records as an uninterrupted one.
    pub fn step(&mut self) -> Result<Step, StoreError> {
        if self.phase == Phase::Over {
            return Ok(Step::End);
        }
        let outcome = self.look();
        self.phase = match outcome {
            Ok(Step::Record(_) | Step::Repeated) => Phase::Begun,
            Ok(Step::End) | Err(_) => Phase::Over,
        };
        outcome
    }

    fn look(&mut self) -> Result<Step, StoreError> {
        let found = match (self.phase, self.reverse) {
            (Phase::New, _) => self.first()?,
            (_, false) => self.cursor.next()?,
            (_, true) => self.cursor.previous()?,
        };
        let Some((entry, _)) = found.filter(|(entry, _)| *entry >= &self.start[..] && *entry < &self.end[..])
        else {
            return Ok(Step::End);
        };
        let values = entry.get(self.index.prefix().len()..).unwrap_or_default();
        let mut rest = values;
        for _ in &self.index.definition.fields {
            rest = &rest[entries::encoded_length(rest)..];
        }
        if rest.is_empty() {
            return Err(StoreError::Damaged {
                what: "an entry of an index names no record".into(),
            });
        }
        let place = self.place.entry.get_or_insert_default();
        place.clear();
        place.extend_from_slice(values);
        let record = Subscript::from_encoded(rest);
        if !self.several {
            return Ok(Step::Record(record));
        }
        if self.place.seen.has(&record) {
            return Ok(Step::Repeated);
        }
        let is_first = self.is_first(entry, &record)?;
        self.place.seen.add(record.clone());
        Ok(if is_first {
            Step::Record(record)
        } else {
            Step::Repeated
        })
    }

    /// First matching entry, or the first after the position.
    fn first(&self) -> Result<Option<Record<'t>>, StoreError> {
        let place = self
            .place
            .entry
            .as_ref()
            .map(|entry| [&self.index.prefix()[..], entry].concat());
        if self.reverse {
            let end = place.filter(|place| *place < self.end);
            return self.cursor.seek(Seek::Below, end.as_ref().unwrap_or(&self.end));
        }
        let Some(place) = place.filter(|place| *place >= self.start) else {
            return self.cursor.seek(Seek::AtLeast, &self.start);
        };
        match self.cursor.seek(Seek::AtLeast, &place)? {
            Some((found, _)) if found == place => self.cursor.next(),
            found => Ok(found),
        }
    }

    /// Whether this is the first matching entry of its record, in the direction of the walk.
    fn is_first(&self, entry: &[u8], record: &Subscript) -> Result<bool, StoreError> {
        let mut key = self.index.definition.records.clone();
        key.push_encoded(record)?;
        let all = entries::entries(&self.reader, &self.index, &key)?.keys;
        let mut wanted = all
            .iter()
            .filter(|other| **other >= self.start && **other < self.end);
        let first = if self.reverse {
            wanted.next_back()
        } else {
            wanted.next()
        };
        Ok(first.is_none_or(|first| first == entry))
    }
}

impl Iterator for QueryWalk<'_> {
    type Item = Result<Subscript, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step() {
                Ok(Step::Record(record)) => return Some(Ok(record)),
                Ok(Step::Repeated) => {}
                Ok(Step::End) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Range of the matching entries, as `start..end`.
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
