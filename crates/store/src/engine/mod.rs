//! libmdbx behind a safe face: one table, snapshots, write transactions, cursors.
//!
//! What the engine leaves to its caller is settled here: lengths are checked before it sees them (its release builds end the
//! process otherwise), memory it lends is tied to the transaction that lends it, and handles are closed in the right order.

mod gate;

use std::{
    cell::RefCell,
    ffi::{CStr, CString},
    marker::PhantomData,
    os::{fd::BorrowedFd, raw::c_int, unix::ffi::OsStrExt},
    path::Path,
    ptr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use signet_mdbx_sys as ffi;

use self::gate::Gate;
use crate::error::StoreError;

/// Most tables in one file.
const TABLES_MAX: u64 = 8;
/// What the engine says of a file that this process has open already.
pub(crate) const BUSY: i32 = ffi::MDBX_BUSY;
/// What it says of a file that must be opened for writing first: its last commits did not outlive a power cut.
pub(crate) const UNRECOVERED: i32 = ffi::MDBX_WANNA_RECOVERY;
/// Bytes that no file has: the engine is to make no checkpoint of its own, for that would bring the tree to the disk before the log.
const NEVER_BYTES: u64 = 1 << 43;
/// Longest value that the engine takes in any case.
pub(crate) const VALUE_BYTES_LIMIT: usize = 0x7FF0_0000;

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Whether this opener settles size and thresholds; others take what they find.
    pub(crate) leads: bool,
    pub(crate) read_only: bool,
    pub(crate) map_max: usize,
    pub(crate) readers_max: u32,
    pub(crate) reader_age_max: Duration,
}

/// An open file. Closed when the last transaction and the last handle are gone.
#[derive(Debug)]
pub(crate) struct Environment {
    raw: *mut ffi::MDBX_env,
    key_bytes_max: usize,
    readers_max: u32,
    reader_age_max: Duration,
    /// For write transactions.
    gate: Gate,
    /// What the first flush that failed has said.
    flush_failed: OnceLock<String>,
}

// SAFETY: the engine's environment may be used from every thread; its own locks see to it.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

/// The right to write, given back when it is dropped.
struct Inside<'e>(&'e Gate);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A table of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(ffi::MDBX_dbi);

/// What the engine tells about a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvironmentInfo {
    pub(crate) file_bytes: u64,
    pub(crate) map_max: u64,
    pub(crate) last_transaction: u64,
    pub(crate) page_bytes: u32,
    pub(crate) readers: u32,
    pub(crate) unsynced_bytes: u64,
}

