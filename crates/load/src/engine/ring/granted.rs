//! For tests alone, this crate's own and those in `tests/it`: whether the system lets them prove anything about io_uring. Containers often
//! forbid it, and kernels before 6.1 lack what is needed.

use std::{fmt::Display, io::Write as _, sync::Once};

/// With this variable in the environment, tests fail where io_uring is forbidden.
const REQUIRED: &str = "FOREBAY_IO_URING_REQUIRED";

/// Whether io_uring was granted to whoever tried it. Where it was not, that is said once on the standard error that nobody captures: what
/// passes then has proven nothing about io_uring.
pub(crate) fn granted(tried: Result<(), impl Display>) -> bool {
    static TOLD: Once = Once::new();
    let note = unproven(tried, std::env::var_os(REQUIRED).is_some());
    if let Some(note) = &note {
        // The tests go on without an audience.
        TOLD.call_once(|| drop(writeln!(std::io::stderr(), "\nnote: {note}")));
    }
    note.is_none()
}

/// What to say where io_uring was not granted.
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

#[test]
fn without_io_uring_tests_go_on_and_say_so_unless_it_is_required() {
    assert_eq!(unproven(Ok::<_, &str>(()), true), None);
    let note = unproven(Err("not permitted"), false).unwrap();
    assert!(
        note.starts_with("io_uring is forbidden here (not permitted)"),
        "{note}"
    );
    let required = std::panic::catch_unwind(|| unproven(Err("not permitted"), true));
    assert!(required.is_err());
}
