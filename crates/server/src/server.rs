//! The life of a server, from its first listener to its last worker.

use std::{
    fs::File,
    io, mem,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use forebay_acme::AcmeClient;
use forebay_cluster::Cluster;
use forebay_pool::{Mailboxes, Pool, Supervisor};
use forebay_tls::CertificateError;
use forebay_workflow::{RunStorage, SourceParser, with_causes};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    sync::{self, Notify},
    task::JoinSet,
};

use crate::{
    admin::{Admin, History, Hosts, http, keep_history},
    app::{App, BuildError, PrivilegedCertificates, Role, Services},
    calls::CallThread,
    check::ask_of_statements,
    config::Config,
    control::Control,
    front::{Bound, Front, SocketFileOwner},
    jobs::{JobStorage, Jobs, random},
    logging,
    metrics::{PoolRegistry, RouteMetrics, ScriptMetrics},
    otlp::{END_MAX, MetricsExporter},
    policy::RateLimiters,
    privileges::{self, PrivilegeError},
    profiles::Profiles,
    reload::{FIRST_GENERATION, PoolStartError, Reload, Reloading, settled},
    service_manager::{ServiceManager, keep_watchdog},
    sockets::{SocketError, Sockets},
    sources::DatabaseRegistry,
    store::{OpenStore, StoreOpenError},
    target::{WorkflowTarget, workflow::DurableRuns},
    traces::Traces,
    upgrade::{Predecessor, PredecessorError, Upgrading},
    watch::{Stamps, stamps, watch},
};

/// How long to wait for killed workers.
const KILL_MAX: Duration = Duration::from_secs(2);

