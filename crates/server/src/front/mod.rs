//! Sockets: listeners, threads, connections. Each I/O thread has a runtime and listening sockets of its own; nothing about a
//! connection ever leaves its thread.

mod body;
mod connection;
mod head;
mod listener;
mod request_body;
mod thread;
mod timer;
mod wire;

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    thread::JoinHandle,
    time::Duration,
};

use forebay_pool::{LocalMailbox, Mailboxes};
use parking_lot::Mutex;
use tokio::sync::watch;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::head::Framing;
pub(crate) use self::{
    body::{Decoder, Step},
    head::{Head, Parsed, decimal},
    listener::{Accepted, Accepting, Bound},
    request_body::{End, RequestBody},
    wire::{Stream, Wire},
};
use self::{connection::Connection, thread::Thread};
use crate::{app::App, config::Server};

/// What bounds a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) header_bytes_max: usize,
    pub(crate) body_bytes_max: u64,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) idle_timeout: Duration,
}

impl Limits {
    fn of(server: &Server) -> Self {
        Self {
            header_bytes_max: usize::try_from(server.header_bytes_max).unwrap_or(usize::MAX),
            body_bytes_max: server.body_bytes_max,
            header_timeout: server.header_timeout,
            body_timeout: server.body_timeout,
            idle_timeout: server.idle_timeout,
        }
    }
}

/// What all I/O threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    app: Mutex<(u64, Arc<App>)>,
    /// Changes with the app, so that threads look at the lock only then.
    version: AtomicU64,
    /// Tells threads without requests that the app has changed.
    replaced: watch::Sender<()>,
    open: AtomicUsize,
    accepted: AtomicU64,
    turned_away: AtomicU64,
    phase: watch::Sender<Phase>,
    /// Threads whose connections have all ended.
    drained: watch::Sender<usize>,
}

/// Pause after a failed accept, such as one without a free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the threads are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Accept nothing more; end each connection after its request.
    Draining,
    /// End, whatever is left.
    Ended,
}

/// Counts of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionCounts {
    pub(crate) open: usize,
    pub(crate) accepted: u64,
    pub(crate) turned_away: u64,
}

impl Shared {
    fn app_version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn current_app(&self) -> (u64, Arc<App>) {
        self.app.lock().clone()
    }
}

/// The running I/O threads.
#[derive(Debug)]
pub(crate) struct Front {
    shared: Arc<Shared>,
    threads: usize,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Front {
    /// Starts the threads; each takes its own share of the bound listeners.
    pub(crate) fn start(
        app: Arc<App>,
        bound: &mut [Bound],
        mailboxes: &Arc<Mailboxes>,
        threads: usize,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            app: Mutex::new((1, app)),
            version: AtomicU64::new(1),
            replaced: watch::Sender::new(()),
            open: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            phase: watch::Sender::new(Phase::Serving),
            drained: watch::Sender::new(0),
        });
        let mut running = Vec::new();
        for index in 0..threads {
            let listeners = bound.iter_mut().map(Bound::take).collect();
            let (shared, mailboxes) = (shared.clone(), mailboxes.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let run = move || {
                let local = tokio::task::LocalSet::new();
                local.block_on(&runtime, run_thread(index, shared, listeners, mailboxes));
            };
            running.push(
                std::thread::Builder::new()
                    .name(format!("io-{index}"))
                    .spawn(run)?,
            );
        }
        Ok(Self {
            shared,
            threads,
            running: Mutex::new(running),
        })
    }

    /// Puts other routes and pools in force, and gives back those of before. Requests under way keep what they began with; the
    /// threads let go of it at once.
    pub(crate) fn replace_app(&self, app: Arc<App>) -> Arc<App> {
        let mut current = self.shared.app.lock();
        let version = current.0 + 1;
        let (_, before) = std::mem::replace(&mut *current, (version, app));
        self.shared.version.store(version, Ordering::Release);
        self.shared.replaced.send_replace(());
        before
    }

    pub(crate) fn app(&self) -> Arc<App> {
        self.shared.current_app().1
    }

