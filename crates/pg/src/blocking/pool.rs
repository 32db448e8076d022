//! A thread pool with one connection per thread. Threads are started when all are busy, and end after a long idle time.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::{Connection, Statement, StatementLimits, Usage};
use crate::{Ask, PgError, Rows, Settings, Stage, exclusive::Leases, health::Health};

/// A connection idle for longer than this is probed before its next use.
const UNASKED_MAX: Duration = Duration::from_millis(500);
/// Interval at which a task that waits for room checks again, in case it missed the notification.
const LOOK: Duration = Duration::from_millis(20);

/// The threads of a source. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Connections of streams and transactions, which count towards the same limit.
    leases: Arc<Leases>,
    health: Arc<Health>,
    state: Mutex<State>,
    /// Signalled when there is work, or the pool is closed.
    changed: Condvar,
    /// Signalled when a thread has closed its connection.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads waiting for work.
    idle: usize,
    /// Threads that have ended, but not yet closed their connections.
    closing: usize,
    is_closed: bool,
}

/// The connection of a thread.
#[derive(Debug)]
struct Open {
    connection: Connection,
    /// Interval at which a task that waits for room checks again, because not everything that frees room notifies it.
    until: Instant,
    /// When it was last used.
    used: Instant,
}

/// The outcome of a statement, if it has one by now.
type Ended = Option<Result<Rows, PgError>>;

/// Statements waiting for a thread, which runs them on its connection.
#[derive(Debug)]
struct Job {
    statements: Vec<Statement>,
    since: Instant,
    until: Instant,
    /// Outcomes of the statements that have finished.
    outcomes: Arc<Mutex<Vec<Ended>>>,
    /// Notified when all have finished.
    over: oneshot::Sender<()>,
}