impl Environment {
    pub(crate) fn open(path: &Path, opening: Opening) -> Result<Arc<Self>, StoreError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for the new handle.
        check("create an environment", unsafe {
            ffi::mdbx_env_create(&raw mut raw)
        })?;
        // Closes the handle on every way out.
        let mut environment = Self {
            raw,
            key_bytes_max: 0,
            readers_max: opening.readers_max,
            reader_age_max: opening.reader_age_max,
            gate: Gate::default(),
            flush_failed: OnceLock::new(),
        };
        environment.option("set the number of tables", ffi::MDBX_opt_max_db, TABLES_MAX)?;
        if opening.leads {
            environment.option(
                "set the number of readers",
                ffi::MDBX_opt_max_readers,
                u64::from(opening.readers_max),
            )?;
            let map_max = isize::try_from(opening.map_max).unwrap_or(isize::MAX);
            // To make the file smaller the engine would make a checkpoint of its own, so it never does.
            // SAFETY: the handle is open and no file is yet; -1 leaves a size as it is.
            check("set the size of the map", unsafe {
                ffi::mdbx_env_set_geometry(raw, 1 << 20, -1, map_max, 16 << 20, 0, 4096)
            })?;
        }
        let mut flags =
            ffi::MDBX_SAFE_NOSYNC | ffi::MDBX_NOSUBDIR | ffi::MDBX_NOSTICKYTHREADS | ffi::MDBX_LIFORECLAIM;
        if !opening.leads {
            flags |= ffi::MDBX_ACCEDE;
        }
        if opening.read_only {
            flags |= ffi::MDBX_RDONLY;
        }
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| StoreError::File {
            what: "open",
            path: path.into(),
            source: std::io::ErrorKind::InvalidInput.into(),
        })?;
        // SAFETY: the handle is not open yet, the name ends with NUL and lives over the call.
        environment.check("open the file", unsafe {
            ffi::mdbx_env_open(raw, name.as_ptr(), flags, 0o600)
        })?;
        if !opening.read_only {
            // Without a threshold nearly every commit would make a checkpoint.
            environment.option(
                "set the threshold of a flush",
                ffi::MDBX_opt_sync_bytes,
                NEVER_BYTES,
            )?;
        }
        // SAFETY: the environment is open.
        let longest = unsafe { ffi::mdbx_env_get_maxkeysize_ex(raw, ffi::MDBX_DB_DEFAULTS) };
        environment.key_bytes_max = usize::try_from(longest).unwrap_or(0);
        Ok(Arc::new(environment))
    }

    fn option(&self, what: &'static str, option: ffi::MDBX_option_t, value: u64) -> Result<(), StoreError> {
        // SAFETY: the handle is open.
        self.check(what, unsafe { ffi::mdbx_env_set_option(self.raw, option, value) })
    }

    fn check(&self, what: &'static str, code: c_int) -> Result<(), StoreError> {
        check(what, code).map_err(|error| match error {
            StoreError::TooManyReaders { .. } => StoreError::TooManyReaders {
                max: self.readers_max,
            },
            other => other,
        })
    }

    /// Writes the pages to the disk that no flush has written yet, while others go on writing.
    pub(crate) fn write_pages(&self) -> Result<(), StoreError> {
        let mut file = 0;
        // SAFETY: the environment is open, and so is the place for the answer.
        self.check("tell its file", unsafe {
            ffi::mdbx_env_get_fd(self.raw, &raw mut file)
        })?;
        // SAFETY: the engine keeps the file open for as long as the environment is.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        rustix::fs::fdatasync(file).map_err(|error| failure("flush", error.raw_os_error()))
    }

    /// Does what makes commits durable, unless that has failed before: the system does not write again what it could not write once.
    pub(crate) fn flushing<T>(&self, flush: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.check_flushes()?;
        flush().inspect_err(|error| {
            // Who came first has said it already.
            let _ = self.flush_failed.set(error.to_string());
        })
    }

    /// What the first flush that failed has said.
    pub(crate) fn flush_failure(&self) -> Option<&str> {
        self.flush_failed.get().map(String::as_str)
    }

    /// Whether flushes can still be trusted.
    pub(crate) fn check_flushes(&self) -> Result<(), StoreError> {
        match self.flush_failed.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::FlushesFail {
                reason: reason.clone(),
            }),
        }
    }

    fn enter(&self) -> Result<Inside<'_>, StoreError> {
        if self.gate.enter() {
            Ok(Inside(&self.gate))
        } else {
            Err(StoreError::WritesAlready)
        }
    }

    pub(crate) fn info(&self) -> Result<EnvironmentInfo, StoreError> {
        // SAFETY: the structure is plain numbers, for which zeros are valid.
        let mut info: ffi::MDBX_envinfo = unsafe { std::mem::zeroed() };
        // SAFETY: the environment is open; the place for the answer is as large as said.
        self.check("tell about the file", unsafe {
            ffi::mdbx_env_info_ex(
                self.raw,
                ptr::null(),
                &raw mut info,
                size_of::<ffi::MDBX_envinfo>(),
            )
        })?;
        Ok(EnvironmentInfo {
            file_bytes: info.mi_geo.current,
            map_max: info.mi_geo.upper,
            last_transaction: info.mi_recent_txnid,
            page_bytes: info.mi_dxb_pagesize,
            readers: info.mi_numreaders,
            unsynced_bytes: info.mi_unsync_volume,
        })
    }

    /// Frees the places of readers whose process has died; says how many.
    pub(crate) fn clear_dead_readers(&self) -> Result<u32, StoreError> {
        let mut dead = 0;
        // SAFETY: the environment is open, and so is the place for the answer.
        match unsafe { ffi::mdbx_reader_check(self.raw, &raw mut dead) } {
            ffi::MDBX_RESULT_TRUE => {}
            code => self.check("look for dead readers", code)?,
        }
        Ok(u32::try_from(dead).unwrap_or(0))
    }

    /// Copies the file as of now to a new one, with only what is in use when `compact`.
    pub(crate) fn copy(&self, to: &Path, compact: bool) -> Result<(), StoreError> {
        let name = CString::new(to.as_os_str().as_bytes()).map_err(|_| StoreError::File {
            what: "write",
            path: to.into(),
            source: std::io::ErrorKind::InvalidInput.into(),
        })?;
        let flags = if compact {
            ffi::MDBX_CP_COMPACT
        } else {
            ffi::MDBX_CP_DEFAULTS
        };
        // SAFETY: the environment is open, the name ends with NUL and lives over the call.
        self.check("copy the file", unsafe {
            ffi::mdbx_env_copy(self.raw, name.as_ptr(), flags)
        })
    }

    /// Begins a snapshot.
    pub(crate) fn read(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        self.begin(ffi::MDBX_TXN_RDONLY)
    }

    /// Begins a write transaction: waits until no other process or thread has one, without a bound.
    pub(crate) fn write(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        self.check_flushes()?;
        let inside = self.enter()?;
        let transaction = self.begin(ffi::MDBX_TXN_READWRITE)?;
        // The transaction leaves when it ends.
        std::mem::forget(inside);
        Ok(transaction)
    }

    /// When a snapshot that begins now is too old to be read.
    fn snapshot_end(&self) -> Duration {
        coarse_now().saturating_add(self.reader_age_max)
    }

    fn begin(self: &Arc<Self>, flags: ffi::MDBX_txn_flags_t) -> Result<Transaction, StoreError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open, and so is the place for the new handle.
        self.check("begin a transaction", unsafe {
            ffi::mdbx_txn_begin_ex(self.raw, ptr::null_mut(), flags, &raw mut raw, ptr::null_mut())
        })?;
        Ok(Transaction {
            raw,
            until: self.snapshot_end(),
            environment: Arc::clone(self),
            writes: flags & ffi::MDBX_TXN_RDONLY == 0,
            whole: None,
            idle: RefCell::default(),
        })
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // The engine would make a checkpoint of its own, though others may have committed since the last one, or a flush has failed.
        let without_flush = true;
        // SAFETY: every transaction holds the environment, so none is left.
        unsafe { ffi::mdbx_env_close_ex(self.raw, without_flush) };
    }
}

