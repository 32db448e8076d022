//! Snapshots and write transactions of a store in a database.
//!
//! **Reads.** The first read of a snapshot is a statement by itself, which also reads the head: the row that each commit
//! changes. Most snapshots need no more. The second read begins a transaction of the database and reads the head again:
//! if no one has committed in between, it is the state of the first read. Otherwise the snapshot has lent what is out of
//! date; [`crate::Store::read`] then runs its caller again, on a snapshot that begins with a transaction.
//!
//! **Writes.** A write transaction first locks the head, so that one program writes at a time. Its changes stay in memory
//! until the commit, which sends them in one batch.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use forebay_pg::Row;

use super::{
    Database, Table,
    connections::Lease,
    error::{DatabaseError, failed},
    known::{Known, Lookup, Stored, after},
    overlay::Overlay,
    sql::{BEGIN_READING, NEXT, bigint, bytes_array, number},
};
use crate::{engine::Record, error::StoreError};

/// Part of [`crate::Options::reader_bytes_max`] from which on what has been read is forgotten, where that is possible.
const KEPT_PART: usize = 16;
/// Records of the metadata that one statement reads, which are all.
const META_MAX: u64 = 16;
/// Nodes whose surroundings one statement reads.
const PREFETCHED_MAX: usize = 512;

/// The state of a store, apart from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Number of the last commit, which is also that of its record in the log of changes.
    pub(super) sequence: u64,
    /// Whether any node may have an expiry time.
    pub(super) expiring: bool,
    /// Commit that last changed the metadata.
    pub(super) catalogue: u64,
}

/// Values of a row before the key of its record, if it begins with the head.
const HEAD_COLUMNS: usize = 3;

/// Connection of a transaction to the database.
#[derive(Debug)]
enum Link {
    /// Nothing has been read yet.
    None,
    /// One statement has been run by itself.
    Single,
    Open(Box<Lease>),
}

/// A snapshot or a write transaction. Dropping it rolls back.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(super) database: Arc<Database>,
    pub(super) writes: bool,
    /// Whether the caller can repeat what it reads, so that the first read may be a statement by itself.
    is_repeatable: bool,
    /// Whether it is being repeated: the first read then begins a transaction.
    is_repeated: bool,
    must_repeat: Cell<bool>,
    link: RefCell<Link>,
    pub(super) head: OnceCell<Head>,
    pub(super) known: Known,
    pub(super) overlay: Overlay,
    /// Number of the last change after a commit that is not logged.
    pub(crate) sequence_to_be: Option<u64>,
    /// When a snapshot becomes too old.
    until: Instant,
}

