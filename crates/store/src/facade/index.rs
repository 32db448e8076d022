//! Indexes, times at which nodes end, and merge patches, for programs in other languages.

use std::ops::Bound;

use crate::{
    Read,
    index::{Definition, Place, Query, QueryWalk},
};

use super::{
    Session, SessionError,
    pages::{PAGE_BYTES_MAX, item},
    path,
};

/// Which records of an index are wanted, as parts of [paths](super::path): texts that are JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// Values of the first fields, one after another.
    pub equal: &'a [u8],
    /// Least value of the next field; no bytes for none.
    pub from: &'a [u8],
    /// Whether `from` itself is left out.
    pub after: bool,
    /// Greatest value of the next field.
    pub to: &'a [u8],
    /// Whether `to` itself is left out.
    pub before: bool,
    /// From the greatest to the least.
    pub reverse: bool,
}

impl Session {
    /// Makes an index, given as in [`Definition::to_json`].
    pub fn define_index(&mut self, definition: &[u8]) -> Result<(), SessionError> {
        let definition = Definition::from_json(definition)?;
        self.write(|transaction| transaction.define_index(&definition))
    }

    /// Drops an index, whose name is one part of a path; says whether there was one.
    pub fn drop_index(&mut self, name: &[u8]) -> Result<bool, SessionError> {
        let name = path::text(name)?;
        self.write(|transaction| transaction.drop_index(name))
    }

    /// The definitions of all indexes, each as JSON, in the form of [`Session::children`].
    pub fn indexes(&mut self) -> Result<&[u8], SessionError> {
        let definitions = self.read(|reader, _| reader.indexes())?;
        self.out.clear();
        for definition in definitions {
            item(&definition.to_json(), &mut self.out);
        }
        Ok(&self.out)
    }

    /// At most `limit` records of an index in its order, behind the place that an earlier answer to the question has told (no bytes for
    /// the first): first the place that has been reached, then the path of their parent, as the number of its parts and these, then the
    /// records' subscripts, all in the form of [`Session::children`]. They may be less than `limit` and not all: see [`Session::more`].
    pub fn query(
        &mut self,
        name: &[u8],
        question: Question<'_>,
        place: &[u8],
        limit: usize,
    ) -> Result<&[u8], SessionError> {
        let name = path::text(name)?;
        let query = query(question)?;
        let place = match place {
            [] => Place::default(),
            place => Place::from_bytes(place).ok_or(SessionError::Malformed)?,
        };
        self.read(|reader, out| {
            let mut walk = QueryWalk::new(reader, name, &query, place)?;
            let mut found = Vec::new();
            for record in walk.by_ref().take(limit) {
                item(record?.text().as_bytes(), &mut found);
                if found.len() > PAGE_BYTES_MAX {
                    break;
                }
            }
            item(walk.place().bytes().unwrap_or_default(), out);
            let records = &walk.definition().records;
            let parts: Vec<String> = std::iter::once(records.global_name().to_owned())
                .chain(records.texts())
                .collect();
            out.extend_from_slice(&u32::try_from(parts.len()).unwrap_or(u32::MAX).to_le_bytes());
            for part in parts {
                item(part.as_bytes(), out);
            }
            out.append(&mut found);
            Ok(())
        })?;
        Ok(&self.out)
    }

    /// Has a node end by itself, at a time in milliseconds since 1970 UTC, or not; says whether it exists.
    pub fn expire(&mut self, path: &[u8], at_ms: Option<u64>) -> Result<bool, SessionError> {
        let key = self.key(path)?;
        self.write(|transaction| transaction.expire(&key, at_ms))
    }

    /// When a node ends by itself.
    pub fn expires(&mut self, path: &[u8]) -> Result<Option<u64>, SessionError> {
        let key = self.key(path)?;
        self.read(|reader, _| reader.expires(&key))
    }

    /// Applies a JSON Merge Patch (RFC 7396).
    pub fn patch(&mut self, path: &[u8], patch: &[u8]) -> Result<(), SessionError> {
        let key = self.key(path)?;
        self.write(|transaction| transaction.patch(&key, patch))
    }
}

fn query(question: Question<'_>) -> Result<Query, SessionError> {
    let mut equal = Vec::new();
    let mut rest = question.equal;
    while !rest.is_empty() {
        let (text, after) = path::first_text(rest)?;
        equal.push(text.as_bytes().to_vec());
        rest = after;
    }
    let bound = |bytes: &[u8], excluded: bool| -> Result<Bound<Vec<u8>>, SessionError> {
        if bytes.is_empty() {
            return Ok(Bound::Unbounded);
        }
        let value = path::text(bytes)?.as_bytes().to_vec();
        Ok(if excluded {
            Bound::Excluded(value)
        } else {
            Bound::Included(value)
        })
    };
    Ok(Query {
        equal,
        from: bound(question.from, question.after)?,
        to: bound(question.to, question.before)?,
        reverse: question.reverse,
    })
}
