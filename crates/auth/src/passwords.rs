//! User names and passwords. A password takes milliseconds and megabytes to check, so that is done on threads that may block, a few at a time.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use argon2::{Argon2, Params, PasswordHasher as _, PasswordVerifier as _, password_hash::phc};
use serde_json::Map;
use tokio::sync::Semaphore;

use crate::{
    CredentialKind, Identity, Refusal,
    cache::{Cache, Digest, digest},
    random,
};

/// How long a password that has been found right is not checked again.
const VERIFIED_TIME: Duration = Duration::from_mins(1);
/// Passwords that wait to be checked.
const WAITING_MAX: usize = 64;
/// The most that a hash may cost: kibibytes of memory, and passes over it.
const MEMORY_KIB_MAX: u32 = 256 << 10;
const PASSES_MAX: u32 = 16;

/// The hash of a password: Argon2id, as a PHC string.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(phc::PasswordHash);

/// A text is no hash of a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordHashError {
    /// It is not a hash by Argon2id.
    #[error("expected a hash by Argon2id that begins with `$argon2id$`, as `forebay password` prints it")]
    Form,
    /// Checking it would take too much.
    #[error(
        "the hash takes {memory_kib} KiB of memory and {passes} passes to check, at most {MEMORY_KIB_MAX} and {PASSES_MAX} are accepted"
    )]
    Cost {
        /// Its memory.
        memory_kib: u32,
        /// Its passes.
        passes: u32,
    },
}

impl FromStr for PasswordHash {
    type Err = PasswordHashError;

    fn from_str(text: &str) -> Result<Self, PasswordHashError> {
        let hash = phc::PasswordHash::new(text).map_err(|_| PasswordHashError::Form)?;
        let params = Params::try_from(&hash).map_err(|_| PasswordHashError::Form)?;
        if hash.algorithm != argon2::ARGON2ID_IDENT || hash.hash.is_none() || hash.salt.is_none() {
            return Err(PasswordHashError::Form);
        }
        let (memory_kib, passes) = (params.m_cost(), params.t_cost());
        if memory_kib > MEMORY_KIB_MAX || passes > PASSES_MAX {
            return Err(PasswordHashError::Cost { memory_kib, passes });
        }
        Ok(Self(hash))
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl PasswordHash {
    /// Hashes a password, with a random salt.
    pub fn of(password: &[u8]) -> Self {
        let salt: [u8; 16] = random();
        let hash = Argon2::default().hash_password_with_salt(password, &salt);
        Self(hash.expect("the default cost and a salt of 16 bytes can be used"))
    }

    fn is_of(&self, password: &[u8]) -> bool {
        Argon2::default().verify_password(password, &self.0).is_ok()
    }
}

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    /// The password's hash.
    pub password: PasswordHash,
    /// The user's scopes.
    pub scopes: Vec<String>,
}

/// Users with passwords.
#[derive(Debug)]
pub(crate) struct Passwords {
    users: BTreeMap<String, (PasswordHash, Arc<Identity>)>,
    verified: Cache,
    /// Makes the digests of verified passwords useless outside this process.
    key: Digest,
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Counts a check that waits or runs.
struct Place(Arc<Passwords>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Passwords {
    pub(crate) fn new(users: BTreeMap<String, User>) -> Self {
        let user = |(name, user): (String, User)| {
            let identity = Identity::new(name.clone(), CredentialKind::Password, user.scopes, Map::new());
            (name, (user.password, Arc::new(identity)))
        };
        // Half of the cores, so that passwords do not hold up everything else.
        let at_a_time = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        Self {
            users: users.into_iter().map(user).collect(),
            verified: Cache::default(),
            key: random(),
            running: Arc::new(Semaphore::new(at_a_time)),
            waiting: AtomicUsize::new(0),
        }
    }

    fn digest(&self, name: &str, password: &[u8]) -> Digest {
        digest(&[
            &self.key,
            &(name.len() as u64).to_le_bytes(),
            name.as_bytes(),
            password,
        ])
    }

    /// The user, if this password was found right a moment ago.
    pub(crate) fn known(&self, name: &str, password: &[u8], now: SystemTime) -> Option<Arc<Identity>> {
        self.verified.get(&self.digest(name, password), now, 0)
    }

    /// Checks a password. For an unknown user one is checked too, so that timing does not tell which users there are.
    pub(crate) async fn verify(
        self: Arc<Self>,
        name: String,
        password: Vec<u8>,
        now: SystemTime,
    ) -> Result<Arc<Identity>, Refusal> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Busy {
                waiting_max: WAITING_MAX,
            });
        }
        let place = Place(Arc::clone(&self));
        let permit = Arc::clone(&self.running).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let known = self.users.get(&name).map(|(_, identity)| Arc::clone(identity));
        let checked = self.users.get(&name).or(self.users.values().next());
        let hash = checked.map(|(hash, _)| hash.clone()).ok_or(Refusal::Wrong)?;
        let digest = self.digest(&name, &password);
        // The request may end first: the thread keeps its permit and its place until it is done.
        let checking = tokio::task::spawn_blocking(move || {
            let is_right = hash.is_of(&password);
            drop((permit, place));
            is_right
        });
        let is_right = checking.await.unwrap_or(false);
        match known.filter(|_| is_right) {
            Some(identity) => {
                self.verified.put(digest, &identity, now, now + VERIFIED_TIME, 0);
                Ok(identity)
            }
            None => Err(Refusal::Wrong),
        }
    }
}