/// The server failed to start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Sockets(#[from] SocketError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The server cannot run as the configured user.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// The threads cannot be started.
    #[error("cannot start the server's threads")]
    Threads(#[from] io::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// The process cannot take part in its cluster.
    #[error(transparent)]
    Cluster(#[from] forebay_cluster::StartError),
    /// Durable workflow runs cannot be read.
    #[error("the runs of workflows that are kept cannot be read (workflow.runs): {reason}")]
    DurableRuns {
        /// The text of the error that occurred.
        reason: String,
    },
    /// The queue of durable jobs cannot be used.
    #[error("the queue of jobs cannot be used: {reason}")]
    Jobs {
        /// The text of the error that occurred.
        reason: String,
    },
    /// Routes and pools cannot be built from the configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Pools failed to start in a process that replaces another one.
    #[error(transparent)]
    Pools(#[from] PoolStartError),
    /// Stopped before it was ready to replace another process.
    #[error("stopped by a signal before the server was ready")]
    Ended,
}

/// The server did not end cleanly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A second signal arrived while requests were still being answered.
    #[error("a second signal has ended the server before every request was answered")]
    CutShort,
    /// The handover from the process to replace failed.
    #[error(transparent)]
    Predecessor(#[from] PredecessorError),
}

/// Resources acquired before root privileges are dropped.
#[derive(Debug)]
pub struct StartupResources {
    sockets: Sockets,
    store_lock: Option<File>,
    certificates: PrivilegedCertificates,
    /// Whether this process replaces another one.
    is_successor: bool,
}

impl StartupResources {
    /// Opens or inherits the listeners, reads the certificates, and switches to the configured user.
    pub fn open(config: &Config, mut predecessor: Option<&mut Predecessor>) -> Result<Self, StartError> {
        let passed = predecessor.as_mut().map(|predecessor| predecessor.take_sockets());
        let is_successor = passed.is_some();
        let sockets = Sockets::open(config, passed)?;
        let store_lock = predecessor
            .zip(config.store.as_ref())
            .and_then(|(predecessor, store)| predecessor.take_store_lock(&store.path));
        let certificates = PrivilegedCertificates::read(config)?;
        privileges::drop_privileges(&config.server, &sockets)?;
        Ok(Self {
            sockets,
            store_lock,
            certificates,
            is_successor,
        })
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    signals: Signals,
    shared: Arc<Shared>,
    /// With `--watch`, the files as they were before any code was loaded.
    files: Stamps,
}

/// State shared by the tasks that manage a running server.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) front: Front,
    pub(crate) services: Services,
    pub(crate) pools: PoolRegistry,
    pub(crate) reloading: Reloading,
    pub(crate) upgrading: Upgrading,
    pub(crate) sockets: Mutex<Sockets>,
    pub(crate) manager: ServiceManager,
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
    user_1: Signal,
    user_2: Signal,
}

/// The action requested by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Stop,
    Reload,
    ReopenLog,
    Upgrade,
}

impl Signals {
    fn register() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.interrupt.recv() => Order::Stop,
            _ = self.terminate.recv() => Order::Stop,
            _ = self.hang_up.recv() => Order::Reload,
            _ = self.user_1.recv() => Order::ReopenLog,
            _ = self.user_2.recv() => Order::Upgrade,
        }
    }

    /// Waits for the first order of this kind and ignores others.
    async fn wait_for(&mut self, wanted: Order) {
        while self.next().await != wanted {}
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
    /// Starts the pools and installs signal handlers, whose signals [`Server::run`] obeys. Requests are accepted immediately; those for a
    /// pool wait until it is ready. A process that replaces another one accepts requests once all pools are ready.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub async fn start(
        config: Config,
        opened: StartupResources,
        reload: Reload,
        log: logging::Handle,
        parser: SourceParser,
        role: Role,
    ) -> Result<Self, StartError> {
        let started = Instant::now();
        let mut signals = Signals::register().map_err(StartError::Signals)?;
        let threads = config.server.threads;
        let StartupResources {
            sockets,
            store_lock,
            certificates,
            is_successor,
        } = opened;
        check_open_files(&config);
        let store = config.store.as_ref();
        let store = store
            .map(|store| OpenStore::open(store, store_lock))
            .transpose()?;
        let kept_runs = config
            .workflow
            .as_ref()
            .and_then(|workflow| workflow.runs.limits());
        let kept_runs = store.as_ref().zip(kept_runs.as_ref());
        let kept_runs = kept_runs.map(|(store, limits)| {
            let failed = |error: &dyn std::error::Error| StartError::DurableRuns {
                reason: with_causes(error),
            };
            let server = random().map_err(|error| failed(&error))?;
            let storage = Arc::clone(store) as Arc<dyn RunStorage>;
            let runs = DurableRuns::new(storage, limits, format!("{server:032x}"));
            runs.begin().map_err(|error| failed(&error))?;
            Ok::<_, StartError>(runs)
        });
        let kept_runs = kept_runs.transpose()?;
        let supervisor = Supervisor::start()?;
        let traces = Arc::new(Traces::new(config.trace.as_ref()));
        if let Some(requests) = traces.traced_requests() {
            log.name_traces_of(requests);
        }
        let mailboxes = match role {
            Role::Server => Mailboxes::new(threads),
            Role::WorkerHost => Mailboxes::with_reader(threads),
        };
        let mailbox = (role == Role::WorkerHost).then(|| (mailboxes.clone(), threads));
        let cluster = config.cluster.clone();
        let cluster = cluster
            .map(|options| Cluster::start(options, mailbox))
            .transpose()?;
        // No configuration keeps jobs in a store that other servers share.
        let own_store = store.as_ref().filter(|store| !store.is_remote());
        let of_store = || Some(JobStorage::Store(Arc::clone(own_store?)));
        let of_cluster = config
            .cluster
            .as_ref()
            .zip(cluster.as_ref())
            .and_then(|(options, cluster)| {
                let jobs = cluster.jobs(&options.name, options.job_replicas?, Handle::current());
                Some(JobStorage::Cluster(jobs))
            });
        let jobs = of_cluster.or_else(of_store).map(Jobs::new).transpose();
        let jobs = jobs.map_err(|refusal| StartError::Jobs {
            reason: refusal.to_string(),
        })?;
        let services = Services {
            supervisor,
            mailboxes,
            routes: RouteMetrics::new(threads),
            key_sources: parking_lot::Mutex::default(),
            proxies: parking_lot::Mutex::default(),
            scripts: ScriptMetrics::default(),
            workflows: Arc::default(),
            kept_runs,
            jobs,
            workflow_logs: parking_lot::Mutex::default(),
            sources: DatabaseRegistry::default(),
            traces,
            metrics_exporter: MetricsExporter::default(),
            log_exporter: log.export(config.trace.as_ref()),
            profiles: Profiles::default(),
            rate_limiters: RateLimiters::default(),
            acme: AcmeClient::default(),
            privileged_certificates: certificates,
            log,
            parser,
            problems: reload.watch.then(Arc::default),
            store,
            tql: CallThread::new("tql calls"),
            tql_admission: Arc::default(),
            sql: CallThread::new("sql calls"),
            kept: Arc::default(),
            cluster,
            role,
        };
        let files = services
            .problems
            .as_ref()
            .map(|_| stamps(&config))
            .unwrap_or_default();
        let app = Arc::new(App::build(config, &services, None)?);
        if is_successor {
            let pools: Vec<Pool> = app.pools.values().cloned().collect();
            tokio::select! {
                settled = settled(&pools) => settled?,
                () = signals.wait_for(Order::Stop) => return Err(StartError::Ended),
            }
        }
        (*services.workflow_logs.lock()).clone_from(&app.workflow_logs);
        if let Some(kept) = &services.kept_runs {
            kept.serve(app.workflow.as_ref().map(WorkflowTarget::runner));
        }
        if let Some(jobs) = &services.jobs {
            jobs.serve(Arc::clone(&app.jobs));
            if !is_successor {
                jobs.start();
                jobs.recover_soon();
            }
        }
        let pools = PoolRegistry::default();
        pools.add(FIRST_GENERATION, app.pools.values().cloned());
        let front = Front::start(
            app.clone(),
            &sockets.server,
            &services.mailboxes,
            &services.traces,
            threads,
        )?;
        app.keep_certificates(&services.acme);
        app.serve_cluster(&services);
        let shared = Arc::new(Shared {
            front,
            services,
            pools,
            reloading: Reloading::new(reload),
            upgrading: Upgrading::default(),
            manager: ServiceManager::default(),
            started,
            started_at: SystemTime::now(),
            listen: sockets.server.iter().map(Bound::url).collect(),
            sockets: Mutex::new(sockets),
            has_been_ready: AtomicBool::new(false),
            stopping: sync::watch::Sender::new(false),
        });
        Ok(Self {
            signals,
            shared,
            files,
        })
    }

    /// The addresses the server listens on, as URLs or `unix:path`.
    pub fn urls(&self) -> &[String] {
        &self.shared.listen
    }

    /// Serves until SIGINT, SIGTERM or a stop command over the control socket, or until another process takes over. Then it answers
    /// every request already read, closes connections, stops workers, and returns; whatever remains after `drain_max` is cut off. A second
    /// signal cuts everything off immediately. SIGHUP reloads, SIGUSR1 reopens log files, SIGUSR2 upgrades.
    ///
    /// Takes over from a predecessor first, if there is one.
    pub async fn run(mut self, predecessor: Option<Predecessor>) -> Result<(), RunError> {
        if let Some(predecessor) = predecessor {
            tokio::select! {
                taken = predecessor.take_over() => taken?,
                // The predecessor timed out.
                () = self.signals.wait_for(Order::Stop) => return self.stop().await,
            }
            self.shared.take_over(predecessor);
        }
        let shared = &self.shared;
        shared.manager.enable();
        shared.manager.ready(&shared.serving());
        let mut served = JoinSet::new();
        shared.check_statements();
        let trace = shared.front.app().config.trace.clone();
        shared.services.metrics_exporter.start(shared, trace.as_ref());
        let is_handed_over = sync::watch::Sender::new(false);
        let mut admin = shared.serve_admin(&is_handed_over);
        served.spawn(keep_watchdog(shared.clone()));
        if let Some(problems) = &shared.services.problems {
            served.spawn(watch(
                shared.clone(),
                problems.clone(),
                mem::take(&mut self.files),
            ));
        }
        // At most one reload is pending, however many signals arrive.
        let reload = Arc::new(Notify::new());
        served.spawn(reload_when_asked(shared.clone(), reload.clone()));
        let mut stopping = shared.stopping.subscribe();
        loop {
            tokio::select! {
                order = self.signals.next() => match order {
                    Order::Stop => break,
                    Order::Reload => reload.notify_one(),
                    Order::ReopenLog => self.shared.reopen_logs(),
                    Order::Upgrade => {
                        let shared = self.shared.clone();
                        tokio::spawn(async move { drop(shared.upgrade("SIGUSR2").await) });
                    }
                },
                _ = stopping.wait_for(|stopping| *stopping) => break,
            }
        }
        self.shared.stopping.send_replace(true);
        // After a handover the new process serves the admin listener and the control socket.
        let is_over = self.shared.upgrading.is_over();
        is_handed_over.send_replace(is_over);
        let result = self.stop().await;
        if is_over {
            while admin.join_next().await.is_some() {}
        }
        result
    }

    async fn stop(&mut self) -> Result<(), RunError> {
        tracing::info!(target: "forebay::server", "stopping: requests under way are answered, a second signal ends them now");
        let shared = self.shared.clone();
        shared.manager.stopping();
        let result = tokio::select! {
            () = shared.drain() => Ok(()),
            () = self.signals.wait_for(Order::Stop) => Err(RunError::CutShort),
        };
        if result.is_err() {
            shared.cut_off().await;
        }
        shared.front.end();
        result
    }
}

