//! The unsafe code of these tests: taking over descriptors that the server has left for a worker.

#![expect(unsafe_code, reason = "an inherited descriptor is known by its number alone")]

use std::os::{fd::FromRawFd, unix::net::UnixStream};

/// The link that the environment names. Call it once only.
pub(crate) fn link() -> Option<UnixStream> {
    inherited("FOREBAY_LINK_FD")
}

/// The second socket. Call it once only.
pub(crate) fn call_socket() -> Option<UnixStream> {
    inherited("FOREBAY_CALL_FD")
}

fn inherited(variable: &str) -> Option<UnixStream> {
    let number = std::env::var(variable).ok()?.parse().ok()?;
    // SAFETY: the server has opened this descriptor for this process (PROTOCOL.md section 1), and nothing else here uses its number.
    Some(unsafe { UnixStream::from_raw_fd(number) })
}
