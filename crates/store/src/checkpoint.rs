//! Flushes the tree to the disk now and then, on a thread of its own. This bounds how much must be replayed after a
//! power cut, and how much of the file cannot be reused.

use std::{
    path::Path,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{durability::Disk, error::StoreError};

/// A checkpoint is due when this many bytes of pages are not on the disk.
const BYTES: u64 = 4 << 20;
/// When this many bytes of pages are not on the disk, the next writer makes a checkpoint before it begins: no process
/// leads, or the checkpoint thread does not keep up. One transaction may come on top. Unflushed pages cannot be reused,
/// so this also bounds the growth of the file.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// A checkpoint of any amount is due this long after the last one.
const PERIOD: Duration = Duration::from_secs(1);

/// Requests checkpoints from a thread that ends when this is dropped.
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

    /// Requests a checkpoint when enough bytes are unflushed, when any have been for [`PERIOD`], or while commits fail.
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
        // A failure is recorded where it happens, or retried when the next checkpoint is due.
        let _ = disk.checkpoint();
        if disk.commit_failure().is_some() {
            let _ = disk.probe();
        }
    }
}
