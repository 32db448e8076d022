//! Waits for a descriptor without an event loop, and makes socket pairs.

#![allow(unsafe_code, reason = "poll and socketpair are C interfaces")]

use std::io;

use forebay_store::facade::operations::Call as _;

use crate::{
    Thread,
    napi::{Call, Failure, Outcome},
};

/// `waitReadable(fd: number, ms: number): boolean`: whether there is something to read, or the end of input, within `ms` milliseconds. A
/// signal may end the wait early with `false`.
pub(crate) fn wait_readable<'c>(call: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    let number = |index| {
        call.integer(index)
            .map_err(|_| Failure::plain("waitReadable takes two numbers: a file descriptor and milliseconds"))
    };
    let (fd, ms) = (number(0)?, number(1)?);
    let mut wanted = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `wanted` is one live element, and a bad descriptor is a result.
    let ready = unsafe { libc::poll(&raw mut wanted, 1, ms.max(0)) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(Failure::plain(format!("waitReadable: descriptor {fd}: {error}")));
        }
    }
    Ok(Some(call.boolean(ready > 0)?))
}

/// `socketPair(): [number, number]`: two connected stream sockets, close-on-exec.
pub(crate) fn socket_pair<'c>(call: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        let error = io::Error::last_os_error();
        return Err(Failure::plain(format!("socketPair: {error}")));
    }
    Ok(Some(call.array(&[call.int(ends[0])?, call.int(ends[1])?])?))
}
