//! Reads of the tree, in one state of it.

use std::ops::Bound;

use crate::{
    engine::{Cursor, Seek, Transaction},
    error::StoreError,
    json,
    key::{ABOVE_CHILDREN, Key, Subscript, Subscripts, decode, global_length, subscript_length, within},
};

use super::{Defined, Record, Tables};

/// Children that long reads take at a time.
const CHILDREN_MAX: usize = 1024;

/// A state of the tree: that of a snapshot, or of a write transaction including its own changes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'t> {
    pub(crate) transaction: &'t Transaction,
    pub(crate) tables: Tables,
}

/// How a node is stored.
#[derive(Debug)]
pub(super) enum Place<'t> {
    /// In a record of its own.
    Stored(Record<'t>),
    /// Inside the pack of the node whose key is the first `at` bytes.
    Inside { pack: &'t [u8], at: usize },
    /// Not at all; it may have stored children. Holds the greatest key before it.
    Bare(Option<&'t [u8]>),
}

/// A range of children, and its direction.
#[derive(Clone, Debug)]
pub struct Range {
    /// Lower bound in collation order.
    pub from: Bound<Subscript>,
    /// Upper bound in collation order.
    pub to: Bound<Subscript>,
    /// Descending order.
    pub reverse: bool,
}

impl Default for Range {
    fn default() -> Self {
        Self {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            reverse: false,
        }
    }
}

impl Range {
    fn admits(&self, subscript: &Subscript) -> bool {
        self.above_start(subscript) && self.below_end(subscript)
    }

    fn above_start(&self, subscript: &Subscript) -> bool {
        match &self.from {
            Bound::Included(from) => subscript >= from,
            Bound::Excluded(from) => subscript > from,
            Bound::Unbounded => true,
        }
    }

    fn below_end(&self, subscript: &Subscript) -> bool {
        match &self.to {
            Bound::Included(to) => subscript <= to,
            Bound::Excluded(to) => subscript < to,
            Bound::Unbounded => true,
        }
    }
}

impl<'t> Reader<'t> {
    pub(super) fn cursor(&self) -> Result<Cursor<'t>, StoreError> {
        self.transaction.cursor(self.tables.nodes)
    }

    pub(super) fn place(&self, key: &Key) -> Result<Place<'t>, StoreError> {
        self.cursor().and_then(|cursor| place(&cursor, key))
    }

    /// Text of a node that is packed, or is inside a pack.
    pub(crate) fn packed(&self, key: &Key) -> Result<Option<&'t [u8]>, StoreError> {
        Ok(match self.place(key)? {
            Place::Stored(record) => record.pack(),
            Place::Inside { pack, at } => inside(pack, key, at),
            Place::Bare(_) => None,
        })
    }

    /// The node's own value.
    pub(crate) fn get(&self, key: &Key) -> Result<Option<&'t [u8]>, StoreError> {
        let text = match self.place(key)? {
            Place::Stored(record) => record.text(),
            Place::Inside { pack, at } => inside(pack, key, at),
            Place::Bare(_) => None,
        };
        Ok(text.filter(|text| is_value(text)))
    }

    /// Text of a node that documents show as a scalar, because it has no children.
    pub(crate) fn scalar(&self, key: &Key) -> Result<Option<&'t [u8]>, StoreError> {
        let cursor = self.cursor()?;
        let text = match place(&cursor, key)? {
            Place::Stored(record) => {
                let children = cursor
                    .next()?
                    .is_some_and(|(next, _)| within(next, key.as_bytes()));
                record.text().filter(|_| !children)
            }
            Place::Inside { pack, at } => inside(pack, key, at),
            Place::Bare(_) => None,
        };
        Ok(text.filter(|text| json::container(text).is_none()))
    }

    pub(crate) fn defined(&self, key: &Key) -> Result<Defined, StoreError> {
        let cursor = self.cursor()?;
        let text = match place(&cursor, key)? {
            Place::Stored(record) => match record.pack() {
                Some(text) => Some(text),
                None => {
                    return Ok(Defined {
                        value: record.text().is_some(),
                        children: has_children(&cursor, key)?,
                    });
                }
            },
            Place::Inside { pack, at } => inside(pack, key, at),
            Place::Bare(_) => {
                return Ok(Defined {
                    value: false,
                    children: has_children(&cursor, key)?,
                });
            }
        };
        Ok(text.map_or_else(Defined::default, |text| Defined {
            value: is_value(text),
            children: !is_value(text),
        }))
    }

    /// Whether the children are array elements; also true for `[]`.
    pub(crate) fn is_array(&self, key: &Key) -> Result<bool, StoreError> {
        Ok(match self.place(key)? {
            Place::Stored(record) => {
                record.is_array() || record.pack().and_then(json::container) == Some(true)
            }
            Place::Inside { pack, at } => inside(pack, key, at).and_then(json::container) == Some(true),
            Place::Bare(_) => false,
        })
    }

    /// The next sibling after `after`, or the first child.
    pub(crate) fn next(&self, key: &Key, after: Option<&Subscript>) -> Result<Option<Subscript>, StoreError> {
        self.neighbour(key, after, false)
    }

    /// The last sibling before `before`, or the last child.
    pub(crate) fn previous(
        &self,
        key: &Key,
        before: Option<&Subscript>,
    ) -> Result<Option<Subscript>, StoreError> {
        self.neighbour(key, before, true)
    }

    fn neighbour(
        &self,
        key: &Key,
        seed: Option<&Subscript>,
        reverse: bool,
    ) -> Result<Option<Subscript>, StoreError> {
        let seed = seed.map_or(Bound::Unbounded, |seed| Bound::Excluded(seed.clone()));
        let (from, to) = if reverse {
            (Bound::Unbounded, seed)
        } else {
            (seed, Bound::Unbounded)
        };
        self.children(key, Range { from, to, reverse })?
            .next()
            .transpose()
    }

    /// Iterates over the subscripts of the children.
    pub(crate) fn children(&self, key: &Key, range: Range) -> Result<ChildWalk<'t>, StoreError> {
        let source = match self.packed(key)? {
            Some(text) => {
                let mut found: Vec<Subscript> = json::children(text)
                    .map(|child| Subscript::new(&child.name))
                    .filter(|subscript| range.admits(subscript))
                    .collect();
                if range.reverse {
                    found.reverse();
                }
                Source::Packed(found.into_iter())
            }
            None => Source::Stored {
                cursor: self.cursor()?,
                last: None,
            },
        };
        Ok(ChildWalk {
            parent: key.clone(),
            range,
            source,
            over: false,
        })
    }

    /// The next children in a range, which then begins after them: at most [`CHILDREN_MAX`], and fewer once much has been
    /// read.
    pub(crate) fn next_children(&self, key: &Key, range: &mut Range) -> Result<Vec<Subscript>, StoreError> {
        let mut found = Vec::new();
        for child in self.children(key, range.clone())? {
            found.push(child?);
            if found.len() == CHILDREN_MAX || self.transaction.has_read_much() {
                break;
            }
        }
        if let Some(last) = found.last() {
            range.from = Bound::Excluded(last.clone());
        }
        Ok(found)
    }

    /// Iterates over all nodes with a value in the subtree, depth first in collation order.
    pub(crate) fn values(&self, key: &Key) -> Result<ValueWalk<'t>, StoreError> {
        let cursor = self.cursor()?;
        let mut pending = Vec::new();
        let mut first = None;
        match place(&cursor, key)? {
            Place::Inside { pack, at } => {
                if let Some(text) = inside(pack, key, at) {
                    pending.push((key.clone(), text));
                }
            }
            Place::Stored(_) | Place::Bare(_) => first = Some(()),
        }
        Ok(ValueWalk {
            root: key.clone(),
            cursor,
            pending,
            begin: first.is_some(),
            over: first.is_none(),
        })
    }

    /// Names of all globals, starting with `from`.
    pub(crate) fn globals(&self, from: &str) -> Result<GlobalWalk<'t>, StoreError> {
        Ok(GlobalWalk {
            cursor: self.cursor()?,
            from: from.as_bytes().to_vec(),
        })
    }
}

