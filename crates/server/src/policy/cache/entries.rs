//! The entries of a cache: for each URI its responses, within a number of bytes; and who is asking the target for which of them.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};
use tokio::sync::watch;

use super::rules::{CacheRequest, Lifetime, selects};
use crate::{compression::EncodedBodies, config, front::Head, reply::HeaderLines};

/// Bytes that an entry takes beside its key, fields and bodies.
const ENTRY_BYTES: usize = 512;
/// Bytes of a response that is expected, as far as that is about the size of a table.
const USUAL_BYTES: u64 = 16 * 1024;
/// Most responses of one URI, which differ by the fields that `Vary` names.
const VARIANTS_MAX: usize = 16;
/// How long requests for a response that cannot be stored do not wait for each other.
const UNSTORABLE_FOR: Duration = Duration::from_secs(10);
/// Locks of what is being asked for.
const STRIPES: usize = 64;

/// A stored response.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) status: u16,
    /// The target's fields without `Age`, `Cache-Status` and `Trailer`.
    pub(super) headers: HeaderLines,
    pub(super) body: Bytes,
    pub(super) encoded: Option<Arc<EncodedBodies>>,
    /// The request fields that it depends on, with their values.
    pub(super) selecting: Vec<(String, Option<Vec<u8>>)>,
    pub(super) at: Instant,
    pub(super) lifetime: Lifetime,
}

impl Stored {
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.lifetime.age + now.saturating_duration_since(self.at)
    }

    /// For how long it will be fresh.
    pub(super) fn fresh_for(&self, now: Instant) -> Duration {
        (self.at + self.lifetime.fresh).saturating_duration_since(now)
    }

    /// Whether it is stale by no more than this.
    pub(super) fn is_within(&self, stale: Duration, now: Instant) -> bool {
        now < self.at + self.lifetime.fresh + stale
    }

    pub(super) fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.headers.fields().find(|(other, _)| *other == name);
        found.map(|(_, value)| value)
    }

    /// Bytes that count for `bytes_max`. The bodies in other codings are together no longer than the body.
    fn bytes(&self) -> usize {
        let bodies = self.body.len() * if self.encoded.is_some() { 2 } else { 1 };
        let selecting = self.selecting.iter();
        let selecting: usize = selecting
            .map(|(name, value)| 64 + name.len() + value.as_ref().map_or(0, Vec::len))
            .sum();
        ENTRY_BYTES + self.headers.as_bytes().len() + bodies + selecting
    }
}

/// The stored responses of a URI.
#[derive(Debug, Default)]
pub(super) struct Resource {
    /// The newest one last.
    responses: Vec<Arc<Stored>>,
    /// Until then, requests that nothing stored answers do not wait for each other.
    pub(super) unstorable_until: Option<Instant>,
    bytes: usize,
}

