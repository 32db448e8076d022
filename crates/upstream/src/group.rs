//! Groups of equal servers: which of them gets a request, and which are down.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{Address, Failure};

/// Most servers of one group: those that have been tried are one bit each.
const SERVERS_MAX: usize = 64;

/// How a group is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The group's name in errors and metrics.
    pub name: String,
    /// Its servers: from 1 to 64.
    pub servers: Vec<Address>,
    /// The Host field that they get; that of the client if `None`.
    pub host: Option<String>,
    /// How one of them is chosen.
    pub balance: Balance,
    /// The authorities that sign the servers' certificates, as PEM; those that the system trusts if `None`.
    pub authorities: Option<PathBuf>,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait for the next part of a response's body.
    pub read_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Unused connections that each thread keeps to a server.
    pub idle_max: usize,
    /// Requests that a server may have at a time.
    pub in_flight_max: usize,
    /// Failures in a row after which a server is left alone for `fail_timeout`; 0: it never is.
    pub fails_max: u32,
    /// How long a server that fails is left alone.
    pub fail_timeout: Duration,
    /// Requests by which servers are found to be up or down, whatever other requests find.
    pub check: Option<HealthCheck>,
}

/// How a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The one with the fewest requests in flight.
    LeastInFlight,
    /// By a hash of the client's address: the same server for as long as it is up.
    Client,
    /// By a hash of the path.
    Path,
}

/// Requests that find out whether a server is up: it is if it answers with a status below 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path that is asked for.
    pub path: String,
    /// The time from one request to the next.
    pub interval: Duration,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

/// Servers that answer alike.
#[derive(Debug)]
pub struct Group {
    settings: Settings,
    servers: Vec<Arc<Server>>,
    tls: Arc<ClientConfig>,
    /// Where the search for the next server begins, so that equal ones take turns.
    next: AtomicUsize,
    begun: Instant,
}

/// A server of a group.
#[derive(Debug)]
pub struct Server {
    address: Address,
    name: String,
    in_flight: AtomicUsize,
    /// Failures since it last answered.
    fails: AtomicU32,
    /// Until when it is left alone, in milliseconds since the group began; 0: it is not.
    down_until: AtomicU64,
    /// The result of the last health check.
    is_unhealthy: AtomicBool,
    requests: AtomicU64,
    failures: AtomicU64,
}

/// Requests of a server since its group began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCounts {
    /// Requests it has now.
    pub in_flight: usize,
    /// Requests sent to it, each attempt counted.
    pub requests: u64,
    /// Attempts that failed.
    pub failures: u64,
}

/// The right to send one request to a server.
#[derive(Debug)]
pub struct Lease {
    group: Arc<Group>,
    at: usize,
    /// Whether it is for a health check, which has no part in limits and counts.
    is_check: bool,
}

impl Group {
    /// A new group. Fails if `authorities` cannot be read.
    ///
    /// # Panics
    ///
    /// If there is no server, or there are more than 64.
    pub fn new(settings: Settings) -> io::Result<Arc<Self>> {
        assert!(
            (1..=SERVERS_MAX).contains(&settings.servers.len()),
            "a group has 1 to 64 servers"
        );
        let authorities = match &settings.authorities {
            Some(file) => forebay_tls::authorities(file).map_err(io::Error::other)?,
            None if settings.servers.iter().any(|server| server.is_tls) => forebay_tls::system_authorities(),
            None => RootCertStore::empty(),
        };
        let mut tls = forebay_tls::client_config(authorities);
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let servers = settings
            .servers
            .iter()
            .map(|address| Arc::new(Server::new(address)));
        Ok(Arc::new(Self {
            servers: servers.collect(),
            tls: Arc::new(tls),
            next: AtomicUsize::new(0),
            begun: Instant::now(),
            settings,
        }))
    }

