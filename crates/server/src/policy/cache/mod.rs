//! The response cache of a policy: a shared cache as RFC 9111 describes it, between the policies of a route and its target. What it stores is the
//! target's response; header rules, compression and CORS come after it, with a hit as with any other response.
//!
//! A hit costs one look-up and a copy of the header fields. The rules are in `rules`, what is stored in `entries`.

mod entries;
mod filling;
mod rules;
mod validation;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use forebay_router::decode;
use smallvec::SmallVec;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::rules::Directives;
use self::{
    entries::{Entries, Leader, Resource, Stored, Turn},
    filling::Filling,
    rules::{CacheRequest, Lifetime, Method, lifetime, selecting_fields},
    validation::{answer_conditions, updated, validators},
};
use crate::{
    compression::EncodedBodies,
    config,
    front::{Client, Head},
    reply::{Body, HeaderLines, Reply},
    route::Route,
    target::{End, Request, wait_for},
};

/// Room for the fields that a cache adds to a response.
const ADDED_BYTES: usize = 96;

/// Outcomes of requests, by their names in metrics.
pub(crate) const OUTCOMES: [&str; 5] = ["hit", "stale", "revalidated", "miss", "bypass"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Hit,
    Stale,
    Revalidated,
    Miss,
    Bypass,
}

/// Counts of one thread, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadCounts([AtomicU64; OUTCOMES.len()]);

/// Counters of a cache.
#[derive(Clone, Debug)]
pub(crate) struct CacheTotals {
    /// In the order of [`OUTCOMES`].
    pub(crate) requests: [u64; OUTCOMES.len()],
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) evictions: u64,
}

/// The caches of an app, by the name of their policy.
pub(crate) type Caches = BTreeMap<String, Arc<Cache>>;

/// The caches of a configuration, all of them empty.
pub(crate) fn caches(config: &config::Config, threads: usize) -> Caches {
    let settings = config.policies.iter();
    settings
        .filter_map(|(name, policy)| {
            let cache = Cache::new(name, policy.cache.as_ref()?, threads);
            Some((name.clone(), Arc::new(cache)))
        })
        .collect()
}

/// The cache of a policy.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The name of the policy.
    name: String,
    settings: config::Cache,
    entries: Arc<Entries>,
    counts: Box<[ThreadCounts]>,
}

/// Why a request is not answered from the cache at once.
#[derive(Debug)]
pub(crate) struct Miss {
    asked: CacheRequest,
    /// The stored responses of its URI.
    resource: Option<Arc<Resource>>,
    reason: Reason,
}

/// The reasons of RFC 9211, 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Bypass,
    Method,
    UriMiss,
    VaryMiss,
    Request,
    Stale,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
        }
    }
}

impl Cache {
    fn new(name: &str, settings: &config::Cache, threads: usize) -> Self {
        Self {
            name: name.to_owned(),
            entries: Arc::new(Entries::new(settings)),
            settings: settings.clone(),
            counts: (0..threads).map(|_| ThreadCounts::default()).collect(),
        }
    }

    /// The stored response for a request, if it may be used without asking anybody.
    pub(crate) fn look_up(&self, request: &Request<'_>) -> Result<Reply<'static>, Box<Miss>> {
        let asked = CacheRequest::of(request);
        let miss = |asked, resource, reason| {
            Err(Box::new(Miss {
                asked,
                resource,
                reason,
            }))
        };
        match asked.method {
            Method::Unsafe => return miss(asked, None, Reason::Method),
            Method::Passed => return miss(asked, None, Reason::Bypass),
            Method::Get | Method::Head => {}
        }
        let Some(resource) = self.entries.get(&asked.key) else {
            return miss(asked, None, Reason::UriMiss);
        };
        let now = request.arrived;
        let reason = match resource.select(request.head) {
            Some(stored) => {
                let fresh_for = stored.fresh_for(now);
                if fresh_for.is_zero() {
                    Reason::Stale
                } else if asked.directives.ask_for_more(stored.age(now), fresh_for) {
                    Reason::Request
                } else {
                    return Ok(self.hit(stored, request, &asked, now, Outcome::Hit, "hit"));
                }
            }
            None if resource.is_empty() => Reason::UriMiss,
            None => Reason::VaryMiss,
        };
        miss(asked, Some(resource), reason)
    }

    /// A response from the cache. `handling` says in `Cache-Status` where it comes from.
    fn hit(
        &self,
        stored: &Stored,
        request: &Request<'_>,
        asked: &CacheRequest,
        now: Instant,
        outcome: Outcome,
        handling: &str,
    ) -> Reply<'static> {
        self.count(request, outcome);
        let mut headers = stored.headers.clone_with_room(ADDED_BYTES);
        let mut digits = itoa::Buffer::new();
        headers.push_known("age", digits.format(stored.age(now).as_secs()));
        let mut status = CacheStatus::new(handling);
        status.push("; ttl=");
        status.push(digits.format(stored.fresh_for(now).as_secs()));
        status.put(&mut headers);
        let mut reply = Reply::new(stored.status);
        reply.headers = Cow::Owned(headers);
        reply.body = Body::Bytes(stored.body.clone());
        reply.encoded.clone_from(&stored.encoded);
        if asked.is_conditional {
            answer_conditions(request.head, &mut reply);
        }
        reply
    }

