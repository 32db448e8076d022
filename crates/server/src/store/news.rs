//! Tells all threads when there are changes that nobody can lose any more.
//!
//! Any process may commit, so the only way to know is to look. One thread looks, and only while somebody listens; a change is news
//! once it is on the disk, so that no follower ever knows more than the store after a power cut.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use forebay_store::{Store, StoreError};
use tokio::sync::watch;

/// How often the store is looked at while somebody listens.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Where the log of changes is known to end.
#[derive(Debug)]
pub(crate) struct News {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Sequence number of the last change on the disk.
    last: watch::Sender<u64>,
    /// Somebody has begun to listen, or nobody will any more.
    begun: Condvar,
    state: Mutex<()>,
}

impl News {
    /// Starts the thread. It ends when this is dropped.
    pub(crate) fn start(store: &Store) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            last: watch::Sender::new(0),
            begun: Condvar::new(),
            state: Mutex::new(()),
        });
        let (weak, store) = (Arc::downgrade(&shared), store.clone());
        thread::Builder::new()
            .name("store-news".into())
            .spawn(move || look(&weak, &store))?;
        Ok(Self { shared })
    }

    /// The last change on the disk, from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        let listener = self.shared.last.subscribe();
        let _state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.begun.notify_all();
        listener
    }
}

fn look(shared: &Weak<Shared>, store: &Store) {
    let mut seen = 0;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        if shared.last.receiver_count() == 0 {
            let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.last.receiver_count() == 0 {
                // Awake now and then, to see whether the server has ended.
                let _ = shared.begun.wait_timeout(state, Duration::from_millis(200));
            }
            continue;
        }
        match last_on_disk(store, seen) {
            Ok(last) if last != seen => {
                seen = last;
                shared.last.send_replace(last);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(target: "forebay::store", cause = %error, "followers of changes have to wait");
                thread::sleep(Duration::from_millis(500));
            }
        }
        drop(shared);
        thread::sleep(LOOK_EVERY);
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
