//! Replaces the configuration of a running server without failing a request.
//!
//! New pools are started and must become ready before anything changes. Until then, or if they fail, the current ones stay in force. Then
//! routes and pools are swapped. A request keeps the app it started with, so old pools accept jobs until the last request from before the
//! swap has ended, and stop only then.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_pool::Pool;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    app::{App, BuildError, WORKFLOW_COUNTS},
    config::{self, Config},
    failure,
    server::Shared,
    target::WorkflowTarget,
};

/// Why the configuration could not be loaded: a [`ConfigError`](crate::config::ConfigError), or invalid command-line options.
pub type LoadError = Box<dyn Error + Send + Sync>;

/// The source of the configuration for reloads.
pub struct Reload {
    /// Reads the configuration in the same way as at the start, including command-line options.
    pub load: Box<dyn Fn() -> Result<Config, LoadError> + Send>,
    /// Whether to reload when the configuration, a handler, or code next to a handler changes.
    pub watch: bool,
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

/// Why the current configuration stays in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Load(LoadError),
    #[error(
        "{key} has changed, which takes a restart: a reload keeps the listeners, the threads, the log's file, the open store and where runs of workflows are kept"
    )]
    Fixed { key: &'static str },
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{}", failing_pools(.pools))]
    Pools { pools: Vec<(String, String)> },
    #[error("the server is stopping")]
    Stopping,
}

impl ReloadError {
    /// The error's text followed by its causes.
    pub(crate) fn with_causes(&self) -> String {
        failure::with_causes(self)
    }
}

/// A file of workflows that has become bad does not replace the one in force.
fn check_workflows(before: &App, next: &App) -> Result<(), ReloadError> {
    if let (Some(before), Some(next)) = (&before.workflow, &next.workflow) {
        before.check_reload(next).map_err(BuildError::from)?;
    }
    Ok(())
}

fn failing_pools(pools: &[(String, String)]) -> String {
    let lines: Vec<_> = pools
        .iter()
        .map(|(name, reason)| format!("pool `{name}` does not start: {reason}"))
        .collect();
    lines.join("\n")
}

/// A completed reload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reloaded {
    /// Number of configurations so far, including this one.
    pub(crate) generation: u64,
    pub(crate) took: Duration,
}

/// The generation of the initial configuration.
pub(crate) const FIRST_GENERATION: u64 = 1;

type Load = Arc<Mutex<Box<dyn Fn() -> Result<Config, LoadError> + Send>>>;

