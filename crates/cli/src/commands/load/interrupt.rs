//! Ctrl-C: the first one ends the measurement, so that what was measured so far is printed; the second one ends the process.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// The exit code of a process that a signal has ended, as shells say it: 128 + SIGINT.
const ABORTED: i32 = 130;

/// What is to be done before the process ends in the middle of something, such as stopping a server that it started.
type Cleanup = Box<dyn FnOnce() + Send>;

/// Listens for SIGINT and SIGTERM.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    came: AtomicBool,
    /// The flags of sessions that shall stop.
    stoppers: Mutex<Vec<Arc<AtomicBool>>>,
    cleanups: Mutex<Vec<Cleanup>>,
}

impl Interrupt {
    /// Starts to listen, in a thread of its own.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = Self::default();
        let shared = interrupt.shared.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (mut int, mut term) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    loop {
                        tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
                        shared.interrupt();
                    }
                });
            })?;
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub(crate) fn came(&self) -> bool {
        self.shared.came.load(Ordering::Relaxed)
    }

    /// Has a session stop when a signal comes, or at once when one has come.
    pub(crate) fn stops(&self, stopper: Arc<AtomicBool>) {
        let mut stoppers = self.shared.stoppers.lock().expect("nobody panics with it locked");
        stopper.store(self.came(), Ordering::Relaxed);
        stoppers.push(stopper);
    }

    /// Has something done before the second signal ends the process.
    pub(crate) fn before_abort(&self, cleanup: Cleanup) {
        self.shared
            .cleanups
            .lock()
            .expect("nobody panics with it locked")
            .push(cleanup);
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt")
            .field("came", &self.came())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn interrupt(&self) {
        let stoppers = self.stoppers.lock().expect("nobody panics with it locked");
        if self.came.swap(true, Ordering::Relaxed) {
            for cleanup in self
                .cleanups
                .lock()
                .expect("nobody panics with it locked")
                .drain(..)
            {
                cleanup();
            }
            std::process::exit(ABORTED);
        }
        self.end(&stoppers);
    }

    fn end(&self, stoppers: &[Arc<AtomicBool>]) {
        self.came.store(true, Ordering::Relaxed);
        for stopper in stoppers {
            stopper.store(true, Ordering::Relaxed);
        }
    }
}
