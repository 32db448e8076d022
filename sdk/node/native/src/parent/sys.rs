//! Ends this process with its parent, whatever ends the parent.

#![allow(unsafe_code, reason = "prctl is a C interface")]

use std::io;

use crate::{
    Thread,
    napi::{Call, Failure, Outcome},
};

/// `dieWithParent(): void`: the kernel kills this process when the thread that started it ends. Check the parent's process id
/// afterwards, because the parent may have ended before the call.
pub(crate) fn die_with_parent<'c>(_: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    // SAFETY: the request takes one number, a signal.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        let error = io::Error::last_os_error();
        return Err(Failure::plain(format!("dieWithParent: {error}")));
    }
    Ok(None)
}