    /// How it is reached.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its servers, in the order of the settings.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    pub(crate) fn tls(&self) -> &Arc<ClientConfig> {
        &self.tls
    }

    /// Chooses a server for a request of this client for this path. `tried` are the servers that have failed it already, by their index as a bit.
    pub fn choose(self: &Arc<Self>, client: &str, path: &str, tried: u64) -> Result<Lease, Failure> {
        let now = self.elapsed_ms();
        let in_flight_max = self.settings.in_flight_max;
        let is_healthy = |at: &usize| !self.servers[*at].is_unhealthy.load(Ordering::Relaxed);
        let untried = || (0..self.servers.len()).filter(|at| tried & 1 << at == 0 && is_healthy(at));
        let is_up = |at: &usize| self.servers[*at].is_up(now);
        if untried().next().is_none() {
            let group = self.settings.name.clone();
            return Err(Failure::NoneUp { group });
        }
        // If all healthy servers fail requests, one is tried: it may have recovered.
        let any_up = untried().any(|at| is_up(&at));
        let free = untried()
            .filter(|at| !any_up || is_up(at))
            .filter(|at| self.servers[*at].in_flight.load(Ordering::Relaxed) < in_flight_max);
        let hashed = |text: &str, at: usize| {
            let mut hasher = DefaultHasher::new();
            (text, &self.servers[at].name).hash(&mut hasher);
            hasher.finish()
        };
        // Highest random weight: a server that leaves moves only its own requests.
        let chosen = match self.settings.balance {
            Balance::Client => free.max_by_key(|at| hashed(client, *at)),
            Balance::Path => free.max_by_key(|at| hashed(path, *at)),
            Balance::LeastInFlight => {
                let count = self.servers.len();
                let first = self.next.fetch_add(1, Ordering::Relaxed) % count;
                free.min_by_key(|at| {
                    let in_flight = self.servers[*at].in_flight.load(Ordering::Relaxed);
                    (in_flight, (at + count - first) % count)
                })
            }
        };
        let Some(at) = chosen else {
            let group = self.settings.name.clone();
            return Err(Failure::Full { group, in_flight_max });
        };
        let server = &self.servers[at];
        let place = |in_flight: usize| (in_flight < in_flight_max).then_some(in_flight + 1);
        let taken = server
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, place);
        if taken.is_err() {
            let group = self.settings.name.clone();
            return Err(Failure::Full { group, in_flight_max });
        }
        server.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Lease {
            group: Arc::clone(self),
            at,
            is_check: false,
        })
    }

    /// Milliseconds since the group began, and one: 0 is kept for "never".
    fn elapsed_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64 + 1
    }

    /// Whether a server gets requests.
    pub fn is_up(&self, server: &Server) -> bool {
        server.is_up(self.elapsed_ms())
    }

    /// Notes what a health check has found.
    pub(crate) fn note_health(&self, server: &Server, found: Result<(), String>) {
        let is_unhealthy = found.is_err();
        if server.is_unhealthy.swap(is_unhealthy, Ordering::Relaxed) == is_unhealthy {
            return;
        }
        let (group, server) = (&self.settings.name, &server.name);
        match found {
            Ok(()) => tracing::info!(target: "forebay::upstream", group, server, "a server is up"),
            Err(cause) => {
                tracing::warn!(target: "forebay::upstream", group, server, cause, "a server is down");
            }
        }
    }
}

