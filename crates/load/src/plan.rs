//! What is to be run: where to, what, how hard, and what counts as right.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{Notes, ring},
    expect::Expect,
    h2,
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
    /// Requests of each connection's user, however often the connection is made anew. Where it is given it is the run's number of
    /// requests; a run that ends with its requests says the same number for all connections together.
    pub requests_each: Option<u64>,
    /// Connections opened a second, each for the first time; `None`: all at once.
    pub connect_rate: Option<f64>,
    /// Longest wait for a whole answer. The request then counts as failed, and with this latency.
    pub timeout: Duration,
    /// Longest wait for the first byte of an answer, from when its request was written; `None`: as long as for the whole.
    pub first_byte_timeout: Option<Duration>,
    /// Longest silence within an answer; `None`: as long as for the whole.
    pub idle_timeout: Option<Duration>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// What every answer must be.
    pub expect: Expect,
    /// Whether bodies are looked at without their content coding.
    pub decode: bool,
    /// Most redirects on the same server that are followed in a row; 0 for none.
    pub follow: u32,
    /// When each request is due, for [`Arrivals::Trace`]. The requests are then in [`Order::Replay`](crate::request::Order::Replay).
    pub trace: Option<Trace>,
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
    /// A turn's operations are handed over together. For HTTP/1.1 without TLS or proxy, on connections that stay open; Linux 6.1.
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
    /// What lies between the socket and the requests.
    pub link: Link,
    /// What they carry.
    pub requests: Requests,
}

/// What lies between the socket and the requests; by default nothing, and HTTP/1.1.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Local addresses, which connections take in turn; none: it is left to the system.
    pub bind: Vec<IpAddr>,
    /// The proxy behind [`Lane::address`] is asked to connect on.
    pub tunnel: Option<Tunnel>,
    /// The server's host and port, where requests name them to the proxy behind [`Lane::address`], which sends them on.
    pub through_proxy: Option<String>,
    /// Finds [`Lane::address`] anew for each connection; `None`: it stays. What was on this machine must stay there.
    pub names: Option<Names>,
    /// TLS, once there is a connection.
    pub tls: Option<Tls>,
    /// HTTP/2: with TLS by ALPN, else by prior knowledge. [`Plan::pipeline`] is then how many streams a connection has at once.
    pub http2: bool,
}

/// How the address of a server is found each time anew. It may take long; a failure says why.
#[derive(Clone)]
pub struct Names(Arc<dyn Fn() -> std::io::Result<SocketAddr> + Send + Sync>);

