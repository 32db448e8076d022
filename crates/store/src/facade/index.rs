//! Indexes, expiry and merge patches for programs in other languages.

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

/// A query on an index. Values are JSON texts, encoded as parts of [paths](super::path).
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// Values of the first fields, concatenated.
    pub equal: &'a [u8],
    /// Lower bound of the next field; empty for none.
    pub from: &'a [u8],
    /// Whether the lower bound is exclusive.
    pub after: bool,
    /// Upper bound of the next field; empty for none.
    pub to: &'a [u8],
    /// Whether the upper bound is exclusive.
    pub before: bool,
    /// Descending order.
    pub reverse: bool,
}

impl Session {
    /// Creates an index from a definition in the form of [`Definition::to_json`].
    pub fn define_index(&mut self, definition: &[u8]) -> Result<(), SessionError> {
        let definition = Definition::from_json(definition)?;
        self.write(|transaction| transaction.define_index(&definition))
    }

    /// Drops an index; `false` if there was none. The name is one part of a path.
    pub fn drop_index(&mut self, name: &[u8]) -> Result<bool, SessionError> {
        let name = path::text(name)?;
        self.write(|transaction| transaction.drop_index(name))
    }

    /// Definitions of all indexes as JSON, in the form of [`Session::children`].
    pub fn indexes(&mut self) -> Result<&[u8], SessionError> {
        let definitions = self.read(|reader, _| reader.indexes())?;
        self.out.clear();
        for definition in definitions {
            item(&definition.to_json(), &mut self.out);
        }
        Ok(&self.out)
    }

    /// Returns up to `limit` records in index order, after `place`, a position returned by an earlier page of the same
    /// query (empty for the first). The result holds the new position, then the path of the records' parent, as the
    /// number of its parts and the parts, then the records' subscripts, all in the form of [`Session::children`]. A
    /// page may hold fewer than `limit` records although more follow: see [`Session::more`].
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
            let mut walk = QueryWalk::new(reader, name, &query, place.clone())?;
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

    /// Sets or removes a node's expiry time, in milliseconds since 1970 UTC; `false` if the node does not exist.
    pub fn expire(&mut self, path: &[u8], at_ms: Option<u64>) -> Result<bool, SessionError> {
        let key = self.key(path)?;
        self.write(|transaction| transaction.expire(&key, at_ms))
    }

    /// The node's expiry time, in milliseconds since 1970 UTC.
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
