//! Sockets: listeners, threads, connections. Each I/O thread has its own runtime and listening sockets; no part of a connection ever leaves
//! its thread.

mod accept;
mod answer;
mod body;
mod client;
mod connection;
mod forwarded;
mod head;
mod http1_client;
mod http2;
mod listener;
mod lookup;
mod pace;
mod proxy_protocol;
mod request_body;
mod socket;
mod thread;
mod timer;
mod tls;
mod wake_batch;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use forebay_pool::Mailboxes;
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use self::{
    body::{Decoder, Step},
    client::Client,
    head::{Head, Parsed, Version, decimal},
    listener::{ACCEPT_PAUSE, Accepted, Accepting, Bound, SocketFileOwner},
    thread::Thread,
    wake_batch::together,
};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::{forwarded::forwarded, proxy_protocol::read as read_proxy_header};
pub(crate) use self::{head::Framing, pace::Pace};
use crate::{app::App, compression, config::Server, traces::Traces};

/// Size and time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) header_bytes_max: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// Bytes per second; 0: no minimum.
    pub(crate) min_rate: u64,
    pub(crate) min_rate_grace: Duration,
}

impl Limits {
    /// A fresh [`Pace`], for one body.
    pub(crate) fn pace(&self) -> Pace {
        Pace::new(self.min_rate, self.min_rate_grace)
    }

    fn of(server: &Server) -> Self {
        Self {
            header_bytes_max: usize::try_from(server.header_bytes_max).unwrap_or(usize::MAX),
            header_timeout: server.header_timeout,
            body_timeout: server.body_timeout,
            idle_timeout: server.idle_timeout,
            min_rate: server.min_rate,
            min_rate_grace: server.min_rate_grace,
        }
    }
}

/// State that all I/O threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    app: Mutex<(u64, Arc<App>)>,
    /// Incremented with each change of `app`, so that threads take the lock only then.
    version: AtomicU64,
    /// Wakes threads that have no requests after the app has changed, or when a replaced script has no owner left.
    replaced: watch::Sender<()>,
    open: AtomicUsize,
    accepted: AtomicU64,
    turned_away: AtomicU64,
    /// Clients that were disconnected for being slower than `min_rate`.
    too_slow: AtomicU64,
    /// Cost and savings of compression.
    pub(crate) compression: compression::Counts,
    phase: watch::Sender<Phase>,
    pub(crate) traces: Arc<Traces>,
    /// The port to which requests without TLS are sent, if there is one.
    pub(crate) tls_port: Option<u16>,
    /// Number of threads whose connections have all ended.
    drained: watch::Sender<usize>,
    /// Changes when every thread is to report that it runs tasks.
    heartbeat: watch::Sender<()>,
    /// Which threads have reported since.
    beats: watch::Sender<Vec<bool>>,
}

/// Lifecycle of the I/O threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Another process accepts the connections; end each one with its next response.
    HandedOver,
    /// Accept no more connections; end each one after its current request.
    Draining,
    /// End now, with whatever connections are left.
    Ended,
}

/// Connection counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionCounts {
    pub(crate) open: usize,
    pub(crate) accepted: u64,
    pub(crate) turned_away: u64,
    pub(crate) too_slow: u64,
}

impl Shared {
    fn app_version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn note_too_slow(&self) {
        self.too_slow.fetch_add(1, Ordering::Relaxed);
    }

    fn current_app(&self) -> (u64, Arc<App>) {
        self.app.lock().clone()
    }
}

fn thread_name(index: usize) -> String {
    format!("io-{index}")
}

/// The running I/O threads.
#[derive(Debug)]
pub(crate) struct Front {
    shared: Arc<Shared>,
    threads: usize,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Front {
    /// Starts the threads; each has at least one socket of every bound listener.
    pub(crate) fn start(
        app: Arc<App>,
        bound: &[Bound],
        mailboxes: &Arc<Mailboxes>,
        traces: &Arc<Traces>,
        threads: usize,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            app: Mutex::new((1, app)),
            version: AtomicU64::new(1),
            replaced: watch::Sender::new(()),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            too_slow: AtomicU64::new(0),
            compression: compression::Counts::default(),
            phase: watch::Sender::new(Phase::Serving),
            traces: traces.clone(),
            tls_port: bound.iter().find_map(Bound::tls_port),
            drained: watch::Sender::new(0),
            heartbeat: watch::Sender::new(()),
            beats: watch::Sender::new(vec![false; threads]),
        });
        let mut running = Vec::new();
        for index in 0..threads {
            let mut listeners = Vec::new();
            for bound in bound {
                listeners.extend(bound.for_thread(index, threads)?);
            }
            let (shared, mailboxes) = (shared.clone(), mailboxes.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let run = move || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, accept::run(index, shared, listeners, mailboxes));
            };
            running.push(std::thread::Builder::new().name(thread_name(index)).spawn(run)?);
        }
        Ok(Self {
            shared,
            threads,
            running: Mutex::new(running),
        })
    }

    /// Puts new routes and pools in force and returns the previous ones. Requests in flight keep those they began with; idle threads drop
    /// them at once.
    pub(crate) fn replace_app(&self, app: Arc<App>) -> Arc<App> {
        let mut current = self.shared.app.lock();
        let version = current.0 + 1;
        let (_, before) = std::mem::replace(&mut *current, (version, app));
        self.shared.version.store(version, Ordering::Release);
        self.shared.replaced.send_replace(());
        before
    }

    /// Wakes the threads so that they drop engines of scripts that have no owner left.
    pub(crate) fn forget_scripts(&self) {
        self.shared.replaced.send_replace(());
    }

    pub(crate) fn app(&self) -> Arc<App> {
        self.shared.current_app().1
    }

    /// The state that all I/O threads share. The console's thread answers requests with it, too.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn connections(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.shared.open.load(Ordering::Relaxed),
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            turned_away: self.shared.turned_away.load(Ordering::Relaxed),
            too_slow: self.shared.too_slow.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn compression(&self) -> compression::Totals {
        self.shared.compression.totals()
    }

    /// Stops accepting and waits until every connection has ended. If another process accepts from the same sockets
    /// (`is_handed_over`), queued connections are left to it, and idle ones stay open for [`accept::IDLE_GRACE`].
    pub(crate) async fn drain(&self, is_handed_over: bool) {
        self.shared.phase.send_replace(if is_handed_over {
            Phase::HandedOver
        } else {
            Phase::Draining
        });
        let mut drained = self.shared.drained.subscribe();
        // The sender lives in `shared`.
        let _ = drained.wait_for(|drained| *drained == self.threads).await;
    }

    /// Waits until every thread has run a task since the call. Never returns while one is blocked.
    pub(crate) async fn heartbeat(&self) {
        self.shared.beats.send_modify(|beats| beats.fill(false));
        self.shared.heartbeat.send_replace(());
        let mut beats = self.shared.beats.subscribe();
        // The sender lives in `shared`.
        let _ = beats.wait_for(|beats| beats.iter().all(|beat| *beat)).await;
    }

    /// Names of the threads that have not reported since the last call of [`Front::heartbeat`].
    pub(crate) fn unresponsive_threads(&self) -> Vec<String> {
        let beats = self.shared.beats.borrow();
        let missing = beats.iter().enumerate().filter(|(_, beat)| !**beat);
        missing.map(|(index, _)| thread_name(index)).collect()
    }

    /// Ends the threads, with whatever connections are left on them.
    pub(crate) fn end(&self) {
        self.shared.phase.send_replace(Phase::Ended);
        for thread in self.running.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!(target: "forebay::front", "an I/O thread had panicked");
            }
        }
    }
}
