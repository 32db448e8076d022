//! Sources: databases that statements are sent to, and the limit on statements in progress.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::{
    Beginning, Code, CopyIn, CopyOut, Driver, PgError, RowStream, Rows, Settings, Stage, Takes, Transaction,
    blocking,
    counts::{Counted, Counting, Meter, Placed},
    exclusive::{Lease, Leases, check_copies, describe},
    health::Health,
    listen::{Hub, Listener},
    pipelined::{self, Lines},
    statement::check_session,
    timing::{Reached, Timing},
    watch::Watch,
};

/// A database to run statements on; clones share it.
#[derive(Clone, Debug)]
pub struct Source {
    shared: Arc<Shared>,
    /// Counts the statements run through this handle, in addition to the source's own counters.
    meter: Option<Meter>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Most connections per thread.
    pub(crate) thread_connections_max: usize,
    in_flight: AtomicUsize,
    pub(crate) health: Arc<Health>,
    meter: Meter,
    pub(crate) blocking: Option<blocking::Pool>,
    /// Connections of streams and transactions.
    pub(crate) leases: Arc<Leases>,
    /// Listeners and their connection.
    hub: Arc<Hub>,
    /// Whether a task is closing idle connections.
    pub(crate) is_sweeping: AtomicBool,
    /// Dropped with the source, which notifies the threads that have connections to it.
    pub(crate) open: watch::Sender<()>,
}

/// A statement to be run, created when it is requested.
#[derive(Debug)]
pub struct Ask<'a> {
    pub(crate) text: &'a str,
    pub(crate) parameters: &'a [Option<&'a [u8]>],
    pub(crate) timing: Timing,
    /// Time at which it got a connection.
    pub(crate) placed: Placed,
}

impl<'a> Ask<'a> {
    /// Records that it has a connection; the first call counts.
    pub(crate) fn place(&self) {
        let _ = self.placed.set(Instant::now());
    }

