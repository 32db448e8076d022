//! Waiting for conditions.

use std::{
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time limit of a wait. Long, because only a failing test ever waits that long.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Polling interval, for the first looks and for all others: some states do not last, and many a test waits for seconds.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(8)];
/// How long the first looks go on.
const SOON: Duration = Duration::from_millis(100);
/// Polling interval while a load runs: polling must not become a load of its own.
const WATCH_EVERY: Duration = Duration::from_millis(5);

/// Waits until `look` finds something, and returns it. Panics after [`PATIENCE`] with `what`, which completes "waited for ...".
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "waited {PATIENCE:?} for {what}");
        thread::sleep(LOOK_EVERY[usize::from(waited > SOON)]);
    }
}

/// Waits until `holds`. Panics after [`PATIENCE`] with `what`, which completes "waited for ...".
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Polls while another thread runs, however long, and returns that thread's result.
pub fn watch<T>(running: JoinHandle<T>, mut look: impl FnMut()) -> T {
    while !running.is_finished() {
        look();
        thread::sleep(WATCH_EVERY);
    }
    running.join().expect("what is watched does not panic")
}
