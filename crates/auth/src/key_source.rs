//! Where the keys of a token issuer come from: a file that is read once, or a URL that a thread asks again and again. While the URL does not
//! answer, the last good keys stay in force. The thread also does the requests of logins.

use std::{
    io, mem,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_tls::CertificateError;
use http::Uri;
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime,
    sync::{Notify, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    fetch::Fetcher,
    key_set::{KeySet, KeySetError},
    oidc::{Metadata, discovery_url},
};

/// A token with an unknown key has the keys fetched at most this often: anybody can make up such tokens.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(5);
/// Pauses between attempts that fail: the first, doubled each time, and the longest.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_mins(1);

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyLocation {
    /// A file.
    File(PathBuf),
    /// A URL that is asked.
    Url {
        /// It begins with `https:`, or with `http:` for an address of this machine.
        url: Uri,
        /// A PEM file with the authorities that sign the server's certificate; `None`: those that the system trusts.
        ca: Option<PathBuf>,
        /// How often it is asked.
        refresh: Duration,
    },
    /// The document in which an OpenID provider says where its keys and its endpoints are (OpenID Connect Discovery, 4).
    Discovery {
        /// The provider's URL, as `Url::url` is.
        issuer: String,
        /// As of `Url`.
        ca: Option<PathBuf>,
        /// How often document and keys are asked for.
        refresh: Duration,
    },
}

/// Keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeySourceError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// The file of keys.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a key set.
    #[error("{} cannot be used: {source}", path.display())]
    KeySet {
        /// The file of keys.
        path: PathBuf,
        /// The reason.
        source: KeySetError,
    },
    /// The authorities of the URL's server cannot be read.
    #[error(transparent)]
    Authorities(#[from] CertificateError),
    /// The thread that fetches keys cannot be started.
    #[error("cannot start a thread that fetches keys: {0}")]
    Thread(io::Error),
}

/// The keys of an issuer.
#[derive(Debug)]
pub struct KeySource {
    location: KeyLocation,
    keys: RwLock<Arc<KeySet>>,
    /// The endpoints of an OpenID provider, once they are known.
    metadata: RwLock<Option<Arc<Metadata>>>,
    /// Changes with the keys.
    version: AtomicU64,
    progress: Mutex<Progress>,
    /// The number of attempts so far, successful or not.
    attempts: watch::Sender<u64>,
    /// Wakes the thread before its time.
    asked: Arc<Notify>,
    /// `None` for a file.
    thread: Option<FetchThread>,
}

#[derive(Debug)]
struct FetchThread {
    runtime: runtime::Handle,
    fetcher: Arc<Fetcher>,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Progress {
    is_fetching: bool,
    /// When a token with an unknown key last had the keys fetched.
    asked_at: Option<Instant>,
    /// The last key set, as it was received.
    text: Vec<u8>,
}

impl KeySource {
    /// Reads a file, or starts to ask a URL, which this does not wait for.
    pub fn start(location: KeyLocation) -> Result<Arc<Self>, KeySourceError> {
        let source = |location, keys, thread| {
            let thread: Option<FetchThread> = thread;
            let is_fetching = thread.is_some();
            Self {
                location,
                keys: RwLock::new(Arc::new(keys)),
                metadata: RwLock::default(),
                version: AtomicU64::new(0),
                progress: Mutex::new(Progress {
                    is_fetching,
                    asked_at: None,
                    text: Vec::new(),
                }),
                attempts: watch::Sender::new(0),
                asked: Arc::default(),
                thread,
            }
        };
        let (ca, refresh) = match &location {
            KeyLocation::File(path) => {
                let path = path.clone();
                let text = match std::fs::read(&path) {
                    Ok(text) => text,
                    Err(source) => return Err(KeySourceError::File { path, source }),
                };
                return match KeySet::parse(&text) {
                    Ok(keys) => Ok(Arc::new(source(location, keys, None))),
                    Err(source) => Err(KeySourceError::KeySet { path, source }),
                };
            }
            KeyLocation::Url { ca, refresh, .. } | KeyLocation::Discovery { ca, refresh, .. } => {
                (ca.as_deref(), *refresh)
            }
        };
        let fetcher = Arc::new(Fetcher::new(ca)?);
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(KeySourceError::Thread)?;
        let thread = FetchThread {
            runtime: runtime.handle().clone(),
            fetcher: Arc::clone(&fetcher),
            _stop: stop,
        };
        let this = Arc::new(source(location, KeySet::default(), Some(thread)));
        let (weak, asked, location) = (
            Arc::downgrade(&this),
            Arc::clone(&this.asked),
            this.location.clone(),
        );
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    // An error: the sender is dropped.
                    _ = stopped => {}
                    () = keep_fetching(weak, &asked, &fetcher, location, refresh) => {}
                }
            });
            // Does not wait for a name that is being resolved.
            runtime.shutdown_background();
        };
        let started = thread::Builder::new().name("auth-keys".to_owned()).spawn(run);
        started.map_err(KeySourceError::Thread)?;
        Ok(this)
    }

    /// Where the keys come from.
    pub fn location(&self) -> &KeyLocation {
        &self.location
    }

    /// The keys in force, and a number that changes with them.
    pub(crate) fn current(&self) -> (Arc<KeySet>, u64) {
        let keys = self.keys.read();
        (Arc::clone(&keys), self.version.load(Ordering::Acquire))
    }

    /// The endpoints of an OpenID provider; `None` until they are known.
    pub(crate) fn metadata(&self) -> Option<Arc<Metadata>> {
        self.metadata.read().clone()
    }

    /// Runs a task with requests on the thread that fetches keys. The handle has an error if the thread ends before. `None` for a file.
    pub(crate) fn spawn<T: Send + 'static, F>(
        &self,
        task: impl FnOnce(Arc<Fetcher>) -> F,
    ) -> Option<JoinHandle<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let thread = self.thread.as_ref()?;
        Some(thread.runtime.spawn(task(Arc::clone(&thread.fetcher))))
    }

    /// Has the keys fetched because a token's is not among them. Completes when that has been tried; `None` if it was tried a moment ago.
    pub(crate) fn renewed(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut progress = self.progress.lock();
        // Taken under the lock, so that the end of the attempt is not missed.
        let mut attempts = self.attempts.subscribe();
        if !progress.is_fetching {
            self.thread.as_ref()?;
            if progress
                .asked_at
                .is_some_and(|at| at.elapsed() < UNKNOWN_KEY_PAUSE)
            {
                return None;
            }
            progress.asked_at = Some(Instant::now());
            progress.is_fetching = true;
            self.asked.notify_one();
        }
        Some(async move {
            // An error: the source has been dropped, and its keys stay as they are.
            let _ = attempts.changed().await;
        })
    }

    /// Notes the end of an attempt. Returns whether there are keys that can be used.
    fn note(&self, url: &str, fetched: Result<Fetched, String>) -> bool {
        let mut progress = self.progress.lock();
        let read = fetched.and_then(|Fetched { metadata, keys: text }| {
            if text != progress.text {
                let keys = KeySet::parse(&text).map_err(|error| error.to_string())?;
                progress.text = text;
                let mut current = self.keys.write();
                let before = mem::replace(&mut *current, Arc::new(keys));
                self.version.fetch_add(1, Ordering::Release);
                drop(current);
                let what = if before.is_empty() { "obtained" } else { "replaced" };
                tracing::info!(target: "forebay::auth", url, "the keys of a token issuer have been {what}");
            }
            if let Some(metadata) = metadata {
                *self.metadata.write() = Some(Arc::new(metadata));
            }
            Ok(())
        });
        let is_empty = self.keys.read().is_empty();
        if let Err(cause) = &read {
            let consequence = if is_empty {
                "requests with its tokens and logins are answered 503"
            } else {
                "the last ones stay in force"
            };
            tracing::warn!(target: "forebay::auth", url, cause, "the keys of a token issuer cannot be fetched: {consequence}");
        }
        progress.is_fetching = false;
        self.attempts.send_modify(|attempts| *attempts += 1);
        read.is_ok()
    }
}

