//! The engine's environment, one open file: opening, closing, options, figures and copies.

use std::{
    ffi::CString,
    os::{raw::c_int, unix::ffi::OsStrExt},
    path::Path,
    ptr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use signet_mdbx_sys as ffi;

use super::{failure::check, writer_queue::WriterQueue};
use crate::error::StoreError;

/// Most tables in one file.
const TABLES_MAX: u64 = 8;
/// A size that no file reaches, which disables the engine's own checkpoints: they would bring the tree to the disk
/// before the log.
const NEVER_BYTES: u64 = 1 << 43;

/// Settings for opening a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Whether this opener sets size and thresholds; others take what they find.
    pub(crate) leads: bool,
    pub(crate) read_only: bool,
    pub(crate) map_max: usize,
    pub(crate) readers_max: u32,
    pub(crate) reader_age_max: Duration,
}

/// An open file. Closed when the last transaction and the last handle have been dropped.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(super) raw: *mut ffi::MDBX_env,
    pub(super) key_bytes_max: usize,
    readers_max: u32,
    pub(super) reader_age_max: Duration,
    /// Serialises write transactions of this process.
    pub(super) writers: WriterQueue,
    /// Error of the first failed flush.
    pub(super) flush_failed: OnceLock<String>,
}

// SAFETY: the engine's environment may be used from any thread; its own locks ensure that.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

/// Figures that the engine reports about a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
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
        // SAFETY: `raw` is a valid output pointer for the new handle.
        check("create an environment", unsafe {
            ffi::mdbx_env_create(&raw mut raw)
        })?;
        // Owns the handle, so that every return closes it.
        let mut environment = Self {
            raw,
            key_bytes_max: 0,
            readers_max: opening.readers_max,
            reader_age_max: opening.reader_age_max,
            writers: WriterQueue::default(),
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
            // Shrinking the file would make the engine checkpoint on its own, so the file never shrinks.
            // SAFETY: the handle exists and no file is open yet; -1 leaves a size as it is.
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
        // SAFETY: the handle is not open yet; the name ends with NUL and lives for the whole call.
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

    pub(super) fn check(&self, what: &'static str, code: c_int) -> Result<(), StoreError> {
        check(what, code).map_err(|error| match error {
            StoreError::TooManyReaders { .. } => StoreError::TooManyReaders {
                max: self.readers_max,
            },
            other => other,
        })
    }

    pub(crate) fn info(&self) -> Result<Info, StoreError> {
        // SAFETY: the structure is plain numbers, for which zeros are valid.
        let mut info: ffi::MDBX_envinfo = unsafe { std::mem::zeroed() };
        // SAFETY: the environment is open; the output buffer has the given size.
        self.check("tell about the file", unsafe {
            ffi::mdbx_env_info_ex(
                self.raw,
                ptr::null(),
                &raw mut info,
                size_of::<ffi::MDBX_envinfo>(),
            )
        })?;
        Ok(Info {
            file_bytes: info.mi_geo.current,
            map_max: info.mi_geo.upper,
            last_transaction: info.mi_recent_txnid,
            page_bytes: info.mi_dxb_pagesize,
            readers: info.mi_numreaders,
            unsynced_bytes: info.mi_unsync_volume,
        })
    }

    /// Frees the reader slots of processes that have died; returns how many.
    pub(crate) fn clear_dead_readers(&self) -> Result<u32, StoreError> {
        let mut dead = 0;
        // SAFETY: the environment is open; the output pointer is valid.
        match unsafe { ffi::mdbx_reader_check(self.raw, &raw mut dead) } {
            ffi::MDBX_RESULT_TRUE => {}
            code => self.check("look for dead readers", code)?,
        }
        Ok(u32::try_from(dead).unwrap_or(0))
    }

    /// Copies the file's current state to a new one; with `compact`, without unused space.
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
        // SAFETY: the environment is open; the name ends with NUL and lives for the whole call.
        self.check("copy the file", unsafe {
            ffi::mdbx_env_copy(self.raw, name.as_ptr(), flags)
        })
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // Otherwise the engine would checkpoint on its own, although others may have committed since the last
        // checkpoint, or a flush has failed.
        let without_flush = true;
        // SAFETY: every transaction holds the environment, so none is left.
        unsafe { ffi::mdbx_env_close_ex(self.raw, without_flush) };
    }
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