/// Whether a text is a value of its own: anything but a container with children.
pub(super) fn is_value(text: &[u8]) -> bool {
    json::container(text).is_none() || text.len() == 2
}

/// Text of a node inside a pack whose key is `at` bytes long.
pub(super) fn inside<'t>(pack: &'t [u8], key: &Key, at: usize) -> Option<&'t [u8]> {
    let rest = Subscripts {
        rest: &key.as_bytes()[at..],
    };
    let mut text = pack;
    for subscript in rest {
        text = json::find(text, &decode(subscript))?;
    }
    Some(text)
}

/// Finds out how a node is stored; leaves the cursor at the greatest key at or before it.
pub(super) fn place<'t>(cursor: &Cursor<'t>, key: &Key) -> Result<Place<'t>, StoreError> {
    let wanted = key.as_bytes();
    let Some((found, stored)) = cursor.seek(Seek::AtMost, wanted)? else {
        return Ok(Place::Bare(None));
    };
    if found == wanted {
        return Ok(Place::Stored(Record::read(found, stored)?));
    }
    if within(wanted, found)
        && let Some(pack) = Record::read(found, stored)?.pack()
    {
        return Ok(Place::Inside {
            pack,
            at: found.len(),
        });
    }
    Ok(Place::Bare(Some(found)))
}

fn has_children(cursor: &Cursor<'_>, key: &Key) -> Result<bool, StoreError> {
    let found = cursor.seek(Seek::AtLeast, &below(key.as_bytes()))?;
    Ok(found.is_some_and(|(found, _)| within(found, key.as_bytes())))
}

/// Lower bound of the keys below this one.
pub(super) fn below(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.extend_from_slice(key);
    bytes.push(0x01);
    bytes
}

/// Upper bound, exclusive, of the keys below this one.
pub(super) fn above(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.extend_from_slice(key);
    bytes.push(ABOVE_CHILDREN);
    bytes
}

/// Iterates over the subscripts of a node's children.
#[derive(Debug)]
pub struct ChildWalk<'t> {
    parent: Key,
    range: Range,
    source: Source<'t>,
    over: bool,
}

