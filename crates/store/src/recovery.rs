//! Brings a tree up to its log of changes when a store is opened.
//!
//! The log is the truth: a commit is acknowledged once its record is on the disk, and the tree follows at checkpoints. Whenever whole records
//! stand behind the tree's end, they are applied. It does not matter why the tree is behind: after a power cut, or where the engine
//! cannot tell whether there was one, it falls back to its last checkpoint, and somebody may have copied an older file over it. The last of these records may
//! be one of a process that was killed before it had committed: that write was never answered, and counts.
//!
//! A log that does not go on where the tree ends belongs to another tree, and the store is not opened.

use std::{
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    changes::{Change, ChangeWalk, End},
    error::StoreError,
    store::Shared,
    sys,
    transaction::Transaction,
    tree::Tables,
};

const BOOT_KEY: &[u8] = b"boot";
/// Names one run of the system; a new one at each start. Linux, `random(4)`.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Most changes that one transaction applies.
const BATCH: usize = 1000;
/// Bytes of paths and values after which the next transaction begins before that.
const BATCH_BYTES: usize = 8 << 20;
/// How long a reader waits for a commit whose record is written already.
const COMMIT_MAX: Duration = Duration::from_secs(1);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(1);

/// Applies what only the log has. Whoever opens a store does this before anything else.
pub(crate) fn recover(shared: &Arc<Shared>, store: &Path) -> Result<(), StoreError> {
    if shared.options.read_only {
        check_whole(shared, store)?;
    } else {
        replay(shared, store)?;
    }
    shared.disk.set_recovered();
    Ok(())
}

/// Whether a reader sees every commit. A record behind the end is a commit under way where somebody writes; then the end moves on.
fn check_whole(shared: &Shared, store: &Path) -> Result<(), StoreError> {
    let until = Instant::now() + COMMIT_MAX;
    let mut first = None;
    loop {
        let end = End::of(&shared.disk.environment.read()?)?;
        if *first.get_or_insert(end) != end || Beyond::new(store, end)?.next()?.is_none() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(StoreError::Unrecovered { path: store.into() });
        }
        thread::sleep(PAUSE);
    }
}

fn replay(shared: &Arc<Shared>, store: &Path) -> Result<(), StoreError> {
    let disk = &shared.disk;
    let boot = boot();
    let is_this_run = |known: Option<&[u8]>| !boot.is_empty() && known == Some(&boot);
    let snapshot = disk.environment.read()?;
    if is_this_run(snapshot.get(shared.tables.meta, BOOT_KEY)?)
        && !disk.log.has_beyond(End::of(&snapshot)?)?
    {
        return Ok(());
    }
    drop(snapshot);
    loop {
        // Nobody else commits from here on: what stands behind the end is no commit under way.
        let mut work = disk.begin()?;
        let mut beyond = Beyond::new(store, End::of(&work)?)?;
        let Some(mut change) = beyond.next()? else {
            if is_this_run(work.get(shared.tables.meta, BOOT_KEY)?) {
                return disk.clear_beyond(End::of(&work)?);
            }
            // What is cut off the log may be all that there is of a commit, but for the tree.
            let (_, end) = disk.checkpoint_before(&work)?;
            disk.cut_log(end)?;
            mark(&mut work, shared.tables)?;
            work.commit()?;
            disk.checkpoint()?;
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

/// Notes which run of the system has looked through the log at the tree's end: a power cut may have left a gap there.
pub(crate) fn mark(work: &mut sys::Transaction, tables: Tables) -> Result<(), StoreError> {
    work.put(tables.meta, BOOT_KEY, &[&boot()])
}

fn boot() -> Vec<u8> {
    let text = fs::read(BOOT_ID).unwrap_or_default();
    text.trim_ascii().to_vec()
}

/// The whole records behind the log's end, up to the first that is none. One that is whole and not understood is an error: what
/// comes from there on may be commits that somebody was told of.
struct Beyond<'a> {
    store: &'a Path,
    walk: ChangeWalk,
    end: End,
}

impl<'a> Beyond<'a> {
    fn new(store: &'a Path, end: End) -> Result<Self, StoreError> {
        Ok(Self {
            store,
            walk: ChangeWalk::behind(store, end)?,
            end,
        })
    }

    fn next(&mut self) -> Result<Option<Change>, StoreError> {
        match self.walk.next() {
            None => Ok(None),
            Some(Err(StoreError::ChangesGone { since, oldest })) => Err(StoreError::ForeignLog {
                path: self.store.into(),
                since,
                oldest,
            }),
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
