//! Changes to the tree within one transaction.

use std::borrow::Cow;

use crate::{
    decimal,
    engine::{Cursor, Seek, Transaction},
    error::{StoreError, TRANSACTION_FULL},
    json::{self, Json},
    key::{Key, Subscripts, decode, global_length, subscript_length, within},
};

use super::{
    Record, Tables,
    read::{Place, Reader, above, below, inside, is_value, place},
    record,
};

/// The tree as a write transaction changes it.
#[derive(Debug)]
pub(crate) struct Writer<'t> {
    pub(crate) transaction: &'t mut Transaction,
    pub(crate) tables: Tables,
}

/// Whether an assignment keeps the node's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Children {
    Stay,
    Go,
}

/// A write that a packed text cannot represent, because a node would have both a value and children.
struct NeedsSplit;

/// A record of a subtree being copied: the part of its key below the subtree's root, and its content.
struct Copied {
    suffix: Vec<u8>,
    text: Option<Vec<u8>>,
    array: bool,
}

/// Memory for a subtree being copied, in bytes; a single longer record is copied alone.
const COPIED_BYTES_MAX: usize = 1 << 20;

impl Writer<'_> {
    fn reader(&self) -> Reader<'_> {
        Reader {
            transaction: self.transaction,
            tables: self.tables,
        }
    }

    /// Sets a node's value. A scalar leaves the children as they are; an object or array replaces the subtree.
    pub(crate) fn set(&mut self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        let value = self.read(value)?;
        let children = if matches!(value, Json::Scalar(_)) {
            Children::Stay
        } else {
            Children::Go
        };
        self.assign(key, &value, children)
    }

    /// Replaces the whole subtree.
    pub(crate) fn put(&mut self, key: &Key, document: &[u8]) -> Result<(), StoreError> {
        let document = self.read(document)?;
        self.assign(key, &document, Children::Go)
    }

    fn read<'a>(&self, text: &'a [u8]) -> Result<Json<'a>, StoreError> {
        let max = self.tables.value_bytes_max;
        if text.len() > max {
            return Err(StoreError::ValueTooLong {
                bytes: text.len(),
                max,
            });
        }
        Ok(Json::read(text)?)
    }

    fn assign(&mut self, key: &Key, value: &Json<'_>, children: Children) -> Result<(), StoreError> {
        check_paths(key, value)?;
        loop {
            let cursor = self.reader().cursor()?;
            match place(&cursor, key)? {
                Place::Inside { pack, at } => {
                    let mut root = Json::read(pack)?.into_owned();
                    drop(cursor);
                    let mut holder = key.clone();
                    holder.truncate(at);
                    let path = Subscripts {
                        rest: &key.as_bytes()[at..],
                    };
                    match insert(&mut root, path, value, children) {
                        Ok(()) => return self.write(&holder, &root),
                        Err(NeedsSplit) => self.spread(&holder, None, &root)?,
                    }
                }
                Place::Stored(record) => {
                    let (array, pack) = (record.is_array(), record.pack());
                    let pack = match pack {
                        Some(text) if children == Children::Stay && !is_value(text) => {
                            Some(Json::read(text)?.into_owned())
                        }
                        _ => None,
                    };
                    drop(cursor);
                    return match (children, pack) {
                        (Children::Stay, Some(pack)) => self.spread(key, Some(&value.to_text()), &pack),
                        (Children::Stay, None) => {
                            let text = value
                                .as_scalar()
                                .expect("only scalars leave children as they are");
                            record::write(self.transaction, self.tables, key, Some(text.as_bytes()), array)
                        }
                        (Children::Go, _) => {
                            self.clear(key)?;
                            self.write(key, value)
                        }
                    };
                }
                Place::Bare(before) => {
                    let gap = Gap::find(&cursor, before, key)?;
                    drop(cursor);
                    match gap {
                        None if children == Children::Go => {
                            self.clear(key)?;
                        }
                        None => {}
                        Some(gap) => self.begins(key, &gap)?,
                    }
                    return self.write(key, value);
                }
            }
        }
    }

    /// Stores a subtree at a node where nothing is stored.
    fn write(&mut self, key: &Key, value: &Json<'_>) -> Result<(), StoreError> {
        if let Json::Scalar(text) = value {
            return record::write(self.transaction, self.tables, key, Some(text.as_bytes()), false);
        }
        if value.is_leaf() || value.fits(self.tables.pack_bytes_max) {
            let text = value.to_text();
            return record::write(self.transaction, self.tables, key, Some(&text), false);
        }
        self.spread(key, None, value)
    }

    /// Stores a container as separate children, with an optional value of its own.
    fn spread(&mut self, key: &Key, own: Option<&[u8]>, value: &Json<'_>) -> Result<(), StoreError> {
        let array = matches!(value, Json::Array(_));
        record::write(self.transaction, self.tables, key, own, array)?;
        match value {
            Json::Scalar(_) => unreachable!("a scalar has no children to spread"),
            Json::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.write(&key.child(&index.to_string())?, element)?;
                }
            }
            Json::Object(members) => {
                for (name, member) in members {
                    self.write(&key.child(name)?, member)?;
                }
            }
        }
        Ok(())
    }

    /// Removes everything stored of a subtree; `false` if there was nothing.
    fn clear(&mut self, key: &Key) -> Result<bool, StoreError> {
        self.transaction
            .delete_range(self.tables.nodes, key.as_bytes(), &above(key.as_bytes()))
    }

    /// Turns the array above a new node into an object if the node is not its next element.
    fn begins(&mut self, key: &Key, gap: &Gap) -> Result<(), StoreError> {
        let Some(length) = gap.breaks else { return Ok(()) };
        let mut holder = key.clone();
        holder.truncate(length);
        let Some(stored) = self.transaction.get(self.tables.nodes, holder.as_bytes())? else {
            return Ok(());
        };
        let record = Record::read(holder.as_bytes(), stored)?;
        if !record.is_array() {
            return Ok(());
        }
        let own = record.text().map(<[u8]>::to_vec);
        record::write(self.transaction, self.tables, &holder, own.as_deref(), false)
    }

    /// Removes a subtree; `false` if there was none.
    pub(crate) fn kill(&mut self, key: &Key) -> Result<bool, StoreError> {
        let found = self.reader().place(key)?;
        let Place::Inside { pack, at } = found else {
            let existed = self.clear(key)?;
            if existed {
                self.ended(key.clone())?;
            }
            return Ok(existed);
        };
        if inside(pack, key, at).is_none() {
            return Ok(false);
        }
        let mut root = Json::read(pack)?.into_owned();
        let mut holder = key.clone();
        holder.truncate(at);
        let path = Subscripts {
            rest: &key.as_bytes()[at..],
        };
        if remove(&mut root, path) {
            self.clear(&holder)?;
            self.ended(holder)?;
        } else {
            self.write(&holder, &root)?;
        }
        Ok(true)
    }

    /// Removes what a vanished node leaves above it: nodes that existed only because of it, and array marks that no
    /// longer hold.
    fn ended(&mut self, mut key: Key) -> Result<(), StoreError> {
        while let Some(parent) = key.parent() {
            let cursor = self.reader().cursor()?;
            let others = cursor
                .seek(Seek::AtLeast, &below(parent.as_bytes()))?
                .is_some_and(|(found, _)| within(found, parent.as_bytes()));
            let younger = others
                && cursor
                    .seek(Seek::AtLeast, &above(key.as_bytes()))?
                    .is_some_and(|(found, _)| within(found, parent.as_bytes()));
            drop(cursor);
            let stored = self.transaction.get(self.tables.nodes, parent.as_bytes())?;
            let record = stored
                .map(|stored| Record::read(parent.as_bytes(), stored))
                .transpose()?;
            let array = record.is_some_and(|record| record.is_array());
            let own = record.and_then(|record| record.text()).map(<[u8]>::to_vec);
            let stays_array = others && !younger;
            if array && !stays_array {
                record::write(self.transaction, self.tables, &parent, own.as_deref(), false)?;
            }
            if others || own.is_some() {
                return Ok(());
            }
            key = parent;
        }
        Ok(())
    }

    /// Adds to a number, 0 if there is none; returns the sum.
    pub(crate) fn increment(&mut self, key: &Key, by: &str) -> Result<String, StoreError> {
        let found = self.reader().get(key)?.unwrap_or(b"0");
        let found = String::from_utf8_lossy(found).into_owned();
        for number in [found.as_str(), by] {
            if !decimal::is_number(number) {
                let found = number.chars().take(40).collect();
                return Err(StoreError::NotANumber { found });
            }
        }
        let Some(sum) = decimal::add(&found, by) else {
            return Err(StoreError::NumberTooLong {
                found,
                by: by.to_owned(),
                max: decimal::DIGITS_MAX,
            });
        };
        self.assign(key, &Json::Scalar(Cow::Borrowed(&sum)), Children::Stay)?;
        Ok(sum)
    }

    /// Merges a document into a subtree: its values replace those at the same path, all others stay.
    pub(crate) fn lay_over(&mut self, key: &Key, document: &[u8]) -> Result<(), StoreError> {
        let document = self.read(document)?;
        check_paths(key, &document)?;
        self.merge_json(key, document)
    }

    fn merge_json(&mut self, key: &Key, value: Json<'_>) -> Result<(), StoreError> {
        if !self.reader().defined(key)?.exists() {
            return self.assign(key, &value, Children::Go);
        }
        match value {
            Json::Scalar(_) => self.assign(key, &value, Children::Stay),
            Json::Array(elements) => {
                for (index, element) in elements.into_iter().enumerate() {
                    self.merge_json(&key.child(&index.to_string())?, element)?;
                }
                Ok(())
            }
            Json::Object(members) => {
                for (name, member) in members {
                    self.merge_json(&key.child(&name)?, member)?;
                }
                Ok(())
            }
        }
    }

    /// Copies one subtree into another: its values replace those at the same path, all others stay. Fails if that takes
    /// more than `bytes_max` of paths and values; returns how much it was.
    pub(crate) fn merge(&mut self, to: &Key, from: &Key, bytes_max: usize) -> Result<usize, StoreError> {
        if within(to.as_bytes(), from.as_bytes()) || within(from.as_bytes(), to.as_bytes()) {
            return Err(StoreError::Overlap {
                from: from.to_string(),
                to: to.to_string(),
            });
        }
        if let Place::Inside { pack, at } = self.reader().place(from)? {
            let Some(text) = inside(pack, from, at) else {
                return Ok(0);
            };
            let bytes = to.len() + text.len();
            let value = Json::read(text)?.into_owned();
            check_paths(to, &value)?;
            self.merge_json(to, value)?;
            return Ok(bytes);
        }
        let bytes = self.check_copy(to, from, bytes_max)?;
        let mut last = None;
        // Root of the subtree that is copied record by record, because nothing existed at its target.
        let mut fresh: Option<Vec<u8>> = None;
        loop {
            // Writing does not affect what is read: neither subtree contains the other, and no pack contains this one.
            let records = self.copied(from, last.as_deref())?;
            let Some(end) = records.last() else {
                return Ok(bytes);
            };
            last = Some(end.suffix.clone());
            for Copied { suffix, text, array } in records {
                let mut key = to.clone();
                key.push_bytes(&suffix)?;
                if !fresh.as_ref().is_some_and(|root| within(&suffix, root)) {
                    if self.reader().defined(&key)?.exists() {
                        if let Some(text) = text {
                            self.merge_json(&key, Json::read(&text)?)?;
                        }
                        continue;
                    }
                    self.make_room(&key)?;
                    fresh = Some(suffix);
                }
                record::write(self.transaction, self.tables, &key, text.as_deref(), array)?;
            }
        }
    }

    /// Rejects a copy that would make invalid paths or is too large; returns its bytes of paths and values.
    fn check_copy(&self, to: &Key, from: &Key, bytes_max: usize) -> Result<usize, StoreError> {
        let root = from.as_bytes();
        let cursor = self.reader().cursor()?;
        let mut bytes = 0;
        let mut found = cursor.seek(Seek::AtLeast, root)?;
        while let Some((key, stored)) = found.filter(|(key, _)| within(key, root)) {
            let record = Record::read(key, stored)?;
            let mut target = to.clone();
            target.push_bytes(&key[root.len()..])?;
            bytes += target.len() + record.text().map_or(0, <[u8]>::len);
            if bytes > bytes_max {
                return Err(StoreError::Full {
                    reason: TRANSACTION_FULL,
                });
            }
            if let Some(text) = record.pack() {
                check_paths(&target, &Json::read(text)?)?;
            }
            found = cursor.next()?;
        }
        Ok(bytes)
    }

    /// The next batch of records of a subtree, after the given one.
    fn copied(&self, from: &Key, after: Option<&[u8]>) -> Result<Vec<Copied>, StoreError> {
        let root = from.as_bytes();
        let cursor = self.reader().cursor()?;
        let mut found = match after {
            None => cursor.seek(Seek::AtLeast, root)?,
            Some(suffix) => cursor.seek(Seek::AtLeast, &below(&[root, suffix].concat()))?,
        };
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some((key, stored)) = found.filter(|(key, _)| within(key, root)) {
            let record = Record::read(key, stored)?;
            bytes += size_of::<Copied>() + key.len() + stored.len();
            records.push(Copied {
                suffix: key[root.len()..].to_vec(),
                text: record.text().map(<[u8]>::to_vec),
                array: record.is_array(),
            });
            if bytes > COPIED_BYTES_MAX {
                break;
            }
            found = cursor.next()?;
        }
        Ok(records)
    }

    /// Prepares the nodes above a new one, so that its records can be written: unpacks them, and turns an array into an
    /// object if necessary.
    fn make_room(&mut self, key: &Key) -> Result<(), StoreError> {
        while let Place::Inside { pack, at } = self.reader().place(key)? {
            let root = Json::read(pack)?.into_owned();
            let mut holder = key.clone();
            holder.truncate(at);
            self.spread(&holder, None, &root)?;
        }
        let cursor = self.reader().cursor()?;
        let nothing = "nothing is stored where this is copied to";
        let Place::Bare(before) = place(&cursor, key)? else {
            unreachable!("{nothing}")
        };
        let gap = Gap::find(&cursor, before, key)?.expect(nothing);
        drop(cursor);
        self.begins(key, &gap)
    }
}