impl Resource {
    /// The newest response for such a request, fresh or stale.
    pub(super) fn select(&self, head: &Head) -> Option<&Arc<Stored>> {
        let mut newest_first = self.responses.iter().rev();
        newest_first.find(|stored| selects(&stored.selecting, head))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    fn new(responses: Vec<Arc<Stored>>, unstorable_until: Option<Instant>) -> Self {
        let bytes = responses.iter().map(|stored| stored.bytes()).sum();
        Self {
            responses,
            unstorable_until,
            bytes,
        }
    }
}

/// The entries of a cache.
#[derive(Debug)]
pub(super) struct Entries {
    resources: quick_cache::sync::Cache<Box<[u8]>, Arc<Resource>, Bytewise, DefaultHashBuilder, Evictions>,
    /// Most bytes of the responses of one URI, of which a table must have room for a few.
    resource_bytes_max: usize,
    /// Bytes of bodies that are still arriving, and most of these.
    arriving: AtomicU64,
    arriving_max: u64,
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
    evictions: Evictions,
}

/// Some of the URIs.
#[derive(Debug, Default)]
struct Stripe {
    /// Counts when stored responses are dropped: what the target was asked for before that is not stored.
    epoch: u64,
    /// By the key of a request, what ends once the target has answered it.
    asked: HashMap<Box<[u8]>, watch::Receiver<()>>,
}

#[derive(Clone, Debug)]
struct Bytewise;

impl Weighter<Box<[u8]>, Arc<Resource>> for Bytewise {
    fn weight(&self, key: &Box<[u8]>, resource: &Arc<Resource>) -> u64 {
        (ENTRY_BYTES + key.len() + resource.bytes) as u64
    }
}

#[derive(Clone, Debug, Default)]
struct Evictions(Arc<AtomicU64>);

impl Lifecycle<Box<[u8]>, Arc<Resource>> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: Box<[u8]>, _: Arc<Resource>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The request that asks the target for what others wait for. They go on when it is dropped.
#[derive(Debug)]
pub(super) struct Leader {
    entries: Arc<Entries>,
    key: Box<[u8]>,
    sender: watch::Sender<()>,
}

impl Leader {
    /// Whether other requests wait.
    fn has_followers(&self) -> bool {
        // One receiver is the entries' own.
        self.sender.receiver_count() > 1
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.entries.stripe(&self.key).lock().asked.remove(&self.key);
    }
}

/// Whether a request asks the target, or waits for another one that does.
#[derive(Debug)]
pub(super) enum Turn {
    Leads(Leader),
    Follows(watch::Receiver<()>),
}

impl Entries {
    pub(super) fn new(settings: &config::Cache) -> Self {
        // Each table has room for at least four of the largest responses.
        let shards = (settings.bytes_max / settings.response_bytes_max / 4).clamp(1, 64);
        let shards = 1 << shards.ilog2();
        let options = OptionsBuilder::new()
            .shards(shards)
            .weight_capacity(settings.bytes_max)
            .estimated_items_capacity((settings.bytes_max / USUAL_BYTES).min(1 << 20) as usize)
            .build()
            .expect("all of its options are set");
        let evictions = Evictions::default();
        let hasher = DefaultHashBuilder::default();
        Self {
            resources: quick_cache::sync::Cache::with_options(options, Bytewise, hasher, evictions.clone()),
            resource_bytes_max: settings.bytes_max as usize / shards / 2,
            arriving: AtomicU64::new(0),
            arriving_max: settings.bytes_max / 4,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            evictions,
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Resource>> {
        self.resources.get(key)
    }

    fn stripe(&self, key: &[u8]) -> &Mutex<Stripe> {
        &self.stripes[self.hasher.hash_one(key) as usize % STRIPES]
    }

    /// Begins to ask the target, unless another request with the same key does.
    pub(super) fn take_turn(self: &Arc<Self>, key: &[u8]) -> Turn {
        let mut stripe = self.stripe(key).lock();
        if let Some(ended) = stripe.asked.get(key) {
            return Turn::Follows(ended.clone());
        }
        let (sender, ended) = watch::channel(());
        stripe.asked.insert(key.into(), ended);
        Turn::Leads(Leader {
            entries: Arc::clone(self),
            key: key.into(),
            sender,
        })
    }

    /// To be taken before the target is asked.
    pub(super) fn epoch(&self, key: &[u8]) -> u64 {
        self.stripe(key).lock().epoch
    }

    /// Stores a response that the target was asked for in an epoch, in the place of those for the same requests. False: it is out of date.
    pub(super) fn store(&self, asked: &CacheRequest, head: &Head, epoch: u64, stored: Stored) -> bool {
        let stripe = self.stripe(&asked.key).lock();
        if stripe.epoch != epoch {
            return false;
        }
        let known = self.resources.peek(&asked.key[..]);
        let known = known.iter().flat_map(|resource| &resource.responses);
        let mut responses: Vec<_> = known
            .filter(|other| !selects(&other.selecting, head))
            .cloned()
            .collect();
        responses.push(Arc::new(stored));
        let mut bytes = 0;
        let fits = |stored: &&Arc<Stored>| {
            bytes += stored.bytes();
            bytes <= self.resource_bytes_max
        };
        let count = responses.iter().rev().take(VARIANTS_MAX).take_while(fits).count();
        responses.drain(..responses.len() - count);
        self.put(&asked.key, Resource::new(responses, None));
        true
    }

    fn put(&self, key: &[u8], resource: Resource) {
        self.resources.insert(key.into(), Arc::new(resource));
    }

    /// Notes that the target's response cannot be stored, if requests have waited for it: the next ones do not.
    pub(super) fn note_unstorable(&self, leader: &Leader, now: Instant) {
        if leader.has_followers() {
            let _stripe = self.stripe(&leader.key).lock();
            let known = self.resources.peek(&leader.key);
            let responses = known.map(|known| known.responses.clone()).unwrap_or_default();
            self.put(&leader.key, Resource::new(responses, Some(now + UNSTORABLE_FOR)));
        }
    }

    /// Reserves room for a part of a body that is still arriving. False: there is none.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let add = |arriving: u64| Some(arriving + bytes as u64).filter(|sum| *sum <= self.arriving_max);
        self.arriving.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    pub(super) fn release(&self, bytes: usize) {
        self.arriving.fetch_sub(bytes as u64, Relaxed);
    }

    /// Drops what is stored under a key, and what the target has been asked for so far.
    pub(super) fn drop_key(&self, key: &[u8]) {
        let mut stripe = self.stripe(key).lock();
        stripe.epoch += 1;
        self.resources.remove(key);
    }

    /// Drops the responses whose key is one of these, and says how many there were.
    pub(super) fn drop_all(&self, is_dropped: impl Fn(&[u8]) -> bool) -> usize {
        for stripe in &self.stripes {
            stripe.lock().epoch += 1;
        }
        let dropped = AtomicU64::new(0);
        self.resources.retain(|key, resource| {
            let drops = is_dropped(key);
            if drops {
                dropped.fetch_add(resource.responses.len() as u64, Relaxed);
            }
            !drops
        });
        dropped.into_inner() as usize
    }

    /// Bytes of all entries, and how many entries were dropped for want of room.
    pub(super) fn usage(&self) -> (u64, u64) {
        (self.resources.weight(), self.evictions.0.load(Relaxed))
    }
}
