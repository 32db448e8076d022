//! A thread's connections to one source: opened on demand, and reopened when they break.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};

use super::Connection;
use crate::{Ask, PgError, Rows, Stage, source::Shared};

/// Most connections of a thread. The second one serves while the first is held up by a long answer.
pub(crate) const CONNECTIONS_MAX: usize = 2;
/// Pause after a failed connection attempt; it doubles with each further failure, up to the maximum.
const RETRY_FIRST: Duration = Duration::from_millis(25);
const RETRY_MAX: Duration = Duration::from_millis(500);

thread_local! {
    /// Connections of this thread, by source.
    static HERE: RefCell<Vec<Rc<Lines>>> = const { RefCell::new(Vec::new()) };
}

/// The connections of this thread to a source.
pub(crate) struct Lines {
    source: Weak<Shared>,
    connections: RefCell<Vec<Connection>>,
    is_connecting: Cell<bool>,
    /// Why there is no connection; retried in the background.
    failure: RefCell<Option<PgError>>,
    /// Notified whenever a connection was opened, or could not be.
    changed: Notify,
}

impl Lines {
    /// The connections of the calling thread.
    pub(crate) fn here(source: &Arc<Shared>) -> Rc<Self> {
        HERE.with_borrow_mut(|here| {
            if let Some(known) = here
                .iter()
                .find(|lines| lines.source.as_ptr() == Arc::as_ptr(source))
            {
                return Rc::clone(known);
            }
            let lines = Rc::new(Self {
                source: Arc::downgrade(source),
                connections: RefCell::default(),
                is_connecting: Cell::new(false),
                failure: RefCell::default(),
                changed: Notify::new(),
            });
            here.push(Rc::clone(&lines));
            tokio::task::spawn_local(end_with(source.open.subscribe(), Arc::downgrade(source)));
            lines
        })
    }

    pub(crate) async fn query(self: Rc<Self>, ask: &Ask<'_>) -> Result<Rows, PgError> {
        let connection = self.connection().await?;
        ask.place();
        connection.query(ask).await
    }

    /// Sends statements together, on one connection, and returns the outcome of each that has one by `until`.
    pub(crate) async fn pipeline(
        self: Rc<Self>,
        asks: &[Ask<'_>],
        until: Instant,
    ) -> Vec<Option<Result<Rows, PgError>>> {
        match tokio::time::timeout_at(until.into(), self.connection()).await {
            Ok(Ok(connection)) => {
                asks.iter().for_each(Ask::place);
                connection.pipeline(asks, until).await
            }
            Ok(Err(error)) => vec![Some(Err(error)); asks.len()],
            Err(_) => vec![None; asks.len()],
        }
    }

    /// The connection to use next.
    async fn connection(self: &Rc<Self>) -> Result<Connection, PgError> {
        if let Some(connection) = self.best() {
            return Ok(connection);
        }
        let limit = self
            .source
            .upgrade()
            .map_or(Duration::ZERO, |source| source.settings.acquire_timeout);
        let wait = async {
            loop {
                if let Some(connection) = self.best() {
                    return Ok(connection);
                }
                if let Some(failure) = &*self.failure.borrow() {
                    return Err(failure.clone());
                }
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(limit, wait)
            .await
            .unwrap_or(Err(PgError::TimedOut {
                what: Stage::Acquire,
                limit,
            }))
    }

    /// The first connection that is not held up, so that as many statements as possible share its reads and writes, and
    /// those of the server process; otherwise the one with the lowest cost.
    fn best(self: &Rc<Self>) -> Option<Connection> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|connection| !connection.is_broken());
        let free = connections.iter().find(|connection| !connection.is_held_up());
        if let Some(free) = free {
            return Some(free.clone());
        }
        let max = self
            .source
            .upgrade()
            .map_or(0, |source| source.thread_connections_max);
        if connections.len() < max && !self.is_connecting.replace(true) {
            tokio::task::spawn_local(connect(Rc::clone(self)));
        }
        connections
            .iter()
            .min_by_key(|connection| connection.burden())
            .cloned()
    }
}

/// Closes this thread's connections to a source when the source is dropped, as a reload does.
async fn end_with(mut open: watch::Receiver<()>, source: Weak<Shared>) {
    while open.changed().await.is_ok() {}
    let ended = HERE.with_borrow_mut(|here| {
        let at = here.iter().position(|lines| lines.source.ptr_eq(&source))?;
        Some(here.swap_remove(at))
    });
    drop(ended);
}

async fn try_once(source: &Shared) -> Result<(Connection, impl Future<Output = ()> + use<>), PgError> {
    let attempt = source.health.attempt()?;
    let limit = source.settings.connect_timeout;
    let connected = tokio::time::timeout(limit, Connection::connect(&source.settings)).await;
    let connected = connected.unwrap_or(Err(PgError::TimedOut {
        what: Stage::Connect,
        limit,
    }));
    attempt.end(&connected);
    connected
}

/// Opens a connection, retrying until it succeeds.
async fn connect(lines: Rc<Lines>) {
    let mut pause = RETRY_FIRST;
    while let Some(source) = lines.source.upgrade() {
        let connected = try_once(&source).await;
        drop(source);
        match connected {
            Ok((connection, task)) => {
                tokio::task::spawn_local(task);
                lines.connections.borrow_mut().push(connection);
                lines.failure.replace(None);
                break;
            }
            Err(failure) => {
                lines.failure.replace(Some(failure));
                lines.changed.notify_waiters();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
    lines.is_connecting.set(false);
    lines.changed.notify_waiters();
}
