//! Splits a subtree into items, in an order in which they can be written back.

use std::borrow::Cow;

use crate::{
    engine::Seek,
    error::StoreError,
    index::Definition,
    json,
    key::{ABOVE_CHILDREN, Key, subscript_length, within},
    read::{Read, each_record, in_pieces},
    tree::{Reader, Record},
};

use super::TransferError;

/// Content of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// The node's own value: a scalar, `{}` or `[]`.
    Value(Cow<'a, [u8]>),
    /// The whole subtree.
    Document(Cow<'a, [u8]>),
    /// The children, which follow, are the elements of an array. The node may also have a scalar value of its own.
    Array(Option<Cow<'a, [u8]>>),
    /// The node's expiry time, in milliseconds since 1970 UTC.
    Expires(u64),
    /// The node's children are the records of an index.
    Index(Box<Definition>),
}

/// Callback that receives the items of [`walk`].
pub(super) type Emit<'e> = dyn FnMut(&Key, Content<'_>) -> Result<(), TransferError> + 'e;

/// Emits a subtree depth first. A subtree whose document is at most `document_bytes_max` long is emitted as a whole,
/// unless a node in it has a value besides children, which documents leave out.
pub(super) fn walk(
    read: &mut impl Read,
    root: &Key,
    document_bytes_max: usize,
    emit: &mut Emit<'_>,
) -> Result<(), TransferError> {
    let reader = read.reader();
    let first = reader
        .transaction
        .cursor(reader.tables.nodes)?
        .seek(Seek::AtLeast, root.as_bytes())?;
    if !first.is_some_and(|(key, _)| within(key, root.as_bytes())) {
        // Nothing is stored at this node, but it may lie within a pack.
        return match reader.document_text(root)? {
            Some(text) => expand(root, &text, document_bytes_max, emit),
            None => Ok(()),
        };
    }
    let mut open = Open::default();
    in_pieces(read, root.as_bytes().to_vec(), |reader, from| {
        walk_piece(reader, root, &from, document_bytes_max, &mut open, emit)
    })
}

/// The subtrees that are being emitted node by node.
#[derive(Default)]
struct Open {
    /// The last path.
    path: Vec<u8>,
    /// Lengths of the prefixes of it that lead to these subtrees.
    lengths: Vec<usize>,
}

/// Emits a piece of a subtree, from a key on; returns where the next one begins.
fn walk_piece(
    reader: &Reader<'_>,
    root: &Key,
    from: &[u8],
    document_bytes_max: usize,
    Open { path, lengths: open }: &mut Open,
    emit: &mut Emit<'_>,
) -> Result<Option<Vec<u8>>, TransferError> {
    let cursor = reader.transaction.cursor(reader.tables.nodes)?;
    let mut found = cursor.seek(Seek::AtLeast, from)?;
    'records: while let Some((key, stored)) = found.filter(|(key, _)| within(key, root.as_bytes())) {
        // Each piece emits something.
        if key != from && reader.has_read_much() {
            return Ok(Some(key.to_vec()));
        }
        while open.last().is_some_and(|length| !within(key, &path[..*length])) {
            open.pop();
        }
        let following = cursor.next()?;
        let alone = !following.is_some_and(|(next, _)| within(next, key));
        let mut length = match open.last() {
            Some(length) => length + subscript_length(&key[*length..]),
            None => root.as_bytes().len(),
        };
        path.clear();
        path.extend_from_slice(key);
        loop {
            if length == key.len() && alone {
                break;
            }
            if let Some(document) = gather(reader, &key[..length], document_bytes_max)? {
                emit(&Key::from_encoded(&key[..length]), whole(&document))?;
                let above = [&path[..length], &[ABOVE_CHILDREN]].concat();
                found = cursor.seek(Seek::AtLeast, &above)?;
                continue 'records;
            }
            open.push(length);
            if length == key.len() {
                break;
            }
            length += subscript_length(&key[length..]);
        }
        let record = Record::read(key, stored)?;
        let key = Key::from_encoded(key);
        match (record.is_array(), record.text()) {
            (true, own) => emit(&key, Content::Array(own.map(Cow::Borrowed)))?,
            (false, Some(text)) => expand(&key, text, document_bytes_max, emit)?,
            (false, None) => {}
        }
        found = following;
    }
    Ok(None)
}

/// Emits the expiry times of a subtree.
pub(super) fn times(read: &mut impl Read, root: &Key, emit: &mut Emit<'_>) -> Result<(), TransferError> {
    let expiry = read.reader().tables.expiry;
    each_record(read, expiry, root.as_bytes(), |_, (key, at)| {
        let is_within = within(key, root.as_bytes());
        if let (true, Ok(at)) = (is_within, at.try_into()) {
            emit(&Key::from_encoded(key), Content::Expires(u64::from_be_bytes(at)))?;
        }
        Ok(is_within)
    })
}

/// The document of a stored subtree, if it is short enough and complete.
fn gather(reader: &Reader<'_>, root: &[u8], bytes_max: usize) -> Result<Option<Vec<u8>>, StoreError> {
    if bytes_max == 0 {
        return Ok(None);
    }
    let cursor = reader.transaction.cursor(reader.tables.nodes)?;
    let mut found = cursor.seek(Seek::AtLeast, root)?;
    let mut bytes = 0;
    while let Some((key, stored)) = found.filter(|(key, _)| within(key, root)) {
        // Every record adds at least its text to the document, or one byte if that is empty.
        let text = Record::read(key, stored)?.text().unwrap_or_default();
        bytes += text.len().max(1);
        if bytes > bytes_max {
            return Ok(None);
        }
        found = cursor.next()?;
        if !text.is_empty() && found.is_some_and(|(next, _)| within(next, key)) {
            return Ok(None);
        }
    }
    let mut document = Vec::new();
    reader.document(&Key::from_encoded(root), &mut document)?;
    Ok((document.len() <= bytes_max).then_some(document))
}

/// Emits the content of a text.
fn expand(
    key: &Key,
    text: &[u8],
    document_bytes_max: usize,
    emit: &mut Emit<'_>,
) -> Result<(), TransferError> {
    let array = match json::container(text) {
        Some(array) if text.len() > document_bytes_max.max(2) => array,
        _ => return emit(key, whole(text)),
    };
    if array {
        emit(key, Content::Array(None))?;
    }
    for child in json::children(text) {
        expand(&key.child(&child.name)?, child.text, document_bytes_max, emit)?;
    }
    Ok(())
}

fn whole(text: &[u8]) -> Content<'_> {
    if json::container(text).is_some() && text.len() > 2 {
        Content::Document(Cow::Borrowed(text))
    } else {
        Content::Value(Cow::Borrowed(text))
    }
}
