//! The one place that trusts a number to be a descriptor.
#![allow(
    unsafe_code,
    reason = "a descriptor given by number can only be taken over unsafely"
)]

use std::{
    os::{fd::FromRawFd, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

/// Takes over the socket that the server has left this worker process in descriptor `FOREBAY_LINK_FD`.
///
/// # Panics
/// When called twice, or when the variable is missing.
pub fn take_link() -> UnixStream {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    assert!(!TAKEN.swap(true, Ordering::Relaxed), "the link has one owner");
    let number = std::env::var("FOREBAY_LINK_FD")
        .ok()
        .and_then(|text| text.parse().ok());
    let number = number.expect("a worker is started with FOREBAY_LINK_FD");
    // SAFETY: the server opened this descriptor for us alone (PROTOCOL.md section 1), and the assertion above makes this the only
    // place that owns it.
    unsafe { UnixStream::from_raw_fd(number) }
}
