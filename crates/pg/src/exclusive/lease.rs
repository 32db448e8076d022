//! Leases of exclusive connections, and how long idle ones are kept.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};

use super::Connection;
use crate::{PgError, Settings, Stage, source::Shared, timing::Timing};

/// A connection idle for longer than this is probed before it is leased.
const UNASKED_MAX: Duration = Duration::from_millis(500);
/// Time limit of the probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may take to become usable again when it is returned with a statement in progress.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The exclusive connections of a source.
///
/// **Invariant:** the holder of a permit has at most one connection, and opens one only if none is idle, so there are
/// never more connections than permits.
#[derive(Debug)]
pub(crate) struct Leases {
    max: usize,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// A leased connection, returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    source: Weak<Shared>,
    /// `None` while it is being returned.
    held: Option<(Connection, OwnedSemaphorePermit)>,
    /// Task that logs a warning when the lease lasts long.
    watch: AbortHandle,
}

impl Idle {
    fn is_over(&self, settings: &Settings) -> bool {
        self.since.elapsed() >= settings.idle_timeout
            || self.connection.since.elapsed() >= settings.connection_age_max
    }

    /// Whether the server still answers.
    async fn is_good(&mut self) -> bool {
        if !self.connection.is_alive() {
            return false;
        }
        if self.since.elapsed() < UNASKED_MAX {
            return true;
        }
        let asked =
            tokio::time::timeout(PROBE_TIMEOUT, self.connection.query("", &[], &Timing::default())).await;
        matches!(asked, Ok(Ok(_)))
    }
}

impl Leases {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            places: Arc::new(Semaphore::new(max)),
            idle: Mutex::default(),
        }
    }

    /// Connections that exist or are being opened.
    pub(crate) fn count(&self) -> usize {
        self.max - self.places.available_permits() + self.idle.lock().len()
    }

    /// An idle connection, for the holder of a permit.
    fn idle(&self, settings: &Settings) -> Option<Idle> {
        let mut idle = self.idle.lock();
        idle.retain(|idle| !idle.is_over(settings));
        idle.pop()
    }

    /// Closes an idle connection, if there is one, because another kind needs its place.
    pub(crate) fn evict(&self) -> bool {
        self.idle.lock().pop().is_some()
    }
}

impl Lease {
    /// Leases an idle connection that still works, or else a new one, waiting for a permit up to the acquire timeout.
    pub(crate) async fn take(source: &Arc<Shared>) -> Result<Self, PgError> {
        let leases = &source.leases;
        let limit = source.settings.acquire_timeout;
        let late = |_| PgError::TimedOut {
            what: Stage::Acquire,
            limit,
        };
        let until = tokio::time::Instant::now() + limit;
        let place = tokio::time::timeout_at(until, Arc::clone(&leases.places).acquire_owned()).await;
        let place = place.map_err(late)?.expect("the places are never closed");
        let lease = |connection| Self {
            source: Arc::downgrade(source),
            held: Some((connection, place)),
            watch: tokio::spawn(tell_when_long(source.name.clone(), source.settings.leak_warning))
                .abort_handle(),
        };
        while let Some(mut idle) = leases.idle(&source.settings) {
            if idle.is_good().await {
                return Ok(lease(idle.connection));
            }
        }
        if let Some(pool) = &source.blocking {
            tokio::time::timeout_at(until, pool.room()).await.map_err(late)?;
        }
        let attempt = source.health.attempt()?;
        let made = Connection::connect(&source.settings).await;
        attempt.end(&made);
        made.map(lease)
    }

    /// Checks that the server answers.
    pub(crate) async fn probe(&mut self) -> Result<(), PgError> {
        self.connection()
            .query("", &[], &Timing::default())
            .await
            .map(drop)
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        let (connection, _) = self.held.as_mut().expect("it is given back only when dropped");
        connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.watch.abort();
        let Some((mut connection, place)) = self.held.take() else {
            return;
        };
        let source = self.source.clone();
        if connection.is_clean() {
            give_back(&source, connection);
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A connection that cannot be completed in time is closed, which also ends its statement on the server.
                let settled = tokio::time::timeout(SETTLE_TIMEOUT, connection.settle()).await;
                if matches!(settled, Ok(Ok(()))) && connection.is_clean() {
                    give_back(&source, connection);
                }
                drop(place);
            });
        }
    }
}

/// Logs a warning when a lease lasts long.
async fn tell_when_long(source: String, limit: Duration) {
    tokio::time::sleep(limit).await;
    tracing::warn!(target: "forebay::sql", source, "a stream or a transaction has had its connection for {limit:?}");
}

/// Keeps a connection for the next lease, unless the source has been dropped. Its permit is released after that.
fn give_back(source: &Weak<Shared>, connection: Connection) {
    let Some(shared) = source.upgrade() else { return };
    let since = Instant::now();
    shared.leases.idle.lock().push(Idle { connection, since });
    let is_first = !shared.is_sweeping.swap(true, Ordering::Relaxed);
    if let (true, Ok(runtime)) = (is_first, tokio::runtime::Handle::try_current()) {
        runtime.spawn(sweep(Weak::clone(source), shared.settings.idle_timeout));
    } else if is_first {
        shared.is_sweeping.store(false, Ordering::Relaxed);
    }
}

/// Closes connections that have been idle for long, until none is left.
async fn sweep(source: Weak<Shared>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(source) = source.upgrade() else { return };
        let mut idle = source.leases.idle.lock();
        idle.retain(|idle| !idle.is_over(&source.settings));
        if idle.is_empty() {
            source.is_sweeping.store(false, Ordering::Relaxed);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use super::tell_when_long;

    /// Captures log output as text.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_connection_that_is_held_for_long_is_told_of() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(tell_when_long("main".to_owned(), Duration::from_millis(1)));
        });
        let log = log.0.lock().unwrap();
        let log = String::from_utf8_lossy(&log);
        assert!(
            log.contains("has had its connection for 1ms") && log.contains("main"),
            "{log}"
        );
    }
}
