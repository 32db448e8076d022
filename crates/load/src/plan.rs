//! What is to be run: where to, what, how hard, and what counts as right.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{Notes, ring},
    expect::Expect,
    request::Requests,
    target::Address,
    tls::Tls,
};

/// A run, complete and consistent: [`Plan::check`] has nothing against it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What connections are made to and carry; they take the lanes in turn.
    pub lanes: Vec<Lane>,
    /// Event loops.
    pub threads: usize,
    /// Most requests under way on one connection.
    pub pipeline: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Requests after which a connection is closed and made anew; 0 for never.
    pub requests_per_connection: u64,
    /// Longest wait for a whole answer. The request then counts as failed, and with this latency.
    pub timeout: Duration,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// What every answer must be.
    pub expect: Expect,
    /// Seed of everything random.
    pub seed: u64,
    /// What is kept of single answers.
    pub notes: Notes,
    /// How the kernel is asked to receive and send.
    pub engine: Engine,
}

/// How the kernel is asked to receive and send on many connections at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring where it can serve and the system has it, which takes less CPU; otherwise epoll. [`Plan::settle_engine`] knows the load, too.
    #[default]
    Auto,
    /// Told what is ready, with a call for each receipt and each request.
    Epoll,
    /// A turn's operations are handed over together. For connections without TLS, on connections that stay open; Linux 6.1.
    IoUring,
}

impl Engine {
    /// As it is written on a command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// One address and what is sent to it.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Where connections go.
    pub address: Address,
    /// TLS, if connections speak it.
    pub tls: Option<Tls>,
    /// What they carry.
    pub requests: Requests,
}

/// How hard to load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections in use.
    pub connections: usize,
    /// When requests are sent.
    pub pace: Pace,
}

impl Load {
    /// None at all; connections stay open.
    pub const PAUSED: Self = Self {
        connections: 0,
        pace: Pace::Closed,
    };
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// The next one as soon as an answer has come: so many users, each waiting for its answer.
    Closed,
    /// So many a second over all connections, whatever the answers do. What is due while every connection is taken waits,
    /// and its latency counts from when it was due.
    Open {
        /// Requests a second.
        per_second: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
}

/// How requests of an open load are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Uniform,
    /// At random, as from many independent users.
    Poisson,
    /// So many at once, at equal distances.
    Burst(u32),
}

impl Arrivals {
    /// The part of `asked` requests by which fewer may be due in a stretch of time than the rate says: the last one or the last burst
    /// may fall beyond its end, and random moments are seldom more than three standard deviations fewer than their mean.
    pub(crate) fn shortfall(self, asked: f64) -> f64 {
        match self {
            Self::Uniform => 1.0 / asked,
            Self::Poisson => 1.0 / asked + 3.0 / asked.sqrt(),
            Self::Burst(size) => f64::from(size) / asked,
        }
    }
}

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PlanError {
    /// A number that must not be 0.
    #[error("{what} is 0; at least 1 is needed")]
    Zero {
        /// What the number is.
        what: &'static str,
    },
    /// A number above what is supported.
    #[error("{what} is {value}, at most {max} is supported")]
    TooMany {
        /// What the number is.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The limit.
        max: usize,
    },
    /// A rate that is no positive finite number.
    #[error("a rate of {per_second} requests a second is not possible; it must be above 0")]
    Rate {
        /// The rate.
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
    /// The system has no io_uring for this process.
    #[error(
        "io_uring cannot be used here: {why}; it needs Linux 6.1, and containers often forbid it; leave --engine out for epoll"
    )]
    NoIoUring {
        /// What the system said.
        why: String,
    },
    /// An address of another machine.
    #[error("{address} is not this machine; load on somebody else's server needs --allow-remote")]
    Remote {
        /// The address.
        address: String,
    },
    /// The system's limit of open files.
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
/// Connections of a thread from which on answers come many at once.
const RING_CONNECTIONS_MIN: usize = 16;
/// Most requests under way on one connection.
pub const PIPELINE_MAX: usize = 1024;
/// Most requests of a burst.
pub const BURST_MAX: u32 = 100_000;

impl Plan {
    /// A plan with the usual limits: one thread, one request at a time, 10 s for an answer.
    pub fn new(lanes: Vec<Lane>) -> Self {
        Self {
            lanes,
            threads: 1,
            pipeline: 1,
            keep_alive: true,
            requests_per_connection: 0,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            expect: Expect::default(),
            seed: 1,
            notes: Notes::default(),
            engine: Engine::default(),
        }
    }

    /// Whether it can be run with such a load; `remote`: other machines may be loaded.
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
            if !remote && !lane.address.is_local() {
                return Err(PlanError::Remote {
                    address: lane.address.to_string(),
                });
            }
        }
        // Event queues, rings, bells, and what the process has open anyway.
        let needed = (connections + 3 * self.threads + 64) as u64;
        raise_descriptor_limit(needed)
    }

    /// Whether io_uring can serve a lane's connections.
    pub(crate) fn suits_ring(&self, lane: &Lane) -> bool {
        lane.tls.is_none() && self.keep_alive && self.requests_per_connection == 0
    }

    /// Puts the engine that suits such a load in the place of [`Engine::Auto`], after trying it. Where few answers come at once there is
    /// nothing to hand over together, and epoll notices each of them some 20 us sooner; a load at a rate is there to measure latency.
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

    /// Whether a connection carries only so many requests.
    pub(crate) fn bounds_connections(&self) -> bool {
        !self.keep_alive || self.requests_per_connection > 0
    }

    /// Most requests of a connection.
    pub(crate) fn carried_max(&self) -> u64 {
        match (self.keep_alive, self.requests_per_connection) {
            (false, _) => 1,
            (true, 0) => u64::MAX,
            (true, most) => most,
        }
    }

    /// How many requests may still go over a connection that has carried so many.
    pub(crate) fn room(&self, carried: u64) -> usize {
        usize::try_from(self.carried_max().saturating_sub(carried)).unwrap_or(usize::MAX)
    }

    /// Shares it between threads.
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

impl Pace {
    /// Whether the rate is one.
    pub fn check(&self) -> Result<(), PlanError> {
        if let Self::Open {
            arrivals: Arrivals::Burst(size),
            ..
        } = *self
        {
            let what = "the size of a burst";
            match size {
                0 => return Err(PlanError::Zero { what }),
                1..=BURST_MAX => {}
                _ => {
                    return Err(PlanError::TooMany {
                        what,
                        value: size as usize,
                        max: BURST_MAX as usize,
                    });
                }
            }
        }
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
    pub fn new(address: Address, requests: Requests) -> Self {
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
