//! Responses that wait until the commits they depend on are durable.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use forebay_store::{Store, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::front::together;

/// Tracks which responses wait for which commits.
#[derive(Clone, Debug)]
pub(crate) struct Flushes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    /// Highest commit known to be on disk; so are all before it.
    flushed: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The commit up to which a flush has been requested and not yet reported.
    asked: Option<u64>,
    waiters: Vec<(u64, Sender)>,
}

/// One error may be reported to many waiters.
type Flushed = Result<(), Arc<StoreError>>;
type Sender = oneshot::Sender<Flushed>;

impl Flushes {
    pub(super) fn new(store: &Store) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: store.clone(),
                flushed: AtomicU64::new(0),
                waiting: Mutex::default(),
            }),
        }
    }

    /// Whether a commit is known to be on disk.
    pub(crate) fn has(&self, commit: u64) -> bool {
        commit <= self.shared.flushed.load(Relaxed)
    }

    /// Requests that a commit of any process be flushed; the receiver completes once it is on disk. Requests made in the meantime share the
    /// next flush.
    pub(crate) fn bring(&self, commit: u64) -> oneshot::Receiver<Flushed> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.shared.waiting.lock();
        waiting.waiters.push((commit, sender));
        if waiting.asked.is_some() {
            return receiver;
        }
        waiting.asked = Some(commit);
        drop(waiting);
        self.ask(commit);
        receiver
    }

    fn ask(&self, commit: u64) {
        let flushes = self.clone();
        self.shared
            .store
            .when_flushed(commit, move |flushed| flushes.tell(commit, flushed));
    }

    fn tell(&self, asked: u64, flushed: Result<u64, StoreError>) {
        let shared = &self.shared;
        let mut waiting = shared.waiting.lock();
        let (told, outcome) = match flushed {
            Ok(last) => {
                shared.flushed.fetch_max(last, Relaxed);
                // A commit number that was never reached must not wait forever.
                let upto = last.max(asked);
                let told = waiting.waiters.extract_if(.., |(commit, _)| *commit <= upto);
                (told.collect(), Ok(()))
            }
            Err(error) => (mem::take(&mut waiting.waiters), Err(Arc::new(error))),
        };
        waiting.asked = waiting.waiters.iter().map(|(commit, _)| *commit).max();
        let next = waiting.asked;
        drop(waiting);
        if let Some(commit) = next {
            self.ask(commit);
        }
        together(|| {
            for (_, sender) in told {
                // The receiver is gone if the client has left.
                let _ = sender.send(outcome.clone());
            }
        });
    }
}
