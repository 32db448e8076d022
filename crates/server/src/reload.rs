//! Replaces the configuration of a running server without failing a request.
//!
//! New pools are started and must become ready before anything changes. Until then, or if they fail, the current ones stay in force. Then
//! routes and pools are swapped. A request keeps the app it started with, so old pools accept jobs until the last request from before the
//! swap has ended, and stop only then.
//!
//! With `--watch`, the next app takes over the pools whose code has not changed, and those whose new code does not start.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    app::{App, BuildError, KeptPools, WORKFLOW_COUNTS},
    check::HandlerFaults,
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

/// Pools do not start.
#[derive(Debug, thiserror::Error)]
#[error("{}", failing_pools(.0))]
pub struct PoolStartError(Vec<(String, String)>);

/// Why the current configuration stays in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Load(LoadError),
    #[error(
        "{key} has changed, which takes an upgrade or a restart: a reload keeps the listeners, the threads, the user, the log's file, the open store and where runs of workflows are kept"
    )]
    Fixed { key: &'static str },
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Pools(#[from] PoolStartError),
    #[error("the server is stopping")]
    Stopping,
}

impl ReloadError {
    /// The error's text followed by its causes.
    pub(crate) fn with_causes(&self) -> String {
        failure::with_causes(self)
    }

    /// The pools that alone are the reason, by name, each with its error; otherwise the error itself.
    fn into_pools(self) -> Result<BTreeMap<String, String>, Self> {
        match self {
            Self::Pools(PoolStartError(pools)) => Ok(pools.into_iter().collect()),
            Self::Build(BuildError::Handlers(HandlerFaults(faults))) => {
                let mut pools = BTreeMap::<String, String>::new();
                for (name, problem) in faults {
                    let text = pools.entry(name).or_default();
                    text.push_str(if text.is_empty() { "" } else { "\n" });
                    text.push_str(&problem);
                }
                Ok(pools)
            }
            other => Err(other),
        }
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
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    /// Number of configurations so far, including this one.
    pub(crate) generation: u64,
    pub(crate) took: Duration,
    /// The pools that were started again; `None`: all of them.
    pub(crate) pools: Option<BTreeSet<String>>,
    /// The pools that were to be started again and have not started, by name, each with its error. The ones in force stay.
    pub(crate) failing: BTreeMap<String, String>,
}

/// With `--watch`, how long replaced pools wait for requests that have not reached them yet, such as slow uploads. Then they finish the others.
const WATCH_RELEASE: Duration = Duration::from_secs(2);

/// The generation of the initial configuration.
pub(crate) const FIRST_GENERATION: u64 = 1;

type Load = Arc<Mutex<Box<dyn Fn() -> Result<Config, LoadError> + Send>>>;

/// The state of reloads.
pub(crate) struct Reloading {
    load: Load,
    /// Held during a reload, so that only one runs at a time.
    turn: tokio::sync::Mutex<()>,
    generation: AtomicU64,
    refused: AtomicU64,
    /// The configuration read last, whether it was accepted or not.
    pub(crate) read: watch::Sender<Option<Arc<Config>>>,
}

impl fmt::Debug for Reloading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloading").finish_non_exhaustive()
    }
}

impl Reloading {
    pub(crate) fn new(reload: Reload) -> Self {
        Self {
            load: Arc::new(Mutex::new(reload.load)),
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
        self.manager.reloading("reloading");
        let result = self.renew(None).await;
        match &result {
            Ok(Reloaded { generation, took, .. }) => {
                if let Some(problems) = &self.services.problems {
                    problems.clear();
                }
                let took_ms = took.as_millis() as u64;
                tracing::info!(target: "forebay::server", asked_by, generation, took_ms, "configuration reloaded");
                self.manager.ready(&self.serving());
            }
            Err(error) => {
                let reason = error.with_causes();
                tracing::error!(target: "forebay::server", asked_by, "configuration not reloaded, the one in force stays: {reason}");
                self.manager.ready(&format!("not reloaded: {reason}"));
            }
        }
        result
    }

    /// Reads the configuration and puts it in force. If it has not changed, only the pools with these names are started again, and those
    /// among them that do not start leave the ones in force. On an error nothing has changed.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        pools: Option<BTreeSet<String>>,
    ) -> Result<Reloaded, ReloadError> {
        let _turn = self.reloading.turn().await;
        let began = Instant::now();
        let result = self.replace(pools).await.map(|(pools, failing)| Reloaded {
            generation: self.reloading.generation(),
            took: began.elapsed(),
            pools,
            failing,
        });
        if !matches!(&result, Ok(reloaded) if reloaded.failing.is_empty()) {
            self.reloading.refused.fetch_add(1, Ordering::Relaxed);
            self.services.routes.keep(&self.front.app().config);
        }
        result
    }

