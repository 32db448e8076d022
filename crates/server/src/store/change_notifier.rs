//! Notifies all threads of durable changes to the store.
//!
//! Any process may commit, so changes can only be found by polling. One thread polls, and only while there are listeners. A change is
//! announced once it is on disk, so that after a power cut no follower knows more than the store.
//!
//! A second thread reads the log for all followers, one request of each in turn, because they may start a gigabyte back on a slow disk.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use forebay_store::{Store, StoreError};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{oneshot, watch};

/// Polling interval while there are listeners.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Delay before polling again after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Announces the end of the log of changes.
pub(crate) struct ChangeNotifier {
    shared: Arc<Shared>,
    /// Read requests for the log thread; a follower has at most one queued.
    reading: mpsc::Sender<Reading>,
}

type Reading = Box<dyn FnOnce(&Store) + Send>;

impl fmt::Debug for ChangeNotifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("News")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Shared {
    /// Sequence number of the last change on the disk.
    last: watch::Sender<u64>,
    /// Set when the handle is dropped, which ends the polling thread.
    ended: Mutex<bool>,
    /// Signals that a listener has arrived or that `ended` has changed.
    begun: Condvar,
}

impl ChangeNotifier {
    /// Starts both threads. They end when the handle is dropped.
    pub(crate) fn start(store: &Store) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            last: watch::Sender::new(0),
            ended: Mutex::new(false),
            begun: Condvar::new(),
        });
        let (looking, looked_at) = (Arc::clone(&shared), store.clone());
        thread::Builder::new()
            .name("store-news".into())
            .spawn(move || look(&looking, &looked_at))?;
        let (reading, readings) = mpsc::channel::<Reading>();
        let store = store.clone();
        thread::Builder::new().name("store-log".into()).spawn(move || {
            for read in readings {
                // After a panic only this request goes unanswered; its sender is dropped. The thread continues with the others.
                let _ = catch_unwind(AssertUnwindSafe(|| read(&store)));
            }
        })?;
        Ok(Self { shared, reading })
    }

    /// Runs a read on the log thread. The receiver reports an error if the read panics.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let reading: Reading = Box::new(move |store| {
            // The follower may be gone by now.
            if !sender.is_closed() {
                let _ = sender.send(read(store));
            }
        });
        // If the thread is gone, the sender is dropped with the unsent request.
        let _ = self.reading.send(reading);
        receiver
    }

    /// The sequence number of the last durable change, updated from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        let ended = self.shared.ended.lock();
        let listener = self.shared.last.subscribe();
        drop(ended);
        self.shared.begun.notify_one();
        listener
    }
}

impl Drop for ChangeNotifier {
    fn drop(&mut self) {
        *self.shared.ended.lock() = true;
        self.shared.begun.notify_one();
    }
}

fn look(shared: &Shared, store: &Store) {
    let mut seen = 0;
    loop {
        let mut ended = shared.ended.lock();
        while !*ended && shared.last.receiver_count() == 0 {
            shared.begun.wait(&mut ended);
        }
        if *ended {
            return;
        }
        drop(ended);
        let mut pause = LOOK_EVERY;
        match last_on_disk(store, seen) {
            Ok(last) if last != seen => {
                seen = last;
                shared.last.send_replace(last);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(target: "forebay::store", cause = %error, "followers of changes have to wait");
                pause = AFTER_FAILURE;
            }
        }
        thread::sleep(pause);
    }
}

fn last_on_disk(store: &Store, seen: u64) -> Result<u64, StoreError> {
    if store.is_remote() {
        // The store itself watches its database, whose commits are durable.
        return Ok(store.stats()?.last_commit);
    }
    let snapshot = store.snapshot()?;
    let (commit, sequence) = (snapshot.id()?, snapshot.sequence()?);
    drop(snapshot);
    if sequence != seen {
        store.wait_flushed(commit)?;
    }
    Ok(sequence)
}
