//! Starts, watches and ends worker processes. A single permanent thread does this for all pools: a worker dies with the thread that spawned
//! it (`PR_SET_PDEATHSIG`), so that thread must live as long as the server.

mod handshake;
mod process;

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use forebay_wire::FrameType;
use tokio::sync::mpsc;

pub use self::handshake::INLINE_BODY_BYTES;
use self::process::Process;
pub(crate) use self::{handshake::init, process::generation};
use crate::{
    abort_on_panic::abort_on_panic,
    pool::Shared,
    state::{Command, Phase, Signal},
    status::{Readiness, rss_bytes},
};

/// Interval for measuring the memory of workers, if it is limited.
const RSS_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that owns all worker processes.
#[derive(Debug)]
pub struct Supervisor {
    pools: mpsc::UnboundedSender<Arc<Shared>>,
}

impl Supervisor {
    /// Starts the thread. It ends, along with every remaining worker, when this value is dropped and all its pools have stopped.
    pub fn start() -> std::io::Result<Self> {
        let (pools, mut new_pools) = mpsc::unbounded_channel::<Arc<Shared>>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new().name("supervisor".into()).spawn(move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async {
                let mut pools = tokio::task::JoinSet::new();
                while let Some(pool) = new_pools.recv().await {
                    pools.spawn_local(abort_on_panic("supervisor", supervise(pool)));
                }
                while pools.join_next().await.is_some() {}
            });
        })?;
        Ok(Self { pools })
    }

    pub(crate) fn keep(&self, pool: Arc<Shared>) {
        self.pools
            .send(pool)
            .expect("the supervisor thread lives as long as its handle");
    }
}

/// The living processes of a pool, by worker number.
type Processes = Rc<RefCell<HashMap<u64, Rc<Process>>>>;

async fn supervise(pool: Arc<Shared>) {
    let processes = Processes::default();
    let mut rss_due = Instant::now();
    loop {
        let now = Instant::now();
        if now >= rss_due {
            rss_due = now + RSS_INTERVAL;
            look_at_memory(&pool);
        }
        let mut idle = Vec::new();
        let (commands, again, settled) = pool.change(None, |session| {
            let (state, out) = session.parts();
            let (commands, again) = state.housekeep(now, out);
            state.workers().for_each(|(_, worker)| worker.link.announce());
            if pool.protocol.takes_whole_bodies() {
                let draining = state
                    .workers()
                    .filter(|(_, worker)| worker.phase == Phase::Draining && worker.in_flight() == 0);
                idle.extend(draining.map(|(_, worker)| worker.link.clone()));
            }
            let ready = state.is_ready();
            let failing = state.start_failures() > 0 || state.options().remote;
            let empty = state.is_stopping() && state.workers().next().is_none() && !state.has_jobs();
            (commands, again, (ready, failing, empty))
        });
        let more = std::mem::take(&mut *pool.commands.lock());
        for command in commands.into_iter().chain(more) {
            carry_out(command, &pool, &processes);
        }
        let (ready, failing, empty) = settled;
        if empty && processes.borrow().is_empty() {
            pool.readiness.send_replace(Readiness::Stopped);
            return;
        }
        publish(&pool, ready, failing);
        for link in idle {
            link.end_input();
        }
        let woken = pool.wake.notified();
        match again {
            Some(pause) => drop(tokio::time::timeout(pause, woken).await),
            None => woken.await,
        }
    }
}

fn publish(pool: &Shared, ready: bool, failing: bool) {
    let now = if ready {
        Readiness::Ready
    } else if failing {
        let error = pool.start_error.lock().clone();
        Readiness::Failing(error.unwrap_or_else(|| "a worker ended right after its start".into()))
    } else {
        return;
    };
    pool.readiness.send_if_modified(|before| {
        let changed = *before != now;
        *before = now;
        changed
    });
}

fn look_at_memory(pool: &Shared) {
    if pool.state.lock().options().recycle.rss_bytes == 0 {
        return;
    }
    let pids: Vec<_> = pool
        .state
        .lock()
        .workers()
        .map(|(key, worker)| (key, worker.pid))
        .collect();
    let sizes: Vec<_> = pids
        .into_iter()
        .filter_map(|(key, pid)| Some((key, pid, rss_bytes(pid)?)))
        .collect();
    pool.state.lock().set_rss(&sizes);
}

fn carry_out(command: Command, pool: &Arc<Shared>, processes: &Processes) {
    let process = |worker| processes.borrow().get(&worker).cloned();
    let host = |worker| {
        let state = pool.state.lock();
        state.link_of(worker).filter(|_| state.options().remote).cloned()
    };
    match command {
        Command::Start => start(pool, processes),
        Command::Drain(worker) => match process(worker) {
            Some(process) => process.drain(),
            None => host(worker)
                .iter()
                .for_each(|link| link.control(FrameType::Drain, &[])),
        },
        Command::Signal(worker, signal) => match process(worker) {
            Some(process) => process.signal(signal),
            None => host(worker).iter().for_each(|link| link.hang_up()),
        },
    }
}

fn start(pool: &Arc<Shared>, processes: &Processes) {
    let (options, id) = {
        let mut state = pool.state.lock();
        (state.options().clone(), state.next_worker_id())
    };
    let now = Instant::now();
    match Process::spawn(&options, id) {
        Ok((process, leader)) => {
            let process = Rc::new(process);
            let key = pool
                .state
                .lock()
                .add_worker(id, process.pid(), process.link().clone(), now);
            processes.borrow_mut().insert(id, process.clone());
            process.attend(pool, key, &options);
            tracing::debug!(target: "forebay::pool", pool = %pool.name, worker = id, pid = process.pid(), "worker started");
            let (pool, processes) = (pool.clone(), processes.clone());
            tokio::task::spawn_local(async move {
                abort_on_panic(
                    "watcher of a worker",
                    process::watch(&pool, key, &process, leader),
                )
                .await;
                processes.borrow_mut().remove(&id);
                pool.wake.notify_one();
            });
        }
        Err(error) => {
            let program = options
                .program
                .argv
                .first()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let message = format!("cannot start `{program}`: {error}");
            tracing::error!(target: "forebay::pool", pool = %pool.name, cause = %error, program, "cannot start a worker");
            *pool.start_error.lock() = Some(message);
            pool.state.lock().spawn_failed(now);
            pool.wake.notify_one();
        }
    }
}

/// The number of a signal on this system.
fn signal_number(signal: Signal) -> i32 {
    match signal {
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    }
}
