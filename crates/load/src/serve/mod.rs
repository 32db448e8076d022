//! A small HTTP/1.1 server to aim at: it answers at once, late, long, wrong or never, as the path says, and counts exactly what it
//! did. Tests compare the generator with it, and a machine's best figures are found with it, before a real server is measured.
//!
//! | Path | Answer |
//! |---|---|
//! | `/` | 13 bytes, always the same |
//! | `/bytes/N`, `/chunked/N` | N bytes, with their length or in chunks |
//! | `/status/N` | an empty answer with this status |
//! | `/echo` | the body of the request |
//! | `/delay/MS` | after so many milliseconds; other connections are not held up |
//! | `/delay/dist?p50=MS&p99=MS` | after a random time with these percentiles, log-normally distributed |
//! | `/stall?for=MS&every=MS` | makes the whole server stand still, again and again with `every` |
//! | `/close`, `/close?silent` | closes after the answer, with or without saying so |
//! | `/fault/NAME?p=SHARE` | misbehaves, on a share of the requests only with `p`; the names: reset, silent, truncate, half-head, garbage, slow (`bytes_per_s`), never, two-lengths, overlong-head, bad-chunk, unsolicited, interim |
//! | `/stats`, `/reset` | what was counted, as JSON; forgets it |
//!
//! It is no server for anything else: it knows no files, no TLS and no limits for single clients.

mod answer;
mod connection;
mod delay;
mod path;
mod request;
mod stall;
mod stats;
mod worker;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, eventfd},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};

pub use self::stats::{OTHER_PATHS, PathCounts, Stats};
use self::{stall::Stalls, stats::Tally, worker::Worker};
use crate::target::Address;

/// Most event loops.
pub const THREADS_MAX: usize = 64;
/// Connections that wait to be accepted; the system may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 65_535;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A number of threads that is not possible.
    #[error("{threads} threads are not possible; accepted are 1 to {THREADS_MAX}")]
    Threads {
        /// What was asked for.
        threads: usize,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: Address,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The system gives no thread, or no event queue.
    #[error("cannot start the server's threads")]
    Start {
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen. Port 0: any that is free.
    pub address: Address,
    /// Event loops. Connections are dealt out to them in turn.
    pub threads: usize,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Options {
    /// One thread on a free port of this machine.
    fn default() -> Self {
        Self {
            address: Address::Tcp(([127, 0, 0, 1], 0).into()),
            threads: 1,
            seed: 1,
        }
    }
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    began: Instant,
    seed: u64,
    workers: Vec<Post>,
    stalls: Stalls,
    stop: AtomicBool,
    /// Readable once the server is to stop.
    stopped: OwnedFd,
}

impl Shared {
    /// Nanoseconds since the server started.
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        self.workers.iter().for_each(|worker| stats.add(&worker.tally()));
        stats
    }

    fn ring_all(&self) {
        self.workers.iter().for_each(Post::ring);
    }
}

/// Where a worker is reached.
#[derive(Debug)]
struct Post {
    tally: Mutex<Tally>,
    handed: Mutex<Vec<OwnedFd>>,
    bell: OwnedFd,
}

impl Post {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            tally: Mutex::new(Tally::new()),
            handed: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no worker panics with its tally locked")
    }

    fn handed(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.handed
            .lock()
            .expect("no worker panics with its connections locked")
    }

    fn hand_over(&self, socket: OwnedFd) {
        self.handed().push(socket);
        self.ring();
    }

    fn ring(&self) {
        // A full counter has rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// A server that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens, and starts the threads. The soft limit of open files is raised to the hard one.
    pub fn start(options: &Options) -> Result<Self, ServeError> {
        if !(1..=THREADS_MAX).contains(&options.threads) {
            return Err(ServeError::Threads {
                threads: options.threads,
            });
        }
        raise_descriptor_limit();
        let (listener, address) = listen(&options.address).map_err(|error| ServeError::Listen {
            address: options.address.clone(),
            source: error.into(),
        })?;
        let start = |source| ServeError::Start { source };
        let posts = (0..options.threads).map(|_| Post::new());
        let shared = Arc::new(Shared {
            began: Instant::now(),
            seed: options.seed,
            workers: posts.collect::<Result<_, _>>().map_err(start)?,
            stalls: Stalls::default(),
            stop: AtomicBool::new(false),
            stopped: eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| start(error.into()))?,
        });
        let mut server = Self {
            shared,
            address,
            threads: Vec::new(),
        };
        let mut listener = Some(listener);
        for index in 0..options.threads {
            let shared = server.shared.clone();
            let listener = listener.take();
            let (sender, started) = std::sync::mpsc::channel();
            // What a worker holds stays in its thread, so it is made there.
            let run = move || match Worker::new(shared, index, listener) {
                Ok(worker) => {
                    let _ = sender.send(Ok(()));
                    worker.run();
                }
                Err(error) => drop(sender.send(Err(error))),
            };
            let thread = std::thread::Builder::new()
                .name(format!("serve-{index}"))
                .spawn(run);
            server.threads.push(thread.map_err(start)?);
            started
                .recv()
                .expect("a thread says how it started")
                .map_err(start)?;
        }
        Ok(server)
    }

    /// Where it listens, with its port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What it has counted so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Makes the whole server stand still from now on for so long; at most 10 s.
    pub fn stall(&self, length: Duration) {
        let length = length.min(Duration::from_secs(10));
        self.shared
            .stalls
            .schedule(self.shared.now(), 0, length.as_nanos() as u64);
        self.shared.ring_all();
    }

    /// Closes everything, and returns what it has counted.
    pub fn stop(mut self) -> Stats {
        self.end();
        self.shared.stats()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.shared.stopped, &1_u64.to_ne_bytes());
        self.shared.ring_all();
        for thread in self.threads.drain(..) {
            // Its panic was printed when it happened.
            let _ = thread.join();
        }
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(address: &Address) -> Result<(OwnedFd, Address), rustix::io::Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = match address {
        Address::Tcp(std::net::SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(std::net::SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let bound = match address {
        Address::Tcp(address) => {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            rustix::net::bind(&socket, address)?;
            let bound = rustix::net::getsockname(&socket)?;
            Address::Tcp(bound.try_into()?)
        }
        Address::Unix(path) => {
            rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
            address.clone()
        }
    };
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((socket, bound))
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    // With fewer files it serves fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
}
