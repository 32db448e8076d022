//! State shared by the connections of one I/O thread. It never leaves the thread, so nothing in it is locked.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, Weak},
    task::Waker,
    time::{Instant, SystemTime},
};

use forebay_pool::LocalMailbox;
use forebay_script::{IoScript, Script};
use forebay_upstream::Connections;
use slab::Slab;
use tokio::sync::Notify;

use super::{Limits, Shared, wake_batch::Bell};
use crate::{app::App, compression::Budget};

/// Most bytes that one read of a socket returns.
const SCRATCH_BYTES: usize = 64 * 1024;

/// The state of one I/O thread.
pub(crate) struct Thread {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) mailbox: Rc<LocalMailbox>,
    /// The CPU time that compression may take of this thread.
    pub(crate) compression: Rc<Budget>,
    /// Lets other threads wake this one's connections.
    pub(super) bell: Bell,
    /// Buffer for every read, so that idle connections hold none.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    /// Reference-counted per thread: the counter of the shared `Arc` would move between cores with every request.
    #[expect(
        clippy::redundant_allocation,
        reason = "the two counters are counted by different threads"
    )]
    app: RefCell<Rc<Arc<App>>>,
    app_version: Cell<u64>,
    date: RefCell<Date>,
    ids: RequestIds,
    /// Whether connections end with their next response.
    ending: Cell<bool>,
    draining: Cell<bool>,
    connections: RefCell<Slab<Waker>>,
    /// Notified when the last connection has ended.
    left: Notify,
    scripts: RefCell<Vec<ThreadScript>>,
    /// Connections to other servers.
    pub(crate) upstreams: Connections,
}

/// A script's engine on this thread, kept while the script has an owner.
struct ThreadScript {
    script: Weak<Script>,
    engine: IoScript,
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Date {
    text: [u8; DATE_BYTES],
    until: Option<Instant>,
}

/// Length of an IMF-fixdate (RFC 9110, 5.6.7).
pub(crate) const DATE_BYTES: usize = 29;

impl Thread {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, mailbox: Rc<LocalMailbox>) -> Rc<Self> {
        let (version, app) = shared.current_app();
        Rc::new(Self {
            index,
            mailbox,
            compression: Rc::default(),
            bell: Bell::hang(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            app: RefCell::new(Rc::new(app)),
            app_version: Cell::new(version),
            date: RefCell::new(Date {
                text: [b' '; DATE_BYTES],
                until: None,
            }),
            ids: RequestIds::new(index),
            ending: Cell::new(false),
            draining: Cell::new(false),
            connections: RefCell::default(),
            left: Notify::new(),
            scripts: RefCell::default(),
            upstreams: Connections::default(),
            shared,
        })
    }

    /// The routes and pools in force.
    #[expect(
        clippy::redundant_allocation,
        reason = "the two counters are counted by different threads"
    )]
    pub(crate) fn app(&self) -> Rc<Arc<App>> {
        if self.shared.app_version() != self.app_version.get() {
            let (version, app) = self.shared.current_app();
            self.app_version.set(version);
            self.app.replace(Rc::new(app));
        }
        self.app.borrow().clone()
    }

    /// Runs `work` with this thread's engine for a script, which is created on first use.
    pub(crate) fn with_script<T>(&self, script: &Arc<Script>, work: impl FnOnce(&mut IoScript) -> T) -> T {
        let mut scripts = self.scripts.borrow_mut();
        let found = scripts
            .iter()
            .position(|known| std::ptr::eq(known.script.as_ptr(), Arc::as_ptr(script)));
        let at = found.unwrap_or_else(|| {
            scripts.push(ThreadScript {
                script: Arc::downgrade(script),
                engine: script.on_io_thread(),
            });
            scripts.len() - 1
        });
        work(&mut scripts[at].engine)
    }

    /// Drops the engines of scripts that have no owner left.
    pub(super) fn forget_scripts(&self) {
        self.scripts
            .borrow_mut()
            .retain(|known| known.script.strong_count() > 0);
    }

    /// The value of a Date field, exact to the second.
    pub(crate) fn date(&self, now: Instant) -> [u8; DATE_BYTES] {
        let mut date = self.date.borrow_mut();
        if date.until.is_none_or(|until| now >= until) {
            let time = SystemTime::now();
            let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let to_next_second =
                std::time::Duration::from_nanos(u64::from(1_000_000_000 - since_epoch.subsec_nanos()));
            date.until = Some(now + to_next_second);
            date.text
                .copy_from_slice(httpdate::fmt_http_date(time).as_bytes());
        }
        date.text
    }

    /// A new request id: 16 hexadecimal digits.
    pub(crate) fn request_id(&self) -> [u8; 16] {
        self.ids.next()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether each connection ends with its next response, unless more requests have been read on it.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Ends every connection with its next response.
    pub(super) fn end_with_responses(&self) {
        self.ending.set(true);
    }

    /// Ends every connection after its current request.
    pub(crate) fn drain(&self) {
        self.ending.set(true);
        self.draining.set(true);
        for (_, waker) in &*self.connections.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Waits until no connection is left.
    pub(crate) async fn emptied(&self) {
        while !self.connections.borrow().is_empty() {
            self.left.notified().await;
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits::of(&self.app().config.server)
    }

    /// Registers a connection and returns its key. A drain wakes its task once [`Thread::set_waker`] was called.
    pub(crate) fn enter(&self) -> usize {
        self.connections.borrow_mut().insert(Waker::noop().clone())
    }

    pub(crate) fn set_waker(&self, connection: usize, waker: Waker) {
        self.connections.borrow_mut()[connection] = waker;
    }

    pub(crate) fn leave(&self, connection: usize) {
        let mut connections = self.connections.borrow_mut();
        connections.remove(connection);
        if connections.is_empty() {
            self.left.notify_one();
        }
    }
}

/// Generates unique request ids: each thread starts at a random number and counts up.
#[derive(Debug)]
struct RequestIds {
    next: Cell<u64>,
}

impl RequestIds {
    fn new(thread: usize) -> Self {
        use std::hash::{BuildHasher, Hasher};
        // The standard library seeds each RandomState from the system's randomness.
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_usize(thread);
        Self {
            next: Cell::new(hasher.finish()),
        }
    }

    fn next(&self) -> [u8; 16] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let id = self.next.get();
        self.next.set(id.wrapping_add(1));
        std::array::from_fn(|at| DIGITS[(id >> (60 - 4 * at) & 0xf) as usize])
    }
}