/// A snapshot or a write transaction. Dropping it rolls back.
#[derive(Debug)]
pub(crate) struct Transaction {
    raw: *mut ffi::MDBX_txn,
    environment: Arc<Environment>,
    writes: bool,
    /// While a part of it is open, which `raw` is then, the whole.
    whole: Option<*mut ffi::MDBX_txn>,
    /// When a snapshot is too old, by the coarse clock.
    until: Duration,
    /// Cursors that nobody uses at the moment, with their table.
    idle: RefCell<Vec<(ffi::MDBX_dbi, *mut ffi::MDBX_cursor)>>,
}

// SAFETY: the environment is opened with NOSTICKYTHREADS, so a snapshot may move between threads; it is not `Sync`. A write
// transaction may not: `crate::Transaction` sees to it.
unsafe impl Send for Transaction {}

impl Transaction {
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: the handle is valid while `self` is.
        unsafe { ffi::mdbx_txn_id(self.raw) }
    }

    /// Makes every commit before this write transaction durable. Nobody commits meanwhile.
    pub(crate) fn flush_before(&self) -> Result<(), StoreError> {
        assert!(self.writes, "a snapshot keeps nobody from committing");
        // SAFETY: the environment is open, and its write transaction is this thread's.
        match unsafe { ffi::mdbx_env_sync_ex(self.environment.raw, true, false) } {
            // "Nothing to do" is told as RESULT_TRUE.
            ffi::MDBX_RESULT_TRUE => Ok(()),
            code => check("flush", code),
        }
    }

    /// How many bytes the file can still take beyond what is in use, up to its greatest size.
    pub(crate) fn room(&self) -> Result<u64, StoreError> {
        let info = self.info()?;
        Ok(info.txn_space_limit_hard.saturating_sub(info.txn_space_used))
    }

    /// Whether no page has changed, whatever was asked for.
    pub(crate) fn is_clean(&self) -> Result<bool, StoreError> {
        Ok(self.info()?.txn_space_dirty == 0)
    }

    fn info(&self) -> Result<ffi::MDBX_txn_info, StoreError> {
        // SAFETY: the structure is plain numbers, for which zeros are valid.
        let mut info: ffi::MDBX_txn_info = unsafe { std::mem::zeroed() };
        // SAFETY: the transaction is open, and so is the place for the answer.
        check("tell about a transaction", unsafe {
            ffi::mdbx_txn_info(self.raw, &raw mut info, false)
        })?;
        Ok(info)
    }

    /// Three numbers that the engine keeps with every state, beside its tables; zeros at first.
    pub(crate) fn marks(&self) -> Result<[u64; 3], StoreError> {
        let mut marks = ffi::MDBX_canary {
            x: 0,
            y: 0,
            z: 0,
            v: 0,
        };
        // SAFETY: the transaction is open, and so is the place for the answer.
        check("read its marks", unsafe {
            ffi::mdbx_canary_get(self.raw, &raw mut marks)
        })?;
        Ok([marks.x, marks.y, marks.z])
    }

    pub(crate) fn set_marks(&mut self, [x, y, z]: [u64; 3]) -> Result<(), StoreError> {
        let marks = ffi::MDBX_canary { x, y, z, v: 0 };
        // SAFETY: the transaction is open for writing; the marks live over the call.
        check("write its marks", unsafe {
            ffi::mdbx_canary_put(self.raw, &raw const marks)
        })
    }

    /// Opens a table; `None` when there is none and it is not to be created.
    pub(crate) fn table(&self, name: &CStr, create: bool) -> Result<Option<Table>, StoreError> {
        let flags = if create {
            ffi::MDBX_CREATE
        } else {
            ffi::MDBX_DB_DEFAULTS
        };
        let mut table = 0;
        // SAFETY: the transaction is open, the name ends with NUL, and so is the place for the answer.
        match unsafe { ffi::mdbx_dbi_open(self.raw, name.as_ptr(), flags, &raw mut table) } {
            ffi::MDBX_NOTFOUND => Ok(None),
            code => check("open a table", code).map(|()| Some(Table(table))),
        }
    }

    /// Whoever reads from one state for too long is stopped: no page of it can be used again until then.
    fn check_age(&self) -> Result<(), StoreError> {
        if !self.writes && coarse_now() > self.until {
            return Err(StoreError::SnapshotTooOld {
                max: self.environment.reader_age_max,
            });
        }
        Ok(())
    }

    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.check_age()?;
        if key.len() > self.environment.key_bytes_max {
            return Ok(None);
        }
        let mut value = empty();
        // SAFETY: the transaction is open; key and place for the value live over the call.
        match unsafe { ffi::mdbx_get(self.raw, table.0, &lent(key), &raw mut value) } {
            ffi::MDBX_NOTFOUND => Ok(None),
            code => {
                check("read", code)?;
                // SAFETY: the engine's memory stays as it is until the transaction ends or writes, and writing needs `&mut`.
                Ok(Some(unsafe { bytes(&value) }))
            }
        }
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[&[u8]]) -> Result<(), StoreError> {
        let length = value.iter().map(|part| part.len()).sum();
        assert!(
            key.len() <= self.environment.key_bytes_max && length <= VALUE_BYTES_LIMIT && self.writes,
            "lengths are checked before they get here"
        );
        let mut place = ffi::MDBX_val {
            iov_base: ptr::null_mut(),
            iov_len: length,
        };
        // Who writes has mostly looked for the key just before, so that the cursor stands on the right page already.
        let cursor = self.cursor(table)?;
        // SAFETY: the transaction is open for writing, nothing borrowed from it is in use, and the lengths are in the engine's range.
        check("write", unsafe {
            ffi::mdbx_cursor_put(cursor.raw, &lent(key), &raw mut place, ffi::MDBX_RESERVE)
        })?;
        let mut at = place.iov_base.cast::<u8>();
        for part in value {
            // SAFETY: RESERVE gives room for `length` bytes, which is the sum of the parts.
            unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
        }
        Ok(())
    }

    /// Removes a record; says whether there was one.
    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        // SAFETY: the transaction is open; the key lives over the call.
        match unsafe { ffi::mdbx_del(self.raw, table.0, &lent(key), ptr::null()) } {
            ffi::MDBX_NOTFOUND => Ok(false),
            code => check("delete", code).map(|()| true),
        }
    }

    /// Removes all records of `from..to`; says how many.
    pub(crate) fn delete_range(&mut self, table: Table, from: &[u8], to: &[u8]) -> Result<u64, StoreError> {
        let mut deleted = 0;
        let cursor = self.cursor(table)?;
        let mut found = cursor.seek(Seek::AtLeast, from)?;
        while let Some((key, _)) = found {
            if key >= to {
                break;
            }
            // SAFETY: the cursor stands on a record, and nothing borrowed from the engine is used after this.
            check("delete", unsafe {
                ffi::mdbx_cursor_del(cursor.raw, ffi::MDBX_UPSERT)
            })?;
            deleted += 1;
            // After a deletion "next" is the record that has moved up.
            found = cursor.next()?;
        }
        Ok(deleted)
    }

    pub(crate) fn cursor(&self, table: Table) -> Result<Cursor<'_>, StoreError> {
        let mut idle = self.idle.borrow_mut();
        if let Some(at) = idle.iter().rposition(|(of, _)| *of == table.0) {
            let (table, raw) = idle.swap_remove(at);
            return Ok(Cursor {
                raw,
                table,
                home: self,
                lent: PhantomData,
            });
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the transaction is open, and so is the place for the new handle.
        check("open a cursor", unsafe {
            ffi::mdbx_cursor_open(self.raw, table.0, &raw mut raw)
        })?;
        Ok(Cursor {
            raw,
            table: table.0,
            home: self,
            lent: PhantomData,
        })
    }

    /// Begins a part of a write transaction, which can be dropped without the rest. It has no parts of its own.
    pub(crate) fn begin_part(&mut self) -> Result<(), StoreError> {
        assert!(self.writes && self.whole.is_none(), "only a whole has parts");
        self.close_cursors();
        let mut part = ptr::null_mut();
        // SAFETY: the transaction is open for writing, no cursor of it is, and so is the place for the new handle.
        check("begin a part of a transaction", unsafe {
            ffi::mdbx_txn_begin_ex(
                self.environment.raw,
                self.raw,
                ffi::MDBX_TXN_READWRITE,
                &raw mut part,
                ptr::null_mut(),
            )
        })?;
        self.whole = Some(std::mem::replace(&mut self.raw, part));
        Ok(())
    }

    /// Ends a part and keeps what it did. When that fails, the whole can only be rolled back.
    pub(crate) fn keep_part(&mut self) -> Result<(), StoreError> {
        let part = self.leave_part();
        // SAFETY: the handle was valid; from here on it is gone whatever the result.
        match unsafe { ffi::mdbx_txn_commit_ex(part, ptr::null_mut()) } {
            ffi::MDBX_RESULT_TRUE => Err(StoreError::Broken),
            code => check("keep a part of a transaction", code),
        }
    }

    /// Ends a part as if it had never been.
    pub(crate) fn drop_part(&mut self) {
        let part = self.leave_part();
        // SAFETY: the handle is valid, and no cursor is left.
        unsafe { ffi::mdbx_txn_abort(part) };
    }

    /// Goes back to the whole, and gives the part that is to be ended.
    fn leave_part(&mut self) -> *mut ffi::MDBX_txn {
        self.close_cursors();
        let whole = self.whole.take().expect("a part was begun");
        std::mem::replace(&mut self.raw, whole)
    }

    /// Commits; the id of the transaction names the state from now on.
    pub(crate) fn commit(mut self) -> Result<u64, StoreError> {
        assert!(
            self.whole.is_none(),
            "a part that is open is kept or dropped first"
        );
        let id = self.id();
        self.close_cursors();
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: the handle was valid; from here on it is gone whatever the result.
        let code = unsafe { ffi::mdbx_txn_commit_ex(raw, ptr::null_mut()) };
        if self.writes {
            self.environment.gate.leave();
        }
        if code == ffi::MDBX_RESULT_TRUE {
            return Err(StoreError::Broken);
        }
        check("commit", code).map(|()| id)
    }

    /// Ends a snapshot but keeps what it takes to begin the next.
    pub(crate) fn park(self) -> Result<Parked, StoreError> {
        assert!(!self.writes, "only snapshots are parked");
        // SAFETY: the handle is a valid snapshot.
        check("end a snapshot", unsafe { ffi::mdbx_txn_reset(self.raw) })?;
        Ok(Parked(self))
    }

    /// Lets others reuse the space that this snapshot holds, should they need it, until [`Transaction::wake`].
    pub(crate) fn rest(&self) -> Result<(), StoreError> {
        // SAFETY: the handle is a valid snapshot; nothing borrowed from it outlives the caller's use of it.
        check("let a snapshot rest", unsafe {
            ffi::mdbx_txn_park(self.raw, false)
        })
    }

    /// Makes a snapshot that rests one of the latest state. That costs little while nobody has written.
    pub(crate) fn wake(&mut self) -> Result<(), StoreError> {
        // SAFETY: the handle is a valid snapshot that rests.
        match unsafe { ffi::mdbx_txn_unpark(self.raw, false) } {
            ffi::MDBX_SUCCESS => {
                if self.info()?.txn_reader_lag == 0 {
                    self.until = self.environment.snapshot_end();
                    return Ok(());
                }
                // SAFETY: the handle is a valid snapshot.
                check("end a snapshot", unsafe { ffi::mdbx_txn_reset(self.raw) })?;
            }
            ffi::MDBX_OUSTED => {}
            code => check("wake a snapshot", code)?,
        }
        self.begin_again()
    }

    fn begin_again(&mut self) -> Result<(), StoreError> {
        self.until = self.environment.snapshot_end();
        // SAFETY: the handle was reset and not used since.
        check("begin a snapshot", unsafe { ffi::mdbx_txn_renew(self.raw) })?;
        for (table, cursor) in self.idle.get_mut() {
            // SAFETY: the cursor belongs to this transaction's earlier life, and nobody uses it.
            check("move a cursor", unsafe {
                ffi::mdbx_cursor_bind(self.raw, *cursor, *table)
            })?;
        }
        Ok(())
    }

    fn close_cursors(&mut self) {
        for (_, cursor) in self.idle.get_mut().drain(..) {
            // SAFETY: idle cursors are valid, and nobody else has them.
            unsafe { ffi::mdbx_cursor_close(cursor) };
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.whole.is_some() {
            self.drop_part();
        }
        self.close_cursors();
        if !self.raw.is_null() {
            // SAFETY: the handle is valid, and no cursor is left.
            unsafe { ffi::mdbx_txn_abort(self.raw) };
            if self.writes {
                self.environment.gate.leave();
            }
        }
    }
}

