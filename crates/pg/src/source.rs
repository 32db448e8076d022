//! A source: where statements go, and how many may be under way.

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

/// A source of results; clones are the same one.
#[derive(Clone, Debug)]
pub struct Source {
    shared: Arc<Shared>,
    /// Counts what is run by this one, beside what is counted of all.
    meter: Option<Meter>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Connections that each thread may have.
    pub(crate) thread_connections_max: usize,
    in_flight: AtomicUsize,
    pub(crate) health: Arc<Health>,
    meter: Meter,
    pub(crate) blocking: Option<blocking::Pool>,
    /// Connections of streams and transactions.
    pub(crate) leases: Arc<Leases>,
    /// Those who listen.
    hub: Arc<Hub>,
    /// Whether a task closes those that nobody has had for long.
    pub(crate) is_sweeping: AtomicBool,
    /// Ends with the source, and tells the threads that have connections to it.
    pub(crate) open: watch::Sender<()>,
}

/// A statement that is run from now on.
#[derive(Debug)]
pub struct Ask<'a> {
    pub(crate) text: &'a str,
    pub(crate) parameters: &'a [Option<&'a [u8]>],
    pub(crate) timing: Timing,
    /// Since when it has had a connection.
    pub(crate) placed: Placed,
}

impl<'a> Ask<'a> {
    /// It has a connection from now on; the first time counts.
    pub(crate) fn place(&self) {
        let _ = self.placed.set(Instant::now());
    }

    /// With `$1`, `$2` and so on in its text, and as many parameters, as text; `None` is null.
    pub fn new(text: &'a str, parameters: &'a [Option<&'a [u8]>]) -> Self {
        Self {
            text,
            parameters,
            timing: Timing::begin(),
            placed: Placed::default(),
        }
    }

    /// Those that are sent together: they have a connection at once.
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
    /// A source whose statements come from so many threads. Nothing is connected before the first statement.
    pub fn new(name: &str, settings: Settings, threads: usize) -> Self {
        let threads = threads.max(1);
        let connections_max = settings.connections_max.max(2);
        // One is left for a stream or a transaction.
        let thread_connections_max =
            (connections_max.saturating_sub(1) / threads).clamp(1, pipelined::CONNECTIONS_MAX);
        let shared_max = match settings.driver {
            Driver::Pipelined => threads * thread_connections_max,
            // Threads have the rest, as far as nobody else has it.
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

    /// Whether the log is to be told that a statement has failed with this: not of every one in bad times.
    pub fn is_told(&self, error: &PgError) -> bool {
        self.shared.health.is_told(error)
    }

    /// What has been counted of its statements. A transaction that is known as a whole is one.
    pub fn counted(&self) -> Counted {
        self.shared.meter.read()
    }

    /// The same source, whose statements are counted by `meter` too.
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

    /// Why its server cannot be reached, as far as is known.
    pub fn failure(&self) -> Option<PgError> {
        self.shared.health.failure()
    }

    /// Whether the log bears another line.
    pub(crate) fn may_tell(&self) -> bool {
        self.shared.health.may_tell()
    }

    /// Runs a statement with parameters as text, at most until `deadline`. The task is one of a thread's [`tokio::task::LocalSet`].
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

    /// Runs statements together, at most until `deadline`, and gives the outcome of each. They share a connection, on which they are sent without waiting for each other, as far as the driver has room for them. Each is one of
    /// its own, and an error of one ends none of the others; those for which there is no place are refused.
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

    /// A place for one statement.
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

    /// When a statement that begins now has to be over.
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
    /// Runs a statement whose rows are taken one by one, until `deadline`, on a connection of its own. Its future ends when the first rows have come, or the statement has failed.
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

    /// Has the server prepare a statement without running it, and gives what each of its parameters takes. It is none of those that may be under way.
    pub async fn describe(&self, text: &str, deadline: Instant) -> Result<Vec<Takes>, PgError> {
        check_session(text)?;
        let describe = async { describe(Lease::take(&self.shared).await?, text).await };
        within(deadline, Stage::Statement, describe).await
    }

    /// Whether the server answers, until `deadline`. Where streams and transactions have all of their connections it is taken to do so, unless it is known to be gone.
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

    /// Begins to copy rows in with a statement `copy … from stdin`, on a connection of its own.
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

    /// Begins to copy rows out with a statement `copy … to stdout`, on a connection of its own.
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

    /// Listens to a channel, beside all others who do on one connection more. Its future ends when the server knows that.
    pub async fn listen(&self, channel: &str, deadline: Instant) -> Result<Listener, PgError> {
        let watch = Watch::begin(Some(self), format!("listen {channel}"), Instant::now());
        watch.place();
        let listener = self.shared.hub.listen(channel, deadline).await;
        watch.timing().reach(Reached::Answered);
        watch.end(&listener, |_| 0);
        listener
    }

    /// Begins a transaction, on a connection of its own, that may take until `deadline`.
    pub async fn begin(&self, beginning: Beginning, deadline: Instant) -> Result<Transaction, PgError> {
        self.begin_counted(Some(self), beginning, deadline).await
    }

    /// The same, with its statements counted by nobody where they are counted as a whole.
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

    /// A connection for one task; those that wait for one count as statements.
    async fn lease(&self) -> Result<Lease, PgError> {
        let _place = self.place()?;
        Lease::take(&self.shared).await
    }
}

/// Something that may take until a deadline.
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

/// How long there was until a deadline, without the fractions of a millisecond that nobody has asked for.
pub(crate) fn whole_ms(deadline: Instant, begun: Instant) -> Duration {
    let micros = deadline.saturating_duration_since(begun).as_micros();
    Duration::from_millis(u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX))
}

/// Some of the statements that may be under way.
struct Places<'s> {
    shared: &'s Shared,
    count: usize,
}

impl<'s> Places<'s> {
    /// So many, as far as there are.
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
