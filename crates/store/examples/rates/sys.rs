//! The bare engine without the store's layer: the same keys and values, read and scanned directly.

use std::{ffi::CString, hint::black_box, os::unix::ffi::OsStrExt, path::Path, ptr};

use signet_mdbx_sys as ffi;

/// A read transaction on the nodes table of a store's file.
pub(crate) struct Raw {
    environment: *mut ffi::MDBX_env,
    transaction: *mut ffi::MDBX_txn,
    table: ffi::MDBX_dbi,
}

impl Raw {
    pub(crate) fn open(folder: &Path) -> Self {
        let path =
            CString::new(folder.join("store.mdbx").as_os_str().as_bytes()).expect("a path without NUL");
        let (mut environment, mut transaction, mut table) = (ptr::null_mut(), ptr::null_mut(), 0);
        let flags = ffi::MDBX_RDONLY | ffi::MDBX_NOSUBDIR | ffi::MDBX_ACCEDE | ffi::MDBX_NOSTICKYTHREADS;
        // SAFETY: handles are used in the order the engine requires; every output pointer is valid.
        unsafe {
            check(ffi::mdbx_env_create(&raw mut environment));
            check(ffi::mdbx_env_set_option(environment, ffi::MDBX_opt_max_db, 8));
            check(ffi::mdbx_env_open(environment, path.as_ptr(), flags, 0o600));
            check(ffi::mdbx_txn_begin_ex(
                environment,
                ptr::null_mut(),
                ffi::MDBX_TXN_RDONLY,
                &raw mut transaction,
                ptr::null_mut(),
            ));
            check(ffi::mdbx_dbi_open(
                transaction,
                c"nodes".as_ptr(),
                ffi::MDBX_DB_DEFAULTS,
                &raw mut table,
            ));
        }
        Self {
            environment,
            transaction,
            table,
        }
    }

    /// Looks up a key and returns the length of its value.
    pub(crate) fn get(&self, key: &[u8]) -> usize {
        let key = ffi::MDBX_val {
            iov_base: key.as_ptr().cast_mut().cast(),
            iov_len: key.len(),
        };
        let mut value = empty();
        // SAFETY: the transaction is open; key and value pointers live for the whole call.
        check(unsafe { ffi::mdbx_get(self.transaction, self.table, &raw const key, &raw mut value) });
        black_box(value.iov_len)
    }

    /// Scans all records and returns their number.
    pub(crate) fn walk(&self) -> usize {
        let mut cursor = ptr::null_mut();
        let mut count = 0;
        // SAFETY: the transaction is open; the cursor is closed before it ends.
        unsafe {
            check(ffi::mdbx_cursor_open(
                self.transaction,
                self.table,
                &raw mut cursor,
            ));
            let (mut key, mut value) = (empty(), empty());
            while ffi::mdbx_cursor_get(cursor, &raw mut key, &raw mut value, ffi::MDBX_NEXT)
                == ffi::MDBX_SUCCESS
            {
                black_box(key.iov_len + value.iov_len);
                count += 1;
            }
            ffi::mdbx_cursor_close(cursor);
        }
        count
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: both handles are valid and not used afterwards.
        unsafe {
            ffi::mdbx_txn_abort(self.transaction);
            ffi::mdbx_env_close_ex(self.environment, true);
        }
    }
}

fn empty() -> ffi::MDBX_val {
    ffi::MDBX_val {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }
}

fn check(code: i32) {
    assert_eq!(code, ffi::MDBX_SUCCESS, "the engine refused");
}
