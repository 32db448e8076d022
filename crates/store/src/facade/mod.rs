//! The store's API for programs in other languages: bytes in, bytes out, and one object to hold.
//!
//! A [`Session`] belongs to one thread. Outside a transaction each read sees the latest commit and each write is a
//! transaction of its own; between [`Session::begin`] and [`Session::commit`] both belong to that transaction. Results
//! are borrowed from the session until its next call. Nodes are named by [paths](path), encoded as bytes. Transactions
//! that share a commit are described at [`Begin`].

mod error;
mod index;
pub mod operations;
mod pages;
mod path;
mod transactions;
mod value;

use std::{
    borrow::Cow,
    fmt,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

pub use error::{SessionError, code_of};
pub use index::Question;
pub use pages::Children;
pub use transactions::Begin;
pub use value::Value;

use crate::{
    Durability, Key, Locks, Options, Read, Snapshot, Store, StoreError, Transaction, read::in_steps,
    tree::read::Reader,
};
use path::Paths;

/// Largest result buffer, in bytes, that a session keeps for its next call.
const OUT_BYTES_KEPT: usize = 4 << 20;

/// How often a wait for a lock checks whether the caller has given up.
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// Observes the waits of a session: notified when a wait begins and ends, and asked whether the session should still
/// wait.
pub trait WaitPolicy: fmt::Debug {
    /// Called when the session starts to wait for others.
    fn begins(&self);
    /// Called when that wait is over.
    fn ends(&self);
    /// Whether the caller has given up: the session then fails with [`SessionError::GivenUp`]. A wait for the write
    /// lock cannot be interrupted; this is asked once it has been obtained.
    fn has_ended(&self) -> bool;
}

/// A store as used by one thread of a program.
#[derive(Debug)]
pub struct Session {
    /// Snapshot of the latest commit at the last read, parked between reads and refreshed by the next: beginning a new
    /// one would cost as much as a read.
    latest: Option<Snapshot>,
    store: Option<Store>,
    state: State,
    /// Created by the first lock.
    locks: Option<Locks>,
    paths: Paths,
    out: Vec<u8>,
    last_commit: u64,
    /// Called with each commit that another process waits for, so that this one need not.
    announce: Option<fn(u64)>,
    /// Set when the caller may give up waiting.
    patience: Option<Rc<dyn WaitPolicy>>,
    /// Why held transactions could not be committed, until [`Session::settle`] reports it.
    lost: Option<SessionError>,
}

/// The transaction or snapshot that reads and writes belong to.
#[derive(Debug)]
enum State {
    /// None: each is on its own.
    Apart,
    /// A transaction. `depth` counts begins without their ends; `aborted` is set once an inner one was rolled back.
    Writing {
        transaction: Box<Transaction>,
        depth: u32,
        aborted: bool,
        begin: Begin,
        /// Durability of the held transactions that this one is added to, if there are any.
        part_of: Option<Durability>,
    },
    /// Held transactions: reads see them, any other operation commits them first.
    Held {
        transaction: Box<Transaction>,
        /// Strongest durability among the parts.
        durability: Durability,
    },
    /// A snapshot. `depth` as above.
    Looking { snapshot: Box<Snapshot>, depth: u32 },
}

impl Session {
    /// Opens the store in a folder.
    pub fn open(folder: &Path, options: &Options) -> Result<Self, SessionError> {
        let store = Store::open(folder, options)?;
        // A program that asks for a read-only store must not get a writable one.
        if options.read_only && !store.options().read_only {
            return Err(SessionError::Store(StoreError::OpenAlready {
                path: store.path().into(),
                option: "read_only",
                found: "false".into(),
                wanted: "true".into(),
            }));
        }
        Ok(Self {
            latest: None,
            store: Some(store),
            state: State::Apart,
            locks: None,
            paths: Paths::default(),
            out: Vec::new(),
            last_commit: 0,
            announce: None,
            patience: None,
            lost: None,
        })
    }

    /// The underlying store.
    pub fn store(&self) -> Result<&Store, SessionError> {
        self.store.as_ref().ok_or(SessionError::Closed)
    }

    /// Closes the session. Fails inside a transaction or snapshot.
    pub fn close(&mut self) -> Result<(), SessionError> {
        self.settle_first()?;
        if !matches!(self.state, State::Apart) {
            return Err(SessionError::Busy);
        }
        self.latest = None;
        self.locks = None;
        self.store = None;
        // Programs may keep a closed session for long.
        self.out = Vec::new();
        Ok(())
    }

    /// Closes the session and rolls back any open transaction: for a thread that ends.
    pub fn abandon(&mut self) {
        self.state = State::Apart;
        self.latest = None;
        self.locks = None;
        self.store = None;
    }

    /// Number of this session's last commit; 0 before the first.
    pub fn last_commit(&self) -> u64 {
        self.last_commit
    }

    /// From now on commits with [`Durability::Group`] do not wait for the disk. Instead `tell` is called with each, and
    /// must ensure that the commit is flushed before its outcome is made visible. Transactions begun
    /// [together](Begin::Together) are held from now on.
    pub fn announce(&mut self, tell: fn(u64)) {
        self.announce = Some(tell);
    }

    /// Sets the observer of this session's waits, which can also cancel them.
    pub fn wait_with(&mut self, patience: Rc<dyn WaitPolicy>) {
        self.patience = Some(patience);
    }

    /// The node's content as canonical JSON: its own value if it has one, otherwise its subtree. A subtree built node
    /// by node may exceed the limit of a document, which is an error.
    pub fn get(&mut self, path: &[u8]) -> Result<Option<&[u8]>, SessionError> {
        let key = self.paths.key(path)?;
        self.answer(|reader, out| {
            if let Some(text) = reader.get(&key)? {
                out.extend_from_slice(text);
                return Ok(true);
            }
            document(reader, &key, out)
        })
    }

    /// The node's own value as canonical JSON: a scalar, `{}` or `[]`.
    pub fn value(&mut self, path: &[u8]) -> Result<Option<&[u8]>, SessionError> {
        let key = self.paths.key(path)?;
        self.answer(|reader, out| {
            let text = reader.get(&key)?;
            out.extend_from_slice(text.unwrap_or_default());
            Ok(text.is_some())
        })
    }

    /// The subtree as canonical JSON, without the value of a node with children. An error if it is longer than a
    /// document may be.
    pub fn document(&mut self, path: &[u8]) -> Result<Option<&[u8]>, SessionError> {
        let key = self.paths.key(path)?;
        self.answer(|reader, out| document(reader, &key, out))
    }

    /// 0, 1, 10 or 11: 1 for a value, plus 10 for children.
    pub fn defined(&mut self, path: &[u8]) -> Result<u8, SessionError> {
        let key = self.paths.key(path)?;
        let defined = self.read(|reader, _| reader.defined(&key))?;
        Ok(u8::from(defined.value) + 10 * u8::from(defined.children))
    }

    /// Whether the node is an array: its children are elements, or it is `[]`.
    pub fn is_array(&mut self, path: &[u8]) -> Result<bool, SessionError> {
        let key = self.paths.key(path)?;
        self.read(|reader, _| reader.is_array(&key))
    }

    /// The first child after `seed` (in reverse, the last before it), which need not exist; an empty seed starts at the
    /// beginning or end.
    pub fn neighbour(
        &mut self,
        path: &[u8],
        seed: &[u8],
        reverse: bool,
    ) -> Result<Option<&[u8]>, SessionError> {
        let key = self.paths.key(path)?;
        let seed = path::subscript(seed)?;
        self.answer(|reader, out| {
            let found = if reverse {
                reader.previous(&key, seed.as_ref())?
            } else {
                reader.next(&key, seed.as_ref())?
            };
            if let Some(found) = &found {
                out.extend_from_slice(found.text().as_bytes());
            }
            Ok(found.is_some())
        })
    }

    /// Sets a node's value, given as JSON. A scalar leaves the children as they are; an object or array replaces the
    /// subtree.
    pub fn set(&mut self, path: &[u8], value: &[u8]) -> Result<(), SessionError> {
        let key = self.paths.key(path)?;
        self.write(|transaction| transaction.set(&key, value))
    }

    /// Replaces the subtree with a JSON document.
    pub fn put(&mut self, path: &[u8], document: &[u8]) -> Result<(), SessionError> {
        let key = self.paths.key(path)?;
        self.write(|transaction| transaction.put(&key, document))
    }

    /// Merges a JSON document into the subtree: its values replace those at the same path, all others stay.
    pub fn lay_over(&mut self, path: &[u8], document: &[u8]) -> Result<(), SessionError> {
        let key = self.paths.key(path)?;
        self.write(|transaction| transaction.lay_over(&key, document))
    }

    /// Removes the subtree; `false` if there was none.
    pub fn kill(&mut self, path: &[u8]) -> Result<bool, SessionError> {
        let key = self.paths.key(path)?;
        self.write(|transaction| transaction.kill(&key))
    }

    /// Adds a JSON number to the node's value, exactly; returns the sum.
    pub fn increment(&mut self, path: &[u8], by: &[u8]) -> Result<&[u8], SessionError> {
        let key = self.paths.key(path)?;
        let by = std::str::from_utf8(by).map_err(|_| SessionError::NotText)?;
        let sum = self.write(|transaction| transaction.increment(&key, by))?;
        self.out.clear();
        self.out.extend_from_slice(sum.as_bytes());
        Ok(&self.out)
    }

    /// Copies one subtree into another: its values replace those at the same path, all others stay.
    pub fn merge(&mut self, to: &[u8], from: &[u8]) -> Result<(), SessionError> {
        let (to, from) = (self.paths.key(to)?, self.paths.key(from)?);
        self.write(|transaction| transaction.merge(&to, &from))
    }

    /// Starts a snapshot: until [`Session::end_snapshot`] all reads see one state. Inside a transaction they do anyway.
    pub fn begin_snapshot(&mut self) -> Result<(), SessionError> {
        self.settle_first()?;
        match &mut self.state {
            State::Apart | State::Held { .. } => {
                let snapshot = Box::new(self.store()?.snapshot()?);
                self.state = State::Looking { snapshot, depth: 1 };
            }
            State::Looking { depth, .. } => *depth += 1,
            State::Writing { .. } => {}
        }
        Ok(())
    }

    /// Ends the snapshot of the matching [`Session::begin_snapshot`].
    pub fn end_snapshot(&mut self) -> Result<(), SessionError> {
        match &mut self.state {
            State::Looking { depth, .. } if *depth > 1 => *depth -= 1,
            State::Looking { .. } => self.state = State::Apart,
            State::Writing { .. } => {}
            State::Apart | State::Held { .. } => return Err(SessionError::NoSnapshot),
        }
        Ok(())
    }

    /// Locks a node for this session; `false` if others still held it after `patience`. `None` waits forever.
    pub fn lock(&mut self, path: &[u8], patience: Option<Duration>) -> Result<bool, SessionError> {
        self.settle_first()?;
        let key = self.paths.key(path)?;
        let locks = match &mut self.locks {
            Some(locks) => locks,
            None => {
                let locks = self.store()?.locks()?;
                self.locks.insert(locks)
            }
        };
        let Some(with) = &self.patience else {
            return Ok(locks.lock(&key, patience)?);
        };
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let _wait = Wait::begin(with);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let part = left.map_or(LOCK_LOOK, |left| left.min(LOCK_LOOK));
            if locks.lock(&key, Some(part))? {
                return Ok(true);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            if with.has_ended() {
                return Err(SessionError::GivenUp);
            }
        }
    }

    /// Releases one [`Session::lock`]; `false` if there was none.
    pub fn unlock(&mut self, path: &[u8]) -> Result<bool, SessionError> {
        self.settle_first()?;
        let key = self.paths.key(path)?;
        match &mut self.locks {
            Some(locks) => Ok(locks.unlock(&key)?),
            None => Ok(false),
        }
    }

    /// Releases all locks.
    pub fn unlock_all(&mut self) -> Result<(), SessionError> {
        self.settle_first()?;
        if let Some(locks) = &mut self.locks {
            locks.unlock_all()?;
        }
        Ok(())
    }

    /// Makes every commit before the call durable.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        self.settle_first()?;
        Ok(self.store()?.flush()?)
    }

    /// Runs a read whose result, if any, is what it appends to the buffer.
    fn answer(
        &mut self,
        question: impl FnMut(&Reader<'_>, &mut Vec<u8>) -> Result<bool, StoreError>,
    ) -> Result<Option<&[u8]>, SessionError> {
        let found = self.read(question)?;
        Ok(found.then_some(self.out.as_slice()))
    }

    fn read<T>(
        &mut self,
        mut question: impl FnMut(&Reader<'_>, &mut Vec<u8>) -> Result<T, StoreError>,
    ) -> Result<T, SessionError> {
        self.look(|reader, out| question(reader, out).map_err(SessionError::from))
    }

    /// Runs reads that this API does not offer, all on one state: that of the open transaction or snapshot, or else the
    /// latest. In a database they may be [repeated](Snapshot::run). The content of the buffer is available as [`Session::answered`] until the next call.
    pub fn look<T, E: From<SessionError>>(
        &mut self,
        mut question: impl FnMut(&Reader<'_>, &mut Vec<u8>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.look_in_steps(|reader, _, out| question(reader, out).map(Some))
    }

    /// As [`Session::look`], for reads that may be long: the function is called until it returns a result, and told
    /// whether it is to begin. A step should end once [`Read::has_read_much`].
    pub fn look_in_steps<T, E: From<SessionError>>(
        &mut self,
        mut step: impl FnMut(&Reader<'_>, bool, &mut Vec<u8>) -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        let out = &mut self.out;
        out.clear();
        if out.capacity() > OUT_BYTES_KEPT {
            *out = Vec::new();
        }
        match &mut self.state {
            State::Apart => {
                let store = self.store.as_ref().ok_or(SessionError::Closed)?;
                let mut snapshot = match self.latest.take() {
                    Some(mut snapshot) => {
                        snapshot.wake().map_err(SessionError::from)?;
                        snapshot
                    }
                    None => store.later_snapshot().map_err(SessionError::from)?,
                };
                let answer = snapshot.run_in_steps(|reader, is_first| {
                    if is_first {
                        out.clear();
                    }
                    step(reader, is_first, out)
                })?;
                snapshot.rest().map_err(SessionError::from)?;
                self.latest = Some(snapshot);
                Ok(answer)
            }
            State::Writing { transaction, .. } | State::Held { transaction, .. } => {
                transaction.forget_read();
                in_steps(&mut **transaction, |reader, is_first| step(reader, is_first, out))
            }
            State::Looking { snapshot, .. } => {
                snapshot.forget_read();
                in_steps(&mut **snapshot, |reader, is_first| step(reader, is_first, out))
            }
        }
    }

    /// The buffer as left by [`Session::look`] or [`Session::change`].
    pub fn answered(&self) -> &[u8] {
        &self.out
    }

    /// Runs changes that this API does not offer, all or nothing: in the open transaction, or in one of its own. A
    /// function that fails after changing something must have [given up the transaction](Transaction::give_up).
    pub fn change<T, E: From<SessionError>>(
        &mut self,
        change: impl FnOnce(&mut Transaction, &mut Vec<u8>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let outcome = self.write_as(|transaction| change(transaction, &mut out));
        self.out = out;
        outcome
    }

    fn write<T>(
        &mut self,
        change: impl FnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, SessionError> {
        self.write_as(|transaction| change(transaction).map_err(SessionError::from))
    }

    fn write_as<T, E: From<SessionError>>(
        &mut self,
        change: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        if !matches!(self.state, State::Writing { .. }) {
            self.settle_first()?;
        }
        match &mut self.state {
            State::Apart | State::Held { .. } => {
                let mut transaction = self.begin_to_write()?;
                let durability = self.store()?.options().durability;
                let outcome = change(&mut transaction)?;
                self.finish(transaction, durability)?;
                Ok(outcome)
            }
            State::Writing { transaction, .. } => change(transaction),
            State::Looking { .. } => Err(SessionError::InSnapshot.into()),
        }
    }

    /// Obtains the write lock.
    fn begin_to_write(&self) -> Result<Transaction, SessionError> {
        let store = self.store()?;
        let Some(patience) = &self.patience else {
            return Ok(store.begin()?);
        };
        let wait = Wait::begin(patience);
        let transaction = store.begin()?;
        drop(wait);
        if patience.has_ended() {
            return Err(SessionError::GivenUp);
        }
        Ok(transaction)
    }

    fn key(&mut self, path: &[u8]) -> Result<Key, SessionError> {
        self.paths.key(path)
    }
}

/// Notifies the observer that a wait begins, and when dropped that it has ended.
struct Wait<'p>(&'p Rc<dyn WaitPolicy>);

impl<'p> Wait<'p> {
    fn begin(patience: &'p Rc<dyn WaitPolicy>) -> Self {
        patience.begins();
        Self(patience)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.ends();
    }
}

/// Appends the subtree's document; `false` if there is none. An assembled document is bounded by the size limit of
/// stored ones.
fn document(reader: &Reader<'_>, key: &Key, out: &mut Vec<u8>) -> Result<bool, StoreError> {
    match reader.document_within(key, reader.tables.value_bytes_max)? {
        None => return Ok(false),
        Some(Cow::Owned(text)) if out.is_empty() => *out = text,
        Some(text) => out.extend_from_slice(&text),
    }
    Ok(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_takes_no_memory_beyond_the_next_call() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::open(folder.path(), &Options::default()).unwrap();
        let long = format!("\"{}\"", "x".repeat(2 * OUT_BYTES_KEPT));
        session.set(b"\x01\0A", long.as_bytes()).unwrap();
        assert_eq!(session.get(b"\x01\0A").unwrap(), Some(long.as_bytes()));
        assert_eq!(session.get(b"\x01\0B").unwrap(), None);
        assert!(session.out.capacity() <= OUT_BYTES_KEPT);
    }
}
