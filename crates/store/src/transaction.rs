//! Snapshots and transactions: what users of a store hold.

use std::{borrow::Cow, sync::Arc};

use crate::{
    changes::{End, Journal, Kind, Operation},
    durability::Durability,
    error::StoreError,
    key::{Key, Subscript},
    store::Shared,
    sys,
    tree::{
        Defined, Reader,
        read::{ChildWalk, GlobalWalk, Range, ValueWalk},
        write::Writer,
    },
};

/// Questions to one state of the tree: a snapshot's, or what a transaction has made so far.
pub trait Read {
    /// The state itself.
    fn reader(&self) -> Reader<'_>;

    /// The node's own value as canonical JSON: a scalar, `{}` or `[]`. `None` when it has none.
    fn get(&self, key: &Key) -> Result<Option<&[u8]>, StoreError> {
        self.reader().get(key)
    }

    /// Whether the node has a value, and whether it has children.
    fn defined(&self, key: &Key) -> Result<Defined, StoreError> {
        self.reader().defined(key)
    }

    /// Whether the node is an array: its children are elements, or it is `[]`.
    fn is_array(&self, key: &Key) -> Result<bool, StoreError> {
        self.reader().is_array(key)
    }

    /// The first child after `after`, which need not exist; the first of all without.
    fn next(&self, key: &Key, after: Option<&Subscript>) -> Result<Option<Subscript>, StoreError> {
        self.reader().next(key, after)
    }

    /// The last child before `before`, which need not exist; the last of all without.
    fn previous(&self, key: &Key, before: Option<&Subscript>) -> Result<Option<Subscript>, StoreError> {
        self.reader().previous(key, before)
    }

    /// The children's subscripts, in order.
    fn children(&self, key: &Key, range: Range) -> Result<ChildWalk<'_>, StoreError> {
        self.reader().children(key, range)
    }

    /// The subtree as canonical JSON; `None` when the node does not exist. The value of a node with children is left out.
    fn document(&self, key: &Key) -> Result<Option<Cow<'_, [u8]>>, StoreError> {
        self.reader().document_text(key)
    }

    /// Every node of the subtree that has a value, depth first, with its value.
    fn values(&self, key: &Key) -> Result<ValueWalk<'_>, StoreError> {
        self.reader().values(key)
    }

    /// The names of the globals that hold something, from one on.
    fn globals(&self, from: &str) -> Result<GlobalWalk<'_>, StoreError> {
        self.reader().globals(from)
    }
}

/// One state of the store.
#[derive(Debug)]
pub struct Snapshot {
    shared: Arc<Shared>,
    /// There until the snapshot is dropped.
    transaction: Option<sys::Transaction>,
}

impl Snapshot {
    pub(crate) fn new(shared: Arc<Shared>, transaction: sys::Transaction) -> Self {
        Self {
            shared,
            transaction: Some(transaction),
        }
    }

    fn transaction(&self) -> &sys::Transaction {
        self.transaction
            .as_ref()
            .expect("a snapshot lasts until it is dropped")
    }

    /// The commit whose state this is.
    pub fn id(&self) -> u64 {
        self.transaction().id()
    }

    /// The last change in the log of changes that this state includes; 0 before the first.
    pub fn sequence(&self) -> Result<u64, StoreError> {
        Ok(self.log_end()?.sequence)
    }

    pub(crate) fn log_end(&self) -> Result<End, StoreError> {
        self.shared.disk.log_end(self.transaction())
    }
}

impl Read for Snapshot {
    fn reader(&self) -> Reader<'_> {
        Reader {
            transaction: self.transaction(),
            tables: self.shared.tables,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(Ok(parked)) = self.transaction.take().map(sys::Transaction::park) {
            self.shared.park(parked);
        }
    }
}

/// A write transaction. Dropped without a commit, it has never been.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<Shared>,
    work: sys::Transaction,
    journal: Journal,
    broken: bool,
}

impl Read for Transaction {
    fn reader(&self) -> Reader<'_> {
        Reader {
            transaction: &self.work,
            tables: self.shared.tables,
        }
    }
}

impl Transaction {
    pub(crate) fn new(shared: Arc<Shared>, work: sys::Transaction) -> Self {
        Self {
            shared,
            work,
            journal: Journal::new(),
            broken: false,
        }
    }

    /// The commit that this will be.
    pub fn id(&self) -> u64 {
        self.work.id()
    }

    /// Gives a node a value, given as JSON. A scalar leaves its children as they are; an object or array replaces the subtree.
    pub fn set(&mut self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        self.write(|writer| writer.set(key, value))?;
        self.journal.add(Kind::Set, key, value);
        Ok(())
    }

    /// Replaces the subtree by a document, given as JSON.
    pub fn put(&mut self, key: &Key, document: &[u8]) -> Result<(), StoreError> {
        self.write(|writer| writer.put(key, document))?;
        self.journal.add(Kind::Put, key, document);
        Ok(())
    }

    /// Lays a document over the subtree: its values replace those at the same place, all others stay.
    pub fn lay_over(&mut self, key: &Key, document: &[u8]) -> Result<(), StoreError> {
        self.write(|writer| writer.lay_over(key, document))?;
        self.journal.add(Kind::LayOver, key, document);
        Ok(())
    }

    /// Removes the subtree, and with it the nodes above that were there only for it; says whether there was one.
    pub fn kill(&mut self, key: &Key) -> Result<bool, StoreError> {
        let existed = self.write(|writer| writer.kill(key))?;
        if existed {
            self.journal.add(Kind::Kill, key, &[]);
        }
        Ok(existed)
    }

    /// Adds a JSON number to the node's value, exactly; a node without a value counts as 0. Says the sum.
    pub fn increment(&mut self, key: &Key, by: &str) -> Result<String, StoreError> {
        let sum = self.write(|writer| writer.increment(key, by))?;
        self.journal.add(Kind::Set, key, sum.as_bytes());
        Ok(sum)
    }

    /// Copies a subtree over another: its values replace those at the same place, all others stay.
    pub fn merge(&mut self, to: &Key, from: &Key) -> Result<(), StoreError> {
        self.write(|writer| writer.merge(to, from))?;
        self.journal.add(Kind::Merge, to, from.as_bytes());
        Ok(())
    }

    /// Does again what a commit did.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Result<(), StoreError> {
        match operation {
            Operation::Set(key, value) => self.set(key, value),
            Operation::Put(key, document) => self.put(key, document),
            Operation::LayOver(key, document) => self.lay_over(key, document),
            Operation::Kill(key) => self.kill(key).map(|_| ()),
            Operation::Merge(to, from) => self.merge(to, from),
        }
    }

    /// Commits, and waits for what the durability asks for. Says which commit it was.
    pub fn commit(mut self, durability: Durability) -> Result<u64, StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        let disk = &self.shared.disk;
        if !self.journal.is_empty() {
            let end = disk.log_end(&self.work)?;
            let end = disk.log.append(end, &mut self.journal)?;
            self.work.put(disk.meta, End::KEY, &[&end.to_bytes()])?;
        }
        let id = self.work.commit()?;
        match durability {
            Durability::Sync => disk.flush().map(|_| ())?,
            Durability::Group => self.shared.wait_flushed(id)?,
            Durability::Relaxed => {}
        }
        Ok(id)
    }

    fn write<T>(
        &mut self,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.broken {
            return Err(StoreError::Broken);
        }
        let outcome = change(&mut Writer {
            transaction: &mut self.work,
            tables: self.shared.tables,
        });
        // Bad input is found before anything is changed.
        self.broken = outcome.as_ref().is_err_and(|error| !error.is_input());
        outcome
    }
}
