//! The plan of a run: addresses, requests, limits, and the conditions for a correct response.

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{engine::ring, expect::Expect, request::Requests, target::is_local, tls::Tls};

/// A complete and consistent run: [`Plan::check`] accepts it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Addresses and their requests. Connections are assigned to the lanes in turn.
    pub lanes: Vec<Lane>,
    /// Event loops.
    pub threads: usize,
    /// Most requests in flight on one connection.
    pub pipeline: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Longest wait for a complete response. The request then counts as failed, and with this latency.
    pub timeout: Duration,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Conditions that every response must meet.
    pub expect: Expect,
    /// Seed of everything random.
    pub seed: u64,
    /// The kernel interface for receiving and sending.
    pub engine: Engine,
}

/// The kernel interface for receiving and sending on many connections at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring if it can serve the plan and the system has it, which takes less CPU; otherwise epoll. [`Plan::settle_engine`] considers
    /// the load, too.
    #[default]
    Auto,
    /// Readiness notification, with one call for each receive and each request.
    Epoll,
    /// Submits the operations of a turn together. For connections without TLS that stay open; needs Linux 6.1.
    IoUring,
}

impl Engine {
    /// The name on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// One address and the requests sent to it.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Address of the server.
    pub address: SocketAddr,
    /// TLS configuration; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Requests sent on its connections.
    pub requests: Requests,
}

/// The load: number of connections and pace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections in use.
    pub connections: usize,
    /// When requests are sent.
    pub pace: Pace,
}

impl Load {
    /// No load; connections stay open.
    pub const PAUSED: Self = Self {
        connections: 0,
        pace: Pace::Closed,
    };
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Each connection sends the next request as soon as a response has arrived: a number of users, each waiting for a response.
    Closed,
    /// A fixed, even rate over all connections, whatever the responses do. A request that is due while every connection is busy waits, and its
    /// latency counts from when it was due.
    Open {
        /// Requests a second.
        per_second: f64,
    },
}

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PlanError {
    /// A number that must not be 0 is 0.
    #[error("{what} is 0; at least 1 is needed")]
    Zero {
        /// The number in words, such as `connections`.
        what: &'static str,
    },
    /// A number exceeds its maximum.
    #[error("{what} is {value}, at most {max} is supported")]
    TooMany {
        /// The number in words, such as `connections`.
        what: &'static str,
        /// The value as given.
        value: usize,
        /// The largest accepted value.
        max: usize,
    },
    /// The rate is not a positive finite number.
    #[error("a rate of {per_second} requests a second is not possible; it must be above 0")]
    Rate {
        /// The rate as given, in requests per second.
        per_second: f64,
    },
    /// Pipelining needs a connection that serves several requests.
    #[error("pipelining needs keep-alive: a connection that is closed after one answer carries one request")]
    PipelineWithoutKeepAlive,
    /// io_uring serves plain connections only.
    #[error(
        "io_uring serves HTTP without TLS, on connections that stay open; leave --engine out, and epoll serves the others"
    )]
    EngineForOthers,
    /// The system does not offer io_uring to this process.
    #[error(
        "io_uring cannot be used here: {why}; it needs Linux 6.1, and containers often forbid it; leave --engine out for epoll"
    )]
    NoIoUring {
        /// The error of the system.
        why: String,
    },
    /// The address is that of another machine.
    #[error("{address} is not this machine; load on somebody else's server needs --allow-remote")]
    Remote {
        /// The address as given.
        address: String,
    },
    /// The limit of open files is too low.
    #[error("{needed} files must be open at once, the limit is {limit}; raise it with: ulimit -n {needed}")]
    Descriptors {
        /// Files needed.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
}

/// Most connections from one local address: it has no more ports.
pub const CONNECTIONS_MAX: usize = 60_000;
/// Most event loops.
pub const THREADS_MAX: usize = 256;
/// Connections of a thread from which on many responses arrive at once.
const RING_CONNECTIONS_MIN: usize = 16;
/// Most requests in flight on one connection.
pub const PIPELINE_MAX: usize = 1024;

impl Plan {
    /// A plan with default limits: one thread, one request at a time, 10 s for a response.
    pub fn new(lanes: Vec<Lane>) -> Self {
        Self {
            lanes,
            threads: 1,
            pipeline: 1,
            keep_alive: true,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            expect: Expect::default(),
            seed: 1,
            engine: Engine::default(),
        }
    }

    /// Checks whether the plan can be run under such a load; `remote`: other machines may be loaded.
    pub fn check(&self, connections: usize, remote: bool) -> Result<(), PlanError> {
        for (what, value, max) in [
            ("the number of URLs", self.lanes.len(), usize::MAX),
            ("the number of threads", self.threads, THREADS_MAX),
            ("the number of connections", connections, CONNECTIONS_MAX),
            ("the pipelining depth", self.pipeline, PIPELINE_MAX),
        ] {
            if value == 0 {
                return Err(PlanError::Zero { what });
            }
            if value > max {
                return Err(PlanError::TooMany { what, value, max });
            }
        }
        if self.pipeline > 1 && !self.keep_alive {
            return Err(PlanError::PipelineWithoutKeepAlive);
        }
        if self.engine == Engine::IoUring && !self.lanes.iter().all(|lane| self.suits_ring(lane)) {
            return Err(PlanError::EngineForOthers);
        }
        for lane in &self.lanes {
            if !remote && !is_local(&lane.address) {
                return Err(PlanError::Remote {
                    address: lane.address.to_string(),
                });
            }
        }
        // Descriptors of event queues, rings, wake-ups, and those that the process has open anyway.
        let needed = (connections + 3 * self.threads + 64) as u64;
        raise_descriptor_limit(needed)
    }

    /// Whether io_uring can serve a lane's connections.
    pub(crate) fn suits_ring(&self, lane: &Lane) -> bool {
        lane.tls.is_none() && self.keep_alive
    }

    /// Replaces [`Engine::Auto`] by the engine that suits the load, after trying it. Where few responses arrive at once there is nothing to
    /// submit together, and epoll notices each of them some 20 us sooner; a load at a rate is there to measure latency.
    pub fn settle_engine(&mut self, load: Load) -> Result<(), PlanError> {
        let many = load.pace == Pace::Closed && load.connections >= RING_CONNECTIONS_MIN * self.threads;
        if self.engine == Engine::Auto && !many {
            self.engine = Engine::Epoll;
        }
        match ring::for_thread(self) {
            Ok(Some(_)) => self.engine = Engine::IoUring,
            Ok(None) => self.engine = Engine::Epoll,
            Err(error) => {
                return Err(PlanError::NoIoUring {
                    why: error.to_string(),
                });
            }
        }
        Ok(())
    }
}

impl Pace {
    /// Checks that the rate is a positive finite number.
    pub fn check(&self) -> Result<(), PlanError> {
        match *self {
            Self::Closed => Ok(()),
            Self::Open { per_second, .. } => {
                if per_second.is_finite() && per_second > 0.0 {
                    Ok(())
                } else {
                    Err(PlanError::Rate { per_second })
                }
            }
        }
    }
}

impl Lane {
    /// A lane without TLS.
    pub fn new(address: SocketAddr, requests: Requests) -> Self {
        Self {
            address,
            tls: None,
            requests,
        }
    }
}

fn raise_descriptor_limit(needed: u64) -> Result<(), PlanError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(limit) = limits.maximum.filter(|maximum| *maximum < needed) {
        return Err(PlanError::Descriptors { needed, limit });
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limits.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| PlanError::Descriptors {
        needed,
        limit: limits.current.unwrap_or(u64::MAX),
    })
}