/// Which records to read.
#[derive(Clone, Copy, Debug)]
enum Fetch<'k> {
    /// The one with this key.
    Exact(&'k [u8]),
    /// The last ones in a range.
    Back(&'k [u8], &'k [u8], u64),
    /// The first ones in a range.
    Ahead(&'k [u8], &'k [u8], u64),
    /// The last one before a key and the first ones from it on, within a range.
    Around(&'k [u8], &'k [u8], &'k [u8], u64),
}

impl Transaction {
    /// A snapshot, which reads the database when it is first read.
    pub(super) fn snapshot(database: &Arc<Database>) -> Self {
        Self {
            until: database.snapshot_end(),
            database: Arc::clone(database),
            writes: false,
            is_repeatable: false,
            is_repeated: false,
            must_repeat: Cell::new(false),
            link: RefCell::new(Link::None),
            head: OnceCell::new(),
            known: Known::default(),
            overlay: Overlay::default(),
            sequence_to_be: None,
        }
    }

    /// A write transaction, on a connection that has locked the head.
    pub(super) fn writing(database: &Arc<Database>, lease: Lease, head: Head) -> Self {
        let mut begun = Self::snapshot(database);
        begun.writes = true;
        begun.link = RefCell::new(Link::Open(Box::new(lease)));
        begun.head = OnceCell::from(head);
        begun
    }

    /// Tells whether the caller can repeat what it reads.
    pub(crate) fn set_repeatable(&mut self, is_repeatable: bool) {
        self.is_repeatable = is_repeatable;
    }

    /// Whether a commit came between two reads, or a connection was lost, so that the caller must repeat them.
    pub(crate) fn must_repeat(&self) -> bool {
        self.must_repeat.get()
    }

    pub(crate) fn id(&self) -> Result<u64, StoreError> {
        Ok(self.sequence()? + u64::from(self.writes))
    }

    /// Number of the last change in the log.
    pub(crate) fn sequence(&self) -> Result<u64, StoreError> {
        Ok(self.head()?.sequence)
    }

    fn head(&self) -> Result<Head, StoreError> {
        if let Some(head) = self.head.get() {
            return Ok(*head);
        }
        // Reading a record that does not exist reads the head.
        self.fetch(Fetch::Exact(&[]))?;
        Ok(*self.head.get().expect("the first read sets it"))
    }

    pub(crate) fn has_nothing_due(&self) -> Result<bool, StoreError> {
        let is_unchanged = self
            .overlay
            .ahead(&Table::Due.begin(), &Table::Due.end())
            .is_none();
        if is_unchanged && !self.head()?.expiring {
            return Ok(true);
        }
        let first = self.first(&Table::Due.begin(), &Table::Due.end(), 1)?;
        Ok(first.is_none())
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.check_age()?;
        let key = table.key(key);
        if let Some((_, changed)) = self.overlay.get(&key) {
            return Ok(changed);
        }
        if self.overlay.emptied_at(&key).is_some() {
            return Ok(None);
        }
        if table == Table::Meta {
            self.load_meta()?;
        }
        loop {
            match self.known.get(&key) {
                Lookup::Found(stored) => return Ok(Some(stored.value())),
                Lookup::Nothing => return Ok(None),
                Lookup::Unknown(_) => self.add(Fetch::Exact(&key))?,
            }
        }
    }

    /// Makes all metadata known, from what another transaction has read if that is still up to date.
    fn load_meta(&self) -> Result<(), StoreError> {
        let (from, to) = (Table::Meta.begin(), Table::Meta.end());
        if !matches!(self.known.ahead(&from, &to), Lookup::Unknown(_)) {
            return Ok(());
        }
        if let Some(rows) = self
            .head
            .get()
            .and_then(|head| self.database.meta(head.catalogue))
        {
            let records = rows.iter().map(|(row, column)| Stored {
                row: row.clone(),
                column: *column,
            });
            self.known.add(&from, &to, records);
            return Ok(());
        }
        while let Lookup::Unknown(from) = self.known.ahead(&from, &to) {
            self.add(Fetch::Ahead(&from, &to, META_MAX))?;
        }
        // The few records of the metadata are short, so the first read has got them all.
        let mut rows = Vec::new();
        let mut at = from;
        while let Lookup::Found(stored) = self.known.ahead(&at, &to) {
            rows.push((stored.row.clone(), stored.column));
            at = after(stored.key());
        }
        if matches!(self.known.ahead(&at, &to), Lookup::Nothing) {
            self.database.set_meta(self.head()?.catalogue, rows);
        }
        Ok(())
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[&[u8]]) {
        assert!(self.writes, "a snapshot changes nothing");
        self.overlay.set(table.key(key), Some(value.concat()));
    }

    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) {
        assert!(self.writes, "a snapshot changes nothing");
        self.overlay.set(table.key(key), None);
    }

    pub(crate) fn delete_range(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<bool, StoreError> {
        let (from, to) = (table.key(from), table.key(to));
        if self.first(&from, &to, 1)?.is_none() {
            return Ok(false);
        }
        match self.known.keys(&from, &to) {
            // Usually a single record, which is about to be written again.
            Some(keys) => {
                let changed = self.overlay.keys(&from, &to);
                for key in keys.into_iter().chain(changed) {
                    self.overlay.set(key, None);
                }
            }
            None => self.overlay.empty(&from, &to),
        }
        Ok(true)
    }

    pub(crate) fn begin_part(&mut self) {
        self.overlay.begin_part();
    }

    pub(crate) fn keep_part(&mut self) {
        self.overlay.keep_part();
    }

    pub(crate) fn drop_part(&mut self) {
        self.overlay.drop_part();
    }

    /// Ends the transaction of the database and forgets what has been read.
    pub(crate) fn rest(&mut self) {
        *self.link.get_mut() = Link::None;
        self.known.clear();
        self.head = OnceCell::new();
        self.must_repeat.set(false);
        self.is_repeated = false;
    }

    pub(crate) fn has_read_much(&self) -> bool {
        self.known.bytes() > self.database.reader_bytes_max / KEPT_PART
    }

    pub(crate) fn forget_read(&mut self) {
        if self.has_read_much() {
            self.known.clear();
        }
    }

    /// Refreshes a snapshot to the latest state.
    pub(crate) fn wake(&mut self) {
        self.rest();
        self.until = self.database.snapshot_end();
    }

    /// Refreshes a snapshot, before its caller repeats what it has read.
    pub(crate) fn begin_again(&mut self) {
        self.wake();
        self.is_repeated = true;
    }

    /// The connection of a write transaction, to commit it.
    pub(super) fn take_lease(&self) -> Option<Lease> {
        match self.link.replace(Link::None) {
            Link::Open(lease) => Some(*lease),
            Link::None | Link::Single => None,
        }
    }

    /// Stops readers of one state after the maximum age, as in the embedded engine.
    fn check_age(&self) -> Result<(), StoreError> {
        if !self.writes && Instant::now() > self.until {
            return Err(StoreError::SnapshotTooOld {
                max: self.database.reader_age_max,
            });
        }
        Ok(())
    }

    /// The first record in `from..to`, changes included.
    pub(super) fn first(&self, from: &[u8], to: &[u8], ahead: u64) -> Result<Option<Record<'_>>, StoreError> {
        self.check_age()?;
        let mut at = from.to_vec();
        loop {
            let changed = self.overlay.ahead(&at, to);
            let until = changed.map_or(to, |(key, _)| key);
            if let Some(stored) = self.stored_ahead(&at, until, ahead)? {
                return Ok(Some((stored.key(), stored.value())));
            }
            match changed {
                None => return Ok(None),
                Some((key, Some(value))) => return Ok(Some((key, value))),
                Some((key, None)) => at = after(key),
            }
        }
    }

    /// The last record in `from..to`, changes included.
    pub(super) fn last(&self, from: &[u8], to: &[u8], ahead: u64) -> Result<Option<Record<'_>>, StoreError> {
        self.check_age()?;
        let mut at = to.to_vec();
        loop {
            let changed = self.overlay.back(from, &at);
            let since = changed.map_or_else(|| from.to_vec(), |(key, _)| after(key));
            if let Some(stored) = self.stored_back(&since, &at, ahead)? {
                return Ok(Some((stored.key(), stored.value())));
            }
            match changed {
                None => return Ok(None),
                Some((key, Some(value))) => return Ok(Some((key, value))),
                Some((key, None)) => at = key.to_vec(),
            }
        }
    }

    /// The first record in `from..to` that the database has and that was not emptied.
    fn stored_ahead(&self, from: &[u8], to: &[u8], ahead: u64) -> Result<Option<&Stored>, StoreError> {
        let mut at = from.to_vec();
        while at.as_slice() < to {
            if let Some((_, end)) = self.overlay.emptied_at(&at) {
                at = end.to_vec();
                continue;
            }
            match self.known.ahead(&at, to) {
                Lookup::Nothing => return Ok(None),
                Lookup::Found(stored) => match self.overlay.emptied_at(stored.key()) {
                    None => return Ok(Some(stored)),
                    Some((_, end)) => at = end.to_vec(),
                },
                Lookup::Unknown(from) => {
                    // As far as the table goes: what comes next is usually wanted too.
                    let end = Table::end_of(&from);
                    self.add(Fetch::Ahead(&from, &end, ahead))?;
                }
            }
        }
        Ok(None)
    }

    /// The last record in `from..to` that the database has and that was not emptied.
    fn stored_back(&self, from: &[u8], to: &[u8], ahead: u64) -> Result<Option<&Stored>, StoreError> {
        let mut at = to.to_vec();
        while at.as_slice() > from {
            match self.known.back(from, &at) {
                Lookup::Nothing => return Ok(None),
                Lookup::Found(stored) => match self.overlay.emptied_at(stored.key()) {
                    None => return Ok(Some(stored)),
                    Some((begin, _)) => at = begin.to_vec(),
                },
                Lookup::Unknown(to) => {
                    let begin = Table::begin_of(from);
                    // A writer looks for what comes next, too.
                    if self.writes && ahead == 1 {
                        self.add(Fetch::Around(&to, &begin, &Table::end_of(from), NEXT))?;
                    } else {
                        self.add(Fetch::Back(&begin, &to, ahead))?;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Reads records and makes them known, with the range in which there are no others.
    fn add(&self, fetch: Fetch<'_>) -> Result<(), StoreError> {
        let (rows, column) = self.fetch(fetch)?;
        let mut records: Vec<Stored> = rows
            .into_iter()
            .filter(|row| row.text(column).is_some())
            .map(|row| Stored { row, column })
            .collect();
        let bytes: usize = records.iter().map(|stored| stored.value().len()).sum();
        if self.known.bytes() + bytes > self.database.reader_bytes_max {
            return Err(StoreError::Full {
                reason: "what one step of a snapshot or transaction reads from a database stays in memory, at most 1 GiB",
            });
        }
        // A long value is left out, unless its record was asked for alone: the range ends before it.
        let ended = |records: &mut Vec<Stored>| {
            let long = records.iter().position(Stored::is_long)?;
            let key = records[long].key().to_vec();
            records.truncate(long);
            Some(key)
        };
        // SQL promises no order of rows that are joined to the head.
        records.sort_by(|left, right| left.key().cmp(right.key()));
        if matches!(fetch, Fetch::Back(..)) {
            records.reverse();
        }
        let is_all = |records: &[Stored], limit: u64| (records.len() as u64) < limit;
        match fetch {
            Fetch::Exact(key) => self.known.add(key, &after(key), records),
            Fetch::Ahead(from, to, limit) => {
                let all = is_all(&records, limit);
                let end = match ended(&mut records) {
                    Some(long) if records.is_empty() && long == from => {
                        return self.add(Fetch::Ahead(from, to, 1));
                    }
                    Some(long) => long,
                    None if all => to.to_vec(),
                    None => after(records.last().expect("the limit was reached").key()),
                };
                self.known.add(from, &end, records);
            }
            Fetch::Back(from, to, limit) => {
                let all = is_all(&records, limit);
                let begin = match ended(&mut records) {
                    Some(_) if records.is_empty() => return self.add(Fetch::Back(from, to, 1)),
                    Some(long) => after(&long),
                    None if all => from.to_vec(),
                    None => records.last().expect("the limit was reached").key().to_vec(),
                };
                self.known.add(&begin, to, records);
            }
            Fetch::Around(at, from, to, limit) => self.add_around(at, from, to, limit, records),
        }
        Ok(())
    }

    /// Makes the last record before a key and the first `limit` ones from it on known. Values of long ones are missing.
    fn add_around(&self, at: &[u8], from: &[u8], to: &[u8], limit: u64, records: Vec<Stored>) {
        let (before, mut behind): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|stored| stored.key() < at);
        behind.sort_by(|left, right| left.key().cmp(right.key()));
        let (is_all, long) = (
            (behind.len() as u64) < limit,
            behind.iter().position(Stored::is_long),
        );
        let end = match long.map(|long| behind.drain(long..).next()) {
            Some(first) => first.map_or_else(|| to.to_vec(), |stored| stored.key().to_vec()),
            None if is_all => to.to_vec(),
            None => behind
                .last()
                .map_or_else(|| to.to_vec(), |stored| after(stored.key())),
        };
        let begin = match before.first() {
            None => from.to_vec(),
            Some(stored) if stored.is_long() => after(stored.key()),
            Some(stored) => stored.key().to_vec(),
        };
        let before = before.into_iter().filter(|stored| !stored.is_long());
        self.known.add(&begin, &end, before.chain(behind));
    }

    /// Reads what writes of these nodes will look for, in few statements.
    pub(crate) fn prefetch<'k>(
        &self,
        table: Table,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(), StoreError> {
        let Link::Open(lease) = &mut *self.link.borrow_mut() else {
            return Ok(());
        };
        let keys: BTreeSet<Vec<u8>> = keys.map(|key| after(&table.key(key))).collect();
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        if keys.len() < 2 {
            return Ok(());
        }
        let (begin, end) = (table.begin(), table.end());
        for keys in keys.chunks(PREFETCHED_MAX) {
            let array = bytes_array(keys.iter().map(Vec::as_slice));
            let statement = &self.database.statements.around_many;
            let rows = lease
                .run_all(&[(statement, &[Some(&array), Some(&begin), Some(&end)])])
                .map_err(|error| self.database.failed(&error))?;
            let mut found: BTreeMap<u64, Vec<Stored>> = BTreeMap::new();
            for row in rows.into_iter().flat_map(|rows| rows.rows) {
                let records = found.entry(number(row.text(0))).or_default();
                if row.text(1).is_some() {
                    records.push(Stored { row, column: 1 });
                }
            }
            // The numbers of the keys begin with 1.
            for (records, at) in found.into_values().zip(keys) {
                self.add_around(at, &begin, &end, NEXT, records);
            }
        }
        Ok(())
    }

    /// Reads records; returns their rows, and the column of the key.
    fn fetch(&self, fetch: Fetch<'_>) -> Result<(Vec<Row>, usize), StoreError> {
        if self.must_repeat.get() {
            return Err(StoreError::Moved);
        }
        self.read(fetch).map_err(|error| {
            if self.is_repeatable && error.is_passing() {
                self.must_repeat.set(true);
            }
            failed(&self.database.address)(error)
        })
    }

    fn read(&self, fetch: Fetch<'_>) -> Result<(Vec<Row>, usize), DatabaseError> {
        let statements = &self.database.statements;
        let (limit, texts);
        let parameters: &[Option<&[u8]>] = match fetch {
            Fetch::Exact(key) => {
                texts = &statements.exact;
                &[Some(key)]
            }
            Fetch::Back(from, to, 1) => {
                texts = &statements.last;
                &[Some(to), Some(from)]
            }
            Fetch::Back(from, to, count) => {
                (limit, texts) = (bigint(count), &statements.back);
                &[Some(to), Some(from), Some(&limit)]
            }
            Fetch::Ahead(from, to, count) => {
                (limit, texts) = (bigint(count), &statements.ahead);
                &[Some(from), Some(to), Some(&limit)]
            }
            Fetch::Around(at, from, to, count) => {
                (limit, texts) = (bigint(count), &statements.around);
                &[Some(at), Some(from), Some(to), Some(&limit)]
            }
        };
        let mut link = self.link.borrow_mut();
        if let Link::Open(lease) = &mut *link {
            let rows = lease
                .run_all(&[(&texts[0], parameters)])
                .map_err(|error| DatabaseError::of(&error))?;
            return Ok((rows.into_iter().flat_map(|rows| rows.rows).collect(), 0));
        }
        let is_single = matches!(*link, Link::None) && self.is_repeatable && !self.is_repeated;
        let statements = [
            (BEGIN_READING, &[][..]),
            (self.database.statements.idle_max.as_str(), &[][..]),
            (texts[1].as_str(), parameters),
        ];
        let (rows, lease) = self
            .database
            .run_anywhere(&statements[if is_single { 2 } else { 0 }..])?;
        let rows = rows
            .into_iter()
            .next_back()
            .map(|rows| rows.rows)
            .unwrap_or_default();
        let Some(row) = rows.first() else {
            return Err(DatabaseError::Other {
                reason: "the table of the store's state has lost its row".into(),
            });
        };
        let head = Head::of(row);
        self.database.see(head.sequence);
        if self.head.get().is_some_and(|known| *known != head) {
            return Err(DatabaseError::Conflict {
                reason: "a commit came between two reads".into(),
            });
        }
        let _ = self.head.set(head);
        *link = if is_single {
            Link::Single
        } else {
            Link::Open(Box::new(lease))
        };
        Ok((rows, HEAD_COLUMNS))
    }
}

impl Head {
    pub(super) fn of(row: &Row) -> Self {
        Self {
            sequence: number(row.text(0)),
            expiring: row.text(1) == Some(&[1]),
            catalogue: number(row.text(2)),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        drop(self.link.replace(Link::None));
        if self.writes {
            self.database.writers.leave();
        }
    }
}