impl Names {
    /// By a function.
    pub fn new(resolve: impl Fn() -> std::io::Result<SocketAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(resolve))
    }

    pub(crate) fn resolve(&self) -> std::io::Result<SocketAddr> {
        (self.0)()
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
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
    /// So many a second on each connection.
    PerConnection {
        /// Requests a second.
        per_second: f64,
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
    /// At the times of [`Plan::trace`].
    Trace,
}

impl Arrivals {
    /// The part of `asked` requests by which fewer may be due in a stretch of time than the rate says: the last one or the last burst
    /// may fall beyond its end, and random moments are seldom more than three standard deviations fewer than their mean.
    pub(crate) fn shortfall(self, asked: f64) -> f64 {
        match self {
            Self::Uniform | Self::Trace => 1.0 / asked,
            Self::Poisson => 1.0 / asked + 3.0 / asked.sqrt(),
            Self::Burst(size) => f64::from(size) / asked,
        }
    }
}

/// When requests of a trace are due, each in nanoseconds after the first: at least one, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace(Arc<[u64]>);

impl Trace {
    /// Of times in any order, at least one, in nanoseconds since the same moment; `speed`: how much faster it goes.
    pub fn new(times_ns: &[u64], speed: f64) -> Self {
        let mut due = times_ns.to_vec();
        due.sort_unstable();
        let first = due.first().copied().expect("a trace has a request");
        Self(
            due.iter()
                .map(|time| ((time - first) as f64 / speed) as u64)
                .collect(),
        )
    }

    /// All of them.
    pub fn due_ns(&self) -> &[u64] {
        &self.0
    }

    /// From the first to the last.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.0.last().copied().unwrap_or_default())
    }

    /// Requests a second, as their mean.
    pub fn per_second(&self) -> f64 {
        let between = (self.0.len() - 1).max(1) as f64;
        let seconds = self.length().as_secs_f64();
        if seconds > 0.0 { between / seconds } else { between }
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
    /// A rate of connections that is no positive finite number.
    #[error("{per_second} connections a second are not possible; it must be above 0")]
    ConnectRate {
        /// The rate.
        per_second: f64,
    },
    /// A time-out that would never be reached.
    #[error(
        "{what} is {limit:?}, and a whole answer is waited for no longer than {timeout:?}; it must be less"
    )]
    Timeout {
        /// Which one.
        what: &'static str,
        /// Its length.
        limit: Duration,
        /// That of the whole answer.
        timeout: Duration,
    },
    /// A local address from which the server's cannot be reached.
    #[error("{local} and {address} are not of the same family: no connection leads from one to the other")]
    Bind {
        /// The local address.
        local: IpAddr,
        /// The server's.
        address: String,
    },
    /// Pipelining needs a connection that serves several requests.
    #[error("pipelining needs keep-alive: a connection that is closed after one answer carries one request")]
    PipelineWithoutKeepAlive,
    /// io_uring serves plain connections only.
    #[error(
        "io_uring serves HTTP/1.1 without TLS or proxy, on connections that stay open; leave --engine out, and epoll serves the others"
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
    /// Only an answer says what follows it.
    #[error(
        "redirects are followed with one request at a time on a connection; the pipelining depth is {pipeline}"
    )]
    FollowWithPipeline {
        /// Requests under way on a connection.
        pipeline: usize,
    },
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
            requests_each: None,
            connect_rate: None,
            timeout: Duration::from_secs(10),
            first_byte_timeout: None,
            idle_timeout: None,
            connect_timeout: Duration::from_secs(5),
            expect: Expect::default(),
            decode: false,
            follow: 0,
            trace: None,
            seed: 1,
            notes: Notes::default(),
            engine: Engine::default(),
        }
    }

    /// Whether it can be run with such a load; `remote`: other machines may be loaded.
    pub fn check(&self, connections: usize, remote: bool) -> Result<(), PlanError> {
        let locals = self.lanes.iter().map(|lane| lane.link.bind.len()).max();
        let connections_max = CONNECTIONS_MAX * locals.unwrap_or_default().max(1);
        for (what, value, max) in [
            ("the number of URLs", self.lanes.len(), usize::MAX),
            ("the number of threads", self.threads, THREADS_MAX),
            ("the number of connections", connections, connections_max),
            ("the pipelining depth", self.pipeline, PIPELINE_MAX),
        ] {
            if value == 0 {
                return Err(PlanError::Zero { what });
            }
            if value > max {
                return Err(PlanError::TooMany { what, value, max });
            }
        }
        if let Some(per_second) = self
            .connect_rate
            .filter(|rate| !(rate.is_finite() && *rate > 0.0))
        {
            return Err(PlanError::ConnectRate { per_second });
        }
        for (what, limit) in [
            ("the time-out for the first byte", self.first_byte_timeout),
            ("the time-out for silence within an answer", self.idle_timeout),
        ] {
            if let Some(limit) = limit.filter(|limit| *limit >= self.timeout) {
                let timeout = self.timeout;
                return Err(PlanError::Timeout { what, limit, timeout });
            }
        }
        if self.pipeline > 1 && !self.keep_alive {
            return Err(PlanError::PipelineWithoutKeepAlive);
        }
        if self.engine == Engine::IoUring && !self.lanes.iter().all(|lane| self.suits_ring(lane)) {
            return Err(PlanError::EngineForOthers);
        }
        if self.follow > 0 && self.pipeline > 1 {
            return Err(PlanError::FollowWithPipeline {
                pipeline: self.pipeline,
            });
        }
        for lane in &self.lanes {
            if !remote && !lane.address.is_local() {
                return Err(PlanError::Remote {
                    address: lane.address.to_string(),
                });
            }
            if let Address::Tcp(address) = &lane.address
                && let Some(local) = lane
                    .link
                    .bind
                    .iter()
                    .find(|local| local.is_ipv4() != address.is_ipv4())
            {
                return Err(PlanError::Bind {
                    local: *local,
                    address: address.to_string(),
                });
            }
            let tunnel = lane.link.tunnel.as_ref().map(|tunnel| &tunnel.authority);
            let onward = tunnel.or(lane.link.through_proxy.as_ref());
            if let Some(authority) = onward.filter(|authority| !remote && !is_local_authority(authority)) {
                return Err(PlanError::Remote {
                    address: authority.clone(),
                });
            }
            if lane.link.http2 {
                lane.check_http2()?;
            }
        }
        // Event queues, rings, bells, and what the process has open anyway.
        let needed = (connections + 3 * self.threads + 64) as u64;
        raise_descriptor_limit(needed)
    }

    /// Whether io_uring can serve a lane's connections.
    pub(crate) fn suits_ring(&self, lane: &Lane) -> bool {
        let link = &lane.link;
        let plain = link.tls.is_none() && link.tunnel.is_none() && !link.http2;
        plain && self.keep_alive && self.requests_per_connection == 0
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
        !self.keep_alive || self.requests_per_connection > 0 || self.requests_each.is_some()
    }

    /// Most requests of a connection.
    pub(crate) fn carried_max(&self) -> u64 {
        match (self.keep_alive, self.requests_per_connection) {
            (false, _) => 1,
            (true, 0) => u64::MAX,
            (true, most) => most,
        }
    }

    /// How many requests may still go over a connection that has carried so many, by a user who has asked so many.
    pub(crate) fn room(&self, carried: u64, asked: u64) -> usize {
        let of_user = self
            .requests_each
            .map_or(u64::MAX, |each| each.saturating_sub(asked));
        let left = of_user.min(self.carried_max().saturating_sub(carried));
        usize::try_from(left).unwrap_or(usize::MAX)
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
