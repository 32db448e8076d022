//! Rate limits: how many requests a client may send in a time.
//!
//! Each client has one number, the time at which all its requests will have come back (the generic cell rate algorithm, ITU-T I.371). The
//! table of clients has a fixed size and a lock for every few of them, so neither a flood of addresses nor many threads make it slow. A
//! client that does not fit displaces the one with the fewest requests outstanding: whoever is over a limit stays known.

use std::{
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
    time::Instant,
};

use parking_lot::Mutex;

use crate::{
    config::{ClientKey, RateLimit},
    front::Head,
    reply::HeaderLines,
};

/// Clients under one lock.
const ROW: usize = 8;

#[derive(Debug)]
pub(crate) struct RateLimiter {
    limit: RateLimit,
    window_ns: u64,
    /// After this time one request comes back.
    interval_ns: u64,
    started: Instant,
    hasher: RandomState,
    /// A power of two.
    rows: Box<[Mutex<[Client; ROW]>]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// A hash of what tells it apart.
    id: u64,
    /// When all its requests will have come back, in nanoseconds since the limiter started.
    whole_at: u64,
}

/// The sender of a request, as far as limits tell clients apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) head: &'a Head,
    /// The address.
    pub(crate) peer: &'a str,
    /// Once it is authenticated: the name of the `[auth.NAME]`, and the subject.
    pub(crate) user: Option<(&'a str, &'a str)>,
}

/// The rest of a rate limit for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) requests: u32,
    /// Of how many.
    pub(crate) limit: u32,
    /// Until all requests have come back.
    reset_s: u64,
    /// Until the next request is admitted.
    pub(crate) retry_s: u64,
}

impl Left {
    /// The one that is nearer to its end.
    pub(crate) fn nearest(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by_key(|left| left.requests)
    }

    /// Adds the fields of draft-ietf-httpapi-ratelimit-headers-06, which clients know best.
    pub(crate) fn put(&self, headers: &mut HeaderLines) {
        for (name, number) in [
            ("ratelimit-limit", self.limit.into()),
            ("ratelimit-remaining", self.requests.into()),
            ("ratelimit-reset", self.reset_s),
        ] {
            headers.push_known(name, itoa::Buffer::new().format(number));
        }
    }
}

