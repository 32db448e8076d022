//! Tells all threads when there are changes that nobody can lose any more.
//!
//! Any process may commit, so the only way to know is to look. One thread looks, and only while somebody listens; a change is news
//! once it is on the disk, so that no follower ever knows more than the store after a power cut.
//!
//! A second thread reads the log for all who follow it, a turn for each: they may begin a gigabyte back, on a disk that is slow.

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

/// How often the store is looked at while somebody listens.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long after it could not be looked at.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Where the log of changes is known to end.
pub(crate) struct News {
    shared: Arc<Shared>,
    /// What is to be read; nobody has more than one thing in it.
    reading: mpsc::Sender<Reading>,
}

type Reading = Box<dyn FnOnce(&Store) + Send>;

impl fmt::Debug for News {
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
    /// Whether nobody will listen any more.
    ended: Mutex<bool>,
    /// Somebody has begun to listen, or `ended` has changed.
    begun: Condvar,
}

impl News {
    /// Starts the threads. They end when this is dropped.
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
                // Whoever asked misses its answer and knows; all others go on.
                let _ = catch_unwind(AssertUnwindSafe(|| read(&store)));
            }
        })?;
        Ok(Self { shared, reading })
    }

    /// Has the log read on the thread for that. No answer comes when that fails altogether.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let reading: Reading = Box::new(move |store| {
            // A follower that is gone has nothing read for it any more.
            if !sender.is_closed() {
                let _ = sender.send(read(store));
            }
        });
        // Without the thread, the sender goes with what cannot be sent.
        let _ = self.reading.send(reading);
        receiver
    }

    /// The last change on the disk, from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        let ended = self.shared.ended.lock();
        let listener = self.shared.last.subscribe();
        drop(ended);
        self.shared.begun.notify_one();
        listener
    }
}

impl Drop for News {
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
    let snapshot = store.snapshot()?;
    let (commit, sequence) = (snapshot.id(), snapshot.sequence()?);
    drop(snapshot);
    if sequence != seen {
        store.wait_flushed(commit)?;
    }
    Ok(sequence)
}
