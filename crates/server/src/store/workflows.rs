//! The store as the storage of workflows.

use std::{
    borrow::Cow,
    future::{poll_fn, ready},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_store::{Durability, Key, Locks, Range, Read, Store, StoreError, Subscript, Transaction, json};
use forebay_workflow::{
    Changes, Documents, Fetched, NodeLocks, RunStorage, Storage, StorageError, Write, Written,
};

use super::{Change, Condition, Lifetime, OPERATION_BYTES, OpenStore, Operation, Work};
use crate::failure::Refusal;

/// The storage of workflows in a store that no server uses.
#[derive(Debug)]
pub struct WorkflowStore(pub Store);

impl Storage for WorkflowStore {
    fn snapshot(&self) -> Result<Box<dyn Documents + '_>, StorageError> {
        Ok(Box::new(State(self.0.snapshot().map_err(failed)?)))
    }

    fn begin(&self) -> Result<Box<dyn Changes + '_>, StorageError> {
        Ok(Box::new(State(self.0.begin().map_err(failed)?)))
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.0.flush().map_err(failed)
    }
}

impl Storage for OpenStore {
    fn snapshot(&self) -> Result<Box<dyn Documents + '_>, StorageError> {
        Ok(Box::new(State(self.store().snapshot().map_err(failed)?)))
    }

    fn begin(&self) -> Result<Box<dyn Changes + '_>, StorageError> {
        Ok(Box::new(State(self.store().begin().map_err(failed)?)))
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.store().flush().map_err(failed)
    }
}

impl RunStorage for OpenStore {
    fn submit(&self, writes: Vec<Write>) -> Result<Written, StorageError> {
        let document_bytes_max = self.store().options().value_bytes_max;
        let (mut operations, mut bytes, mut longest) = (Vec::new(), 0, 0);
        for write in writes {
            let (path, change, lifetime) = match write {
                Write::RequireAbsent { path } => (path, Change::RequireAbsent, None),
                Write::Remove { path } => (path, Change::Delete, None),
                Write::Put {
                    path,
                    document,
                    lifetime,
                } => {
                    let document = canonical(&document, document_bytes_max).map_err(failed)?;
                    longest = longest.max(document.len());
                    bytes += document.len();
                    (path, Change::Put(document), lifetime.map(Lifetime::For))
                }
            };
            bytes += OPERATION_BYTES;
            operations.push(Work::Node(Operation {
                at: None,
                key: key_of(&path)?,
                condition: Condition::default(),
                document_bytes_max,
                change,
                lifetime,
            }));
        }
        let submitted = self.writer().submit(operations, bytes);
        let mut pending = submitted.map_err(|refusal| match refusal {
            // Others have hardly made the queue too full for it.
            Refusal::WriteQueueBytesFull { queue_bytes_max } if longest > queue_bytes_max / 4 => {
                StorageError::new(TOO_LONG, refusal)
            }
            refusal => refusal.into(),
        })?;
        Ok(Box::pin(async move {
            let done = poll_fn(|context| pending.poll(context)).await;
            done.map(drop).map_err(StorageError::from)
        }))
    }

    fn fetch<'s>(&'s self, path: &[&str]) -> Fetched<'s> {
        let key = match key_of(path) {
            Ok(key) => key,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let store = self.store().clone();
        let read =
            move || store.read(|state| Ok::<_, StoreError>(state.document(&key)?.map(Cow::into_owned)));
        if !self.is_remote() {
            return Box::pin(ready(read().map_err(failed)));
        }
        Box::pin(async move {
            let deadline = Instant::now() + FETCH_TIME_MAX;
            Ok(self.off_thread(deadline, move || Ok(read()?)).await?)
        })
    }

    fn locks(&self) -> Result<Box<dyn NodeLocks>, StorageError> {
        Ok(Box::new(StoreLocks(self.store().locks().map_err(failed)?)))
    }

    fn on_disk(&self, commit: u64) -> Option<Written> {
        if self.flushes().has(commit) {
            return None;
        }
        let flushed = self.flushes().bring(commit);
        Some(Box::pin(async move {
            let flushed = flushed.await.map_err(|_| Refusal::Stopping)?;
            flushed.map_err(failed)
        }))
    }
}

/// Locks of one owner.
struct StoreLocks(Locks);

impl NodeLocks for StoreLocks {
    fn holds(&mut self, path: &[&str]) -> Result<bool, StorageError> {
        Ok(self.0.holds(&key_of(path)?))
    }

    fn try_lock(&mut self, path: &[&str]) -> Result<bool, StorageError> {
        self.0.lock(&key_of(path)?, Some(Duration::ZERO)).map_err(failed)
    }

    fn unlock(&mut self, path: &[&str]) -> Result<(), StorageError> {
        self.0.unlock(&key_of(path)?).map(drop).map_err(failed)
    }
}

fn canonical(document: &[u8], bytes_max: usize) -> Result<Vec<u8>, StoreError> {
    let bytes = document.len();
    if bytes > bytes_max {
        return Err(StoreError::ValueTooLong {
            bytes,
            max: bytes_max,
        });
    }
    Ok(json::canonical(document)?)
}

/// Longest wait for one document of a database.
const FETCH_TIME_MAX: Duration = Duration::from_secs(30);
/// The code of a write that is too long.
const TOO_LONG: u16 = 413;

/// A snapshot or a transaction.
struct State<T>(T);

impl<T: Read> Documents for State<T> {
    fn get(&self, path: &[&str]) -> Result<Option<Vec<u8>>, StorageError> {
        let document = self.0.document(&key_of(path)?).map_err(failed)?;
        Ok(document.map(std::borrow::Cow::into_owned))
    }

    fn children(&self, path: &[&str]) -> Result<Vec<String>, StorageError> {
        let children = self.0.children(&key_of(path)?, Range::default());
        let names = children.map_err(failed)?.map(|child| Ok(child?.text()));
        names.collect::<Result<_, StoreError>>().map_err(failed)
    }

    fn previous(&self, path: &[&str], before: Option<&str>) -> Result<Option<String>, StorageError> {
        let before = before.map(Subscript::new);
        let previous = self.0.previous(&key_of(path)?, before.as_ref());
        Ok(previous.map_err(failed)?.map(|name| name.text()))
    }
}

impl Changes for State<Transaction> {
    fn put(&mut self, path: &[&str], document: &[u8]) -> Result<(), StorageError> {
        self.0.put(&key_of(path)?, document).map_err(failed)
    }

    fn remove(&mut self, path: &[&str]) -> Result<(), StorageError> {
        self.0.kill(&key_of(path)?).map(drop).map_err(failed)
    }

    fn commit(self: Box<Self>) -> Result<(), StorageError> {
        self.0.commit(Durability::Sync).map(drop).map_err(failed)
    }
}

fn key_of(path: &[impl AsRef<str>]) -> Result<Key, StorageError> {
    let global = path.first().map_or("", AsRef::as_ref);
    let mut key = Key::global(global).map_err(|error| failed(StoreError::from(error)))?;
    for name in path.iter().skip(1) {
        key.push(name.as_ref())
            .map_err(|error| failed(StoreError::from(error)))?;
    }
    Ok(key)
}

/// An error of the store, which stays recognizable as one.
fn failed(error: impl Into<Arc<StoreError>>) -> StorageError {
    let error = error.into();
    StorageError::new(Refusal::from(Arc::clone(&error)).status(), error)
}

impl From<Refusal> for StorageError {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status(), refusal)
    }
}
