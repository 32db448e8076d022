//! What the engine says when it fails, as the store tells it.

use std::{ffi::CStr, os::raw::c_int, time::Duration};

use signet_mdbx_sys as ffi;

use crate::error::StoreError;

/// What the engine says of a file that this process has open already.
pub(crate) const BUSY: i32 = ffi::MDBX_BUSY;
/// What it says of a file that must be opened for writing first: its last commits did not outlive a power cut.
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
    // SAFETY: the place is as large as said; the answer ends with NUL and lies there or in constant memory.
    let words = unsafe { CStr::from_ptr(ffi::mdbx_strerror_r(code, text.as_mut_ptr(), text.len())) };
    words.to_string_lossy().into_owned()
}