/// The gap between stored nodes where a new node goes.
struct Gap {
    /// Key length in bytes of the deepest existing ancestor of the new node, if that can no longer be an array with it.
    breaks: Option<usize>,
}

impl Gap {
    /// Expects the cursor at the greatest key before this one; `None` if the node has stored children.
    fn find(cursor: &Cursor<'_>, before: Option<&[u8]>, key: &Key) -> Result<Option<Self>, StoreError> {
        let wanted = key.as_bytes();
        let after = if before.is_some() {
            cursor.next()?
        } else {
            cursor.seek(Seek::AtLeast, wanted)?
        };
        let after = after.map(|(found, _)| found);
        if after.is_some_and(|after| within(after, wanted)) {
            return Ok(None);
        }
        let shared = |other: Option<&[u8]>| other.and_then(|other| shared_path(wanted, other));
        let Some(length) = shared(before).max(shared(after)) else {
            return Ok(Some(Self { breaks: None }));
        };
        let (holder, rest) = wanted.split_at(length);
        let child = |path: &[u8]| json::index_of(&decode(&path[..subscript_length(path)]));
        let among = |other: &&[u8]| other.len() > length && within(other, holder);
        let elder = before.filter(among);
        let goes_on = match (child(rest), elder) {
            // An array has no gaps: since a later element exists, so does this one.
            (Some(_), _) if after.is_some_and(|after| among(&after)) => true,
            // The next element, or the first one of what was `[]`.
            (Some(index), Some(elder)) => child(&elder[length..]).is_some_and(|elder| elder + 1 == index),
            (index, None) => index == Some(0),
            (None, _) => false,
        };
        Ok(Some(Self {
            breaks: (!goes_on).then_some(length),
        }))
    }
}

