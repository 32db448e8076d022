//! Policies of routes: what holds whatever the target is. They are checked before the target is asked, and change its response.

mod admission;
mod body_schema;
pub(crate) mod cache;
mod error_pages;
mod rate_limit;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

pub(crate) use self::{
    admission::admit,
    body_schema::{BodySchema, BodySchemas, CHECKED_BYTES_MAX},
    error_pages::error_pages,
    rate_limit::Left,
};
use self::{
    cache::{Cache, Caches},
    error_pages::ErrorPages,
    rate_limit::RateLimiter,
};
use crate::{
    auth::{Authenticators, RouteAuth},
    config::{self, ClientKey, Config, Network, RateLimit},
    failure::Refusal,
    front::Head,
    reply::{HeaderLines, Reply},
};

/// The policies of a route and what itself asks of clients as one, those of the server first.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// Each has one of the client's address, or is empty.
    allow: Vec<Vec<Network>>,
    deny: Vec<Network>,
    /// Limits by address or header field, counted before authentication; then limits by user.
    rate_limits: Vec<Arc<RateLimiter>>,
    user_limits: Vec<Arc<RateLimiter>>,
    /// `None`: everybody is answered.
    auth: Option<RouteAuth>,
    /// Fields of requests as targets get them, names in lower case; without a value they are removed.
    request_fields: Vec<(String, Option<String>)>,
    removed_headers: Vec<String>,
    /// Fields that every response gets.
    pub(crate) headers: HeaderLines,
    error_pages: ErrorPages,
    /// That of the last policy that has one.
    pub(crate) cache: Option<Arc<Cache>>,
}

/// The parts from which the policies of routes are built. Routes that name the same policy share its limits, its cache and its pages.
pub(crate) struct PolicyParts<'a> {
    pub(crate) config: &'a Config,
    pub(crate) authenticators: &'a Authenticators,
    pub(crate) limiters: &'a RateLimiters,
    pub(crate) caches: &'a Caches,
    pub(crate) error_pages: BTreeMap<String, ErrorPages>,
}

impl Policies {
    /// The policies of a route; without one, those for requests that no route answers.
    pub(crate) fn new(route: Option<&config::Route>, parts: &PolicyParts<'_>) -> Self {
        let config = parts.config;
        let mut all = Self {
            auth: RouteAuth::new(config.auth_requirement(route), parts.authenticators),
            ..Self::default()
        };
        for name in config.policies_of(route) {
            let policy = &config.policies[name];
            if !policy.allow.is_empty() {
                all.allow.push(policy.allow.clone());
            }
            all.deny.extend(&policy.deny);
            for limit in &policy.rate_limits {
                let limits = match limit.by {
                    ClientKey::User => &mut all.user_limits,
                    ClientKey::Address | ClientKey::Header(_) => &mut all.rate_limits,
                };
                limits.push(parts.limiters.of(name, limit, policy.rate_clients_max));
            }
            let removed = policy.remove_request_headers.iter();
            let removed = removed.map(|name| (name.to_ascii_lowercase(), None));
            let set = policy.request_headers.0.iter().cloned();
            for (name, value) in removed.chain(set.map(|(name, value)| (name, Some(value)))) {
                all.request_fields.retain(|(other, _)| *other != name);
                all.request_fields.push((name, value));
            }
            all.removed_headers
                .extend(policy.remove_headers.iter().map(|name| name.to_ascii_lowercase()));
            for (name, value) in &policy.headers {
                all.headers.push_known(name, value);
            }
            all.error_pages.add(&parts.error_pages[name]);
            if let Some(cache) = parts.caches.get(name) {
                all.cache = Some(Arc::clone(cache));
            }
        }
        all
    }

    /// The same for everybody, whoever the client is.
    pub(crate) fn without_auth(self) -> Self {
        Self { auth: None, ..self }
    }

    /// Clients of a Unix socket have no address; whoever may open the socket is admitted.
    pub(crate) fn check_address(&self, peer: &str) -> Result<(), Refusal> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return Ok(());
        }
        let Ok(address) = peer.parse::<IpAddr>() else {
            return Ok(());
        };
        let is_in = |networks: &Vec<Network>| networks.iter().any(|network| network.contains(address));
        if is_in(&self.deny) || !self.allow.iter().all(is_in) {
            return Err(Refusal::AddressDenied { address });
        }
        Ok(())
    }

    /// The head of a request as the target gets it; `None` if that is how it came. `policies` are those of each route on its way.
    pub(crate) fn change_request(policies: &[&Self], head: &Head) -> Option<Box<Head>> {
        let mut changed: Option<Box<Head>> = None;
        for Self { request_fields, .. } in policies
            .iter()
            .filter(|policies| !policies.request_fields.is_empty())
        {
            let before = changed.as_deref().unwrap_or(head);
            changed = Some(Box::new(before.with_fields(request_fields)));
        }
        changed
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
    pub(crate) fn refused(&self, refusal: &Refusal, head: &Head, id: &str) -> Reply<'static> {
        let mut reply = refusal.reply(id);
        self.error_pages.apply(head, &mut reply);
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
