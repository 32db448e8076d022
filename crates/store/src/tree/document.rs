//! Documents: stored as one text, or assembled step by step from stored nodes.

use std::borrow::Cow;

use crate::{
    engine::Seek,
    error::StoreError,
    json,
    key::{Key, decode, subscript_length, within},
    read::Read,
};

use super::{
    Record,
    read::{Place, Reader, above, inside, place},
};

/// A node's document, in the form in which it is available.
#[derive(Debug)]
pub enum Document<'t> {
    /// As one text; borrowed if all of it is stored as one.
    Text(Cow<'t, [u8]>),
    /// As nodes that have to be assembled.
    Nodes(DocumentWalk),
}

/// State of a document being assembled. It can continue with any reader of the same state.
#[derive(Debug)]
pub struct DocumentWalk {
    root: Key,
    depth: usize,
    bytes_max: usize,
    /// Open containers, outermost first: the length of each one's key, and whether it is an array.
    open: Vec<(usize, bool)>,
    /// Key written last.
    path: Vec<u8>,
    /// Key that comes next; `None` if the document is complete.
    next: Option<Vec<u8>>,
    /// Whether nothing of the innermost container has been written yet.
    first: bool,
    written: usize,
}

impl<'t> Reader<'t> {
    /// See [`Read::document_walk`].
    pub(crate) fn document_walk(
        &self,
        key: &Key,
        depth: usize,
        bytes_max: usize,
    ) -> Result<Option<Document<'t>>, StoreError> {
        let cursor = self.cursor()?;
        let root = key.as_bytes();
        let text = match place(&cursor, key)? {
            Place::Stored(record) if record.pack().is_some() => record.pack(),
            Place::Inside { pack, at } => inside(pack, key, at),
            Place::Stored(record) => {
                let has_children = cursor.next()?.is_some_and(|(next, _)| within(next, root));
                if has_children {
                    return Ok(Some(Document::Nodes(DocumentWalk::new(
                        key, root, depth, bytes_max,
                    ))));
                }
                Some(record.text().unwrap_or(b"null"))
            }
            Place::Bare(_) => {
                let found = cursor.seek(Seek::AtLeast, root)?;
                let first = found.filter(|(first, _)| within(first, root));
                return Ok(
                    first.map(|(first, _)| Document::Nodes(DocumentWalk::new(key, first, depth, bytes_max)))
                );
            }
        };
        Ok(text.map(|text| {
            Document::Text(if depth == usize::MAX {
                Cow::Borrowed(text)
            } else {
                let mut shown = Vec::new();
                json::write_to_depth(text, depth, &mut shown);
                Cow::Owned(shown)
            })
        }))
    }

    /// Appends the subtree as canonical JSON; `false` if there is none. Values next to children are left out.
    pub(crate) fn document(&self, key: &Key, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        match self.document_walk(key, usize::MAX, usize::MAX)? {
            None => return Ok(false),
            Some(Document::Text(text)) => out.extend_from_slice(&text),
            Some(Document::Nodes(mut walk)) => while walk.step(self, usize::MAX, out)? {},
        }
        Ok(true)
    }

    /// The subtree as canonical JSON; borrowed if it is stored as one text.
    pub(crate) fn document_text(&self, key: &Key) -> Result<Option<Cow<'t, [u8]>>, StoreError> {
        self.document_within(key, usize::MAX)
    }

    /// As `document_text`, but an assembled document longer than about `bytes_max`, names included, is an error.
    pub(crate) fn document_within(
        &self,
        key: &Key,
        bytes_max: usize,
    ) -> Result<Option<Cow<'t, [u8]>>, StoreError> {
        Ok(match self.document_walk(key, usize::MAX, bytes_max)? {
            None => None,
            Some(Document::Text(text)) => Some(text),
            Some(Document::Nodes(mut walk)) => {
                let mut out = Vec::new();
                while walk.step(self, usize::MAX, &mut out)? {}
                Some(Cow::Owned(out))
            }
        })
    }
}

impl DocumentWalk {
    fn new(root: &Key, first: &[u8], depth: usize, bytes_max: usize) -> Self {
        Self {
            root: root.clone(),
            depth,
            bytes_max,
            open: Vec::new(),
            path: root.as_bytes().to_vec(),
            next: Some(first.to_vec()),
            first: true,
            written: 0,
        }
    }

    /// Appends up to `nodes` further nodes to the document; `false` once it is complete. The length of names is known
    /// only as they are written, so this fails with [`StoreError::ValueTooLong`] as soon as the limit is exceeded.
    pub fn step(&mut self, read: &impl Read, nodes: usize, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let Some(next) = self.next.take() else {
            return Ok(false);
        };
        let cursor = read.reader().cursor()?;
        let root = self.root.as_bytes();
        let start = out.len();
        let mut left = nodes;
        let mut found = cursor.seek(Seek::AtLeast, &next)?;
        while let Some((key, stored)) = found.filter(|(key, _)| within(key, root)) {
            if left == 0 {
                self.next = Some(key.to_vec());
                self.written += out.len() - start;
                return Ok(true);
            }
            left -= 1;
            let record = Record::read(key, stored)?;
            let mut following = cursor.next()?;
            let has_children = following.is_some_and(|(next, _)| within(next, key));
            // Close the containers that do not contain this record.
            while let Some((length, array)) = self.open.last() {
                if within(key, &self.path[..*length]) && key.len() > *length {
                    break;
                }
                out.push(if *array { b']' } else { b'}' });
                self.open.pop();
                self.first = false;
            }
            let mut at = match self.open.last() {
                None => root.len(),
                Some(&(length, _)) => length + self.put_name(&key[length..], out),
            };
            // Write the node, preceded by the containers around it that have no record and are therefore objects.
            loop {
                let is_node = at == key.len();
                if is_node && !has_children {
                    let text = record.text().unwrap_or(b"null");
                    json::write_to_depth(text, self.depth.saturating_sub(self.open.len()), out);
                    self.first = false;
                    break;
                }
                let is_array = is_node && record.is_array();
                if self.open.len() >= self.depth {
                    out.extend_from_slice(if is_array { b"[]" } else { b"{}" });
                    self.first = false;
                    following = cursor.seek(Seek::AtLeast, &above(&key[..at]))?;
                    break;
                }
                out.push(if is_array { b'[' } else { b'{' });
                self.open.push((at, is_array));
                self.first = true;
                if is_node {
                    break;
                }
                at += self.put_name(&key[at..], out);
            }
            let bytes = self.written + out.len() - start + self.open.len();
            if bytes > self.bytes_max {
                let max = self.bytes_max;
                return Err(StoreError::ValueTooLong { bytes, max });
            }
            self.path.clear();
            self.path.extend_from_slice(key);
            found = following;
        }
        for (_, array) in self.open.drain(..).rev() {
            out.push(if array { b']' } else { b'}' });
        }
        Ok(false)
    }

    /// Begins a member or element of the innermost container; returns the length of its subscript, which is first in
    /// `rest`.
    fn put_name(&self, rest: &[u8], out: &mut Vec<u8>) -> usize {
        let length = subscript_length(rest);
        if !self.first {
            out.push(b',');
        }
        let in_array = self.open.last().is_some_and(|(_, array)| *array);
        if !in_array {
            json::write_string(&decode(&rest[..length]), out);
            out.push(b':');
        }
        length
    }
}
