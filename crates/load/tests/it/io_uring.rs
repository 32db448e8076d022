//! Whether the system lets them prove anything about io_uring. Containers often
//! forbid it, and kernels before 6.1 lack what is needed.

use std::{fmt::Display, io::Write as _, sync::Once};

/// With this variable in the environment, tests fail where io_uring is forbidden.
const REQUIRED: &str = "FOREBAY_IO_URING_REQUIRED";

/// Whether the attempt to use io_uring succeeded. If it did not, says so once on the standard error that the test runner does not capture:
/// tests that pass then have proven nothing about io_uring.
pub(crate) fn is_granted(tried: Result<(), impl Display>) -> bool {
    static TOLD: Once = Once::new();
    let Err(why) = tried else { return true };
    let is_required = std::env::var_os(REQUIRED).is_some();
    assert!(
        !is_required,
        "{REQUIRED} is set, and io_uring is forbidden here: {why}"
    );
    let note = format!("these tests prove nothing about it; {REQUIRED}=1 makes them fail instead");
    let note = format!("\nnote: io_uring is forbidden here ({why}), and {note}\n");
    // A test does not fail because its note could not be written.
    TOLD.call_once(|| drop(std::io::stderr().write_all(note.as_bytes())));
    false
}
