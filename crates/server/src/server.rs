//! The life of a server, from its first listener to its last worker.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use forebay_acme::AcmeClient;
use forebay_pool::{Mailboxes, Pool, Supervisor};
use forebay_workflow::{RunStorage, SourceParser, with_causes};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync,
    task::JoinSet,
};

use crate::{
    admin::{Admin, Hosts, http},
    app::{App, BuildError, Services},
    calls::CallThread,
    check::ask_of_statements,
    config::{Config, Listen},
    control::Control,
    front::{Bound, Front},
    logging,
    metrics::{PoolRegistry, RouteMetrics, ScriptMetrics},
    otlp::{END_MAX, MetricsExporter},
    policy::RateLimiters,
    profiles::Profiles,
    reload::{FIRST_GENERATION, Reload, Reloading},
    sources::DatabaseRegistry,
    store::{OpenStore, StoreOpenError},
    target::{WorkflowTarget, workflow::DurableRuns},
    traces::Traces,
    watch::watch,
};

/// How long to wait for killed workers.
const KILL_MAX: Duration = Duration::from_secs(2);

/// The server failed to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A configured address cannot be listened on.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address as configured.
        listen: Listen,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The admin address cannot be listened on.
    #[error("cannot listen on {listen} (admin.listen)")]
    Admin {
        /// The address as configured.
        listen: Listen,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The control socket cannot be created.
    #[error("cannot make the control socket `{}` (admin.socket)", .socket.display())]
    Control {
        /// The path of the socket.
        socket: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The threads cannot be started.
    #[error("cannot start the server's threads")]
    Threads(#[from] io::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// Durable workflow runs cannot be read.
    #[error("the runs of workflows that are kept cannot be read (workflow.runs): {reason}")]
    DurableRuns {
        /// The text of the error that occurred.
        reason: String,
    },
    /// Routes and pools cannot be built from the configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// The server did not end cleanly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A second signal arrived while requests were still being answered.
    #[error("a second signal has ended the server before every request was answered")]
    CutShort,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    bound: Vec<Bound>,
    admin: Option<Bound>,
    control: Option<Bound>,
    signals: Signals,
    shared: Arc<Shared>,
}

/// State shared by the tasks that manage a running server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) front: Front,
    pub(crate) services: Services,
    pub(crate) pools: PoolRegistry,
    pub(crate) reloading: Reloading,
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) listen: Vec<String>,
    /// Whether the server has ever been ready.
    pub(crate) has_been_ready: AtomicBool,
    /// True once the server is to stop.
    pub(crate) stopping: sync::watch::Sender<bool>,
}

/// Signals handled by the server.
#[derive(Debug)]
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// The action requested by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Stop,
    Reload,
}

impl Signals {
    fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.interrupt.recv() => Order::Stop,
            _ = self.terminate.recv() => Order::Stop,
            _ = self.hang_up.recv() => Order::Reload,
        }
    }
}

/// Open files besides connections: listeners, the store, a link or two per worker, logs.
const OTHER_FILES: u64 = 256;

/// Raises the limit of open files, and warns if it is still too low for `connections_max`.
fn check_open_files(config: &Config) {
    let connections_max = config.server.connections_max as u64;
    match forebay_pool::raise_open_files_max() {
        Ok(files_max) if files_max >= connections_max + OTHER_FILES => {}
        Ok(files_max) => tracing::warn!(
            target: "forebay::server",
            "the system lets this process have {files_max} files and connections open, fewer than \
             server.connections_max {connections_max} and {OTHER_FILES} for itself: connections may be refused before \
             connections_max is reached (raise LimitNOFILE or `ulimit -Hn`)"
        ),
        Err(error) => {
            tracing::warn!(target: "forebay::server", "the limit of open files cannot be raised: {error}");
        }
    }
}

