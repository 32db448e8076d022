//! Conversions between slices and the engine's memory.

use std::ptr;

use signet_mdbx_sys as ffi;

pub(super) fn empty() -> ffi::MDBX_val {
    ffi::MDBX_val {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }
}

pub(super) fn lent(bytes: &[u8]) -> ffi::MDBX_val {
    ffi::MDBX_val {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// # Safety
///
/// The value must come from the engine, and its transaction must neither end nor write while the bytes are in use.
pub(super) unsafe fn bytes<'a>(value: &ffi::MDBX_val) -> &'a [u8] {
    if value.iov_len == 0 {
        return &[];
    }
    // SAFETY: the engine describes memory that it has mapped; the caller keeps the transaction open.
    unsafe { std::slice::from_raw_parts(value.iov_base.cast::<u8>(), value.iov_len) }
}