    async fn replace(
        self: &Arc<Self>,
        mut pools: Option<BTreeSet<String>>,
    ) -> Result<(Option<BTreeSet<String>>, BTreeMap<String, String>), ReloadError> {
        if *self.stopping.borrow() {
            return Err(ReloadError::Stopping);
        }
        let load = self.reloading.load.clone();
        let config = blocking(move || (load.lock())())
            .await
            .map_err(ReloadError::Load)?;
        self.reloading.read.send_replace(Some(Arc::new(config.clone())));
        let current = self.front.app();
        check_fixed(&current.config, &config)?;
        pools = pools.filter(|_| config == current.config);
        let mut failing = BTreeMap::new();
        loop {
            let kept = pools.clone().map(|renewed| KeptPools {
                app: current.clone(),
                renewed,
            });
            let error = match self.start(config.clone(), kept).await {
                Ok(app) => {
                    self.put_in_force(&Arc::new(app));
                    return Ok((pools, failing));
                }
                Err(error) => error,
            };
            let Some(renewed) = &mut pools else {
                return Err(error);
            };
            // The others, and scripts and workflows, can still be put in force.
            let failed = error.into_pools()?;
            renewed.retain(|name| !failed.contains_key(name));
            failing.extend(failed);
            if renewed.is_empty() && config.scripts.is_empty() && config.workflow.is_none() {
                return Ok((pools, failing));
            }
        }
    }

    /// Builds an app and waits until those of its pools are ready that are not kept.
    async fn start(self: &Arc<Self>, config: Config, kept: Option<KeptPools>) -> Result<App, ReloadError> {
        let mut stopping = self.stopping.subscribe();
        let shared = self.clone();
        let (app, started) = blocking(move || {
            let app = App::build(config, &shared.services, kept.as_ref())?;
            let is_kept = |pool: &Pool| kept.as_ref().is_some_and(|kept| kept.get(pool.name()).is_some());
            let started: Vec<Pool> = app
                .pools
                .values()
                .filter(|pool| !is_kept(pool))
                .cloned()
                .collect();
            Ok::<_, BuildError>((app, started))
        })
        .await?;
        let settled = match check_workflows(&self.front.app(), &app) {
            Err(error) => Err(error),
            Ok(()) => tokio::select! {
                settled = settled(&started) => settled.map_err(ReloadError::from),
                _ = stopping.wait_for(|stopping| *stopping) => Err(ReloadError::Stopping),
            },
        };
        if let Err(error) = settled {
            started.iter().for_each(Pool::stop_now);
            for pool in started {
                pool.stopped().await;
            }
            return Err(error);
        }
        Ok(app)
    }

    fn put_in_force(self: &Arc<Self>, app: &Arc<App>) {
        let generation = self.reloading.generation() + 1;
        self.pools.add(generation, app.pools.values().cloned());
        let before = self.front.replace_app(app.clone());
        before.end_health_checks();
        app.keep_certificates(&self.services.acme);
        app.serve_cluster(&self.services);
        self.reloading.generation.store(generation, Ordering::Release);
        self.services.routes.keep(&app.config);
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
        if let Some(jobs) = &self.services.jobs {
            jobs.serve(Arc::clone(&app.jobs));
        }
        self.services.sources.keep(&app.config);
        if app.config.log.level != before.config.log.level {
            self.services
                .log
                .set_level(&app.config.log.level)
                .expect("the configuration was checked");
        }
        let replaced = before.pools.values().filter(|pool| {
            let next = app.pools.get(pool.name());
            next.is_none_or(|next| !next.is_same(pool))
        });
        let replaced = replaced.cloned().collect();
        tokio::spawn(self.clone().retire(generation - 1, before, replaced));
        self.check_statements();
    }

    /// Stops the replaced pools of an app once the last request that started with it has ended.
    async fn retire(self: Arc<Self>, generation: u64, app: Arc<App>, pools: Vec<Pool>) {
        let deadline = tokio::time::Instant::now() + app.config.server.drain_max;
        let is_watching = self.services.problems.is_some();
        let release = if is_watching {
            deadline.min(tokio::time::Instant::now() + WATCH_RELEASE)
        } else {
            deadline
        };
        let released = app.released();
        drop(app);
        // Connections that may last keep the app; their clients come again.
        pools.iter().for_each(Pool::end_connections);
        let is_late = tokio::time::timeout_at(release, released).await.is_err();
        if is_late && !is_watching && !pools.is_empty() {
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
pub(crate) async fn settled(pools: &[Pool]) -> Result<(), PoolStartError> {
    let mut failing = Vec::new();
    for pool in pools {
        if let Err(reason) = pool.settled().await {
            failing.push((pool.name().to_owned(), reason));
        }
    }
    if failing.is_empty() {
        Ok(())
    } else {
        Err(PoolStartError(failing))
    }
}

/// Rejects changes to settings that are fixed while the server runs.
fn check_fixed(current: &Config, new: &Config) -> Result<(), ReloadError> {
    let fixed = [
        ("server.listen", current.server.listen == new.server.listen),
        ("server.threads", current.server.threads == new.server.threads),
        ("server.user", current.server.user == new.server.user),
        ("server.group", current.server.group == new.server.group),
        ("admin.listen", current.admin.listen == new.admin.listen),
        ("admin.socket", current.admin.socket == new.admin.socket),
        ("log.format", current.log.format == new.log.format),
        ("log.file", current.log.file == new.log.file),
        ("log.rotate", current.log.rotate == new.log.rotate),
        ("trace", current.trace == new.trace),
        ("cluster", current.cluster == new.cluster),
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