impl RateLimiter {
    /// Counts for at least `clients_max` clients.
    pub(crate) fn new(limit: RateLimit, clients_max: usize) -> Self {
        // Half of the room is left, so that hardly any row is full before there are as many.
        let rows = (clients_max * 2 / ROW).next_power_of_two();
        let window_ns = limit.window.as_nanos() as u64;
        Self {
            window_ns,
            interval_ns: (window_ns / u64::from(limit.requests)).max(1),
            limit,
            started: Instant::now(),
            hasher: RandomState::new(),
            rows: (0..rows).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes one request of a [`client`](Self::client); an error if none is left.
    pub(crate) fn take(&self, client: u64, now: Instant) -> Result<Left, Left> {
        let now = now.saturating_duration_since(self.started).as_nanos() as u64;
        let mut row = self.row(client).lock();
        let client = find(&mut row, client);
        let whole_at = client.whole_at.max(now) + self.interval_ns;
        let outstanding_ns = whole_at - now;
        if outstanding_ns > self.window_ns {
            return Err(self.left(client.whole_at - now, outstanding_ns - self.window_ns));
        }
        client.whole_at = whole_at;
        Ok(self.left(outstanding_ns, 0))
    }

    /// Gives a request back that [`take`](Self::take) took.
    pub(crate) fn give_back(&self, client: u64) {
        let mut row = self.row(client).lock();
        let client = find(&mut row, client);
        client.whole_at = client.whole_at.saturating_sub(self.interval_ns);
    }

    fn left(&self, outstanding_ns: u64, retry_ns: u64) -> Left {
        let seconds = |ns: u64| ns.div_ceil(1_000_000_000);
        let requests = self.window_ns.saturating_sub(outstanding_ns) / self.interval_ns;
        Left {
            requests: u32::try_from(requests).unwrap_or(u32::MAX),
            limit: self.limit.requests,
            reset_s: seconds(outstanding_ns),
            retry_s: seconds(retry_ns),
        }
    }

    fn row(&self, id: u64) -> &Mutex<[Client; ROW]> {
        &self.rows[id as usize & (self.rows.len() - 1)]
    }

    /// A hash of what tells the client apart that has sent a request.
    pub(crate) fn client(&self, sender: &Sender<'_>) -> u64 {
        let told_apart = match &self.limit.by {
            ClientKey::Address => None,
            ClientKey::Header(name) => sender.head.field(name).map(|value| self.hasher.hash_one(value)),
            ClientKey::User => sender.user.map(|user| self.hasher.hash_one(user)),
        };
        told_apart.unwrap_or_else(|| match sender.peer.parse() {
            // A client with one IPv6 address has all 2^64 with the same prefix.
            Ok(IpAddr::V6(address)) => self.hasher.hash_one(first_half(address)),
            _ => self.hasher.hash_one(sender.peer),
        })
    }
}

fn first_half(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

/// The client, in the place of another one if the row is full.
fn find(row: &mut [Client; ROW], id: u64) -> &mut Client {
    let at = row.iter().position(|client| client.id == id).unwrap_or_else(|| {
        let least = row.iter().enumerate().min_by_key(|(_, client)| client.whole_at);
        let (at, _) = least.expect("a row has places");
        row[at] = Client { id, whole_at: 0 };
        at
    });
    &mut row[at]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limiter(text: &str, clients: usize) -> RateLimiter {
        RateLimiter::new(text.parse().unwrap(), clients)
    }

    /// Takes a request from this address.
    fn take(limiter: &RateLimiter, peer: &str, now: Instant) -> Result<Left, Left> {
        limiter.take(client(limiter, peer), now)
    }

    fn client(limiter: &RateLimiter, peer: &str) -> u64 {
        let head = &Head::default();
        limiter.client(&Sender {
            head,
            peer,
            user: None,
        })
    }

    #[test]
    fn a_client_has_its_requests_at_once_and_then_as_they_come_back() {
        let limiter = limiter("5/1s", 1_000);
        let start = Instant::now();
        for left in (0..5).rev() {
            assert_eq!(take(&limiter, "192.0.2.1", start).unwrap().requests, left);
        }
        let none = take(&limiter, "192.0.2.1", start).unwrap_err();
        assert_eq!((none.requests, none.retry_s, none.reset_s), (0, 1, 1));
        assert!(take(&limiter, "192.0.2.2", start).is_ok());
        let later = start + Duration::from_millis(200);
        assert!(take(&limiter, "192.0.2.1", later).is_ok());
        assert!(take(&limiter, "192.0.2.1", later).is_err());
        let much_later = start + Duration::from_secs(9);
        assert_eq!(take(&limiter, "192.0.2.1", much_later).unwrap().requests, 4);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let limiter = limiter("1/1h", 1_000);
        let now = Instant::now();
        assert!(take(&limiter, "192.0.2.1", now).is_ok());
        limiter.give_back(client(&limiter, "192.0.2.1"));
        assert!(take(&limiter, "192.0.2.1", now).is_ok());
        assert!(take(&limiter, "192.0.2.1", now).is_err());
    }

    #[test]
    fn addresses_of_ipv6_that_begin_alike_are_one_client() {
        let limiter = limiter("1/1h", 1_000);
        let now = Instant::now();
        assert!(take(&limiter, "2001:db8::1", now).is_ok());
        assert!(take(&limiter, "2001:db8::2:1", now).is_err());
        assert!(take(&limiter, "2001:db8:0:1::1", now).is_ok());
    }

    #[test]
    fn a_million_addresses_take_no_more_memory_and_do_not_free_who_is_over_the_limit() {
        let limiter = limiter("100/1m", 10_000);
        let now = Instant::now();
        for _ in 0..100 {
            take(&limiter, "192.0.2.1", now).unwrap();
        }
        let rows = limiter.rows.len();
        for number in 0..1_000_000_u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
            let _ = take(&limiter, &address, now);
        }
        assert_eq!(limiter.rows.len(), rows);
        assert!(take(&limiter, "192.0.2.1", now).is_err());
    }
}