impl Server {
    /// Opens listeners, starts the pools, and installs signal handlers, whose signals [`Server::run`] obeys. Requests are accepted
    /// immediately; those for a pool wait until it is ready.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn start(
        config: Config,
        reload: Reload,
        log: logging::Handle,
        parser: SourceParser,
    ) -> Result<Self, StartError> {
        let started = Instant::now();
        let signals = Signals::register().map_err(StartError::Signals)?;
        let threads = config.server.threads;
        check_open_files(&config);
        let bind = |listen: &Listen| {
            Bound::bind(listen, threads, config.server.unix_mode.map(|mode| mode.0)).map_err(|source| {
                StartError::Listen {
                    listen: listen.clone(),
                    source,
                }
            })
        };
        let mut bound = config
            .server
            .listen
            .iter()
            .map(bind)
            .collect::<Result<Vec<_>, _>>()?;
        let bind = |listen: &Listen| {
            Bound::bind(listen, 1, config.admin.unix_mode.map(|mode| mode.0)).map_err(|source| {
                StartError::Admin {
                    listen: listen.clone(),
                    source,
                }
            })
        };
        let admin = config.admin.listen.as_ref().map(bind).transpose()?;
        let socket = config.admin.socket.as_ref();
        let control = socket.map(|socket| {
            Bound::bind_private(socket).map_err(|source| StartError::Control {
                socket: socket.clone(),
                source,
            })
        });
        let control = control.transpose()?;
        let store = config.store.as_ref().map(OpenStore::open).transpose()?;
        let kept_runs = config
            .workflow
            .as_ref()
            .and_then(|workflow| workflow.runs.limits());
        let kept_runs = store.as_ref().zip(kept_runs.as_ref());
        let kept_runs = kept_runs
            .map(|(store, runs)| DurableRuns::start(Arc::clone(store) as Arc<dyn RunStorage>, runs))
            .transpose()
            .map_err(|error| StartError::DurableRuns {
                reason: with_causes(&error),
            })?;
        let supervisor = Supervisor::start()?;
        let traces = Arc::new(Traces::new(config.trace.as_ref()));
        if let Some(requests) = traces.traced_requests() {
            log.name_traces_of(requests);
        }
        let services = Services {
            supervisor,
            mailboxes: Mailboxes::new(threads),
            routes: RouteMetrics::new(threads),
            proxies: parking_lot::Mutex::default(),
            scripts: ScriptMetrics::default(),
            workflows: Arc::default(),
            kept_runs,
            workflow_logs: parking_lot::Mutex::default(),
            sources: DatabaseRegistry::default(),
            traces,
            metrics_exporter: MetricsExporter::default(),
            log_exporter: log.export(config.trace.as_ref()),
            profiles: Profiles::default(),
            rate_limiters: RateLimiters::default(),
            acme: AcmeClient::default(),
            log,
            parser,
            problems: reload.watch.then(Arc::default),
            store,
            tql: CallThread::new("tql calls"),
            tql_admission: Arc::default(),
            sql: CallThread::new("sql calls"),
            kept: Arc::default(),
        };
        let app = Arc::new(App::build(config, &services, None)?);
        (*services.workflow_logs.lock()).clone_from(&app.workflow_logs);
        if let Some(kept) = &services.kept_runs {
            kept.serve(app.workflow.as_ref().map(WorkflowTarget::runner));
        }
        let pools = PoolRegistry::default();
        pools.add(FIRST_GENERATION, app.pools.values().cloned());
        let front = Front::start(
            app.clone(),
            &mut bound,
            &services.mailboxes,
            &services.traces,
            threads,
        )?;
        app.keep_certificates(&services.acme);
        let shared = Arc::new(Shared {
            front,
            services,
            pools,
            reloading: Reloading::new(reload),
            started,
            started_at: SystemTime::now(),
            listen: bound.iter().map(Bound::url).collect(),
            has_been_ready: AtomicBool::new(false),
            stopping: sync::watch::Sender::new(false),
        });
        Ok(Self {
            bound,
            admin,
            control,
            signals,
            shared,
        })
    }

    /// The addresses the server listens on, as URLs or `unix:path`.
    pub fn urls(&self) -> Vec<String> {
        self.bound.iter().map(Bound::url).collect()
    }

    /// The admin address as a URL or `unix:path`; `None` if it is switched off.
    pub fn admin_url(&self) -> Option<String> {
        self.admin.as_ref().map(Bound::url)
    }

    /// Serves until SIGINT, SIGTERM or a stop command over the control socket. Then it answers every request already read, closes
    /// connections, stops workers, and returns; whatever remains after `drain_max` is cut off. A second signal cuts everything off
    /// immediately. SIGHUP reloads.
    pub async fn run(mut self) -> Result<(), RunError> {
        let mut served = JoinSet::new();
        self.shared.check_statements();
        let trace = self.shared.front.app().config.trace.clone();
        self.shared
            .services
            .metrics_exporter
            .start(&self.shared, trace.as_ref());
        if let Some(admin) = &mut self.admin {
            let hosts = Hosts::new(&self.shared.front.app().config.admin.hosts);
            served.spawn(http::serve(admin.take(), hosts, Admin::new(self.shared.clone())));
        }
        if let Some(control) = &mut self.control {
            served.spawn(http::serve(
                control.take(),
                Hosts::new(&[]),
                Control::new(self.shared.clone()),
            ));
        }
        if let Some(problems) = &self.shared.services.problems {
            served.spawn(watch(self.shared.clone(), problems.clone()));
        }
        let mut stopping = self.shared.stopping.subscribe();
        loop {
            tokio::select! {
                order = self.signals.next() => match order {
                    Order::Stop => break,
                    Order::Reload => {
                        let shared = self.shared.clone();
                        tokio::spawn(async move { drop(shared.reload("SIGHUP").await) });
                    }
                },
                _ = stopping.wait_for(|stopping| *stopping) => break,
            }
        }
        self.shared.stopping.send_replace(true);
        let result = self.stop().await;
        self.shared.front.end();
        result
    }

    async fn stop(&mut self) -> Result<(), RunError> {
        tracing::info!(target: "forebay::server", "stopping: requests under way are answered, a second signal ends them now");
        let drained = self.shared.drain();
        tokio::pin!(drained);
        loop {
            tokio::select! {
                () = &mut drained => return Ok(()),
                order = self.signals.next() => if order == Order::Stop { break },
            }
        }
        self.shared.cut_off().await;
        Err(RunError::CutShort)
    }
}

