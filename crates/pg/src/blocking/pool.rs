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
    PgError, Rows, Settings, Stage,
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

/// A statement that waits for a thread.
#[derive(Debug)]
struct Job {
    text: String,
    parameters: Vec<Option<Vec<u8>>>,
    since: Instant,
    until: Instant,
    reply: oneshot::Sender<Result<Rows, PgError>>,
    timing: Timing,
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

    pub(crate) async fn query(
        &self,
        text: &str,
        parameters: &[Option<&[u8]>],
        until: Instant,
        timing: &Timing,
    ) -> Result<Rows, PgError> {
        let (reply, replied) = oneshot::channel();
        let job = Job {
            text: text.to_owned(),
            parameters: parameters.iter().map(|value| value.map(<[u8]>::to_vec)).collect(),
            since: Instant::now(),
            until,
            reply,
            timing: timing.clone(),
        };
        self.submit(job)?;
        replied.await.unwrap_or(Err(PgError::Broken {
            reason: "the source is closed".into(),
        }))
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
        if job.reply.is_closed() || Instant::now() >= job.until {
            continue;
        }
        let acquire_timeout = shared.settings.acquire_timeout;
        if job.since.elapsed() > acquire_timeout {
            let _ = job.reply.send(Err(PgError::TimedOut {
                what: Stage::Acquire,
                limit: acquire_timeout,
            }));
            continue;
        }
        let outcome = run(shared, &mut connection, &job);
        // What broke, or is old, is not used again.
        let is_over = connection
            .as_ref()
            .is_some_and(|(open, since)| open.is_broken() || since.elapsed() > LIFETIME_MAX);
        if is_over {
            connection = None;
        }
        let _ = job.reply.send(outcome);
    }
}

fn run(shared: &Shared, connection: &mut Option<(Connection, Instant)>, job: &Job) -> Result<Rows, PgError> {
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
    job.timing.reach(Reached::Placed);
    let parameters: Vec<Option<&[u8]>> = job.parameters.iter().map(Option::as_deref).collect();
    let wanted = Wanted {
        until: job.until,
        is_wanted: &|| !job.reply.is_closed(),
    };
    let outcome = open.query(&job.text, &parameters, &wanted, &job.timing);
    job.timing.reach(Reached::Decoded);
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
