//! Locks on single bytes of an open file.

use std::{fs::File, io, os::fd::AsRawFd};

/// Mode of a byte lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Shared,
    Exclusive,
}

/// Changes the lock on a byte, or removes it; `Ok(false)` if the lock of another open file conflicts.
pub(crate) fn try_hold(file: &File, at: u64, hold: Option<Hold>) -> io::Result<bool> {
    let kind = match hold {
        Some(Hold::Shared) => libc::F_RDLCK,
        Some(Hold::Exclusive) => libc::F_WRLCK,
        None => libc::F_UNLCK,
    };
    // SAFETY: the structure is plain numbers, for which zeros are valid; `l_pid` must be zero.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).expect("kinds of locks are small");
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).expect("ways to seek are few");
    lock.l_start = libc::off_t::try_from(at).expect("offsets have 63 bits");
    lock.l_len = 1;
    // SAFETY: the file is open, and the structure lives for the whole call.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if code == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        error => Err(error),
    }
}
