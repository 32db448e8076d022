//! Snapshots and transactions: the handles that users of a store read and write through.

use std::{marker::PhantomData, mem, sync::Arc};

use crate::{
    changes::{End, Journal, JournalMark, Kind, Operation},
    durability::Durability,
    engine,
    error::{StoreError, TRANSACTION_FULL},
    expiry,
    index::{Catalogue, Definition, Reach, Upkeep},
    key::Key,
    opening::VALUE_BYTES_LIMIT,
    read::{Read, in_steps},
    store::Shared,
    sys,
    tree::{Reader, Tables, write::Writer},
};

/// How often reads are run that are to be repeated.
const RUNS_MAX: u32 = 3;
const REPLAYED: &str = "only the log of a folder is replayed when it is opened";

/// A read-only view of one state of the store.
#[derive(Debug)]
pub struct Snapshot {
    shared: Arc<Shared>,
    /// `None` only while the snapshot is being dropped.
    transaction: Option<engine::Transaction>,
}

impl Snapshot {
    pub(crate) fn new(shared: Arc<Shared>, transaction: engine::Transaction) -> Self {
        Self {
            shared,
            transaction: Some(transaction),
        }
    }

    fn transaction(&self) -> &engine::Transaction {
        self.transaction
            .as_ref()
            .expect("a snapshot lasts until it is dropped")
    }

    /// Takes the snapshot now, if that has not happened yet.
    pub(crate) fn take(&self) -> Result<(), StoreError> {
        self.transaction().take()
    }

    /// Lets others reuse the space that the snapshot pins, if they need it. It must be woken before it is read again.
    pub(crate) fn rest(&mut self) -> Result<(), StoreError> {
        self.transaction_mut().rest()
    }

    /// Refreshes a resting snapshot to the latest state.
    pub(crate) fn wake(&mut self) -> Result<(), StoreError> {
        self.transaction_mut().wake()
    }

    /// Runs reads, again on a later state if another commit came between the first ones, or a connection was lost: a
    /// store in a database then answers a single read with a single statement.
    pub fn run<T, E>(&mut self, mut question: impl FnMut(&Reader<'_>) -> Result<T, E>) -> Result<T, E> {
        self.run_in_steps(|reader, _| question(reader).map(Some))
    }

    /// As [`Snapshot::run`] with [`in_steps`].
    pub(crate) fn run_in_steps<T, E>(
        &mut self,
        mut step: impl FnMut(&Reader<'_>, bool) -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        self.transaction_mut().set_repeatable(true);
        let mut runs = 1;
        loop {
            let outcome = in_steps(self, &mut step);
            let transaction = self.transaction_mut();
            if runs == RUNS_MAX || !transaction.must_repeat() {
                transaction.set_repeatable(false);
                return outcome;
            }
            runs += 1;
            transaction.begin_again();
        }
    }

    fn transaction_mut(&mut self) -> &mut engine::Transaction {
        self.transaction
            .as_mut()
            .expect("a snapshot lasts until it is dropped")
    }

    /// Number of the commit that made this state.
    pub fn id(&self) -> Result<u64, StoreError> {
        self.transaction().id()
    }

    /// Sequence number of the last logged change that this state includes; 0 before the first.
    pub fn sequence(&self) -> Result<u64, StoreError> {
        Ok(self.log_end()?.sequence)
    }

    pub(crate) fn log_end(&self) -> Result<End, StoreError> {
        End::of_any(self.transaction())
    }
}

impl Read for Snapshot {
    fn reader(&self) -> Reader<'_> {
        Reader {
            transaction: self.transaction(),
            tables: self.shared.tables,
        }
    }

    fn forget_read(&mut self) {
        self.transaction_mut().forget_read();
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(engine::Transaction::Embedded(transaction)) = self.transaction.take()
            && let Ok(parked) = transaction.park()
        {
            self.shared.park(parked);
        }
    }
}

/// A write transaction. Dropping it without a commit rolls it back. It stays on the thread that began it, as the
/// engine's lock does.
#[derive(Debug)]
pub struct Transaction {
    one_thread: PhantomData<*const ()>,
    shared: Arc<Shared>,
    tables: Tables,
    work: engine::Transaction,
    journal: Journal,
    /// Loaded by the first change.
    catalogue: Option<Arc<Catalogue>>,
    /// Whether expiry entries were removed whose nodes no longer exist, which is invisible to others.
    forgot: bool,
    /// Whether any node has an expiry time; `None` until it is known.
    expiring: Option<bool>,
    broken: bool,
    /// Position of the journal at the start of the open part.
    part: Option<JournalMark>,
}

/// Effect of a change on expiry times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Stay,
    /// The node's own time is removed.
    NodeGoes,
    /// The times of the whole subtree are removed.
    SubtreeGoes,
}

