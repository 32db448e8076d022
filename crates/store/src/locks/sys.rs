//! Locks on single bytes of an open file.

use std::{fs::File, io, os::fd::AsRawFd};

/// How a byte is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Shared,
    Exclusive,
}

/// Holds a byte in another way from now on, or not at all; `Ok(false)` when another open file holds it against that.
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
    // SAFETY: the file is open, and the structure lives over the call.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if code == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        error => Err(error),
    }
}