/// A snapshot that has ended and can begin again.
#[derive(Debug)]
pub(crate) struct Parked(Transaction);

impl Parked {
    pub(crate) fn renew(self) -> Result<Transaction, StoreError> {
        let mut transaction = self.0;
        transaction.begin_again()?;
        Ok(transaction)
    }
}

/// Where a cursor goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    AtMost,
    Below,
    AtLeast,
}

/// A place in a table.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    raw: *mut ffi::MDBX_cursor,
    table: ffi::MDBX_dbi,
    home: &'t Transaction,
    lent: PhantomData<&'t [u8]>,
}

/// A key and its value, in the engine's memory.
pub(crate) type Record<'t> = (&'t [u8], &'t [u8]);

impl<'t> Cursor<'t> {
    pub(crate) fn seek(&self, seek: Seek, key: &[u8]) -> Result<Option<Record<'t>>, StoreError> {
        // No key is as long as this one: all that begin like it come before it.
        if let Some(begin) = key.get(..self.home.environment.key_bytes_max)
            && begin.len() < key.len()
        {
            return match seek {
                Seek::AtMost | Seek::Below => self.seek(Seek::AtMost, begin),
                Seek::AtLeast => match self.seek(Seek::AtLeast, begin)? {
                    Some((found, _)) if found == begin => self.next(),
                    found => Ok(found),
                },
            };
        }
        let operation = match seek {
            Seek::AtMost => ffi::MDBX_TO_KEY_LESSER_OR_EQUAL,
            Seek::Below => ffi::MDBX_TO_KEY_LESSER_THAN,
            Seek::AtLeast => ffi::MDBX_SET_RANGE,
        };
        self.go(lent(key), operation)
    }

    pub(crate) fn next(&self) -> Result<Option<Record<'t>>, StoreError> {
        self.step(ffi::MDBX_NEXT)
    }

    pub(crate) fn previous(&self) -> Result<Option<Record<'t>>, StoreError> {
        self.step(ffi::MDBX_PREV)
    }

    fn step(&self, operation: ffi::MDBX_cursor_op) -> Result<Option<Record<'t>>, StoreError> {
        self.go(empty(), operation)
    }

    fn go(
        &self,
        mut key: ffi::MDBX_val,
        operation: ffi::MDBX_cursor_op,
    ) -> Result<Option<Record<'t>>, StoreError> {
        self.home.check_age()?;
        let mut value = empty();
        // SAFETY: the cursor is bound to an open transaction; the key it reads lives over the call.
        match unsafe { ffi::mdbx_cursor_get(self.raw, &raw mut key, &raw mut value, operation) } {
            ffi::MDBX_NOTFOUND | ffi::MDBX_ENODATA => Ok(None),
            // "Not exactly that key" where a bound was asked for.
            ffi::MDBX_RESULT_TRUE | ffi::MDBX_SUCCESS => {
                // SAFETY: the engine's memory stays as it is until the transaction ends or writes, and writing needs `&mut`
                // of the transaction that `'t` borrows.
                Ok(Some(unsafe { (bytes(&key), bytes(&value)) }))
            }
            code => Err(failure("move a cursor", code)),
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.home.idle.borrow_mut().push((self.table, self.raw));
    }
}

