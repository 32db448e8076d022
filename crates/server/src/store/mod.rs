//! The server's embedded store: opened once, led by no other server, and written by a single thread.

mod change_notifier;
mod flushes;
mod grants;
mod indexes;
pub(crate) mod lifetime;
mod lock;
mod operation;
mod pieces;
mod record_operation;
mod selection;
mod tag;
mod workflows;
mod writer;

pub(crate) use crate::config::node_path as path;
use std::{
    fs::File,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use forebay_store::{Exposed, Options, Stats, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::workflows::WorkflowStore;
use self::{change_notifier::ChangeNotifier, flushes::Flushes, lock::Lock};
pub(crate) use self::{
    grants::Grants,
    lifetime::{Lifetime, now_ms},
    operation::{Change, Done, OPERATION_BYTES, Operation, Work},
    pieces::{Collected, DocumentPieces, PIECE_TIME, Pieces, collect, collect_here, put_nodes},
    record_operation::{RecordChange, RecordOperation, RecordSelector, StatementOperation},
    selection::Selection,
    tag::{Condition, Tag},
    writer::{Pending, Writer, WriterCounts},
};
use crate::{config, failure::Refusal};

/// One in this many of the snapshots available to all processes may belong to responses that are read from the store while they are sent.
const READERS_PER_STREAM: u32 = 8;
/// One in this many may belong to requests that read in slices. Further requests wait for a permit until their deadline.
const READERS_PER_READING: u32 = 8;
/// The same for a store in a database, as numbers: each holds one of the process's 16 connections, of which the writer and others need some.
const REMOTE_READINGS_MAX: usize = 8;
const REMOTE_STREAMS_MAX: usize = 4;

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// Another server leads the store.
    #[error("another server has the store in {} open{}", path.display(), by(*pid))]
    Led {
        /// The store's folder.
        path: PathBuf,
        /// The other server's process id, if it has written it.
        pid: Option<u32>,
    },
    /// The lock file cannot be used.
    #[error("cannot lock `{}`", path.display())]
    Lock {
        /// The path of the lock file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// An index of the configuration exists with another definition.
    #[error(
        "index `{name}` exists with {found}, but the configuration (store.index.{name}) has {wanted}; to recreate it: forebay store index drop {name} --data {}",
        path.display()
    )]
    OtherIndex {
        /// The index's name.
        name: String,
        /// The existing definition.
        found: String,
        /// The configured definition.
        wanted: String,
        /// The store's folder.
        path: PathBuf,
    },
    /// An index of the configuration cannot be built from the stored data.
    #[error("cannot make the index `{name}` of the configuration (store.index.{name})")]
    Index {
        /// The index's name.
        name: String,
        /// The error while building it.
        #[source]
        source: StoreError,
    },
    /// An error of the store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread cannot be started.
    #[error("cannot start the store's thread")]
    Thread(#[source] std::io::Error),
}

fn warn_of(exposed: &Exposed) {
    let (file, mode) = (exposed.path.display(), exposed.mode);
    match &exposed.error {
        None => {
            tracing::warn!(target: "forebay::store", "`{file}` of the store was open to others (mode {mode:o}); only its owner may use it now");
        }
        Some(error) => {
            tracing::warn!(target: "forebay::store", "`{file}` of the store is open to others (mode {mode:o}), and that cannot be changed: {error}");
        }
    }
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// The open store.
#[derive(Debug)]
pub(crate) struct OpenStore {
    store: Store,
    writer: Writer,
    news: ChangeNotifier,
    flushes: Flushes,
    /// Permits for responses that hold a snapshot while they are sent.
    streams: Arc<Semaphore>,
    streams_max: usize,
    /// Permits for requests that hold a snapshot while other requests get their turn.
    readings: Arc<Semaphore>,
    /// Held until the server ends. A store in a database has none: all servers may lead it.
    lock: Option<Lock>,
    /// The folder or the URL of the database, with the password, by which others open it.
    location: PathBuf,
}

/// A permit to hold a snapshot while a response is sent; released on drop.
#[derive(Debug)]
pub(crate) struct StreamPermit(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// A permit to read in slices; released on drop.
#[derive(Debug)]
pub(crate) struct ReadPermit(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// A snapshot of the store's metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFacts {
    /// `None` if the store could not be queried.
    pub(crate) stats: Option<Stats>,
    pub(crate) writer: WriterCounts,
}

impl OpenStore {
    /// Opens the store, creating it and the configured indexes if necessary.
    ///
    /// During an upgrade (`shared`: the predecessor's lock) both processes lead the store. That is safe: a leader flushes and removes expired
    /// nodes, both in transactions.
    pub(crate) fn open(config: &config::Store, shared: Option<File>) -> Result<Arc<Self>, StoreOpenError> {
        let lock = match (&config.url, shared) {
            (Some(_), _) => None,
            (None, Some(file)) => Some(Lock::shared(file)),
            (None, None) => Some(Lock::take(&config.path)?),
        };
        let location = config.location();
        let options = Options {
            create: true,
            read_only: false,
            lead: true,
            reader_age_max: config.reader_age_max,
            map_max: usize::try_from(config.map_max).unwrap_or(usize::MAX),
            value_bytes_max: usize::try_from(config.value_bytes_max).unwrap_or(usize::MAX),
            durability: match config.durability {
                config::Durability::Sync => forebay_store::Durability::Sync,
                config::Durability::Group => forebay_store::Durability::Group,
                config::Durability::Relaxed => forebay_store::Durability::Relaxed,
            },
            flush_interval: config.flush_interval,
            ..Options::default()
        };
        let places = |readers| usize::try_from(options.readers_max / readers).unwrap_or(usize::MAX);
        let (streams_max, readings_max) = (places(READERS_PER_STREAM), places(READERS_PER_READING));
        for exposed in Store::restrict(&location)? {
            warn_of(&exposed);
        }
        let store = Store::open(&location, &options)?;
        let (streams_max, readings_max) = if store.is_remote() {
            (REMOTE_STREAMS_MAX, REMOTE_READINGS_MAX)
        } else {
            (streams_max, readings_max)
        };
        indexes::make(&store, &config.indexes())?;
        let location = if store.is_remote() {
            location
        } else {
            store.path().to_owned()
        };
        let writer = Writer::start(&store, config).map_err(StoreOpenError::Thread)?;
        let news = ChangeNotifier::start(&store).map_err(StoreOpenError::Thread)?;
        Ok(Arc::new(Self {
            flushes: Flushes::new(&store),
            store,
            writer,
            news,
            streams: Arc::new(Semaphore::new(streams_max)),
            streams_max,
            readings: Arc::new(Semaphore::new(readings_max)),
            lock,
            location,
        }))
    }

    /// The lock file, to be shared with a successor.
    pub(crate) fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.lock.as_ref().map(Lock::file)
    }

    /// Writes this process's id into the lock file.
    pub(crate) fn sign_lock(&self) {
        if let Some(Err(error)) = self.lock.as_ref().map(Lock::sign) {
            tracing::warn!(target: "forebay::store", cause = %error, "cannot write the process id into the store's lock file");
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// A permit for a response that holds a snapshot while it is sent. Limited, so that snapshots remain for others.
    pub(crate) fn stream(&self) -> Result<StreamPermit, Refusal> {
        let place = Arc::clone(&self.streams).try_acquire_owned();
        place.map(StreamPermit).map_err(|_| Refusal::TooManyStreams {
            max: self.streams_max,
        })
    }

    /// A permit for a request that reads in slices, if one is free and no other request waits for it.
    pub(crate) fn reading(&self) -> Option<ReadPermit> {
        let place = Arc::clone(&self.readings).try_acquire_owned();
        place.map(ReadPermit).ok()
    }

    /// Waits for a permit to read in slices; waiters are served in order.
    pub(crate) async fn next_reading(&self) -> ReadPermit {
        let place = Arc::clone(&self.readings).acquire_owned().await;
        ReadPermit(place.expect("nobody closes it"))
    }

    /// Notifies followers of changes.
    pub(crate) fn news(&self) -> &ChangeNotifier {
        &self.news
    }

    /// The store's folder, absolute, or the URL of its database, without the password.
    pub(crate) fn path(&self) -> &Path {
        self.store.path()
    }

    /// The same with the password, by which workers and scripts open it.
    pub(crate) fn location(&self) -> &Path {
        &self.location
    }

    /// Whether reading waits for the network, which an I/O thread must not do.
    pub(crate) fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    /// Runs a read of a store in a database on a thread that may wait, at most until `deadline`. As many run at a time as the process has
    /// connections.
    pub(crate) async fn off_thread<T: Send + 'static>(
        &self,
        deadline: Instant,
        read: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let run = async {
            let place = self.next_reading().await;
            tokio::task::spawn_blocking(move || {
                let _place = place;
                read()
            })
            .await
        };
        match tokio::time::timeout_at(deadline.into(), run).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            Err(_) => Err(Refusal::DeadlinePassed),
        }
    }

    pub(crate) fn facts(&self) -> StoreFacts {
        StoreFacts {
            stats: self.store.stats().ok(),
            writer: self.writer.counts(),
        }
    }

    /// Tracks responses that wait for durability.
    pub(crate) fn flushes(&self) -> &Flushes {
        &self.flushes
    }

    /// Flushes commits that were not waited for, and the tree itself.
    pub(crate) fn checkpoint(&self) {
        if let Err(error) = self.store.checkpoint() {
            tracing::error!(target: "forebay::store", cause = %error, "the last commits may not be on the disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_readers_are_the_documented_ones() {
        let document = include_str!("../../../../docs/guide/store.md");
        let readers_max = Options::default().readers_max;
        let lines = readers_max / READERS_PER_STREAM;
        assert!(document.contains(&format!("{lines} clients at a time take lines")));
        let readings = readers_max / READERS_PER_READING;
        assert!(document.contains(&format!("{readings} answers at a\ntime are read so")));
    }
}