/// Reloads each time it is notified.
async fn reload_when_asked(shared: Arc<Shared>, asked: Arc<Notify>) {
    loop {
        asked.notified().await;
        drop(shared.reload("SIGHUP").await);
    }
}

impl Shared {
    /// Status text for the service manager.
    pub(crate) fn serving(&self) -> String {
        match self.services.role {
            Role::Server => format!("serving {}", self.listen.join(", ")),
            Role::WorkerHost => "working for front ends".to_owned(),
        }
    }

    /// Takes ownership of socket files and store lock, and runs durable jobs.
    fn take_over(self: &Arc<Self>, predecessor: Predecessor) {
        for bound in self.sockets.lock().each() {
            bound.set_file_owner(SocketFileOwner::This);
        }
        if let Some(store) = &self.services.store {
            store.sign_lock();
        }
        let jobs = self.services.jobs.clone();
        // The store knows which jobs the predecessor still runs, so nothing runs twice.
        jobs.iter().for_each(Jobs::start);
        tokio::spawn(async move {
            predecessor.runs_ended().await;
            jobs.iter().for_each(Jobs::recover_soon);
        });
    }

    /// Serves the admin listener and the control socket.
    fn serve_admin(self: &Arc<Self>, is_handed_over: &sync::watch::Sender<bool>) -> JoinSet<()> {
        let mut served = JoinSet::new();
        let sockets = self.sockets.lock();
        let accepting = |bound: &Option<Bound>| {
            let bound = bound.as_ref().map(|bound| bound.for_thread(0, 1));
            bound.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|error| {
                tracing::error!(target: "forebay::admin", cause = %error, "cannot accept connections");
                Vec::new()
            })
        };
        let history = Arc::<History>::default();
        for accepting in accepting(&sockets.admin) {
            let hosts = Hosts::new(&self.front.app().config.admin.hosts);
            let admin = Admin::new(self.clone(), history.clone());
            served.spawn(http::serve(accepting, hosts, admin, is_handed_over.subscribe()));
        }
        if sockets.admin.is_some() {
            served.spawn(keep_history(self.clone(), history, is_handed_over.subscribe()));
        }
        for accepting in accepting(&sockets.control) {
            served.spawn(http::serve(
                accepting,
                Hosts::new(&[]),
                Control::new(self.clone()),
                is_handed_over.subscribe(),
            ));
        }
        served
    }

    /// Reopens the log files.
    fn reopen_logs(&self) {
        self.services.log.reopen();
        if let Some(logs) = &*self.services.workflow_logs.lock() {
            logs.reopen();
        }
        tracing::info!(target: "forebay::log", "SIGUSR1: log files are reopened");
    }

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
        let is_handed_over = self.upgrading.is_over();
        let jobs = self.services.jobs.as_ref();
        if let Some(jobs) = jobs {
            jobs.stop();
        }
        let kept_runs = self.services.kept_runs.as_ref();
        if let Some(kept) = kept_runs.filter(|_| !is_handed_over) {
            kept.stop();
        }
        // The I/O threads close their duplicates.
        self.sockets.lock().server.iter_mut().for_each(Bound::close);
        if tokio::time::timeout_at(deadline, self.front.drain(is_handed_over))
            .await
            .is_err()
        {
            tracing::warn!(target: "forebay::server", "connections are left after drain_max and are cut off");
        }
        if let Some(cluster) = self
            .services
            .cluster
            .as_ref()
            .filter(|_| self.services.role == Role::WorkerHost)
            && cluster.drain(deadline).await.is_err()
        {
            tracing::warn!(target: "forebay::server", "jobs of front ends are left after drain_max and are cut off");
        }
        // A concurrent reload has either given up or registered its pools.
        let _turn = tokio::time::timeout_at(deadline, self.reloading.turn()).await;
        let mut jobs_ended = true;
        if let Some(jobs) = jobs {
            jobs_ended = tokio::time::timeout_at(deadline, jobs.stopped()).await.is_ok();
            if !jobs_ended {
                tracing::warn!(target: "forebay::server", "jobs are left after drain_max and are cut off; they run again");
            }
        }
        if let Some(kept) = kept_runs {
            // After a handover only now: the last requests of open connections may still start runs.
            kept.stop();
            if tokio::time::timeout_at(deadline, kept.stopped()).await.is_err() {
                tracing::warn!(target: "forebay::server", "runs of workflows are left after drain_max; they are run after the next start");
            } else {
                // After the deadline the lock ends by itself.
                let _ = tokio::time::timeout_at(deadline, kept.release()).await;
                if jobs_ended {
                    self.upgrading.release_runs();
                }
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
        if let Some(jobs) = jobs {
            // That they were cut off is stored; otherwise the next process finds it out.
            let _ = tokio::time::timeout(KILL_MAX, jobs.stopped()).await;
            jobs.serve(Arc::default());
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
