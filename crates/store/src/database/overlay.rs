//! The changes of a write transaction before its commit.

use std::{collections::BTreeMap, mem, ops::Bound};

/// Changed records, and ranges of keys that were emptied before.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// New values; `None` for removed records.
    records: BTreeMap<Vec<u8>, NewValue>,
    /// Ranges `from..to` of which nothing in the database counts. They do not overlap.
    emptied: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How to undo the open part, last step last.
    undo: Option<Vec<Undo>>,
}

#[derive(Debug)]
enum Undo {
    Record(Vec<u8>, Option<NewValue>),
    /// The beginning of a range that was added, and those that it replaced.
    Emptied(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>),
}

/// The value of a changed record, unless it was removed.
type NewValue = Option<Vec<u8>>;

/// A changed record: its key, and its value unless it was removed.
pub(super) type Changed<'o> = (&'o [u8], Option<&'o [u8]>);

impl Overlay {
    pub(super) fn records(&self) -> impl Iterator<Item = Changed<'_>> {
        self.records.iter().map(|(key, value)| (&**key, value.as_deref()))
    }

    pub(super) fn emptied(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.emptied.iter().map(|(from, to)| (&**from, &**to))
    }

    /// A changed record, by its key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Changed<'_>> {
        let (key, value) = self.records.get_key_value(key)?;
        Some((key, value.as_deref()))
    }

    /// The first changed record in `from..to`.
    pub(super) fn ahead(&self, from: &[u8], to: &[u8]) -> Option<Changed<'_>> {
        self.range(from, to)?
            .next()
            .map(|(key, value)| (&**key, value.as_deref()))
    }

    /// The last changed record in `from..to`.
    pub(super) fn back(&self, from: &[u8], to: &[u8]) -> Option<Changed<'_>> {
        self.range(from, to)?
            .next_back()
            .map(|(key, value)| (&**key, value.as_deref()))
    }

    fn range(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Option<std::collections::btree_map::Range<'_, Vec<u8>, NewValue>> {
        let within = (Bound::Included(from), Bound::Excluded(to));
        (from < to).then(|| self.records.range::<[u8], _>(within))
    }

    /// The keys of all changed records in a range.
    pub(super) fn keys(&self, from: &[u8], to: &[u8]) -> Vec<Vec<u8>> {
        let range = self.range(from, to).into_iter().flatten();
        range.map(|(key, _)| key.clone()).collect()
    }

    /// The emptied range that contains a key.
    pub(super) fn emptied_at(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let until = (Bound::Unbounded, Bound::Included(key));
        let (from, to) = self.emptied.range::<[u8], _>(until).next_back()?;
        (&**to > key).then_some((from, to))
    }

    pub(super) fn set(&mut self, key: Vec<u8>, value: NewValue) {
        if let Some(undo) = &mut self.undo {
            let before = self.records.insert(key.clone(), value);
            undo.push(Undo::Record(key, before));
        } else {
            self.records.insert(key, value);
        }
    }

    /// Removes all changed records in a range, and everything there that is in the database.
    pub(super) fn empty(&mut self, from: &[u8], to: &[u8]) {
        for key in self.keys(from, to) {
            let before = self.records.remove(&key);
            if let Some(undo) = &mut self.undo {
                undo.push(Undo::Record(key, before));
            }
        }
        let (mut from, mut to) = (from.to_vec(), to.to_vec());
        let mut replaced = Vec::new();
        let overlapping = |emptied: &BTreeMap<Vec<u8>, Vec<u8>>, from: &Vec<u8>, to: &Vec<u8>| {
            let last = emptied.range::<Vec<u8>, _>(..=to).next_back();
            last.filter(|(_, end)| *end >= from)
                .map(|(begin, end)| (begin.clone(), end.clone()))
        };
        while let Some((begin, end)) = overlapping(&self.emptied, &from, &to) {
            self.emptied.remove(&begin);
            from = from.min(begin.clone());
            to = to.max(end.clone());
            replaced.push((begin, end));
        }
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Emptied(from.clone(), replaced));
        }
        self.emptied.insert(from, to);
    }

    pub(super) fn begin_part(&mut self) {
        assert!(self.undo.is_none(), "parts do not nest");
        self.undo = Some(Vec::new());
    }

    pub(super) fn keep_part(&mut self) {
        self.undo = None;
    }

    pub(super) fn drop_part(&mut self) {
        for step in mem::take(&mut self.undo).into_iter().flatten().rev() {
            match step {
                Undo::Emptied(begin, replaced) => {
                    self.emptied.remove(&begin);
                    self.emptied.extend(replaced);
                }
                Undo::Record(key, Some(before)) => {
                    self.records.insert(key, before);
                }
                Undo::Record(key, None) => {
                    self.records.remove(&key);
                }
            }
        }
    }
}
