//! Translates errors of the engine to those of the store.

use std::{ffi::CStr, os::raw::c_int, time::Duration};

use signet_mdbx_sys as ffi;

use crate::error::StoreError;

/// The engine's code for a file that this process already has open.
pub(crate) const BUSY: i32 = ffi::MDBX_BUSY;
/// The engine's code for a file that must be opened for writing first, because a power cut took its last commits.
pub(crate) const UNRECOVERED: i32 = ffi::MDBX_WANNA_RECOVERY;

pub(super) fn check(what: &'static str, code: c_int) -> Result<(), StoreError> {
    if code == ffi::MDBX_SUCCESS {
        Ok(())
    } else {
        Err(failure(what, code))
    }
}

pub(super) fn failure(what: &'static str, code: c_int) -> StoreError {
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
    // SAFETY: the buffer has the given size; the result ends with NUL and is in the buffer or in constant memory.
    let words = unsafe { CStr::from_ptr(ffi::mdbx_strerror_r(code, text.as_mut_ptr(), text.len())) };
    words.to_string_lossy().into_owned()
}
