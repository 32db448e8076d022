//! Threads with a connection each, started when all that there are have work, ended when they have had none for long.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{Connection, Wanted};
use crate::{
    Ask, PgError, Rows, Settings, Stage,
    exclusive::Leases,
    timing::{Reached, Timing},
};

/// A connection without work for so long is closed.
const IDLE_MAX: Duration = Duration::from_mins(10);
/// A connection as old as this is replaced once it has nothing to do.
const LIFETIME_MAX: Duration = Duration::from_mins(30);

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
    state: Mutex<State>,
    /// There is work, or none will come.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    is_closed: bool,
}

/// Statements that wait for a thread, which runs one after another.
#[derive(Debug)]
struct Job {
    statements: Vec<Statement>,
    since: Instant,
    until: Instant,
    /// Of those that are over, in their order.
    outcomes: Arc<Mutex<Vec<Result<Rows, PgError>>>>,
    /// Told when all are.
    over: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Statement {
    text: String,
    parameters: Vec<Option<Vec<u8>>>,
    timing: Timing,
}

impl From<&Ask<'_>> for Statement {
    fn from(ask: &Ask<'_>) -> Self {
        Self {
            text: ask.text.to_owned(),
            parameters: ask
                .parameters
                .iter()
                .map(|value| value.map(<[u8]>::to_vec))
                .collect(),
            timing: ask.timing.clone(),
        }
    }
}

impl Pool {
    pub(crate) fn new(settings: &Settings, leases: Arc<Leases>) -> Self {
        let shared = Shared {
            settings: settings.clone(),
            leases,
            state: Mutex::default(),
            changed: Condvar::new(),
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

    /// Has statements run one after another; gives the outcome of each that has one by `until`.
    pub(crate) async fn pipeline(
        &self,
        asks: &[Ask<'_>],
        until: Instant,
    ) -> Vec<Option<Result<Rows, PgError>>> {
        let (over, is_over) = oneshot::channel();
        let outcomes = Arc::default();
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
        let mut outcomes: Vec<_> = outcomes.lock().drain(..).map(Some).collect();
        outcomes.resize(asks.len(), rest);
        outcomes
    }

    /// A connection is made that is not this pool's: a thread that has nothing to do ends, if that makes too many.
    pub(crate) fn make_room(&self) {
        self.shared.changed.notify_all();
    }

    /// Has a thread run it, another one if all that there are have work.
    fn submit(&self, job: Job) -> Result<(), PgError> {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && self.shared.may_grow(state.threads) {
            state.threads += 1;
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new()
                .name("sql".to_owned())
                .spawn(move || work(&shared));
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
    /// Whether there may be one thread more: there is always one.
    fn may_grow(&self, threads: usize) -> bool {
        threads == 0 || threads + self.leases.count() < self.settings.connections_max
    }

    /// Whether there is a thread too many.
    fn must_shrink(&self, threads: usize) -> bool {
        threads > 1 && threads + self.leases.count() > self.settings.connections_max
    }
}

/// What a thread does.
fn work(shared: &Shared) {
    let mut connection: Option<(Connection, Instant)> = None;
    while let Some(job) = next(shared) {
        // Its caller has given up, or has been told that it came too late.
        if job.over.is_closed() || Instant::now() >= job.until {
            continue;
        }
        let acquire_timeout = shared.settings.acquire_timeout;
        let is_late = job.since.elapsed() > acquire_timeout;
        for statement in &job.statements {
            let outcome = if is_late {
                Err(PgError::TimedOut {
                    what: Stage::Acquire,
                    limit: acquire_timeout,
                })
            } else {
                run(shared, &mut connection, &job, statement)
            };
            // What broke, or is old, is not used again.
            let is_over = connection
                .as_ref()
                .is_some_and(|(open, since)| open.is_broken() || since.elapsed() > LIFETIME_MAX);
            if is_over {
                connection = None;
            }
            job.outcomes.lock().push(outcome);
            // The rest would be cancelled one by one.
            if job.over.is_closed() || Instant::now() >= job.until {
                break;
            }
        }
        let _ = job.over.send(());
    }
}

fn run(
    shared: &Shared,
    connection: &mut Option<(Connection, Instant)>,
    job: &Job,
    statement: &Statement,
) -> Result<Rows, PgError> {
    // One that the server has closed meanwhile is no reason to fail.
    if connection.as_mut().is_some_and(|(open, _)| !open.is_alive()) {
        *connection = None;
    }
    let open = match connection {
        Some((open, _)) => open,
        None => {
            let made = Connection::connect(&shared.settings)?;
            &mut connection.insert((made, Instant::now())).0
        }
    };
    statement.timing.reach(Reached::Placed);
    let parameters: Vec<Option<&[u8]>> = statement.parameters.iter().map(Option::as_deref).collect();
    let wanted = Wanted {
        until: job.until,
        is_wanted: &|| !job.over.is_closed(),
    };
    let outcome = open.query(&statement.text, &parameters, &wanted, &statement.timing);
    statement.timing.reach(Reached::Decoded);
    outcome.map_err(|error| match error {
        PgError::TimedOut { what, .. } => PgError::TimedOut {
            what,
            limit: shared.settings.statement_timeout,
        },
        error => error,
    })
}

/// The next statement; `None` when this thread is to end.
fn next(shared: &Shared) -> Option<Job> {
    let mut state = shared.state.lock();
    state.idle += 1;
    let until = Instant::now() + IDLE_MAX;
    let job = loop {
        if shared.must_shrink(state.threads) {
            break None;
        }
        if let Some(job) = state.jobs.pop_front() {
            break Some(job);
        }
        if state.is_closed || shared.changed.wait_until(&mut state, until).timed_out() {
            break None;
        }
    };
    state.idle -= 1;
    if job.is_none() {
        state.threads -= 1;
    }
    job
}
