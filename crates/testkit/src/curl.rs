//! Requests by curl, for what the client of the tests does not speak: TLS and HTTP/2.

use std::{
    ffi::OsStr,
    process::{Command, Output},
};

/// Runs curl with these arguments, quietly and for at most 20 seconds.
pub fn curl<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20"])
        .args(arguments)
        .output()
        .expect("curl can be started")
}
