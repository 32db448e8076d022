//! Identities of credentials that have been verified, by a digest of the credentials, for a limited time.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use parking_lot::Mutex;
use ring::digest::{Context, SHA256};

use crate::Identity;

/// Shards, so that threads seldom meet at a lock.
const SHARDS: usize = 16;
/// Most entries of a shard.
const SHARD_ENTRIES_MAX: usize = 1024;

/// A SHA-256 digest.
pub(crate) type Digest = [u8; 32];

/// The digest of these parts together.
pub(crate) fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[derive(Debug)]
struct Entry {
    identity: Arc<Identity>,
    until: SystemTime,
    /// The keys by which it was verified.
    version: u64,
}

impl Entry {
    fn is_valid(&self, now: SystemTime, version: u64) -> bool {
        self.until > now && self.version == version
    }
}

/// A bounded cache. Only credentials that have been verified are put into it, so strangers cannot fill it.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    shards: [Mutex<HashMap<Digest, Entry>>; SHARDS],
}

impl Cache {
    fn shard(&self, key: &Digest) -> &Mutex<HashMap<Digest, Entry>> {
        &self.shards[usize::from(key[0]) % SHARDS]
    }

    /// The identity, if it was verified by keys of this version and is still good.
    pub(crate) fn get(&self, key: &Digest, now: SystemTime, version: u64) -> Option<Arc<Identity>> {
        let shard = self.shard(key).lock();
        let entry = shard.get(key).filter(|entry| entry.is_valid(now, version))?;
        Some(Arc::clone(&entry.identity))
    }

    pub(crate) fn put(
        &self,
        key: Digest,
        identity: &Arc<Identity>,
        now: SystemTime,
        until: SystemTime,
        version: u64,
    ) {
        let mut shard = self.shard(&key).lock();
        if shard.len() >= SHARD_ENTRIES_MAX {
            shard.retain(|_, entry| entry.is_valid(now, version));
        }
        if shard.len() >= SHARD_ENTRIES_MAX {
            // A token in use is soon verified again.
            shard.clear();
        }
        let identity = Arc::clone(identity);
        shard.insert(
            key,
            Entry {
                identity,
                until,
                version,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Map;

    use super::*;
    use crate::CredentialKind;

    fn identity() -> Arc<Identity> {
        let kind = CredentialKind::Jwt;
        Arc::new(Identity::new("a".to_owned(), kind, Vec::new(), Map::new()))
    }

    #[test]
    fn an_entry_is_good_until_its_end_and_for_its_keys_only() {
        let cache = Cache::default();
        let identity = identity();
        let now = SystemTime::UNIX_EPOCH;
        let until = now + Duration::from_secs(10);
        let key = digest(&[b"a"]);
        cache.put(key, &identity, now, until, 1);
        assert!(cache.get(&key, now, 1).is_some());
        assert!(cache.get(&key, until, 1).is_none(), "over");
        assert!(cache.get(&key, now, 2).is_none(), "other keys");
        assert!(cache.get(&digest(&[b"b"]), now, 1).is_none());
    }

    #[test]
    fn it_stays_within_its_bound() {
        let cache = Cache::default();
        let identity = identity();
        let now = SystemTime::UNIX_EPOCH;
        for number in 0..40_000_u32 {
            let key = digest(&[&number.to_le_bytes()]);
            cache.put(key, &identity, now, now + Duration::from_secs(1), 1);
            assert!(cache.get(&key, now, 1).is_some());
        }
        let entries: usize = cache.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(entries <= SHARDS * SHARD_ENTRIES_MAX, "{entries}");
    }
}
