//! The embedded store as the server keeps it: opened once for the server's life, led by no other server, written by one thread.

mod flushes;
mod grants;
mod indexes;
pub(crate) mod lifetime;
mod lock;
mod news;
mod operation;
pub(crate) mod path;
mod pieces;
mod record_operation;
mod selection;
mod tag;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_store::{Exposed, Options, Stats, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::{flushes::Flushes, lock::Lock, news::News};
pub(crate) use self::{
    grants::Grants,
    lifetime::{Lifetime, now_ms},
    operation::{Change, Done, OPERATION_BYTES, Operation, Work},
    pieces::{Collected, DocumentPieces, PIECE_TIME, Pieces, collect, put_nodes},
    record_operation::{RecordChange, RecordOperation, StatementOperation, Whose},
    selection::Selection,
    tag::{Condition, Tag},
    writer::{Pending, Writer, WriterCounts},
};
use crate::{config, failure::Refusal};

/// Of so many snapshots that all processes may have, one at most is of an answer that is read while its client takes it.
const READERS_PER_STREAM: u32 = 8;
/// Of so many, one at most is of a request that reads in pieces. Further ones wait for a place, until their deadline.
const READERS_PER_READING: u32 = 8;

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// Another server leads it.
    #[error("another server has the store in {} open{}", path.display(), by(*pid))]
    Led {
        /// The store's folder.
        path: PathBuf,
        /// The other server, if it has said so.
        pid: Option<u32>,
    },
    /// The file that says who leads it cannot be used.
    #[error("cannot lock `{}`", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// An index of the configuration is there, and is another one.
    #[error(
        "index `{name}` exists with {found}, but the configuration (store.index.{name}) has {wanted}; to recreate it: forebay store index drop {name} --data {}",
        path.display()
    )]
    OtherIndex {
        /// Its name.
        name: String,
        /// What it is.
        found: String,
        /// What the configuration has.
        wanted: String,
        /// The store's folder.
        path: PathBuf,
    },
    /// An index of the configuration cannot be made of what is stored.
    #[error("cannot make the index `{name}` of the configuration (store.index.{name})")]
    Index {
        /// Its name.
        name: String,
        /// What is in the way.
        #[source]
        source: StoreError,
    },
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No thread can be started.
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
    news: News,
    flushes: Flushes,
    /// Places of answers that keep a snapshot while they are sent.
    streams: Arc<Semaphore>,
    streams_max: usize,
    /// Places of requests that keep a snapshot while others have their turn.
    readings: Arc<Semaphore>,
    /// Held until the server ends.
    _lock: Lock,
}

/// A place among the answers that keep a snapshot while they are sent; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// A place among the requests that are read in pieces; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadingPlace(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// What is told about the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFacts {
    /// `None`: the store cannot be asked.
    pub(crate) stats: Option<Stats>,
    pub(crate) writer: WriterCounts,
}

impl OpenStore {
    /// Opens the store, and makes it where there is none; and the indexes that the configuration names.
    pub(crate) fn open(config: &config::Store) -> Result<Arc<Self>, StoreOpenError> {
        let lock = Lock::take(&config.path)?;
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
        for exposed in Store::restrict(&config.path)? {
            warn_of(&exposed);
        }
        let store = Store::open(&config.path, &options)?;
        indexes::make(&store, &config.indexes)?;
        let writer = Writer::start(&store, config).map_err(StoreOpenError::Thread)?;
        let news = News::start(&store).map_err(StoreOpenError::Thread)?;
        Ok(Arc::new(Self {
            flushes: Flushes::new(&store),
            store,
            writer,
            news,
            streams: Arc::new(Semaphore::new(streams_max)),
            streams_max,
            readings: Arc::new(Semaphore::new(readings_max)),
            _lock: lock,
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// A place for an answer that keeps a snapshot while it is sent. Others need snapshots, too.
    pub(crate) fn stream(&self) -> Result<StreamPlace, Refusal> {
        let place = Arc::clone(&self.streams).try_acquire_owned();
        place.map(StreamPlace).map_err(|_| Refusal::TooManyStreams {
            max: self.streams_max,
        })
    }

    /// A place for a request that is read in pieces, if one is free and nobody waits for it.
    pub(crate) fn reading(&self) -> Option<ReadingPlace> {
        let place = Arc::clone(&self.readings).try_acquire_owned();
        place.map(ReadingPlace).ok()
    }

    /// The place that becomes free for whoever waits, in the order of asking.
    pub(crate) async fn next_reading(&self) -> ReadingPlace {
        let place = Arc::clone(&self.readings).acquire_owned().await;
        ReadingPlace(place.expect("nobody closes it"))
    }

    /// Where followers of changes hear of them.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// The store's folder, absolute.
    pub(crate) fn path(&self) -> &Path {
        self.store.path()
    }

    pub(crate) fn facts(&self) -> StoreFacts {
        StoreFacts {
            stats: self.store.stats().ok(),
            writer: self.writer.counts(),
        }
    }

    /// Where answers wait for the disk.
    pub(crate) fn flushes(&self) -> &Flushes {
        &self.flushes
    }

    /// Brings to the disk what nobody has waited for, and the tree itself.
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
