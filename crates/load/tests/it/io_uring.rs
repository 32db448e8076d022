//! Whether the system lets them prove anything about io_uring. Containers often
//! forbid it, and kernels before 6.1 lack what is needed.

use std::{fmt::Display, io::Write as _, sync::Once};

/// With this variable in the environment, tests fail where io_uring is forbidden.
const REQUIRED: &str = "FOREBAY_IO_URING_REQUIRED";

/// Whether the attempt to use io_uring succeeded. If it did not, says so once on the standard error that the test runner does not capture:
/// tests that pass then have proven nothing about io_uring.
pub(crate) fn is_granted(tried: Result<(), impl Display>) -> bool {
    static TOLD: Once = Once::new();
    let note = unproven(tried, std::env::var_os(REQUIRED).is_some());
    if let Some(note) = &note {
        // A test does not fail because its note could not be written.
        TOLD.call_once(|| drop(writeln!(std::io::stderr(), "\nnote: {note}")));
    }
    note.is_none()
}

/// The note to print where io_uring is not available.
fn unproven(tried: Result<(), impl Display>, required: bool) -> Option<String> {
    let why = tried.err()?;
    assert!(
        !required,
        "{REQUIRED} is set, and io_uring is forbidden here: {why}"
    );
    Some(format!(
        "io_uring is forbidden here ({why}), and these tests prove nothing about it; {REQUIRED}=1 makes them fail instead"
    ))
}