/// Rejects a subtree with paths that could not be stored one by one, whichever way it will be stored, and containers so
/// deep that they could have no children: documents would exceed the depth limit.
pub(crate) fn check_paths(key: &Key, value: &Json<'_>) -> Result<(), StoreError> {
    if let Json::Scalar(_) = value {
        return Ok(());
    }
    key.check_container()?;
    let mut path = key.clone();
    let length = path.len();
    let mut check = |name: &str, child: &Json<'_>| {
        path.push(name)?;
        check_paths(&path, child)?;
        path.truncate(length);
        Ok(())
    };
    match value {
        Json::Scalar(_) => Ok(()),
        Json::Array(elements) => {
            let mut named = elements.iter().enumerate();
            named.try_for_each(|(index, element)| check(&index.to_string(), element))
        }
        Json::Object(members) => members.iter().try_for_each(|(name, member)| check(name, member)),
    }
}

/// Key length in bytes of the deepest node that is on both paths.
fn shared_path(left: &[u8], right: &[u8]) -> Option<usize> {
    let alike = left
        .iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count();
    let mut length = global_length(left);
    if length > alike {
        return None;
    }
    for subscript in (Subscripts {
        rest: &left[length..],
    }) {
        let longer = length + subscript.len();
        if longer > alike || !within(right, &left[..longer]) {
            break;
        }
        length = longer;
    }
    Some(length)
}

