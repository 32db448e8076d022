//! What is to be run: where to, what, how hard, and what counts as right.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{expect::Expect, h2, request::Requests, target::Address, tls::Tls};

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
}

/// One address and what is sent to it.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Where connections go.
    pub address: Address,
    /// What lies between the socket and the requests.
    pub link: Link,
    /// What they carry.
    pub requests: Requests,
}

/// What lies between the socket and the requests; by default nothing, and HTTP/1.1.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// The local address, if it is not left to the system.
    pub bind: Option<IpAddr>,
    /// The proxy behind [`Lane::address`] is asked to connect on.
    pub tunnel: Option<Tunnel>,
    /// TLS, once there is a connection.
    pub tls: Option<Tls>,
    /// HTTP/2: with TLS by ALPN, else by prior knowledge. [`Plan::pipeline`] is then how many streams a connection has at once.
    pub http2: bool,
}

/// What a proxy is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Host and port of the server.
    pub authority: String,
    /// The value of the Proxy-Authorization field.
    pub authorization: Option<String>,
}

/// How hard to load.
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// So many a second on each connection.
    PerConnection {
        /// Requests a second.
        per_second: f64,
    },
}

/// How requests of an open load are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Uniform,
    /// At random, as from many independent users.
    Poisson,
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
    /// An address of another machine.
    #[error("{address} is not this machine; load on somebody else's server needs --allow-remote")]
    Remote {
        /// The address.
        address: String,
    },
    /// A request that HTTP/2 cannot carry.
    #[error("a request cannot be sent with HTTP/2: {why}")]
    Http2 {
        /// Why.
        why: &'static str,
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

/// Most connections of one run: one address has no more ports.
pub const CONNECTIONS_MAX: usize = 60_000;
/// Most event loops.
pub const THREADS_MAX: usize = 256;
/// Most requests under way on one connection.
pub const PIPELINE_MAX: usize = 1024;

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
        for lane in &self.lanes {
            if !remote && !lane.address.is_local() {
                return Err(PlanError::Remote {
                    address: lane.address.to_string(),
                });
            }
            let tunnel = lane.link.tunnel.as_ref().map(|tunnel| &tunnel.authority);
            if let Some(authority) = tunnel.filter(|authority| !remote && !is_local_authority(authority)) {
                return Err(PlanError::Remote {
                    address: authority.clone(),
                });
            }
            if lane.link.http2 {
                lane.check_http2()?;
            }
        }
        // Event queues, bells, and what the process has open anyway.
        let needed = (connections + 2 * self.threads + 64) as u64;
        raise_descriptor_limit(needed)
    }

    /// Shares it between threads.
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

impl Pace {
    /// Whether the rate is one.
    pub fn check(&self) -> Result<(), PlanError> {
        match *self {
            Self::Closed => Ok(()),
            Self::Open { per_second, .. } | Self::PerConnection { per_second } => {
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
    /// A lane with nothing between its sockets and its requests.
    pub fn new(address: Address, requests: Requests) -> Self {
        Self {
            address,
            link: Link::default(),
            requests,
        }
    }

    fn check_http2(&self) -> Result<(), PlanError> {
        let mut coder = h2::Coder::new(self.link.tls.is_some());
        for sample in self.requests.samples() {
            coder.code(&sample).map_err(|why| PlanError::Http2 { why })?;
        }
        Ok(())
    }
}

/// Whether a host and port as they are written are surely on this machine.
fn is_local_authority(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
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
