//! After a power cut: does again what the log of changes holds beyond the tree.
//!
//! Within one run of the system the tree is right, whatever process was killed: a record beyond its end belongs to a commit that never
//! came to be. When the system was started anew, the tree is as of its last checkpoint, and the whole records beyond its end are
//! commits that somebody may have been told of. Which run of the system a tree belongs to stands in the tree.

use std::{fs, path::Path, sync::Arc};

use crate::{
    changes::{Change, ChangeWalk, End},
    error::StoreError,
    store::Shared,
    sys,
    transaction::Transaction,
    tree::Tables,
};

const KEY: &[u8] = b"boot";
/// Names one run of the system; a new one at each start. Linux, `random(4)`.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Changes that are done again in one transaction.
const BATCH: usize = 1000;
/// Bytes of paths and values after which the next transaction begins before that.
const BATCH_BYTES: usize = 8 << 20;

/// Makes a store whole that the system was started anew under. Who opens a store for writing does this before anything else.
pub(crate) fn recover(shared: &Arc<Shared>, store: &Path) -> Result<(), StoreError> {
    do_again(shared, store)?;
    shared.disk.set_recovered();
    if shared.options.read_only {
        return Ok(());
    }
    shared.disk.forget_uncommitted()
}

/// Does again what only the log has.
fn do_again(shared: &Arc<Shared>, store: &Path) -> Result<(), StoreError> {
    let boot = boot();
    let is_this_run = |known: Option<&[u8]>| !boot.is_empty() && known == Some(&boot);
    let snapshot = shared.disk.environment.read()?;
    if is_this_run(snapshot.get(shared.tables.meta, KEY)?) {
        return Ok(());
    }
    if shared.options.read_only {
        return match Beyond::new(store, End::of(&snapshot)?)?.next()? {
            None => Ok(()),
            Some(_) => Err(StoreError::Unrecovered { path: store.into() }),
        };
    }
    drop(snapshot);
    loop {
        let mut work = shared.disk.begin()?;
        if is_this_run(work.get(shared.tables.meta, KEY)?) {
            return Ok(());
        }
        let mut beyond = Beyond::new(store, End::of(&work)?)?;
        let first = beyond.next()?;
        let Some(mut change) = first else {
            // What is cut off the log may be all that there is of a commit, but for the tree.
            let (_, end) = shared.disk.checkpoint_before(&work)?;
            shared.disk.cut_log(end)?;
            mark(&mut work, shared.tables)?;
            work.commit()?;
            shared.disk.checkpoint()?;
            return Ok(());
        };
        let mut transaction = Transaction::again(Arc::clone(shared), work);
        let mut written = 0;
        for _ in 0..BATCH {
            for operation in &change.operations {
                transaction.apply(operation)?;
            }
            written += transaction.end_log_at(beyond.end())?;
            if written > BATCH_BYTES {
                break;
            }
            match beyond.next()? {
                Some(next) => change = next,
                None => break,
            }
        }
        transaction.commit_as_logged()?;
    }
}

/// Has a tree belong to this run of the system.
pub(crate) fn mark(work: &mut sys::Transaction, tables: Tables) -> Result<(), StoreError> {
    work.put(tables.meta, KEY, &[&boot()])
}

fn boot() -> Vec<u8> {
    let text = fs::read(BOOT_ID).unwrap_or_default();
    text.trim_ascii().to_vec()
}

/// The whole records behind the log's end, up to the first that is none. One that is whole and not understood is an error: what
/// comes from there on may be commits that somebody was told of.
struct Beyond {
    walk: ChangeWalk,
    end: End,
}

impl Beyond {
    fn new(store: &Path, end: End) -> Result<Self, StoreError> {
        Ok(Self {
            walk: ChangeWalk::behind(store, end)?,
            end,
        })
    }

    fn next(&mut self) -> Result<Option<Change>, StoreError> {
        match self.walk.next() {
            None | Some(Err(StoreError::ChangesGone { .. })) => Ok(None),
            Some(Ok(change)) => {
                self.end = self.walk.place().expect("a change came from a segment");
                Ok(Some(change))
            }
            Some(Err(error)) => Err(error),
        }
    }

    /// Where the log ends with the change that came last.
    fn end(&self) -> End {
        self.end
    }
}