#[derive(Debug)]
enum Source<'t> {
    Packed(std::vec::IntoIter<Subscript>),
    Stored {
        cursor: Cursor<'t>,
        last: Option<Subscript>,
    },
}

impl Iterator for ChildWalk<'_> {
    type Item = Result<Subscript, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let found = match &mut self.source {
            Source::Packed(rest) => Ok(rest.next()),
            Source::Stored { cursor, last } => {
                let found = stored_child(cursor, &self.parent, &self.range, last.as_ref());
                if let Ok(found) = &found {
                    last.clone_from(found);
                }
                found
            }
        };
        self.over = !matches!(found, Ok(Some(_)));
        found.transpose()
    }
}

/// The next stored child after `last`, in the direction of the range.
fn stored_child(
    cursor: &Cursor<'_>,
    parent: &Key,
    range: &Range,
    last: Option<&Subscript>,
) -> Result<Option<Subscript>, StoreError> {
    let root = parent.as_bytes();
    let of = |subscript: &Subscript| [root, subscript.as_bytes()].concat();
    let found = match (range.reverse, last) {
        // The record after the last child's own is usually the next child's.
        (false, Some(last)) => match cursor.next()? {
            Some((key, _)) if within(key, &of(last)) => cursor.seek(Seek::AtLeast, &above(&of(last)))?,
            other => other,
        },
        (false, None) => match &range.from {
            Bound::Included(from) => cursor.seek(Seek::AtLeast, &of(from))?,
            Bound::Excluded(from) => cursor.seek(Seek::AtLeast, &above(&of(from)))?,
            Bound::Unbounded => cursor.seek(Seek::AtLeast, &below(root))?,
        },
        (true, Some(last)) => cursor.seek(Seek::Below, &of(last))?,
        (true, None) => match &range.to {
            Bound::Included(to) => cursor.seek(Seek::Below, &above(&of(to)))?,
            Bound::Excluded(to) => cursor.seek(Seek::Below, &of(to))?,
            Bound::Unbounded => cursor.seek(Seek::Below, &above(root))?,
        },
    };
    let Some((key, _)) = found.filter(|(key, _)| within(key, root) && key.len() > root.len()) else {
        return Ok(None);
    };
    let rest = &key[root.len()..];
    let subscript = Subscript::from_encoded(&rest[..subscript_length(rest)]);
    Ok(range.admits(&subscript).then_some(subscript))
}

/// Iterates over the nodes with values in a subtree.
#[derive(Debug)]
pub struct ValueWalk<'t> {
    root: Key,
    cursor: Cursor<'t>,
    /// Nodes of a pack that are still to be visited, the next one last.
    pending: Vec<(Key, &'t [u8])>,
    begin: bool,
    over: bool,
}

impl ValueWalk<'_> {
    /// Whether the next node is in a record of its own.
    pub(crate) fn is_between_records(&self) -> bool {
        self.pending.is_empty()
    }

    /// Goes on behind the last node that another walk of the same subtree has reached in a record.
    pub(crate) fn go_behind(&mut self, node: &Key) -> Result<(), StoreError> {
        self.pending.clear();
        // Nothing is stored below a pack, so this is its record or that of the node itself.
        self.begin = false;
        self.cursor.seek(Seek::AtMost, node.as_bytes()).map(drop)
    }
}

impl<'t> Iterator for ValueWalk<'t> {
    type Item = Result<(Key, &'t [u8]), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some((key, text)) = self.pending.pop() {
                if is_value(text) {
                    return Some(Ok((key, text)));
                }
                let first = self.pending.len();
                for child in json::children(text) {
                    match key.child(&child.name) {
                        Ok(key) => self.pending.push((key, child.text)),
                        Err(error) => return Some(Err(error.into())),
                    }
                }
                self.pending[first..].reverse();
            }
            if self.over {
                return None;
            }
            let found = if std::mem::take(&mut self.begin) {
                self.cursor.seek(Seek::AtLeast, self.root.as_bytes())
            } else {
                self.cursor.next()
            };
            match found {
                Ok(Some((key, stored))) if within(key, self.root.as_bytes()) => {
                    match Record::read(key, stored) {
                        Ok(record) => {
                            if let Some(text) = record.text() {
                                self.pending.push((Key::from_encoded(key), text));
                            }
                        }
                        Err(error) => {
                            self.over = true;
                            return Some(Err(error));
                        }
                    }
                }
                Ok(_) => self.over = true,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Iterates over the names of globals.
#[derive(Debug)]
pub struct GlobalWalk<'t> {
    cursor: Cursor<'t>,
    from: Vec<u8>,
}

impl Iterator for GlobalWalk<'_> {
    type Item = Result<String, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.cursor.seek(Seek::AtLeast, &self.from) {
            Ok(Some((key, _))) => {
                // Whatever follows the name, the next global sorts after all keys with this prefix.
                self.from = key[..global_length(key) - 1].to_vec();
                self.from.push(1);
                Some(Ok(Key::from_encoded(key).global_name().to_owned()))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