impl Pool {
    pub(crate) fn new(settings: &Settings, leases: Arc<Leases>, health: Arc<Health>) -> Self {
        let shared = Shared {
            settings: settings.clone(),
            leases,
            health,
            state: Mutex::default(),
            changed: Condvar::new(),
            left: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) async fn query(&self, ask: &Ask<'_>, until: Instant) -> Result<Rows, PgError> {
        let outcome = self
            .pipeline(std::slice::from_ref(ask), until)
            .await
            .pop()
            .flatten();
        // Never resolves after the deadline: the caller has its own timeout for that.
        match outcome {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    /// Runs statements on one connection; returns the outcome of each that has one by `until`.
    pub(crate) async fn pipeline(&self, asks: &[Ask<'_>], until: Instant) -> Vec<Ended> {
        let (over, is_over) = oneshot::channel();
        let outcomes = Arc::new(Mutex::new(vec![None; asks.len()]));
        let job = Job {
            statements: asks.iter().map(Statement::from).collect(),
            since: Instant::now(),
            until,
            outcomes: Arc::clone(&outcomes),
            over,
        };
        let rest = match self.submit(job) {
            Ok(()) => match tokio::time::timeout_at(until.into(), is_over).await {
                Ok(Ok(())) | Err(_) => None,
                Ok(Err(_)) => Some(Err(PgError::Broken {
                    reason: "the source is closed".into(),
                })),
            },
            Err(error) => Some(Err(error)),
        };
        let mut outcomes = std::mem::take(&mut *outcomes.lock());
        for outcome in &mut outcomes {
            if outcome.is_none() {
                outcome.clone_from(&rest);
            }
        }
        outcomes
    }

    /// Waits until there is room for a connection outside this pool, which has been counted already. Surplus threads
    /// end as soon as they are idle.
    pub(crate) async fn room(&self) {
        loop {
            let left = self.shared.left.notified();
            if !self.shared.is_crowded(&self.shared.state.lock()) {
                return;
            }
            self.shared.changed.notify_all();
            let _ = tokio::time::timeout(LOOK, left).await;
        }
    }

    /// Queues a job, and starts another thread if all are busy.
    fn submit(&self, job: Job) -> Result<(), PgError> {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        let kept = self.shared.settings.connections_min;
        let needed = usize::from(state.idle < state.jobs.len());
        for number in 0..needed.max(kept.saturating_sub(state.threads)) {
            if !self.shared.may_grow(&state) {
                break;
            }
            state.threads += 1;
            let shared = Arc::clone(&self.shared);
            // Threads beyond those needed now connect in advance.
            let is_early = number >= needed;
            let spawned = std::thread::Builder::new()
                .name("sql".to_owned())
                .spawn(move || work(&shared, is_early));
            if let Err(error) = spawned {
                state.threads -= 1;
                if state.threads == 0 {
                    state.jobs.clear();
                    return Err(PgError::Connect {
                        address: self.shared.settings.server.to_string(),
                        reason: error.to_string(),
                    });
                }
            }
        }
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn connections_max(&self) -> usize {
        self.settings.connections_max.max(2)
    }

    /// Connections that exist or may be opened, of all kinds.
    fn count(&self, state: &State) -> usize {
        state.threads + state.closing + self.leases.count()
    }

    /// Whether another thread may be started: the first always may. An idle connection outside the pool is closed to
    /// make room.
    fn may_grow(&self, state: &State) -> bool {
        // One connection is reserved for streams and transactions.
        if state.threads + state.closing + 1 >= self.connections_max() {
            return state.threads == 0;
        }
        let has_room = || self.count(state) < self.connections_max();
        state.threads == 0 || has_room() || (self.leases.evict() && has_room())
    }

    /// Whether there are more connections than allowed.
    fn is_crowded(&self, state: &State) -> bool {
        self.count(state) > self.connections_max()
    }

    /// Whether a thread should end.
    fn must_shrink(&self, state: &State) -> bool {
        state.threads > 1 && state.threads + self.leases.count() > self.connections_max()
    }

    fn connect(&self) -> Result<Open, PgError> {
        let attempt = self.health.attempt()?;
        let made = Connection::connect(&self.settings, Usage::Shared);
        attempt.end(&made);
        // Randomised, so that connections are not all replaced at once.
        let age = self
            .settings
            .connection_age_max
            .mul_f64(1.0 - fastrand::f64() / 10.0);
        let now = Instant::now();
        made.map(|connection| Open {
            connection,
            until: now + age,
            used: now,
        })
    }
}

/// Main loop of a thread.
fn work(shared: &Shared, is_early: bool) {
    let mut open = is_early.then(|| shared.connect().ok()).flatten();
    while let Some(job) = next(shared) {
        // The caller has given up, or has already been told that it timed out.
        if job.over.is_closed() || Instant::now() >= job.until {
            let _ = job.over.send(());
            continue;
        }
        let acquire_timeout = shared.settings.acquire_timeout;
        let is_late = job.since.elapsed() > acquire_timeout;
        let mut done = 0;
        while let Some(rest @ [_, ..]) = job.statements.get(done..) {
            let tell = |number: usize, outcome| {
                if let Some(place) = job.outcomes.lock().get_mut(done + number) {
                    *place = Some(outcome);
                }
            };
            let run = if is_late {
                tell(
                    0,
                    Err(PgError::TimedOut {
                        what: Stage::Acquire,
                        limit: acquire_timeout,
                    }),
                );
                1
            } else {
                run(shared, &mut open, &job, rest, tell)
            };
            done += run;
            // Broken and old connections are not reused.
            open = open.filter(|open| !open.connection.is_broken() && Instant::now() < open.until);
            if let Some(open) = &mut open {
                open.used = Instant::now();
            }
            // The remaining statements would only be cancelled one by one.
            if job.over.is_closed() || Instant::now() >= job.until {
                break;
            }
        }
        let _ = job.over.send(());
    }
    drop(open);
    shared.state.lock().closing -= 1;
    shared.left.notify_waiters();
}

/// Runs the first of the statements, reports their outcomes, and returns how many they were.
fn run(
    shared: &Shared,
    open: &mut Option<Open>,
    job: &Job,
    statements: &[Statement],
    mut tell: impl FnMut(usize, Result<Rows, PgError>),
) -> usize {
    // A connection that was closed by the server or is dead is replaced; that is no reason to fail.
    let is_good = |open: &mut Open| {
        open.connection.is_alive()
            && (open.used.elapsed() < UNASKED_MAX || open.connection.answers(job.until))
    };
    if open.as_mut().is_some_and(|open| !is_good(open)) {
        *open = None;
    }
    let open = match open {
        Some(open) => open,
        None => match shared.connect() {
            Ok(made) => open.insert(made),
            Err(error) => {
                tell(0, Err(error));
                return 1;
            }
        },
    };
    let wanted = StatementLimits {
        until: job.until,
        is_wanted: &|| !job.over.is_closed(),
    };
    open.connection.run(statements, &wanted, &mut |number, outcome| {
        let outcome = outcome.map_err(|error| match error {
            PgError::TimedOut { what, .. } => PgError::TimedOut {
                what,
                limit: shared.settings.statement_timeout,
            },
            error => error,
        });
        tell(number, outcome);
    })
}

/// The next job; `None` if this thread should end.
fn next(shared: &Shared) -> Option<Job> {
    let mut state = shared.state.lock();
    state.idle += 1;
    let until = Instant::now() + shared.settings.idle_timeout;
    let job = loop {
        if shared.must_shrink(&state) {
            break None;
        }
        if let Some(job) = state.jobs.pop_front() {
            break Some(job);
        }
        if state.is_closed {
            break None;
        }
        if state.threads <= shared.settings.connections_min {
            shared.changed.wait(&mut state);
        } else if Instant::now() >= until {
            break None;
        } else {
            shared.changed.wait_until(&mut state, until);
        }
    };
    state.idle -= 1;
    if job.is_none() {
        state.threads -= 1;
        state.closing += 1;
    }
    job
}
