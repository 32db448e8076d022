//! Threads with a connection each, started when all that there are have work, ended when they have had none for long.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::{Connection, Statement, Wanted};
use crate::{Ask, PgError, Rows, Settings, Stage, exclusive::Leases, health::Health};

/// A connection without work for so long is asked whether the server is still there before it gets some.
const UNASKED_MAX: Duration = Duration::from_millis(500);
/// How long whoever waits for room looks for it again, whoever has left it.
const LOOK: Duration = Duration::from_millis(20);

/// The threads of a source. They end with it.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Connections that are not this pool's, but count with them.
    leases: Arc<Leases>,
    health: Arc<Health>,
    state: Mutex<State>,
    /// There is work, or none will come.
    changed: Condvar,
    /// A thread has closed its connection.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    /// Threads that are no more, but for their connections.
    closing: usize,
    is_closed: bool,
}

/// A thread's connection.
#[derive(Debug)]
struct Open {
    connection: Connection,
    /// When it is to be replaced.
    until: Instant,
    /// When it was used last.
    used: Instant,
}

/// The outcome of a statement, if it has one by now.
type Ended = Option<Result<Rows, PgError>>;

/// Statements that wait for a thread, which runs them on its connection.
#[derive(Debug)]
struct Job {
    statements: Vec<Statement>,
    since: Instant,
    until: Instant,
    /// Of each that is over.
    outcomes: Arc<Mutex<Vec<Ended>>>,
    /// Told when all are.
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
        // One that is late waits for whoever asks to see that too.
        match outcome {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    /// Has statements run on one connection; gives the outcome of each that has one by `until`.
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

    /// Waits until a connection may be made that is not this pool's, and is counted already: threads end that are too many, as soon as they have nothing to do.
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

    /// Has a thread run it, another one if all that there are have work.
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
            // Those beyond what is needed now connect already.
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

    /// Connections that there are or may be, of all kinds.
    fn count(&self, state: &State) -> usize {
        state.threads + state.closing + self.leases.count()
    }

    /// Whether there may be one thread more: there is always one. A connection that nobody has gives way to it.
    fn may_grow(&self, state: &State) -> bool {
        // One is left for streams and transactions.
        if state.threads + state.closing + 1 >= self.connections_max() {
            return state.threads == 0;
        }
        let has_room = || self.count(state) < self.connections_max();
        state.threads == 0 || has_room() || (self.leases.evict() && has_room())
    }

    /// Whether there are more than may be.
    fn is_crowded(&self, state: &State) -> bool {
        self.count(state) > self.connections_max()
    }

    /// Whether there is a thread too many.
    fn must_shrink(&self, state: &State) -> bool {
        state.threads > 1 && state.threads + self.leases.count() > self.connections_max()
    }

    fn connect(&self) -> Result<Open, PgError> {
        let attempt = self.health.attempt()?;
        let made = Connection::connect(&self.settings);
        attempt.end(&made);
        // Not all are replaced at once.
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

/// What a thread does.
fn work(shared: &Shared, is_early: bool) {
    let mut open = is_early.then(|| shared.connect().ok()).flatten();
    while let Some(job) = next(shared) {
        // Its caller has given up, or has been told that it came too late.
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
            // What broke, or is old, is not used again.
            open = open.filter(|open| !open.connection.is_broken() && Instant::now() < open.until);
            if let Some(open) = &mut open {
                open.used = Instant::now();
            }
            // The rest would be cancelled one by one.
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

/// Runs the first of these statements, tells the outcome of each, and says how many these were.
fn run(
    shared: &Shared,
    open: &mut Option<Open>,
    job: &Job,
    statements: &[Statement],
    mut tell: impl FnMut(usize, Result<Rows, PgError>),
) -> usize {
    // One that the server has closed meanwhile, or that leads nowhere any more, is no reason to fail.
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
    let wanted = Wanted {
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

/// The next statement; `None` when this thread is to end.
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
        } else if shared.changed.wait_until(&mut state, until).timed_out() && state.jobs.is_empty() {
            break None;
        }
    };
    state.idle -= 1;
    if job.is_none() {
        state.threads -= 1;
        state.closing += 1;
    }
    job
}