/// The state of reloads.
pub(crate) struct Reloading {
    load: Load,
    pub(crate) watch: bool,
    /// Held during a reload, so that only one runs at a time.
    turn: tokio::sync::Mutex<()>,
    generation: AtomicU64,
    refused: AtomicU64,
    /// The configuration read last, whether it was accepted or not.
    pub(crate) read: watch::Sender<Option<Arc<Config>>>,
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
            turn: tokio::sync::Mutex::new(()),
            generation: AtomicU64::new(FIRST_GENERATION),
            refused: AtomicU64::new(0),
            read: watch::Sender::new(None),
        }
    }

    /// Waits until no reload is running. None starts while the guard is held.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Number of configurations that have been in force.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Number of reloads that failed and changed nothing.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Reads the configuration, puts it in force, and logs the outcome. On an error nothing has changed.
    pub(crate) async fn reload(self: &Arc<Self>, asked_by: &str) -> Result<Reloaded, ReloadError> {
        let _turn = self.reloading.turn().await;
        let began = Instant::now();
        let result = self.replace().await;
        let (generation, took) = (self.reloading.generation(), began.elapsed());
        match &result {
            Ok(()) => {
                let took_ms = took.as_millis() as u64;
                tracing::info!(target: "forebay::server", asked_by, generation, took_ms, "configuration reloaded");
            }
            Err(error) => {
                self.reloading.refused.fetch_add(1, Ordering::Relaxed);
                self.services.routes.keep(&self.front.app().config.routes);
                let reason = error.with_causes();
                tracing::error!(target: "forebay::server", asked_by, "configuration not reloaded, the one in force stays: {reason}");
            }
        }
        result.map(|()| Reloaded { generation, took })
    }

    async fn replace(self: &Arc<Self>) -> Result<(), ReloadError> {
        let mut stopping = self.stopping.subscribe();
        if *stopping.borrow() {
            return Err(ReloadError::Stopping);
        }
        let load = self.reloading.load.clone();
        let config = blocking(move || (load.lock())())
            .await
            .map_err(ReloadError::Load)?;
        self.reloading.read.send_replace(Some(Arc::new(config.clone())));
        check_fixed(&self.front.app().config, &config)?;
        let shared = self.clone();
        let app = blocking(move || App::build(config, &shared.services)).await?;
        let settled = match check_workflows(&self.front.app(), &app) {
            Err(error) => Err(error),
            Ok(()) => tokio::select! {
                settled = settled(&app) => settled,
                _ = stopping.wait_for(|stopping| *stopping) => Err(ReloadError::Stopping),
            },
        };
        if let Err(error) = settled {
            app.pools.values().for_each(Pool::stop_now);
            for pool in app.pools.values() {
                pool.stopped().await;
            }
            return Err(error);
        }
        self.put_in_force(&Arc::new(app));
        Ok(())
    }

    fn put_in_force(self: &Arc<Self>, app: &Arc<App>) {
        let generation = self.reloading.generation() + 1;
        self.pools.add(generation, app.pools.values().cloned());
        let before = self.front.replace_app(app.clone());
        before.end_health_checks();
        app.keep_certificates(&self.services.acme);
        self.reloading.generation.store(generation, Ordering::Release);
        self.services.routes.keep(&app.config.routes);
        self.services.scripts.keep(|name| {
            app.config.scripts.contains_key(name) || name == WORKFLOW_COUNTS && app.config.workflow.is_some()
        });
        if app.config.workflow.is_none() {
            self.services.workflows.clear();
        }
        (*self.services.workflow_logs.lock()).clone_from(&app.workflow_logs);
        if let Some(kept) = &self.services.kept_runs {
            kept.serve(app.workflow.as_ref().map(WorkflowTarget::runner));
        }
        self.services.sources.keep(&app.config);
        if app.config.log.level != before.config.log.level {
            self.services
                .log
                .set_level(&app.config.log.level)
                .expect("the configuration was checked");
        }
        tokio::spawn(self.clone().retire(generation - 1, before));
        self.check_statements();
    }

    /// Stops the pools of a replaced app once the last request that started with it has ended.
    async fn retire(self: Arc<Self>, generation: u64, app: Arc<App>) {
        let deadline = tokio::time::Instant::now() + app.config.server.drain_max;
        let pools: Vec<Pool> = app.pools.values().cloned().collect();
        let released = app.released();
        drop(app);
        // Connections that may last keep the app; their clients come again.
        pools.iter().for_each(Pool::end_connections);
        if tokio::time::timeout_at(deadline, released).await.is_err() {
            tracing::warn!(target: "forebay::server", generation, "requests of before a reload are left after drain_max and are cut off");
        }
        self.front.forget_scripts();
        pools.iter().for_each(Pool::stop);
        for pool in pools {
            if tokio::time::timeout_at(deadline, pool.stopped()).await.is_err() {
                pool.stop_now();
                pool.stopped().await;
            }
            self.pools.end(generation, pool.name());
        }
        self.pools.forget_unused();
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .expect("nothing cancels this, and a panic goes on")
}

/// Waits until each pool is ready or has failed to start.
async fn settled(app: &App) -> Result<(), ReloadError> {
    let mut failing = Vec::new();
    for (name, pool) in &app.pools {
        if let Err(reason) = pool.settled().await {
            failing.push((name.clone(), reason));
        }
    }
    if failing.is_empty() {
        Ok(())
    } else {
        Err(ReloadError::Pools { pools: failing })
    }
}

/// Rejects changes to settings that are fixed while the server runs.
fn check_fixed(current: &Config, new: &Config) -> Result<(), ReloadError> {
    let fixed = [
        ("server.listen", current.server.listen == new.server.listen),
        ("server.threads", current.server.threads == new.server.threads),
        ("admin.listen", current.admin.listen == new.admin.listen),
        ("admin.socket", current.admin.socket == new.admin.socket),
        ("log.format", current.log.format == new.log.format),
        ("log.file", current.log.file == new.log.file),
        ("log.rotate", current.log.rotate == new.log.rotate),
        ("trace", current.trace == new.trace),
        ("store", fixed_of_store(current) == fixed_of_store(new)),
        ("workflow.runs", kept_runs(current) == kept_runs(new)),
    ];
    match fixed.into_iter().find(|(_, same)| !same) {
        Some((key, _)) => Err(ReloadError::Fixed { key }),
        None => Ok(()),
    }
}

fn kept_runs(config: &Config) -> Option<forebay_workflow::DurableRunLimits> {
    config.workflow.as_ref()?.runs.limits()
}

/// The store's configuration without its access rules, which may change.
fn fixed_of_store(config: &Config) -> Option<config::Store> {
    config.store.clone().map(|store| config::Store {
        access: BTreeMap::new(),
        ..store
    })
}