    /// Asks the target, and stores its response if that is allowed.
    pub(crate) async fn fill<'a>(
        &self,
        miss: Box<Miss>,
        route: &'a Route,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        let Miss {
            asked,
            mut resource,
            reason,
        } = *miss;
        if asked.method != Method::Get {
            return self.pass(&asked, reason, route, request, client).await;
        }
        let mut now = request.arrived;
        let is_unstorable = |resource: &Option<Arc<Resource>>, now: Instant| {
            let until = resource.as_ref().and_then(|resource| resource.unstorable_until);
            until.is_some_and(|until| now < until)
        };
        let is_shared = !asked.has_credentials && !asked.directives.no_store && reason != Reason::Request;
        let mut leader = None;
        // The rest of the deadline is for asking the target after all.
        let wait_until = now + request.deadline.saturating_duration_since(now) / 2;
        let mut has_waited = false;
        while is_shared && leader.is_none() && !is_unstorable(&resource, now) {
            let turn = self.entries.take_turn(&asked.key);
            // It may have been stored before this turn.
            resource = self.entries.get(&asked.key);
            let stored = selected(resource.as_ref(), request.head);
            if let Some(stored) = stored
                && !stored.fresh_for(now).is_zero()
            {
                let handling = format!("fwd={}; collapsed", reason.name());
                return Ok(self.hit(stored, request, &asked, now, Outcome::Hit, &handling));
            }
            match turn {
                Turn::Leads(leads) => leader = Some(leads),
                // There was a response, and not for this request.
                Turn::Follows(_) if has_waited && resource.is_some() => break,
                Turn::Follows(_) if now >= wait_until => break,
                Turn::Follows(mut ended) => {
                    if let Some(stored) = stored
                        && stored.is_within(stored.lifetime.stale_while_revalidate, now)
                    {
                        return Ok(self.hit(stored, request, &asked, now, Outcome::Stale, "hit"));
                    }
                    client.before_waiting().await?;
                    match wait_for(ended.changed(), wait_until, client).await {
                        Err(End::Gone) => return Err(End::Gone),
                        Ok(_) | Err(End::Refused(_)) => has_waited = true,
                    }
                    now = Instant::now();
                }
            }
        }
        let stale = selected(resource.as_ref(), request.head).cloned();
        let ask = Ask {
            epoch: self.entries.epoch(&asked.key),
            passes_conditions: leader.is_none() && is_unstorable(&resource, now),
            asked,
            reason,
            leader,
        };
        self.ask(ask, stale, route, request, client).await
    }

    /// Has the target answer a request that the cache has no part in.
    async fn pass<'a>(
        &self,
        asked: &CacheRequest,
        reason: Reason,
        route: &'a Route,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        let is_head = asked.method == Method::Head;
        self.count(request, if is_head { Outcome::Miss } else { Outcome::Bypass });
        let mut reply = route.target.answer(request, client).await?;
        if asked.method == Method::Unsafe && (200..400).contains(&reply.status) {
            self.entries.drop_key(&asked.key);
            // The configuration may have been loaded again meanwhile.
            let app = request.thread.app();
            if let Some(current) = app.caches.get(&self.name) {
                current.entries.drop_key(&asked.key);
            }
        }
        put_forwarded(&mut reply, reason, None, false);
        Ok(reply)
    }

    /// Asks the target with the validators of a stale response, if there is one.
    async fn ask<'a>(
        &self,
        ask: Ask,
        stale: Option<Arc<Stored>>,
        route: &'a Route,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        let validators: SmallVec<[_; 2]> = stale.iter().flat_map(|stale| validators(stale)).collect();
        let is_changed = !validators.is_empty() || ask.asked.is_conditional && !ask.passes_conditions;
        let answered = if is_changed {
            let head = &request.head.with_conditions(&validators);
            route.target.answer(&Request { head, ..*request }, client).await
        } else {
            route.target.answer(request, client).await
        };
        let now = Instant::now();
        let usable = stale
            .as_ref()
            .filter(|stale| stale.is_within(stale.lifetime.stale_if_error, now));
        let hit_stale = |stale| {
            self.hit(
                stale,
                request,
                &ask.asked,
                now,
                Outcome::Stale,
                "hit; detail=error",
            )
        };
        let mut reply = match (answered, usable) {
            (Ok(reply), Some(stale)) if reply.status >= 500 => {
                return Ok(hit_stale(stale));
            }
            (Err(End::Refused(refusal)), Some(stale)) if refusal.status() >= 500 => {
                refusal.log(request.id);
                return Ok(hit_stale(stale));
            }
            (Ok(reply), _) => reply,
            (Err(end), _) => {
                // One after another, those that wait would fail too late.
                if let (End::Refused(_), Some(leader)) = (&end, &ask.leader) {
                    self.entries.note_unstorable(leader, now);
                }
                return Err(end);
            }
        };
        let is_confirmed = reply.status == 304 && !validators.is_empty();
        let confirmed = stale.as_ref().filter(|_| is_confirmed);
        self.count(
            request,
            if confirmed.is_some() {
                Outcome::Revalidated
            } else {
                Outcome::Miss
            },
        );
        let status = confirmed.is_some().then_some(304);
        if let Some(stale) = confirmed {
            reply.status = stale.status;
            reply.headers = Cow::Owned(updated(&stale.headers, &reply.headers));
            reply.body = Body::Bytes(stale.body.clone());
            reply.length = None;
        }
        let (reason, is_conditional) = (ask.reason, is_changed && ask.asked.is_conditional);
        let (mut reply, storing) = self.store(ask, route, request, reply, now);
        put_forwarded(&mut reply, reason, status, storing == Storing::Done);
        // A body that is stored as it passes has to pass.
        if is_conditional && storing != Storing::Underway {
            answer_conditions(request.head, &mut reply);
        }
        Ok(reply)
    }

    /// Stores a response, or has it stored once its body has passed.
    fn store<'a>(
        &self,
        ask: Ask,
        route: &Route,
        request: &Request<'_>,
        mut reply: Reply<'a>,
        now: Instant,
    ) -> (Reply<'a>, Storing) {
        let lifetime = lifetime(
            &ask.asked,
            reply.status,
            &reply.headers,
            &route.headers,
            self.settings.default_max_age,
            SystemTime::now(),
        );
        let bytes_max = self.settings.response_bytes_max;
        let announced = reply.announced(false);
        let is_whole = reply.length.is_none() && announced.is_none_or(|length| length <= bytes_max);
        let body = match (lifetime.filter(|_| is_whole), &reply.body) {
            (Some(lifetime), Body::Empty) => Some((lifetime, Some(Bytes::new()))),
            // A copy: what a target hands out may be a part of something larger.
            (Some(lifetime), Body::Bytes(bytes)) => Some((lifetime, Some(Bytes::copy_from_slice(bytes)))),
            (Some(lifetime), Body::Borrowed(bytes)) => Some((lifetime, Some(Bytes::copy_from_slice(bytes)))),
            (Some(lifetime), Body::Stream(source)) if !source.ends_connection() => Some((lifetime, None)),
            _ => None,
        };
        let Some((lifetime, body)) = body else {
            if let Some(leader) = &ask.leader {
                self.entries.note_unstorable(leader, now);
            }
            return (reply, Storing::No);
        };
        let stored = stored(&reply, route, request.head, lifetime, now);
        match (body, reply.body) {
            (None, Body::Stream(source)) => {
                let filling = Filling::new(
                    source,
                    &self.entries,
                    ask,
                    request.head.clone(),
                    stored,
                    bytes_max,
                );
                reply.body = Body::Stream(Box::new(filling));
                (reply, Storing::Underway)
            }
            (body, unchanged) => {
                reply.body = unchanged;
                let stored = stored.with_body(body.unwrap_or_default());
                reply.encoded.clone_from(&stored.encoded);
                let is_stored = self.entries.store(&ask.asked, request.head, ask.epoch, stored);
                (reply, if is_stored { Storing::Done } else { Storing::No })
            }
        }
    }

    fn count(&self, request: &Request<'_>, outcome: Outcome) {
        self.counts[request.thread.index].0[outcome as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn totals(&self) -> CacheTotals {
        let (bytes, evictions) = self.entries.usage();
        let count = |outcome: usize| {
            self.counts
                .iter()
                .map(|thread| thread.0[outcome].load(Relaxed))
                .sum()
        };
        CacheTotals {
            requests: std::array::from_fn(count),
            bytes,
            bytes_max: self.settings.bytes_max,
            evictions,
        }
    }

    /// Drops what is stored for a path, whatever its host and its query, or for all paths that begin with what stands before `*`; without a
    /// path everything. Says how many responses those were.
    pub(crate) fn purge(&self, path: Option<&str>) -> usize {
        let decoded = |path: &str| decode(path).map_or_else(|| path.to_owned(), Cow::into_owned);
        let Some(path) = path else {
            return self.entries.drop_all(|_| true);
        };
        let (path, is_prefix) = match path.strip_suffix('*') {
            Some(prefix) => (decoded(prefix), true),
            None => (decoded(path), false),
        };
        self.entries.drop_all(|key| {
            let begin = memchr::memchr(b' ', key).map_or(0, |at| at + 1);
            let rest = &key[begin..];
            let end = memchr::memchr2(b'?', b'\n', rest).unwrap_or(rest.len());
            let found = decoded(&String::from_utf8_lossy(&rest[..end]));
            found == path || is_prefix && found.starts_with(&path)
        })
    }
}

/// Whether a response is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storing {
    No,
    /// Once its body has passed.
    Underway,
    Done,
}

