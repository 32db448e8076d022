//! Replays the change log into the tree when a store is opened.
//!
//! The log is authoritative: a commit is acknowledged once its record is on the disk, and the tree follows at
//! checkpoints. Complete records after the tree's end are always replayed, for whatever reason the tree is behind: a
//! power cut, an engine that fell back to its last checkpoint because it could not rule one out, or an older file that
//! was copied over it. The last of these records may come from a process that was killed before it committed: that
//! write was never acknowledged, and counts as made.
//!
//! A log that does not continue where the tree ends belongs to another tree, and the store is not opened.

use std::{
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    changes::{Change, End, FileWalk},
    durability::Disk,
    error::StoreError,
    store::Shared,
    sys,
    transaction::Transaction,
};

const BOOT_KEY: &[u8] = b"boot";
/// Identifies one boot of the system; it changes at every start. Linux, `random(4)`.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Most changes that one transaction replays.
const BATCH: usize = 1000;
/// Bytes of paths and values after which a replaying transaction commits before that.
const BATCH_BYTES: usize = 8 << 20;
/// How long a reader waits for a commit whose record is already written.
const COMMIT_MAX: Duration = Duration::from_secs(1);
/// Pause between two checks for it.
const PAUSE: Duration = Duration::from_millis(1);

/// Replays what only the log has. Must run before any other use of an opened store.
pub(crate) fn recover(shared: &Arc<Shared>, disk: &Disk, store: &Path) -> Result<(), StoreError> {
    if shared.options.read_only {
        check_whole(disk, store)?;
    } else {
        replay(shared, disk, store)?;
    }
    disk.set_recovered();
    Ok(())
}

/// Checks that the tree of a read-only store has every commit. A record after the end may be a commit in progress; the
/// end then moves soon.
fn check_whole(disk: &Disk, store: &Path) -> Result<(), StoreError> {
    let until = Instant::now() + COMMIT_MAX;
    let mut first = None;
    loop {
        let end = End::of(&disk.environment.read()?)?;
        if *first.get_or_insert(end) != end || Beyond::new(store, end)?.next()?.is_none() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(StoreError::Unrecovered { path: store.into() });
        }
        thread::sleep(PAUSE);
    }
}

fn replay(shared: &Arc<Shared>, disk: &Disk, store: &Path) -> Result<(), StoreError> {
    let meta = disk.meta;
    let boot = boot();
    let is_this_run = |known: Option<&[u8]>| !boot.is_empty() && known == Some(&boot);
    let snapshot = disk.environment.read()?;
    if is_this_run(snapshot.get(meta, BOOT_KEY)?) && !disk.log.has_beyond(End::of(&snapshot)?)? {
        return Ok(());
    }
    drop(snapshot);
    loop {
        // No other commit can happen from here on, so records after the end are not commits in progress.
        let mut work = disk.begin()?;
        let mut beyond = Beyond::new(store, End::of(&work)?)?;
        let Some(mut change) = beyond.next()? else {
            if is_this_run(work.get(meta, BOOT_KEY)?) {
                return disk.clear_beyond(End::of(&work)?);
            }
            // A commit whose record is about to be cut off may exist only in the tree, so the tree is flushed first.
            let (_, end) = disk.checkpoint_before(&work)?;
            disk.cut_log(end)?;
            mark(&mut work, meta)?;
            work.commit()?;
            disk.checkpoint()?;
            return Ok(());
        };
        let mut transaction = Transaction::again(Arc::clone(shared), work.into());
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

/// Records the boot in which the log has been checked up to the tree's end: a power cut may have left a gap there.
pub(crate) fn mark(work: &mut sys::Transaction, meta: sys::Table) -> Result<(), StoreError> {
    work.put(meta, BOOT_KEY, &[&boot()])
}

fn boot() -> Vec<u8> {
    let text = fs::read(BOOT_ID).unwrap_or_default();
    text.trim_ascii().to_vec()
}

/// Iterates over the complete records after the log's end, up to the first incomplete one. A complete record that
/// cannot be understood is an error, because it and those after it may be acknowledged commits.
struct Beyond<'a> {
    store: &'a Path,
    walk: FileWalk,
    end: End,
}

impl<'a> Beyond<'a> {
    fn new(store: &'a Path, end: End) -> Result<Self, StoreError> {
        Ok(Self {
            store,
            walk: FileWalk::behind(store, end)?,
            end,
        })
    }

    fn next(&mut self) -> Result<Option<Change>, StoreError> {
        match self.walk.next_change() {
            Ok(None) => Ok(None),
            Err(StoreError::ChangesGone { since, oldest }) => Err(StoreError::ForeignLog {
                path: self.store.into(),
                since,
                oldest,
            }),
            Ok(Some(change)) => {
                self.end = self.walk.place().expect("a change came from a segment");
                Ok(Some(change))
            }
            Err(error) => Err(error),
        }
    }

    /// The log's end after the change returned last.
    fn end(&self) -> End {
        self.end
    }
}
