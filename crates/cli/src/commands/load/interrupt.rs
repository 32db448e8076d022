//! Ctrl-C: the first one ends the measurement, so that what was measured so far is printed; the second one ends the process.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Exit code of a process that SIGINT has ended, by the convention of shells: 128 + SIGINT.
const ABORTED: i32 = 130;

/// Listens for SIGINT and SIGTERM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    came: bool,
    /// Flags of the sessions to stop.
    stoppers: Vec<Arc<AtomicBool>>,
    /// Process groups to kill when a second signal ends the process without running destructors.
    groups: Vec<Pid>,
}

impl Interrupt {
    /// Starts to listen, on a thread of its own.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = Self::default();
        let own = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (mut int, mut term) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let wait = async move {
            loop {
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
                own.interrupt();
            }
        };
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || runtime.block_on(wait))?;
        Ok(interrupt)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it locked")
    }

    /// Whether a signal has arrived.
    pub(crate) fn came(&self) -> bool {
        self.state().came
    }

    /// Stops a session when a signal arrives, or at once if one has arrived already.
    pub(crate) fn stops(&self, stopper: Arc<AtomicBool>) {
        let mut state = self.state();
        stopper.store(state.came, Ordering::Relaxed);
        state.stoppers.push(stopper);
    }

    /// Kills a process group when a second signal ends the process.
    pub(crate) fn kills(&self, group: Pid) {
        self.state().groups.push(group);
    }

    fn interrupt(&self) {
        let mut state = self.state();
        if state.came {
            for group in &state.groups {
                let _ = kill_process_group(*group, Signal::KILL);
            }
            std::process::exit(ABORTED);
        }
        state.came = true;
        for stopper in &state.stoppers {
            stopper.store(true, Ordering::Relaxed);
        }
    }
}
