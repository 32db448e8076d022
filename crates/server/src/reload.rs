//! Puts another configuration in force while the server runs, without failing a request.
//!
//! Pools are made anew and must have become ready before anything changes; until then, and when they do not, those in force go on.
//! Then routes and pools are swapped. A request keeps what it began with, so the old pools take jobs until the last
//! request that began before the swap is over; only then they stop.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_pool::Pool;
use parking_lot::Mutex;

use crate::{
    app::{App, BuildError},
    config::Config,
    server::Shared,
};

/// Why there is no configuration: a [`ConfigError`](crate::config::ConfigError), or what the command line is wrong about.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Where a reload gets its configuration.
pub struct Reload {
    /// Reads the configuration as it was read at the start, options of the command line included.
    pub load: Box<dyn Fn() -> Result<Config, LoadError> + Send>,
    /// Whether to reload when the configuration, a handler or what lies beside it changes.
    pub watch: bool,
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

/// Why the configuration in force stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Load(LoadError),
    #[error(
        "{key} has changed, which takes a restart: a reload keeps the listeners, the threads and the log's file"
    )]
    Fixed { key: &'static str },
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{}", failing_pools(.pools))]
    Pools { pools: Vec<(String, String)> },
    #[error("the server is stopping")]
    Stopping,
}

fn failing_pools(pools: &[(String, String)]) -> String {
    let lines: Vec<_> = pools
        .iter()
        .map(|(name, reason)| format!("pool `{name}` does not start: {reason}"))
        .collect();
    lines.join("\n")
}

/// A reload that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reloaded {
    /// How many configurations have been in force, this one included.
    pub(crate) generation: u64,
    pub(crate) took: Duration,
}

type Load = Arc<Mutex<Box<dyn Fn() -> Result<Config, LoadError> + Send>>>;

/// What reloads need; one runs at a time.
pub(crate) struct Reloading {
    load: Load,
    pub(crate) watch: bool,
    /// Held while a reload runs; the number of the generation in force.
    generation: tokio::sync::Mutex<u64>,
}

impl fmt::Debug for Reloading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloading")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

impl Reloading {
    pub(crate) fn new(reload: Reload) -> Self {
        Self {
            load: Arc::new(Mutex::new(reload.load)),
            watch: reload.watch,
            generation: tokio::sync::Mutex::new(1),
        }
    }
}

impl Shared {
    /// Reloads, and logs how that went.
    pub(crate) async fn reload_and_log(self: &Arc<Self>, asked_by: &str) {
        let _ = self.reload(asked_by).await;
    }

    /// Puts the configuration as it is now in force. On an error nothing has changed.
    pub(crate) async fn reload(self: &Arc<Self>, asked_by: &str) -> Result<Reloaded, ReloadError> {
        let mut generation = self.reloading.generation.lock().await;
        let began = Instant::now();
        let result = self.replace().await;
        match &result {
            Ok(()) => {
                *generation += 1;
                tracing::info!(target: "forebay::server", asked_by, generation = *generation, took = ?began.elapsed(), "configuration reloaded");
            }
            Err(error) => {
                tracing::error!(target: "forebay::server", asked_by, "configuration not reloaded, the one in force stays: {error}")
            }
        }
        result.map(|()| Reloaded {
            generation: *generation,
            took: began.elapsed(),
        })
    }

    async fn replace(self: &Arc<Self>) -> Result<(), ReloadError> {
        let load = self.reloading.load.clone();
        let config = blocking(move || (load.lock())())
            .await
            .map_err(ReloadError::Load)?;
        let current = self.front.app();
        check_fixed(&current.config, &config)?;
        let threads = current.config.server.threads;
        drop(current);
        let shared = self.clone();
        let app =
            blocking(move || App::build(config, threads, &shared.supervisor, &shared.mailboxes)).await?;
        let pools: Vec<Pool> = app.pools.values().cloned().collect();
        let mut stopping = self.stopping.subscribe();
        let settled = tokio::select! {
            settled = settled(&pools) => settled,
            _ = stopping.wait_for(|stopping| *stopping) => Err(ReloadError::Stopping),
        };
        if let Err(error) = settled {
            pools.iter().for_each(Pool::stop_now);
            return Err(error);
        }
        self.pools.lock().extend(pools);
        self.front.replace_app(Arc::new(app));
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("nothing cancels this, and a panic goes on")
}

/// Waits until each pool is ready or has failed to start.
async fn settled(pools: &[Pool]) -> Result<(), ReloadError> {
    let mut failing = Vec::new();
    for pool in pools {
        if let Err(reason) = pool.settled().await {
            failing.push((pool.name().to_owned(), reason));
        }
    }
    if failing.is_empty() {
        Ok(())
    } else {
        Err(ReloadError::Pools { pools: failing })
    }
}

/// What cannot change while the server runs.
fn check_fixed(current: &Config, new: &Config) -> Result<(), ReloadError> {
    let fixed = [
        ("server.listen", current.server.listen == new.server.listen),
        ("server.threads", current.server.threads == new.server.threads),
        ("admin.listen", current.admin.listen == new.admin.listen),
        ("admin.socket", current.admin.socket == new.admin.socket),
        ("log.format", current.log.format == new.log.format),
        ("log.file", current.log.file == new.log.file),
        ("log.rotate", current.log.rotate == new.log.rotate),
    ];
    match fixed.into_iter().find(|(_, same)| !same) {
        Some((key, _)) => Err(ReloadError::Fixed { key }),
        None => Ok(()),
    }
}
