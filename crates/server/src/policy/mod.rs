//! Policies of routes: what holds whatever the target is. They are checked before the target is asked, and change its response.

mod body_schema;
pub(crate) mod cache;
mod error_pages;
mod rate_limit;

use std::{
    net::IpAddr,
    sync::{Arc, Weak},
    time::Instant,
};

use parking_lot::Mutex;

pub(crate) use self::body_schema::{BodySchema, BodySchemas, CHECKED_BYTES_MAX};
pub(crate) use self::rate_limit::Left;
use self::{
    cache::{Cache, Caches},
    error_pages::ErrorPages,
    rate_limit::RateLimiter,
};
use crate::{
    app::BuildError,
    config::{Config, Network, RateLimit},
    failure::Refusal,
    front::Head,
    reply::{HeaderLines, Reply},
};

/// The policies of a route as one, those of the server first.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// Each has one of the client's address, or is empty.
    allow: Vec<Vec<Network>>,
    deny: Vec<Network>,
    rate_limits: Vec<Arc<RateLimiter>>,
    removed_headers: Vec<String>,
    /// Fields that every response gets.
    pub(crate) headers: HeaderLines,
    error_pages: ErrorPages,
    /// That of the last policy that has one.
    pub(crate) cache: Option<Arc<Cache>>,
}

impl Policies {
    /// Those with these names, in their order.
    pub(crate) fn new<'n>(
        names: impl Iterator<Item = &'n String>,
        config: &Config,
        limiters: &RateLimiters,
        caches: &Caches,
    ) -> Result<Self, BuildError> {
        let mut all = Self::default();
        for name in names {
            let policy = &config.policies[name];
            if !policy.allow.is_empty() {
                all.allow.push(policy.allow.clone());
            }
            all.deny.extend(&policy.deny);
            let limits = policy.rate_limits.iter();
            all.rate_limits
                .extend(limits.map(|limit| limiters.of(name, limit, policy.rate_clients_max)));
            all.removed_headers
                .extend(policy.remove_headers.iter().map(|name| name.to_ascii_lowercase()));
            for (name, value) in &policy.headers {
                all.headers.push_known(name, value);
            }
            all.error_pages.add(&policy.error_pages)?;
            if let Some(cache) = caches.get(name) {
                all.cache = Some(Arc::clone(cache));
            }
        }
        Ok(all)
    }

    /// Refuses a request that may not reach the target, or says what is left of the rate limit that is nearest to its end. A request that has
    /// been sent on by another route is not counted again for the rate limits of `counted`, that route's policies.
    pub(crate) fn check(
        &self,
        head: &Head,
        peer: &str,
        now: Instant,
        counted: Option<&Self>,
    ) -> Result<Option<Left>, Refusal> {
        if !self.allow.is_empty() || !self.deny.is_empty() {
            self.check_address(peer)?;
        }
        let mut least: Option<Left> = None;
        let is_new = |limiter: &&Arc<RateLimiter>| {
            counted.is_none_or(|counted| {
                !counted
                    .rate_limits
                    .iter()
                    .any(|other| Arc::ptr_eq(other, limiter))
            })
        };
        for (at, limiter) in self
            .rate_limits
            .iter()
            .enumerate()
            .filter(|(_, limiter)| is_new(limiter))
        {
            match limiter.take(head, peer, now) {
                Ok(left) => {
                    least = Left::nearest(least, Some(left));
                }
                Err(left) => {
                    for limiter in self.rate_limits[..at].iter().filter(is_new) {
                        limiter.give_back(head, peer);
                    }
                    return Err(Refusal::RateLimited { left });
                }
            }
        }
        Ok(least)
    }

    /// Clients of a Unix socket have no address; whoever may open the socket is admitted.
    fn check_address(&self, peer: &str) -> Result<(), Refusal> {
        let Ok(address) = peer.parse::<IpAddr>() else {
            return Ok(());
        };
        let is_in = |networks: &Vec<Network>| networks.iter().any(|network| network.contains(address));
        if is_in(&self.deny) || !self.allow.iter().all(is_in) {
            return Err(Refusal::AddressDenied { address });
        }
        Ok(())
    }

    /// Takes a request back that [`Self::check`] has counted.
    pub(crate) fn give_back(&self, head: &Head, peer: &str) {
        for limiter in &self.rate_limits {
            limiter.give_back(head, peer);
        }
    }

    /// Changes the response of a target.
    pub(crate) fn apply(&self, left: Option<Left>, reply: &mut Reply<'_>) {
        self.remove_headers(reply);
        if let Some(left) = left {
            left.put(reply.headers.to_mut());
        }
    }

    pub(crate) fn remove_headers(&self, reply: &mut Reply<'_>) {
        if !self.removed_headers.is_empty() {
            let is_removed = |name: &[u8]| self.removed_headers.iter().any(|other| other.as_bytes() == name);
            if reply.headers.fields().any(|(name, _)| is_removed(name)) {
                reply.headers.to_mut().retain(|name| !is_removed(name));
            }
        }
    }

    pub(crate) fn has_error_page(&self, status: u16) -> bool {
        self.error_pages.page(status).is_some()
    }

    pub(crate) fn put_error_page(&self, head: &Head, reply: &mut Reply<'_>) {
        self.error_pages.apply(head, reply);
    }

    /// The response to a refused request.
    pub(crate) fn refused(&self, refusal: &Refusal, head: Option<&Head>, id: &str) -> Reply<'static> {
        let mut reply = refusal.reply(id);
        if let Some(head) = head {
            self.error_pages.apply(head, &mut reply);
        }
        reply
    }
}

/// The rate limiters in use. A reload goes on counting with those that it does not change.
#[derive(Debug, Default)]
pub(crate) struct RateLimiters(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    policy: String,
    limit: RateLimit,
    clients_max: usize,
    limiter: Weak<RateLimiter>,
}

impl RateLimiters {
    fn of(&self, policy: &str, limit: &RateLimit, clients_max: usize) -> Arc<RateLimiter> {
        let mut all = self.0.lock();
        all.retain(|known| known.limiter.strong_count() > 0);
        let known = all.iter().find_map(|known| {
            let is_it = known.policy == policy && known.limit == *limit && known.clients_max == clients_max;
            is_it.then(|| known.limiter.upgrade()).flatten()
        });
        known.unwrap_or_else(|| {
            let limiter = Arc::new(RateLimiter::new(limit.clone(), clients_max));
            all.push(Known {
                policy: policy.to_owned(),
                limit: limit.clone(),
                clients_max,
                limiter: Arc::downgrade(&limiter),
            });
            limiter
        })
    }
}