/// A clock that costs next to nothing and moves in steps of a few milliseconds.
fn coarse_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(
        now.tv_sec.cast_unsigned(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

fn empty() -> ffi::MDBX_val {
    ffi::MDBX_val {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }
}

fn lent(bytes: &[u8]) -> ffi::MDBX_val {
    ffi::MDBX_val {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// # Safety
///
/// The value must have come from the engine, and its transaction must neither end nor write for as long as the bytes live.
unsafe fn bytes<'a>(value: &ffi::MDBX_val) -> &'a [u8] {
    if value.iov_len == 0 {
        return &[];
    }
    // SAFETY: the engine describes memory that it has mapped; the caller keeps the transaction.
    unsafe { std::slice::from_raw_parts(value.iov_base.cast::<u8>(), value.iov_len) }
}

fn check(what: &'static str, code: c_int) -> Result<(), StoreError> {
    if code == ffi::MDBX_SUCCESS {
        Ok(())
    } else {
        Err(failure(what, code))
    }
}

fn failure(what: &'static str, code: c_int) -> StoreError {
    match code {
        ffi::MDBX_MAP_FULL | ffi::MDBX_UNABLE_EXTEND_MAPSIZE => StoreError::Full {
            reason: "it has reached map_max",
        },
        ffi::MDBX_TXN_FULL => StoreError::Full {
            reason: "the transaction changes too much at once",
        },
        code if code == rustix::io::Errno::NOSPC.raw_os_error()
            || code == rustix::io::Errno::DQUOT.raw_os_error() =>
        {
            StoreError::Full {
                reason: "no space is left on the disk",
            }
        }
        ffi::MDBX_READERS_FULL => StoreError::TooManyReaders { max: 0 },
        ffi::MDBX_OUSTED | ffi::MDBX_MVCC_RETARDED => StoreError::SnapshotTooOld { max: Duration::ZERO },
        ffi::MDBX_BAD_TXN => StoreError::Broken,
        ffi::MDBX_CORRUPTED | ffi::MDBX_PAGE_NOTFOUND | ffi::MDBX_INVALID => StoreError::Damaged {
            what: format!("the engine could not {what}: {}", words(code)),
        },
        code => StoreError::Engine {
            what,
            code,
            text: words(code),
        },
    }
}

fn words(code: c_int) -> String {
    let mut text = [0; 256];
    // SAFETY: the place is as large as said; the answer ends with NUL and lies there or in constant memory.
    let words = unsafe { CStr::from_ptr(ffi::mdbx_strerror_r(code, text.as_mut_ptr(), text.len())) };
    words.to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn who_closes_a_file_brings_nothing_of_it_to_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let opening = Opening {
                leads: true,
                read_only: false,
                map_max: 1 << 30,
                readers_max: 10,
                reader_age_max: Duration::from_mins(1),
            };
            Environment::open(&folder.path().join("file"), opening).unwrap()
        };
        let environment = open();
        let mut transaction = environment.write().unwrap();
        let table = transaction.table(c"table", true).unwrap().unwrap();
        transaction.put(table, b"key", &[b"value"]).unwrap();
        transaction.commit().unwrap();
        drop(environment);
        let environment = open();
        assert!(environment.info().unwrap().unsynced_bytes > 0);
        let snapshot = environment.read().unwrap();
        let table = snapshot.table(c"table", false).unwrap().unwrap();
        assert_eq!(snapshot.get(table, b"key").unwrap(), Some(&b"value"[..]));
    }
}
