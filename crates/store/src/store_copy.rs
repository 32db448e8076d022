//! Copies a store to another place, of whatever kind, while others read and write it.
//!
//! The records of one snapshot are copied as they are; then the changes that were made meanwhile are replayed from the
//! log, with their numbers; then both are compared. A copy that exists is only brought up to date.

use std::sync::Arc;

use crate::{
    durability::Durability,
    engine::Table,
    error::StoreError,
    index::CATALOGUE,
    read::{Read as _, each_record},
    store::Store,
    transaction::{Snapshot, Transaction},
    tree::Tables,
};

/// Bytes of records that are copied or compared at a time.
const PART_BYTES: usize = 4 << 20;
/// Marks a copy whose records are not complete, in the metadata.
const UNFINISHED: &[u8] = b"copying";

/// Result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Records copied, and their bytes.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// Changes replayed after that.
    pub changes: u64,
    /// The last change of which the copy is known to be equal to the original.
    pub sequence: u64,
}

/// A record, with its key.
type Owned = (Vec<u8>, Vec<u8>);

/// Copies `from` to `to`, which is empty or an earlier copy, and compares them. Nobody else may write to `to`, which must
/// not be opened with `lead`. `progress` is called now and then.
///
/// # Errors
///
/// [`StoreError::Copy`] when `to` holds something else, or turns out to differ.
pub fn copy_store(from: &Store, to: &Store, progress: &mut dyn FnMut(&Copied)) -> Result<Copied, StoreError> {
    let mut copied = Copied::default();
    if is_empty(to)? {
        copy_records(from, to, &mut copied, progress)?;
    }
    let mut original = from.snapshot()?;
    let since = to.later_snapshot()?.sequence()?;
    copied.sequence = original.sequence()?;
    let changes = from.changes(since).map_err(|error| match error {
        StoreError::ChangesGone { .. } => refused(format!(
            "it is as of change {since}, and the log of the original does not reach from there to its last change, {}: copy to an empty place",
            copied.sequence
        )),
        error => error,
    })?;
    for change in changes {
        let change = change?;
        if change.sequence > copied.sequence {
            break;
        }
        let mut transaction = Transaction::again(Arc::clone(&to.shared), to.work()?);
        for operation in &change.operations {
            transaction.apply(operation)?;
        }
        transaction.commit(Durability::Relaxed)?;
        copied.changes += 1;
        progress(&copied);
    }
    to.flush()?;
    let mut copy = to.snapshot()?;
    compare(&mut original, from.shared.tables, &mut copy, to.shared.tables)?;
    Ok(copied)
}

fn refused(reason: String) -> StoreError {
    StoreError::Copy { reason }
}

fn is_empty(to: &Store) -> Result<bool, StoreError> {
    to.read(|reader| {
        let (transaction, tables) = (reader.transaction, reader.tables);
        if transaction.get(tables.meta, UNFINISHED)?.is_some() {
            return Err(refused(
                "an earlier copy to it was not finished: copy to an empty place".into(),
            ));
        }
        let is_empty = transaction.is_empty(tables.nodes)?;
        if is_empty && transaction.marks()?[0] > 0 {
            // Everything in it was removed, which is a change like others.
            return Ok(false);
        }
        if !is_empty && transaction.marks()?[0] == 0 {
            return Err(refused("it holds records that no change has made".into()));
        }
        Ok(is_empty)
    })
}

/// Copies all records of one snapshot.
fn copy_records(
    from: &Store,
    to: &Store,
    copied: &mut Copied,
    progress: &mut dyn FnMut(&Copied),
) -> Result<(), StoreError> {
    let mut snapshot = from.snapshot()?;
    let sequence = snapshot.sequence()?;
    write(to, to.shared.tables.meta, &[(UNFINISHED.to_vec(), Vec::new())], 0)?;
    for (source, target) in pairs(from.shared.tables, to.shared.tables) {
        let mut next = Some(Vec::new());
        while let Some(at) = next {
            let part;
            (part, next) = read_part(&mut snapshot, source, &at)?;
            copied.records += part.len() as u64;
            copied.bytes += part
                .iter()
                .map(|(key, value)| (key.len() + value.len()) as u64)
                .sum::<u64>();
            write(to, target, &part, 0)?;
            progress(copied);
        }
    }
    let (from, to_tables) = (from.shared.tables, to.shared.tables);
    let indexes = snapshot
        .reader()
        .transaction
        .get(from.meta, CATALOGUE)?
        .map(<[u8]>::to_vec);
    let indexes: Vec<Owned> = indexes
        .map(|text| (CATALOGUE.to_vec(), text))
        .into_iter()
        .collect();
    let mut transaction = to.begin()?;
    transaction.remove_raw(to_tables.meta, UNFINISHED)?;
    for (key, value) in indexes {
        transaction.put_raw(to_tables.meta, &key, &value)?;
    }
    transaction.commit_raw(sequence)?;
    to.checkpoint()
}

/// Tables with the same content in both stores. The metadata is not among them, because each store has its own.
fn pairs(from: Tables, to: Tables) -> [(Table, Table); 4] {
    [
        (from.nodes, to.nodes),
        (from.index, to.index),
        (from.expiry, to.expiry),
        (from.due, to.due),
    ]
}

fn write(to: &Store, table: Table, records: &[Owned], sequence: u64) -> Result<(), StoreError> {
    let mut transaction = to.begin()?;
    for (key, value) in records {
        transaction.put_raw(table, key, value)?;
    }
    transaction.commit_raw(sequence)?;
    // Nothing of it is in a log from which it could be replayed.
    to.checkpoint()
}

/// Records from a key on, and the key to go on with, if there are more.
fn read_part(
    snapshot: &mut Snapshot,
    table: Table,
    from: &[u8],
) -> Result<(Vec<Owned>, Option<Vec<u8>>), StoreError> {
    let (mut part, mut next, mut bytes) = (Vec::new(), None, 0);
    each_record(snapshot, table, from, |_, (key, value)| {
        if bytes > PART_BYTES {
            next = Some(key.to_vec());
            return Ok(false);
        }
        bytes += key.len() + value.len();
        part.push((key.to_vec(), value.to_vec()));
        Ok::<_, StoreError>(true)
    })?;
    Ok((part, next))
}

fn compare(original: &mut Snapshot, from: Tables, copy: &mut Snapshot, to: Tables) -> Result<(), StoreError> {
    for (left, right) in pairs(from, to) {
        let mut next = Some(Vec::new());
        while let Some(at) = next {
            let (one, one_next) = read_part(original, left, &at)?;
            let (other, other_next) = read_part(copy, right, &at)?;
            if one != other || one_next != other_next {
                return Err(refused(
                    "it differs from the original: it is not a copy of it, or others have written to it"
                        .into(),
                ));
            }
            next = one_next;
        }
    }
    let text = |snapshot: &Snapshot, table| {
        let text = snapshot.reader().transaction.get(table, CATALOGUE);
        text.map(|text| text.unwrap_or_default().to_vec())
    };
    if text(original, from.meta)? != text(copy, to.meta)? {
        return Err(refused("its indexes differ from those of the original".into()));
    }
    Ok(())
}

impl Transaction {
    /// Writes a record as it is, without a change in the log.
    fn put_raw(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.raw().put(table, key, &[value])
    }

    fn remove_raw(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.raw().delete(table, key)
    }

    /// Commits what was written so, and makes `sequence` the number of the last change.
    fn commit_raw(mut self, sequence: u64) -> Result<u64, StoreError> {
        self.raw().set_sequence(sequence)?;
        self.commit_as_logged()
    }
}
