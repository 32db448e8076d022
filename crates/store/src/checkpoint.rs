//! Brings the tree to the disk now and then, on a thread of its own: that bounds what a power cut leaves to be done again, and how
//! much of the file cannot be used anew.

use std::{
    path::Path,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{durability::Disk, error::StoreError};

/// Bytes of pages that are not on the disk after which a checkpoint is made.
const BYTES: u64 = 4 << 20;
/// Bytes of pages that are not on the disk at which whoever begins to write makes a checkpoint first: where nobody leads, or the thread
/// does not keep up. One transaction comes on top of it. No such page can be used anew, so this also bounds how far the file grows.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// How long after a checkpoint the next one is made for less.
const PERIOD: Duration = Duration::from_secs(1);

/// Asks for checkpoints. The thread that makes them ends with it.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    shared: Arc<Shared>,
    last: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    wish: Mutex<Wish>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    None,
    Checkpoint,
    End,
}

impl Checkpoints {
    pub(crate) fn start(disk: &Arc<Disk>) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::default());
        let (thread_shared, disk) = (Arc::clone(&shared), Arc::downgrade(disk));
        thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || run(&thread_shared, &disk))
            .map_err(StoreError::file(
                "start a thread to make checkpoints",
                Path::new("the store"),
            ))?;
        Ok(Self {
            shared,
            last: Instant::now(),
        })
    }

    /// Asks for a checkpoint when so much is not on the disk, or anything at all for long, or commits fail.
    pub(crate) fn ask_if_due(&mut self, unsynced_bytes: u64, commits_fail: bool) {
        let is_due =
            unsynced_bytes > BYTES || (unsynced_bytes > 0 || commits_fail) && self.last.elapsed() >= PERIOD;
        if !is_due {
            return;
        }
        self.last = Instant::now();
        let mut wish = self.shared.wish.lock();
        if *wish == Wish::None {
            *wish = Wish::Checkpoint;
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        *self.shared.wish.lock() = Wish::End;
        self.shared.changed.notify_one();
    }
}

fn run(shared: &Shared, disk: &Weak<Disk>) {
    loop {
        let mut wish = shared.wish.lock();
        while *wish == Wish::None {
            shared.changed.wait(&mut wish);
        }
        if *wish == Wish::End {
            return;
        }
        *wish = Wish::None;
        drop(wish);
        let Some(disk) = disk.upgrade() else { return };
        // What failed is remembered where it failed, or tried again when it is due again.
        let _ = disk.checkpoint();
        if disk.commit_failure().is_some() {
            let _ = disk.probe();
        }
    }
}