impl Shared {
    /// Lets databases check the statements of routes and logs those that cannot run. Runs in the background.
    pub(crate) fn check_statements(self: &Arc<Self>) {
        let shared = self.clone();
        tokio::spawn(async move {
            let config = shared.front.app().config.clone();
            let source = |name: &str| shared.services.sources.of(name, &config);
            ask_of_statements(&config, source).await.warn();
        });
    }

    /// Answers requests already read, then stops the workers; cuts off whatever remains after `drain_max`.
    async fn drain(&self) {
        let deadline = tokio::time::Instant::now() + self.front.app().config.server.drain_max;
        self.services.acme.stop();
        if let Some(kept) = &self.services.kept_runs {
            kept.stop();
        }
        if tokio::time::timeout_at(deadline, self.front.drain())
            .await
            .is_err()
        {
            tracing::warn!(target: "forebay::server", "connections are left after drain_max and are cut off");
        }
        // A concurrent reload has either given up or registered its pools.
        let _turn = tokio::time::timeout_at(deadline, self.reloading.turn()).await;
        if let Some(kept) = &self.services.kept_runs {
            if tokio::time::timeout_at(deadline, kept.stopped()).await.is_err() {
                tracing::warn!(target: "forebay::server", "runs of workflows are left after drain_max; they are run after the next start");
            }
            kept.serve(None);
        }
        let app = self.front.app();
        app.scripts.iter().for_each(|script| script.stop());
        for script in &app.scripts {
            if tokio::time::timeout_at(deadline, script.stopped()).await.is_err() {
                let script = &*script.options().name;
                tracing::warn!(target: "forebay::server", script, "what it does when it stops is left after drain_max and is cut off");
            }
        }
        // Workflow runs call the pools until their engines have stopped.
        let pools = self.pools.living();
        pools.iter().for_each(Pool::stop);
        for pool in pools {
            if tokio::time::timeout_at(deadline, pool.stopped()).await.is_err() {
                tracing::warn!(target: "forebay::server", pool = pool.name(), "workers are left after drain_max and are killed");
                pool.stop_now();
                pool.stopped().await;
            }
        }
        self.end_export(deadline).await;
        if let Some(store) = &self.services.store {
            store.checkpoint();
        }
    }

    /// Sends to the collector what waits for it. No request may be running any more.
    async fn end_export(&self, deadline: tokio::time::Instant) {
        let deadline = deadline.min(tokio::time::Instant::now() + END_MAX);
        tokio::join!(
            self.services.traces.end(deadline),
            self.services.metrics_exporter.end(deadline),
        );
        // Last, because the other two may have something to log.
        if let Some(logs) = &self.services.log_exporter {
            logs.end(deadline).await;
        }
    }

    async fn cut_off(&self) {
        let pools = self.pools.living();
        pools.iter().for_each(Pool::stop_now);
        let all = async {
            for pool in pools {
                pool.stopped().await;
            }
        };
        if tokio::time::timeout(KILL_MAX, all).await.is_err() {
            tracing::error!(target: "forebay::server", "workers were killed and have not ended");
        }
    }
}