impl Read for Transaction {
    fn reader(&self) -> Reader<'_> {
        Reader {
            transaction: &self.work,
            tables: self.tables,
        }
    }

    fn forget_read(&mut self) {
        self.work.forget_read();
    }
}

impl Transaction {
    pub(crate) fn new(shared: Arc<Shared>, work: engine::Transaction) -> Self {
        Self {
            one_thread: PhantomData,
            tables: shared.tables,
            shared,
            work,
            journal: Journal::new(),
            catalogue: None,
            forgot: false,
            expiring: None,
            broken: false,
            part: None,
        }
    }

    /// Begins a part of the transaction, which is kept or rolled back as a whole: see [`Transaction::keep_part`] and
    /// [`Transaction::drop_part`]. Parts do not nest.
    pub(crate) fn begin_part(&mut self) -> Result<(), StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        self.work.begin_part()?;
        self.part = Some(self.journal.mark());
        Ok(())
    }

    /// Ends a part and keeps it. A part with a failed operation can only be dropped.
    pub(crate) fn keep_part(&mut self) -> Result<(), StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        self.part = None;
        self.work.keep_part().inspect_err(|_| self.broken = true)
    }

    /// Rolls a part back, whatever has failed in it.
    pub(crate) fn drop_part(&mut self) {
        let mark = self.part.take().expect("a part was begun");
        self.work.drop_part();
        self.journal.go_back(mark);
        self.catalogue = None;
        self.expiring = None;
        self.broken = false;
    }

    /// Whether an operation failed halfway.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether a part is open.
    pub(crate) fn is_in_part(&self) -> bool {
        self.part.is_some()
    }

    /// Bytes of paths and values written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.journal.bytes()
    }

    /// A transaction that replays changes. It accepts values of any size, because they met the limits in force when
    /// they were first written.
    pub(crate) fn again(shared: Arc<Shared>, work: engine::Transaction) -> Self {
        let mut transaction = Self::new(shared, work);
        transaction.tables.value_bytes_max = VALUE_BYTES_LIMIT;
        transaction
    }

    /// Tells which nodes are about to be written: a store in a database then reads around all of them at once.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> Result<(), StoreError> {
        match (&self.work, self.tables.nodes) {
            (engine::Transaction::Database(work), engine::Table::Database(nodes)) => {
                work.prefetch(nodes, keys.map(Key::as_bytes))
            }
            _ => Ok(()),
        }
    }

    /// Marks the transaction as failed: it can only be rolled back. For callers that fail halfway through several
    /// operations that belong together.
    pub fn give_up(&mut self) {
        self.broken = true;
    }

    /// Number of the commit that this transaction will be.
    pub fn id(&self) -> Result<u64, StoreError> {
        self.work.id()
    }

    /// Sets a node's value, given as JSON. A scalar leaves the children as they are; an object or array replaces the
    /// subtree.
    pub fn set(&mut self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        let scalar = !matches!(value.trim_ascii_start().first(), Some(b'{' | b'['));
        let (times, reach) = if scalar {
            (Times::NodeGoes, Reach::Value)
        } else {
            (Times::SubtreeGoes, Reach::Subtree)
        };
        self.write(key, times, reach, |writer| writer.set(key, value))?;
        self.journal.add(Kind::Set, key, value);
        Ok(())
    }

    /// Replaces the subtree with a JSON document.
    pub fn put(&mut self, key: &Key, document: &[u8]) -> Result<(), StoreError> {
        self.write(key, Times::SubtreeGoes, Reach::Subtree, |writer| {
            writer.put(key, document)
        })?;
        self.journal.add(Kind::Put, key, document);
        Ok(())
    }

    /// Merges a JSON document into the subtree: its values replace those at the same path, all others stay.
    pub fn lay_over(&mut self, key: &Key, document: &[u8]) -> Result<(), StoreError> {
        self.write(key, Times::Stay, Reach::Document(document), |writer| {
            writer.lay_over(key, document)
        })?;
        self.journal.add(Kind::LayOver, key, document);
        Ok(())
    }

    /// Removes the subtree, and the nodes above it that existed only because of it; `false` if there was none.
    pub fn kill(&mut self, key: &Key) -> Result<bool, StoreError> {
        let existed = self.write(key, Times::SubtreeGoes, Reach::Subtree, |writer| writer.kill(key))?;
        if existed {
            self.end_times_above(key).inspect_err(|_| self.broken = true)?;
            self.journal.add(Kind::Kill, key, &[]);
        }
        Ok(existed)
    }

    /// Removes the expiry times of nodes above that have vanished with a removed node.
    fn end_times_above(&mut self, key: &Key) -> Result<(), StoreError> {
        let mut above = key.parent().filter(|_| self.expiring == Some(true));
        while let Some(key) = above {
            if self.defined(&key)?.exists() {
                break;
            }
            expiry::clear(&mut self.work, self.shared.tables, &key, false)?;
            above = key.parent();
        }
        Ok(())
    }

    /// Adds a JSON number to the node's value, exactly; a missing value counts as 0. Returns the sum.
    pub fn increment(&mut self, key: &Key, by: &str) -> Result<String, StoreError> {
        let sum = self.write(key, Times::Stay, Reach::Value, |writer| writer.increment(key, by))?;
        self.journal.add(Kind::Set, key, sum.as_bytes());
        Ok(sum)
    }

    /// Copies one subtree into another: its values replace those at the same path, all others stay.
    pub fn merge(&mut self, to: &Key, from: &Key) -> Result<(), StoreError> {
        let room = self.journal.room();
        let copied = self.write(to, Times::Stay, Reach::CopyOf(from), |writer| {
            writer.merge(to, from, room)
        })?;
        self.journal.count(copied);
        self.journal.add(Kind::Merge, to, from.as_bytes());
        Ok(())
    }

    /// Sets or removes the expiry time of an existing node, in milliseconds since 1970 UTC; `false` if the node does
    /// not exist. It is removed within about a second of that time, while a leading process has the store open.
    /// Setting, putting or killing the node clears its expiry time.
    pub fn expire(&mut self, key: &Key, at_ms: Option<u64>) -> Result<bool, StoreError> {
        if !self.defined(key)?.exists() {
            return Ok(false);
        }
        self.attempt(|work, tables| match at_ms {
            Some(at_ms) => expiry::set(work, tables, key, at_ms),
            None => expiry::clear(work, tables, key, false),
        })?;
        self.expires_at(key, at_ms);
        Ok(true)
    }

    /// Moves the expiry time of an overdue node. Touches times only, because the node itself may be damaged.
    pub(crate) fn postpone(&mut self, key: &Key, at_ms: u64, to_ms: u64) -> Result<(), StoreError> {
        self.attempt(|work, tables| {
            expiry::forget(work, tables, key, at_ms)?;
            expiry::set(work, tables, key, to_ms)
        })?;
        self.expires_at(key, Some(to_ms));
        Ok(())
    }

    fn expires_at(&mut self, key: &Key, at_ms: Option<u64>) {
        self.expiring = None;
        let content = at_ms.map(u64::to_le_bytes);
        let content = content.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        self.journal.add(Kind::Expire, key, content);
    }

    pub(crate) fn due(&self, by_ms: u64) -> Result<Option<(Key, u64)>, StoreError> {
        expiry::due(&self.work, self.shared.tables, by_ms)
    }

    pub(crate) fn forget_due(&mut self, key: &Key, at_ms: u64) -> Result<(), StoreError> {
        self.forgot = true;
        self.attempt(|work, tables| expiry::forget(work, tables, key, at_ms))
    }

    /// Creates an index over existing and future records. Defining the same index again changes nothing.
    pub fn define_index(&mut self, definition: &Definition) -> Result<(), StoreError> {
        let mut catalogue = Catalogue::clone(&*self.catalogue()?);
        self.attempt(|work, tables| catalogue.define(work, tables, definition))?;
        self.catalogue = Some(Arc::new(catalogue));
        self.journal
            .add(Kind::Define, &definition.records, &definition.to_json());
        Ok(())
    }

    /// Drops an index; `false` if there was none.
    pub fn drop_index(&mut self, name: &str) -> Result<bool, StoreError> {
        let mut catalogue = Catalogue::clone(&*self.catalogue()?);
        let Some(records) = catalogue.find(name).map(|index| index.definition.records.clone()) else {
            return Ok(false);
        };
        self.attempt(|work, tables| catalogue.drop_index(work, tables, name))?;
        self.catalogue = Some(Arc::new(catalogue));
        self.journal.add(Kind::DropIndex, &records, name.as_bytes());
        Ok(true)
    }

    /// Replays one operation of a commit.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Result<(), StoreError> {
        match operation {
            Operation::Set(key, value) => self.set(key, value),
            Operation::Put(key, document) => self.put(key, document),
            Operation::LayOver(key, document) => self.lay_over(key, document),
            Operation::Kill(key) => self.kill(key).map(|_| ()),
            Operation::Merge(to, from) => self.merge(to, from),
            Operation::Expire(key, at_ms) => self.expire(key, *at_ms).map(|_| ()),
            Operation::DefineIndex(definition) => self.define_index(definition),
            Operation::DropIndex(_, name) => self.drop_index(name).map(|_| ()),
        }
    }

    /// Sets the end of the log to a position at which it already holds everything done so far. Returns the bytes of
    /// paths and values written since the last call.
    pub(crate) fn end_log_at(&mut self, end: End) -> Result<usize, StoreError> {
        let written = mem::replace(&mut self.journal, Journal::new()).bytes();
        end.put(self.embedded())?;
        Ok(written)
    }

    /// Commits changes that are already in the log.
    pub(crate) fn commit_as_logged(self) -> Result<u64, StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        match self.work {
            engine::Transaction::Embedded(work) => work.commit(),
            engine::Transaction::Database(work) => work.commit(&mut Journal::new()),
        }
    }

    /// The tables themselves, for those who write records as they are.
    pub(crate) fn raw(&mut self) -> &mut engine::Transaction {
        &mut self.work
    }

    fn embedded(&mut self) -> &mut sys::Transaction {
        match &mut self.work {
            engine::Transaction::Embedded(work) => work,
            engine::Transaction::Database(_) => unreachable!("{REPLAYED}"),
        }
    }

    /// Commits, and waits as the durability demands. Returns the number of the commit; if nothing was changed, that of
    /// the last one.
    pub fn commit(mut self, durability: Durability) -> Result<u64, StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        if self.journal.is_empty() && !self.forgot {
            // Nothing was changed, so the engine makes no new state.
            return Ok(self.id()? - 1);
        }
        let work = match self.work {
            engine::Transaction::Embedded(work) => work,
            // The database makes a commit durable before it confirms it.
            engine::Transaction::Database(work) => return work.commit(&mut self.journal),
        };
        if self.journal.is_empty() {
            return work.commit();
        }
        let disk = self.shared.disk().expect("the engine is that of a folder");
        let id = disk.commit(work, &mut self.journal)?;
        match durability {
            Durability::Sync => disk.flush().map(|_| ()).map_err(|error| StoreError::NotFlushed {
                reason: error.to_string(),
            })?,
            Durability::Group => self.shared.wait_flushed(id)?,
            Durability::Relaxed => {}
        }
        Ok(id)
    }

    fn catalogue(&mut self) -> Result<Arc<Catalogue>, StoreError> {
        if let Some(catalogue) = &self.catalogue {
            return Ok(Arc::clone(catalogue));
        }
        let catalogue = Catalogue::read(&self.work, self.shared.tables)?;
        self.catalogue = Some(Arc::clone(&catalogue));
        Ok(catalogue)
    }

    /// Changes a subtree, and the indexes and expiry times that depend on it.
    fn write<T>(
        &mut self,
        key: &Key,
        times: Times,
        reach: Reach<'_>,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let catalogue = self.catalogue()?;
        let upkeep = Upkeep::before(&self.reader(), &catalogue, key, reach)?;
        if times != Times::Stay && self.expiring.is_none() {
            self.expiring = Some(expiry::any(&self.work, self.shared.tables)?);
        }
        let times = if self.expiring == Some(true) {
            times
        } else {
            Times::Stay
        };
        let outcome = self.attempt(|work, tables| {
            change(&mut Writer {
                transaction: work,
                tables,
            })
        })?;
        self.finish(upkeep, key, times)
            .inspect_err(|_| self.broken = true)?;
        Ok(outcome)
    }

    fn finish(&mut self, upkeep: Upkeep<'_>, key: &Key, times: Times) -> Result<(), StoreError> {
        let tables = self.shared.tables;
        upkeep.finish(&mut self.work, tables)?;
        if times != Times::Stay {
            expiry::clear(&mut self.work, tables, key, times == Times::SubtreeGoes)?;
        }
        Ok(())
    }

    fn attempt<T>(
        &mut self,
        change: impl FnOnce(&mut engine::Transaction, Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        if self.journal.is_full() {
            self.broken = true;
            return Err(StoreError::Full {
                reason: TRANSACTION_FULL,
            });
        }
        self.work.forget_read();
        let outcome = change(&mut self.work, self.tables);
        // Invalid input is detected before anything is changed.
        self.broken = outcome.as_ref().is_err_and(|error| !error.is_input());
        outcome
    }
}