/// The result of an attempt.
struct Fetched {
    metadata: Option<Metadata>,
    keys: Vec<u8>,
}

async fn keep_fetching(
    source: Weak<KeySource>,
    asked: &Notify,
    fetcher: &Fetcher,
    location: KeyLocation,
    refresh: Duration,
) {
    let url = match &location {
        // A file is not fetched.
        KeyLocation::File(_) => return,
        KeyLocation::Url { url, .. } => url.to_string(),
        KeyLocation::Discovery { issuer, .. } => discovery_url(issuer),
    };
    let mut pause = RETRY_PAUSE_MIN;
    loop {
        let fetched = fetch(fetcher, &location, &url).await;
        let Some(is_good) = source.upgrade().map(|source| source.note(&url, fetched)) else {
            return;
        };
        let wait = if is_good { refresh } else { pause.min(refresh) };
        pause = if is_good {
            RETRY_PAUSE_MIN
        } else {
            (pause * 2).min(RETRY_PAUSE_MAX)
        };
        // An error: nobody has asked. The source is not held meanwhile, so that it can end.
        let _ = timeout(wait, asked.notified()).await;
        match source.upgrade() {
            Some(source) => source.progress.lock().is_fetching = true,
            None => return,
        }
    }
}

async fn fetch(fetcher: &Fetcher, location: &KeyLocation, url: &str) -> Result<Fetched, String> {
    let url = url.parse().map_err(|_| "it is not a URL".to_owned())?;
    let text = fetcher.get(&url).await.map_err(|error| error.to_string())?;
    let KeyLocation::Discovery { issuer, .. } = location else {
        return Ok(Fetched {
            metadata: None,
            keys: text.to_vec(),
        });
    };
    let metadata = Metadata::parse(&text, issuer).map_err(|error| error.to_string())?;
    let keys = fetcher.get(&metadata.jwks).await;
    let keys = keys.map_err(|error| format!("{} (jwks_uri): {error}", metadata.jwks))?;
    Ok(Fetched {
        metadata: Some(metadata),
        keys: keys.to_vec(),
    })
}