    pub(crate) fn connections(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.shared.open.load(Ordering::Relaxed),
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            turned_away: self.shared.turned_away.load(Ordering::Relaxed),
        }
    }

    /// Stops accepting, and waits until every connection has ended.
    pub(crate) async fn drain(&self) {
        self.shared.phase.send_replace(Phase::Draining);
        let mut drained = self.shared.drained.subscribe();
        // The sender lives in `shared`.
        let _ = drained.wait_for(|drained| *drained == self.threads).await;
    }

    /// Ends the threads with whatever is left on them.
    pub(crate) fn end(&self) {
        self.shared.phase.send_replace(Phase::Ended);
        for thread in self.running.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!(target: "forebay::front", "an I/O thread had panicked");
            }
        }
    }
}

async fn run_thread(index: usize, shared: Arc<Shared>, listeners: Vec<Accepting>, mailboxes: Arc<Mailboxes>) {
    let mailbox = LocalMailbox::open(&mailboxes, index);
    let thread = Thread::new(index, shared.clone(), mailbox);
    let mut phase = shared.phase.subscribe();
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        accepting.spawn_local(accept(listener, thread.clone()));
    }
    tokio::task::spawn_local(follow_app(thread.clone()));
    // The sender lives in `shared`.
    let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
    // The listeners end when nothing waits in their queues any more: closing a socket resets what does.
    while accepting.join_next().await.is_some() {}
    // Sockets are looked at once more, so that a request that has arrived is not taken for an idle connection.
    tokio::task::yield_now().await;
    thread.drain();
    tokio::select! {
        () = thread.emptied() => shared.drained.send_modify(|drained| *drained += 1),
        _ = phase.wait_for(|phase| *phase == Phase::Ended) => return,
    }
    // Workers' links are read on this thread until their pools have ended.
    let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
}

/// Lets go of an app that was replaced, also on a thread that has no requests.
async fn follow_app(thread: Rc<Thread>) {
    let mut replaced = thread.shared.replaced.subscribe();
    loop {
        thread.app();
        // The sender lives in `shared`.
        let _ = replaced.changed().await;
    }
}

async fn accept(listener: Accepting, thread: Rc<Thread>) {
    let mut phase = thread.shared.phase.subscribe();
    let listener = match listener.register() {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(target: "forebay::front", cause = %error, "cannot accept connections");
            return;
        }
    };
    loop {
        let draining = *phase.borrow_and_update() >= Phase::Draining;
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            // Only after another look at the sockets: what waits by then is accepted first.
            () = tokio::task::yield_now(), if draining => return,
            _ = phase.changed() => continue,
        };
        match accepted {
            Ok(accepted) => enter(accepted, &thread),
            Err(error) => {
                tracing::warn!(target: "forebay::front", cause = %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Begins to serve a connection, unless there are too many.
fn enter(accepted: listener::Accepted, thread: &Rc<Thread>) {
    let shared = &thread.shared;
    shared.accepted.fetch_add(1, Ordering::Relaxed);
    if shared.open.fetch_add(1, Ordering::Relaxed) >= thread.app().config.server.connections_max {
        shared.open.fetch_sub(1, Ordering::Relaxed);
        shared.turned_away.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // Before its task runs for the first time: a thread that drains waits for this connection too.
    let open = Open::new(thread);
    let thread = thread.clone();
    match accepted {
        listener::Accepted::Tcp(socket, peer) => drop(tokio::task::spawn_local(async move {
            open.woken_by_drain().await;
            Connection::new(socket, thread, peer.ip().to_string().into())
                .serve()
                .await;
        })),
        listener::Accepted::Unix(socket) => drop(tokio::task::spawn_local(async move {
            open.woken_by_drain().await;
            Connection::new(socket, thread, "".into()).serve().await;
        })),
    }
}

/// Counts a connection for as long as it is open.
struct Open {
    thread: Rc<Thread>,
    key: usize,
}

impl Open {
    fn new(thread: &Rc<Thread>) -> Self {
        Self {
            thread: thread.clone(),
            key: thread.enter(),
        }
    }

    /// Has the drain wake the task that this runs in.
    async fn woken_by_drain(&self) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        self.thread.set_waker(self.key, waker);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.thread.leave(self.key);
        self.thread.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}