/// Puts a value into a packed tree.
fn insert(
    node: &mut Json<'static>,
    mut path: Subscripts<'_>,
    value: &Json<'_>,
    children: Children,
) -> Result<(), NeedsSplit> {
    let Some(subscript) = path.next() else {
        if children == Children::Stay && !node.is_leaf() {
            return Err(NeedsSplit);
        }
        *node = value.clone().into_owned();
        return Ok(());
    };
    let name = decode(subscript);
    if let Some(child) = node.child_mut(&name) {
        return insert(child, path, value, children);
    }
    let mut fresh = value.clone().into_owned();
    let below: Vec<&[u8]> = path.collect();
    for subscript in below.into_iter().rev() {
        fresh = Json::Object(vec![(Cow::Owned(decode(subscript).into_owned()), fresh)]);
    }
    match node {
        Json::Scalar(_) => return Err(NeedsSplit),
        Json::Array(elements) if json::index_of(&name) == Some(elements.len()) => {
            elements.push(fresh);
            return Ok(());
        }
        Json::Array(elements) => *node = Json::Object(as_members(elements)),
        Json::Object(_) => {}
    }
    let Json::Object(members) = node else {
        unreachable!("anything else has been dealt with")
    };
    if let Err(at) = json::position(members, &name) {
        members.insert(at, (Cow::Owned(name.into_owned()), fresh));
    }
    Ok(())
}

/// Removes a node from a packed tree; true if nothing is left of the tree.
fn remove(node: &mut Json<'static>, mut path: Subscripts<'_>) -> bool {
    let Some(subscript) = path.next() else { return true };
    let name = decode(subscript);
    let Some(child) = node.child_mut(&name) else {
        return false;
    };
    if !remove(child, path) {
        return false;
    }
    match node {
        Json::Scalar(_) => {}
        Json::Array(elements) if json::index_of(&name) == Some(elements.len() - 1) => {
            elements.pop();
        }
        Json::Array(elements) => {
            let mut members = as_members(elements);
            members.retain(|(other, _)| *other != name);
            *node = Json::Object(members);
        }
        Json::Object(members) => members.retain(|(other, _)| *other != name),
    }
    node.is_leaf()
}

fn as_members(elements: &mut Vec<Json<'static>>) -> Vec<(Cow<'static, str>, Json<'static>)> {
    let named = |(index, element): (usize, _)| (Cow::Owned(index.to_string()), element);
    std::mem::take(elements)
        .into_iter()
        .enumerate()
        .map(named)
        .collect()
}