impl Server {
    fn new(address: &Address) -> Self {
        Self {
            name: address.to_string(),
            address: address.clone(),
            in_flight: AtomicUsize::new(0),
            fails: AtomicU32::new(0),
            down_until: AtomicU64::new(0),
            is_unhealthy: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Its address as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A snapshot of its counts.
    pub fn counts(&self) -> ServerCounts {
        ServerCounts {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    fn is_up(&self, now: u64) -> bool {
        !self.is_unhealthy.load(Ordering::Relaxed) && self.down_until.load(Ordering::Relaxed) <= now
    }
}

impl Lease {
    /// The right to send a health check.
    pub(crate) fn of_check(group: &Arc<Group>, at: usize) -> Self {
        Self {
            group: Arc::clone(group),
            at,
            is_check: true,
        }
    }

    /// The server that the request goes to.
    pub fn server(&self) -> &Arc<Server> {
        &self.group.servers[self.at]
    }

    /// The group of the server.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The server's index in its group.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Notes that the server has answered whole.
    pub(crate) fn note_answer(&self) {
        let server = self.server();
        if !self.is_check && server.fails.load(Ordering::Relaxed) != 0 {
            server.fails.store(0, Ordering::Relaxed);
            server.down_until.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the server has failed: the request, or the time for it. After `fails_max` times in a row it is left alone for a while.
    pub fn note_failure(&self, failure: &Failure) {
        if self.is_check {
            return;
        }
        let (server, settings) = (self.server(), &self.group.settings);
        server.failures.fetch_add(1, Ordering::Relaxed);
        let fails = server.fails.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if settings.fails_max == 0 || fails < settings.fails_max {
            return;
        }
        let now = self.group.elapsed_ms();
        let until = now + settings.fail_timeout.as_millis() as u64;
        if server.down_until.swap(until, Ordering::Relaxed) <= now {
            let (group, server) = (&settings.name, &server.name);
            tracing::warn!(
                target: "forebay::upstream", group, server, cause = %failure, fails, fail_timeout = ?settings.fail_timeout,
                "a server fails and gets no requests for a while"
            );
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_check {
            self.server().in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings(servers: &[&str]) -> Settings {
        Settings {
            name: "shop".to_owned(),
            servers: servers.iter().map(|text| text.parse().unwrap()).collect(),
            host: None,
            balance: Balance::LeastInFlight,
            authorities: None,
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(5),
            idle_max: 8,
            in_flight_max: 2,
            fails_max: 2,
            fail_timeout: Duration::from_hours(1),
            check: None,
        }
    }

    const THREE: [&str; 3] = ["http://a:1", "http://b:1", "http://c:1"];

    fn closed() -> Failure {
        Failure::Closed {
            server: String::new(),
            is_unsent: false,
        }
    }

    #[test]
    fn the_server_with_the_fewest_requests_is_next_and_none_gets_more_than_it_may_have() {
        let group = Group::new(settings(&THREE)).unwrap();
        let mut leases: Vec<Lease> = (0..6).map(|_| group.choose("", "", 0).unwrap()).collect();
        for server in group.servers() {
            assert_eq!((server.counts().in_flight, server.counts().requests), (2, 2));
        }
        let full = Failure::Full {
            group: "shop".to_owned(),
            in_flight_max: 2,
        };
        assert_eq!(group.choose("", "", 0).unwrap_err(), full);
        let freed = leases.swap_remove(3).at();
        assert_eq!(group.choose("", "", 0).unwrap().at(), freed);
    }

    #[test]
    fn a_hash_sends_a_client_to_one_server_and_only_clients_of_a_lost_one_move() {
        let balance = Balance::Client;
        let with = |servers: &[&str]| {
            Group::new(Settings {
                balance,
                ..settings(servers)
            })
            .unwrap()
        };
        let (all, two) = (with(&THREE), with(&THREE[..2]));
        let mut seen = [0; 3];
        for client in 0..100 {
            let client = format!("10.0.0.{client}");
            let at = all.choose(&client, "/x", 0).unwrap().at();
            assert_eq!(all.choose(&client, "/y", 0).unwrap().at(), at);
            let without = two.choose(&client, "/x", 0).unwrap().at();
            assert!(
                at == 2 || without == at,
                "{client} moves although its server is there"
            );
            seen[at] += 1;
        }
        assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
    }

    #[test]
    fn a_server_that_fails_in_a_row_is_left_alone_unless_all_do() {
        let group = Group::new(settings(&THREE[..2])).unwrap();
        let fail = |at: u64| {
            let lease = group.choose("", "", 0b11 & !(1 << at)).unwrap();
            lease.note_failure(&closed());
        };
        fail(0);
        group.choose("", "", 0b10).unwrap().note_answer();
        fail(0);
        assert!(group.is_up(&group.servers()[0]), "the failures were not in a row");
        fail(0);
        assert!(!group.is_up(&group.servers()[0]));
        assert_eq!(group.choose("", "", 0).unwrap().at(), 1);
        fail(1);
        fail(1);
        group
            .choose("", "", 0)
            .expect("with all of them down, one is tried");
    }

    #[test]
    fn a_server_that_has_been_tried_is_not_tried_again() {
        let group = Group::new(settings(&THREE)).unwrap();
        assert_eq!(group.choose("", "", 0b011).unwrap().at(), 2);
        assert!(group.choose("", "", 0b111).is_err());
    }

    #[test]
    fn health_checks_decide_even_if_all_are_down() {
        let check = Some(HealthCheck {
            path: "/".to_owned(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
        });
        let group = Group::new(Settings {
            check,
            ..settings(&THREE[..1])
        })
        .unwrap();
        group.note_health(&group.servers()[0], Err("refused".to_owned()));
        assert_eq!(
            group.choose("", "", 0).unwrap_err().to_string(),
            "no server of `shop` is up"
        );
        group.note_health(&group.servers()[0], Ok(()));
        group.choose("", "", 0).unwrap();
    }
}
