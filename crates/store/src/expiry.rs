//! Expiry of nodes.
//!
//! A node's expiry time is stored under its path, and a second time ordered by time. A [`Sweeper`] removes expired
//! nodes about once a second, as an ordinary transaction; until then a node still exists, however overdue it is.

use std::{
    path::Path,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{
    clock,
    durability::Durability,
    engine::{Seek, Transaction},
    error::StoreError,
    key::{Key, within},
    read::Read as _,
    store::{Shared, Store},
    tree::Tables,
};

const PERIOD: Duration = Duration::from_secs(1);
/// Most nodes that one transaction removes, so that other writers get their turn.
const BATCH: usize = 1000;
/// How long a node that cannot be removed is postponed: one hour.
const POSTPONED_MS: u64 = 3_600_000;

/// Expiry time of a node.
pub(crate) fn of(transaction: &Transaction, tables: Tables, key: &Key) -> Result<Option<u64>, StoreError> {
    let found = transaction.get(tables.expiry, key.as_bytes())?;
    Ok(found
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_be_bytes))
}

/// Earliest expiry time of a node and the nodes above it.
pub(crate) fn of_path(
    transaction: &Transaction,
    tables: Tables,
    key: &Key,
) -> Result<Option<u64>, StoreError> {
    if !any(transaction, tables)? {
        return Ok(None);
    }
    let (mut first, mut node) = (None, Some(key.clone()));
    while let Some(key) = node {
        let at_ms = of(transaction, tables, &key)?;
        first = first.into_iter().chain(at_ms).min();
        node = key.parent();
    }
    Ok(first)
}

/// Sets the expiry time of a node.
pub(crate) fn set(
    transaction: &mut Transaction,
    tables: Tables,
    key: &Key,
    at_ms: u64,
) -> Result<(), StoreError> {
    clear(transaction, tables, key, false)?;
    let at = at_ms.to_be_bytes();
    transaction.put(tables.expiry, key.as_bytes(), &[&at])?;
    transaction.put(tables.due, &[&at, key.as_bytes()].concat(), &[])
}

/// Removes the expiry time of a node, or of every node in a subtree.
pub(crate) fn clear(
    transaction: &mut Transaction,
    tables: Tables,
    key: &Key,
    subtree: bool,
) -> Result<(), StoreError> {
    loop {
        let cursor = transaction.cursor(tables.expiry)?;
        let found = cursor.seek(Seek::AtLeast, key.as_bytes())?;
        let found = found.filter(|(found, _)| {
            if subtree {
                within(found, key.as_bytes())
            } else {
                *found == key.as_bytes()
            }
        });
        let Some((found, at)) = found else { return Ok(()) };
        let (found, due) = (found.to_vec(), [at, found].concat());
        drop(cursor);
        transaction.delete(tables.expiry, &found)?;
        transaction.delete(tables.due, &due)?;
    }
}

/// Whether any node has an expiry time.
pub(crate) fn any(transaction: &Transaction, tables: Tables) -> Result<bool, StoreError> {
    Ok(!transaction.is_empty(tables.due)?)
}

/// The node that expires first and its time, if that is not after `by_ms`.
pub(crate) fn due(
    transaction: &Transaction,
    tables: Tables,
    by_ms: u64,
) -> Result<Option<(Key, u64)>, StoreError> {
    if !any(transaction, tables)? {
        return Ok(None);
    }
    let found = transaction.cursor(tables.due)?.seek(Seek::AtLeast, &[])?;
    let due = found.and_then(|(entry, _)| entry.split_first_chunk::<8>());
    let due = due.map(|(at, key)| (Key::from_encoded(key), u64::from_be_bytes(*at)));
    Ok(due.filter(|(_, at_ms)| *at_ms <= by_ms))
}

/// Removes a node from the list ordered by time.
pub(crate) fn forget(
    transaction: &mut Transaction,
    tables: Tables,
    key: &Key,
    at_ms: u64,
) -> Result<(), StoreError> {
    let entry = [&at_ms.to_be_bytes(), key.as_bytes()].concat();
    transaction.delete(tables.due, &entry)
}

/// Removes expired nodes, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Sweeper {
    end: Arc<(Mutex<bool>, Condvar)>,
}

impl Sweeper {
    pub(crate) fn start(store: Weak<Shared>) -> Result<Self, StoreError> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let ended = Arc::clone(&end);
        thread::Builder::new()
            .name("store-expiry".into())
            .spawn(move || {
                let (ended, changed) = &*ended;
                loop {
                    let deadline = Instant::now() + PERIOD;
                    let mut ended = ended.lock();
                    while !*ended && !changed.wait_until(&mut ended, deadline).timed_out() {}
                    if *ended {
                        return;
                    }
                    drop(ended);
                    let Some(shared) = store.upgrade() else { return };
                    // A failed sweep is retried in a second.
                    let _ = sweep(&Store { shared }, clock::now_ms());
                }
            })
            .map_err(StoreError::file(
                "start a thread to remove what is due",
                Path::new("the store"),
            ))?;
        Ok(Self { end })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        *self.end.0.lock() = true;
        self.end.1.notify_one();
    }
}

impl crate::transaction::Transaction {
    /// Removes the node, and the nodes above it, if they have expired by `by_ms` and still exist. Reads do not see
    /// expired nodes, so a write must neither find one nor be removed along with one later. Times are milliseconds
    /// since 1970 UTC.
    pub fn remove_ended(&mut self, key: &Key, by_ms: u64) -> Result<(), StoreError> {
        let is_over = |ends: Option<u64>| ends.is_some_and(|ends| ends <= by_ms);
        while is_over(self.ends(key)?) {
            let mut node = Some(key.clone());
            while let Some(key) = node {
                if is_over(self.expires(&key)?) {
                    self.kill(&key)?;
                }
                node = key.parent();
            }
        }
        Ok(())
    }
}

/// Removes every node that has expired by `by_ms`; returns how many. A node that cannot be removed, because an index
/// forbids what would be left or because it is damaged, is retried after [`POSTPONED_MS`].
pub(crate) fn sweep(store: &Store, by_ms: u64) -> Result<u64, StoreError> {
    let mut count = 0;
    let mut batch = BATCH;
    while store.read(|reader| reader.is_due(by_ms))? {
        let mut transaction = store.begin()?;
        let mut removed = 0;
        let mut stuck = None;
        while removed < batch {
            let Some((key, at_ms)) = transaction.due(by_ms)? else {
                break;
            };
            if let Err(error) = transaction.kill(&key) {
                stuck = Some((key, at_ms, error));
                break;
            }
            transaction.forget_due(&key, at_ms)?;
            removed += 1;
        }
        match stuck {
            None => {
                transaction.commit(Durability::Relaxed)?;
                count += removed as u64;
                batch = BATCH;
            }
            // Earlier removals are rolled back with the failed one, and are redone in a transaction that stops before
            // it.
            Some(_) if removed > 0 => batch = removed,
            // A full store is not the node's fault.
            Some((.., error @ StoreError::Full { .. })) => return Err(error),
            Some((key, at_ms, _)) => {
                drop(transaction);
                let mut transaction = store.begin()?;
                transaction.postpone(&key, at_ms, by_ms.saturating_add(POSTPONED_MS))?;
                transaction.commit(Durability::Relaxed)?;
            }
        }
    }
    Ok(count)
}
