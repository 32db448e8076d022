//! A source: where statements go, and how many may be under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::sync::watch;

use crate::{
    Driver, PgError, Rows, Settings, blocking,
    pipelined::{self, Lines},
    statement::session_keyword,
};

/// How large a result may be that is in memory as a whole; larger ones stream.
pub(crate) const RESULT_BYTES_MAX: usize = 256 << 20;

/// A source of results; clones are the same one.
#[derive(Clone, Debug)]
pub struct Source {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Connections that each thread may have.
    pub(crate) thread_connections_max: usize,
    in_flight: AtomicUsize,
    blocking: Option<blocking::Pool>,
    /// Ends with the source, and tells the threads that have connections to it.
    pub(crate) open: watch::Sender<()>,
}

impl Source {
    /// A source whose statements come from so many threads. Nothing is connected before the first statement.
    pub fn new(name: &str, settings: Settings, threads: usize) -> Self {
        let blocking = (settings.driver == Driver::Blocking).then(|| blocking::Pool::new(&settings));
        let thread_connections_max =
            (settings.connections_max / threads.max(1)).clamp(1, pipelined::CONNECTIONS_MAX);
        let shared = Shared {
            name: name.to_owned(),
            settings,
            thread_connections_max,
            in_flight: AtomicUsize::new(0),
            blocking,
            open: watch::Sender::new(()),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// As the configuration calls it.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What bounds it.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Statements under way and waiting.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// Runs a statement with parameters as text, at most until `deadline`. The task is one of a thread's [`tokio::task::LocalSet`].
    pub async fn query(
        &self,
        text: &str,
        parameters: &[Option<&[u8]>],
        deadline: Instant,
    ) -> Result<Rows, PgError> {
        if let Some(keyword) = session_keyword(text) {
            return Err(PgError::Session { keyword });
        }
        let _place = Place::take(&self.shared)?;
        let limit = self.shared.settings.statement_timeout;
        let until = deadline.min(Instant::now() + limit);
        let run = async {
            match &self.shared.blocking {
                Some(pool) => pool.query(text, parameters, until).await,
                None => Lines::here(&self.shared).query(text, parameters).await,
            }
        };
        match tokio::time::timeout_at(until.into(), run).await {
            Ok(outcome) => outcome,
            Err(_) => Err(PgError::TimedOut {
                what: "the statement",
                limit,
            }),
        }
    }
}

/// One of the statements that may be under way.
struct Place<'s>(&'s Shared);

impl<'s> Place<'s> {
    fn take(shared: &'s Shared) -> Result<Self, PgError> {
        let in_flight_max = shared.settings.in_flight_max;
        if shared.in_flight.fetch_add(1, Ordering::Relaxed) >= in_flight_max {
            shared.in_flight.fetch_sub(1, Ordering::Relaxed);
            return Err(PgError::Full { in_flight_max });
        }
        Ok(Self(shared))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