    /// A statement with `$1`, `$2` and so on in its text, and its parameters as text; `None` is null.
    pub fn new(text: &'a str, parameters: &'a [Option<&'a [u8]>]) -> Self {
        Self {
            text,
            parameters,
            timing: Timing::begin(),
            placed: Placed::default(),
        }
    }

    /// Statements that are sent together, and get their connection at the same time.
    pub fn together(asks: impl IntoIterator<Item = (&'a str, &'a [Option<&'a [u8]>])>) -> Vec<Self> {
        let placed = Placed::default();
        let asks = asks.into_iter().map(|(text, parameters)| Self {
            text,
            parameters,
            timing: Timing::begin(),
            placed: placed.clone(),
        });
        asks.collect()
    }
}

impl Source {
    /// Creates a source whose statements come from that many threads. Nothing is connected before the first statement.
    pub fn new(name: &str, settings: Settings, threads: usize) -> Self {
        let threads = threads.max(1);
        let connections_max = settings.connections_max.max(2);
        // One connection is reserved for a stream or a transaction.
        let thread_connections_max =
            (connections_max.saturating_sub(1) / threads).clamp(1, pipelined::CONNECTIONS_MAX);
        let shared_max = match settings.driver {
            Driver::Pipelined => threads * thread_connections_max,
            // The pool's threads use the rest, as far as it is free.
            Driver::Blocking => 1,
        };
        let leases = Arc::new(Leases::new(connections_max.saturating_sub(shared_max).max(1)));
        let health = Arc::new(Health::new(name));
        let is_blocking = settings.driver == Driver::Blocking;
        let blocking =
            is_blocking.then(|| blocking::Pool::new(&settings, Arc::clone(&leases), Arc::clone(&health)));
        let shared = Shared {
            hub: Arc::new(Hub::new(name, &settings)),
            name: name.to_owned(),
            settings,
            thread_connections_max,
            in_flight: AtomicUsize::new(0),
            health,
            meter: Meter::default(),
            blocking,
            leases,
            is_sweeping: AtomicBool::new(false),
            open: watch::Sender::new(()),
        };
        Self {
            shared: Arc::new(shared),
            meter: None,
        }
    }

    /// Name in the configuration.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Settings it was created with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Number of statements running and waiting.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// Whether this failure of a statement should be logged: log lines are limited per second.
    pub fn is_told(&self, error: &PgError) -> bool {
        self.shared.health.is_told(error)
    }

    /// Statistics of its statements. A transaction run as a whole counts as one.
    pub fn counted(&self) -> Counted {
        self.shared.meter.read()
    }

    /// The same source, with its statements also counted by `meter`.
    #[must_use]
    pub fn metered(self, meter: Meter) -> Self {
        Self {
            meter: Some(meter),
            ..self
        }
    }

    pub(crate) fn meters(&self) -> impl Iterator<Item = &Meter> {
        std::iter::once(&self.shared.meter).chain(&self.meter)
    }

    /// Why its server is unreachable, if it is known to be.
    pub fn failure(&self) -> Option<PgError> {
        self.shared.health.failure()
    }

    /// Whether another line may be logged in this second.
    pub(crate) fn may_tell(&self) -> bool {
        self.shared.health.may_tell()
    }

    /// Runs a statement with parameters as text, at most until `deadline`. Must run in a thread's
    /// [`tokio::task::LocalSet`].
    pub async fn query(
        &self,
        text: &str,
        parameters: &[Option<&[u8]>],
        deadline: Instant,
    ) -> Result<Rows, PgError> {
        let ask = Ask::new(text, parameters);
        let mut counting = Counting::begin(self, text, ask.placed.clone());
        let outcome = self.run(&ask, deadline).await;
        ask.timing.end(text);
        counting.end(&outcome, |rows| rows.affected);
        outcome
    }

    async fn run(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Rows, PgError> {
        let _place = self.place()?;
        let until = self.until(deadline);
        let run = async {
            match &self.shared.blocking {
                Some(pool) => pool.query(ask, until).await,
                None => Lines::here(&self.shared).query(ask).await,
            }
        };
        let outcome = tokio::time::timeout_at(until.into(), run).await;
        outcome.unwrap_or_else(|_| Err(self.late()))
    }

    /// Runs statements together, at most until `deadline`, and returns the outcome of each. They are pipelined on one
    /// connection, as far as the driver has room. Each is independent: an error does not affect the others. Statements
    /// beyond the limit on those in progress are rejected.
    pub async fn pipeline(&self, asks: &[Ask<'_>], deadline: Instant) -> Vec<Result<Rows, PgError>> {
        let places = Places::take_up_to(&self.shared, asks.len());
        let until = self.until(deadline);
        let (taken, refused) = asks.split_at(places.count);
        let mut counting = Counting::begin_all(self, taken);
        let run = match &self.shared.blocking {
            _ if taken.is_empty() => Vec::new(),
            Some(pool) => pool.pipeline(taken, until).await,
            None => Lines::here(&self.shared).pipeline(taken, until).await,
        };
        let mut outcomes = Vec::with_capacity(asks.len());
        for (outcome, ask) in run.into_iter().zip(taken) {
            let outcome = outcome.unwrap_or_else(|| Err(self.late()));
            ask.timing.end(ask.text);
            counting.end(&outcome, |rows| rows.affected);
            outcomes.push(outcome);
        }
        for ask in refused {
            let full = Err(self.full());
            Counting::begin(self, ask.text, Placed::default()).end(&full, |_: &Rows| 0);
            outcomes.push(full);
        }
        outcomes
    }

    /// A permit for one statement.
    fn place(&self) -> Result<Places<'_>, PgError> {
        let places = Places::take_up_to(&self.shared, 1);
        if places.count == 0 {
            Err(self.full())
        } else {
            Ok(places)
        }
    }

    fn full(&self) -> PgError {
        PgError::Full {
            in_flight_max: self.shared.settings.in_flight_max,
        }
    }

    /// When a statement that begins now must have ended.
    fn until(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.shared.settings.statement_timeout)
    }

    fn late(&self) -> PgError {
        PgError::TimedOut {
            what: Stage::Statement,
            limit: self.shared.settings.statement_timeout,
        }
    }
}

impl Source {
    /// Runs a statement whose rows are read one by one, until `deadline`, on a connection of its own. Resolves when the
    /// first rows have arrived, or the statement has failed.
    pub async fn stream(
        &self,
        text: &str,
        parameters: &[Option<&[u8]>],
        deadline: Instant,
    ) -> Result<RowStream, PgError> {
        let watch = Watch::begin(Some(self), text.to_owned(), Instant::now());
        let begin = async {
            check_session(text)?;
            let lease = self.lease().await?;
            watch.place();
            RowStream::open(lease, text, parameters, deadline, watch.timing()).await
        };
        let begun = within(deadline, Stage::Statement, begin).await;
        let flow = watch.flow(&begun);
        begun.map(|rows| rows.watched(flow))
    }

    /// Prepares a statement on the server without running it, and returns the format of each parameter. It does not
    /// count as a statement in progress.
    pub async fn describe(&self, text: &str, deadline: Instant) -> Result<Vec<Takes>, PgError> {
        check_session(text)?;
        let describe = async { describe(Lease::take(&self.shared).await?, text).await };
        within(deadline, Stage::Statement, describe).await
    }

    /// Checks that the server answers, until `deadline`. If streams and transactions use all their connections, the
    /// server is assumed to answer, unless it is known to be unreachable.
    pub async fn probe(&self, deadline: Instant) -> Result<(), PgError> {
        let probe = async {
            match Lease::take(&self.shared).await {
                Ok(mut lease) => lease.probe().await,
                Err(error) if error.code() == Code::Full => self.shared.health.failure().map_or(Ok(()), Err),
                Err(error) => Err(error),
            }
        };
        within(deadline, Stage::Statement, probe).await
    }

    /// Starts copying rows in with a `copy … from stdin` statement, on a connection of its own.
    pub async fn copy_in(&self, text: &str, deadline: Instant) -> Result<CopyIn, PgError> {
        check_copies(text)?;
        let watch = Watch::begin(Some(self), text.to_owned(), Instant::now());
        let begin = async {
            let lease = self.lease().await?;
            watch.place();
            CopyIn::open(lease, text, deadline, watch.timing()).await
        };
        let begun = within(deadline, Stage::Statement, begin).await;
        let flow = watch.flow(&begun);
        begun.map(|copy| copy.watched(flow))
    }

    /// Starts copying rows out with a `copy … to stdout` statement, on a connection of its own.
    pub async fn copy_out(&self, text: &str, deadline: Instant) -> Result<CopyOut, PgError> {
        check_copies(text)?;
        let watch = Watch::begin(Some(self), text.to_owned(), Instant::now());
        let begin = async {
            let lease = self.lease().await?;
            watch.place();
            CopyOut::open(lease, text, deadline, watch.timing()).await
        };
        let begun = within(deadline, Stage::Statement, begin).await;
        let flow = watch.flow(&begun);
        begun.map(|copy| copy.watched(flow))
    }

    /// Listens to a channel. All listeners share one additional connection. Resolves once the server has confirmed it.
    pub async fn listen(&self, channel: &str, deadline: Instant) -> Result<Listener, PgError> {
        let watch = Watch::begin(Some(self), format!("listen {channel}"), Instant::now());
        watch.place();
        let listener = self.shared.hub.listen(channel, deadline).await;
        watch.timing().reach(Reached::Answered);
        watch.end(&listener, |_| 0);
        listener
    }

    /// Begins a transaction, on a connection of its own, that may last until `deadline`.
    pub async fn begin(&self, beginning: Beginning, deadline: Instant) -> Result<Transaction, PgError> {
        self.begin_counted(Some(self), beginning, deadline).await
    }

    /// The same; with `counted` = `None` its statements are not counted individually, because the transaction is
    /// counted as a whole.
    pub(crate) async fn begin_counted(
        &self,
        counted: Option<&Self>,
        beginning: Beginning,
        deadline: Instant,
    ) -> Result<Transaction, PgError> {
        let text = beginning.text();
        let watch = Watch::begin(counted, &*text, Instant::now());
        let begin = async {
            let lease = self.lease().await?;
            watch.place();
            Transaction::begin(lease, &text, deadline, counted.cloned(), watch.timing()).await
        };
        let begun = within(deadline, Stage::Transaction, begin).await;
        watch.end(&begun, |_| 0);
        begun
    }

    /// A connection for exclusive use; waiting for one counts as a statement in progress.
    async fn lease(&self) -> Result<Lease, PgError> {
        let _place = self.place()?;
        Lease::take(&self.shared).await
    }
}

/// Runs a future with a deadline.
pub(crate) async fn within<O>(
    deadline: Instant,
    what: Stage,
    run: impl Future<Output = Result<O, PgError>>,
) -> Result<O, PgError> {
    let begun = Instant::now();
    let outcome = tokio::time::timeout_at(deadline.into(), run).await;
    outcome.unwrap_or(Err(PgError::TimedOut {
        what,
        limit: whole_ms(deadline, begun),
    }))
}

/// Time between `begun` and a deadline, rounded up to whole milliseconds.
pub(crate) fn whole_ms(deadline: Instant, begun: Instant) -> Duration {
    let micros = deadline.saturating_duration_since(begun).as_micros();
    Duration::from_millis(u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX))
}

/// Permits for statements in progress.
struct Places<'s> {
    shared: &'s Shared,
    count: usize,
}

impl<'s> Places<'s> {
    /// Takes up to `asked` permits, as many as are available.
    fn take_up_to(shared: &'s Shared, asked: usize) -> Self {
        let in_flight_max = shared.settings.in_flight_max;
        let room = |before: usize| asked.min(in_flight_max.saturating_sub(before));
        let take = |before| Some(before + room(before));
        let taken = shared
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let count = room(taken.unwrap_or_else(|before| before));
        Self { shared, count }
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        self.shared.in_flight.fetch_sub(self.count, Ordering::Relaxed);
    }
}
