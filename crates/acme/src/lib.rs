//! Certificates that a server obtains for itself from an authority that speaks ACME (RFC 8555), and renews. Network and files are used on a
//! thread of this crate; listeners ask [`Challenges`] and the slots of the certificates, and never wait for either.

mod account;
mod challenges;
mod error;
mod folder;
mod http;
mod order;
mod renewal;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use forebay_tls::CertificateSlot;
use parking_lot::Mutex;
use tokio::{runtime, sync::oneshot, task::AbortHandle};

pub use self::challenges::Challenges;
use self::{folder::Folder, renewal::Renewal};

/// Longest time for one certificate, from the first request to an authority to the file.
pub(crate) const ORDER_TIME_MAX: Duration = Duration::from_mins(5);

/// How a certificate is obtained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The names it is for, in lower case; at least one, none with a wildcard.
    pub domains: Vec<String>,
    /// Where the authority reaches who runs the server: `mailto:...`.
    pub contact: Option<String>,
    /// The `https:` URL of the authority's directory.
    pub directory: String,
    /// The authorities, as PEM, that have signed the certificate of the directory itself; `None`: those that the system trusts.
    pub directory_ca: Option<PathBuf>,
    /// How the server proves to have the names.
    pub challenge: Challenge,
    /// Where accounts and certificates are kept.
    pub folder: PathBuf,
}

/// How a server proves to have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By a handshake on port 443 (RFC 8737).
    TlsAlpn01,
    /// By a response on port 80, without TLS (RFC 8555, 8.3).
    Http01,
}

/// How far the orders of a certificate have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Why the last order has failed; `None` if it has not.
    pub failure: Option<String>,
    /// When the next order begins; `None` while one is under way.
    pub next_order: Option<SystemTime>,
}

/// Obtains and renews certificates, each under the name of its section in the configuration.
#[derive(Debug, Default)]
pub struct AcmeClient {
    challenges: Arc<Challenges>,
    certificates: Mutex<BTreeMap<String, Running>>,
    thread: Mutex<Option<Thread>>,
}

/// A certificate that is kept up to date.
#[derive(Debug)]
struct Running {
    settings: Settings,
    slot: Arc<CertificateSlot>,
    progress: Arc<Mutex<Progress>>,
    task: AbortHandle,
}

/// The thread for network and files; it ends when this is dropped.
#[derive(Debug)]
struct Thread {
    runtime: runtime::Handle,
    _stop: oneshot::Sender<()>,
}

impl AcmeClient {
    /// Answers to the challenges of the orders under way.
    pub fn challenges(&self) -> Arc<Challenges> {
        Arc::clone(&self.challenges)
    }

    /// Where listeners find a certificate: the slot in use if these are the settings in force, otherwise a new one with the certificate that is
    /// stored, if there is one. Orders nothing.
    pub fn slot(&self, name: &str, settings: &Settings) -> Arc<CertificateSlot> {
        let certificates = self.certificates.lock();
        let running = certificates.get(name);
        if let Some(running) = running.filter(|running| running.settings == *settings) {
            return Arc::clone(&running.slot);
        }
        let slot = CertificateSlot::missing(settings.domains.clone());
        match Folder::new(&settings.folder).certificate(name) {
            Ok(Some(stored)) => slot.replace(stored),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(target: "forebay::acme", certificate = name, "the stored certificate cannot be used, so a new one is ordered: {error}");
            }
        }
        Arc::new(slot)
    }

    /// Keeps exactly these certificates up to date. An order goes on if its settings are the same as before; others end.
    pub fn keep<'a>(&self, wanted: impl Iterator<Item = (&'a str, &'a Settings, &'a Arc<CertificateSlot>)>) {
        let mut certificates = self.certificates.lock();
        let mut before = std::mem::take(&mut *certificates);
        for (name, settings, slot) in wanted {
            let same = before.remove(name);
            let running = match same.filter(|running| Arc::ptr_eq(&running.slot, slot)) {
                Some(running) => running,
                None => match self.start(name, settings, slot) {
                    Ok(running) => running,
                    Err(error) => {
                        tracing::error!(target: "forebay::acme", certificate = name, "the thread that obtains certificates cannot be started: {error}");
                        continue;
                    }
                },
            };
            certificates.insert(name.to_owned(), running);
        }
    }

    /// Ends every order.
    pub fn stop(&self) {
        self.certificates.lock().clear();
        self.thread.lock().take();
    }

    /// The progress of a section's certificate; `None` if the section obtains none.
    pub fn progress(&self, name: &str) -> Option<Progress> {
        Some(self.certificates.lock().get(name)?.progress.lock().clone())
    }

    fn start(&self, name: &str, settings: &Settings, slot: &Arc<CertificateSlot>) -> io::Result<Running> {
        let mut thread = self.thread.lock();
        let thread = match &mut *thread {
            Some(thread) => thread,
            none => none.insert(Thread::start()?),
        };
        let progress = Arc::default();
        let renewal = Renewal {
            name: name.to_owned(),
            settings: settings.clone(),
            slot: Arc::clone(slot),
            challenges: Arc::clone(&self.challenges),
            progress: Arc::clone(&progress),
        };
        Ok(Running {
            settings: settings.clone(),
            slot: Arc::clone(slot),
            progress,
            task: thread.runtime.spawn(renewal.run()).abort_handle(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Thread {
    fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("acme".to_owned()).spawn(move || {
            // An error: the sender is dropped, which is what ends the thread.
            let _ = runtime.block_on(stopped);
            // Does not wait for a name that is being resolved.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            _stop: stop,
        })
    }
}