/// A request on its way to the target.
#[derive(Debug)]
struct Ask {
    asked: CacheRequest,
    reason: Reason,
    epoch: u64,
    /// Whether the target gets the client's own conditions.
    passes_conditions: bool,
    leader: Option<Leader>,
}

fn selected<'r>(resource: Option<&'r Arc<Resource>>, head: &Head) -> Option<&'r Arc<Stored>> {
    resource.and_then(|resource| resource.select(head))
}

/// A response without its body, and without the fields behind that (RFC 9111, 3.1).
fn stored(reply: &Reply<'_>, route: &Route, head: &Head, lifetime: Lifetime, now: Instant) -> Stored {
    let mut headers = HeaderLines::default();
    for (name, value) in reply.headers.fields() {
        if !matches!(name, b"age" | b"cache-status" | b"trailer") {
            headers.put(name, value);
        }
    }
    let fields = headers.fields().chain(route.headers.fields());
    Stored {
        status: reply.status,
        selecting: selecting_fields(fields, head),
        headers,
        body: Bytes::new(),
        encoded: None,
        at: now,
        lifetime,
    }
}

impl Stored {
    fn with_body(mut self, body: Bytes) -> Self {
        self.encoded = EncodedBodies::of(body.len()).map(Arc::new);
        self.body = body;
        self
    }
}

/// The value of `Cache-Status` (RFC 9211) for this cache.
struct CacheStatus(SmallVec<[u8; 64]>);

impl CacheStatus {
    fn new(handling: &str) -> Self {
        let mut status = Self(SmallVec::new());
        status.push("forebay; ");
        status.push(handling);
        status
    }

    fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn put(&self, headers: &mut HeaderLines) {
        headers.put(b"cache-status", &self.0);
    }
}

/// Says why the target was asked, and what became of that.
fn put_forwarded(reply: &mut Reply<'_>, reason: Reason, status: Option<u16>, is_stored: bool) {
    let mut text = CacheStatus::new("fwd=");
    text.push(reason.name());
    if let Some(status) = status {
        text.push("; fwd-status=");
        text.push(itoa::Buffer::new().format(status));
    }
    if is_stored {
        text.push("; stored");
    }
    text.put(reply.headers.to_mut());
}
