//! Nodes that end by themselves.
//!
//! A node's time is kept under its path, and a second time by when it is due. A [`Sweeper`] removes what is due, about once a
//! second, as an ordinary transaction; until then a node is there, however late it is.

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
    error::StoreError,
    key::{Key, within},
    store::{Shared, Store},
    sys::{Seek, Transaction},
    transaction::Read as _,
    tree::Tables,
};

const PERIOD: Duration = Duration::from_secs(1);
/// Most nodes that one transaction removes, so that others get their turn.
const BATCH: usize = 1000;
/// An hour.
const POSTPONED_MS: u64 = 3_600_000;

/// When a node ends.
pub(crate) fn of(transaction: &Transaction, tables: Tables, key: &Key) -> Result<Option<u64>, StoreError> {
    let found = transaction.get(tables.expiry, key.as_bytes())?;
    Ok(found
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_be_bytes))
}

/// When a node ends, or the first of those above it.
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

/// Has a node end at a time.
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

/// Has a node not end, or none of a subtree.
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

/// Whether any node ends by itself.
pub(crate) fn any(transaction: &Transaction, tables: Tables) -> Result<bool, StoreError> {
    Ok(transaction
        .cursor(tables.due)?
        .seek(Seek::AtLeast, &[])?
        .is_some())
}

/// The node that is due first, with its time, if it is due by then.
pub(crate) fn due(
    transaction: &Transaction,
    tables: Tables,
    by_ms: u64,
) -> Result<Option<(Key, u64)>, StoreError> {
    let found = transaction.cursor(tables.due)?.seek(Seek::AtLeast, &[])?;
    let due = found.and_then(|(entry, _)| entry.split_first_chunk::<8>());
    let due = due.map(|(at, key)| (Key::from_encoded(key), u64::from_be_bytes(*at)));
    Ok(due.filter(|(_, at_ms)| *at_ms <= by_ms))
}

/// Forgets that a node is due at a time.
pub(crate) fn forget(
    transaction: &mut Transaction,
    tables: Tables,
    key: &Key,
    at_ms: u64,
) -> Result<(), StoreError> {
    let entry = [&at_ms.to_be_bytes(), key.as_bytes()].concat();
    transaction.delete(tables.due, &entry).map(|_| ())
}

/// Removes what is due, on a thread of its own.
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
                    // What fails now is tried again in a second.
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
    /// Removes what has ended by then at a node or above it and is still there: no read finds it, so a write must not find it either, nor
    /// go with it when it is removed. Times are milliseconds since 1970 UTC.
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

/// Removes every node that is due by then; says how many those were. One that cannot be removed, because an index forbids what
/// would be left or because it is damaged, is tried again after [`POSTPONED_MS`].
pub(crate) fn sweep(store: &Store, by_ms: u64) -> Result<u64, StoreError> {
    let mut count = 0;
    let mut batch = BATCH;
    while store.snapshot()?.is_due(by_ms)? {
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
            // What went before it is rolled back with it, and goes again in a transaction that ends before it.
            Some(_) if removed > 0 => batch = removed,
            // That is no fault of the node.
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
