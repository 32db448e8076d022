//! An app is a configuration in force: its routes with their targets, and its pools. Immutable; a reload builds another one.

mod certificates;
mod confinement;
mod pools;
mod upstreams;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use forebay_acme::{AcmeClient, Challenge, Challenges};
use forebay_cluster::Cluster;
use forebay_pg::SqlSession;
use forebay_pool::{Mailboxes, Pool, Supervisor};
use forebay_router::{Router, RouterError, Rule};
use forebay_runtimes::{Sdk, SdkError, sdk_file};
use forebay_script::{Counts, Script};
use forebay_tls::CertificateError;
use forebay_upstream::Group;
use forebay_workflow::{ActiveReleasesError, Compat, Reading, Releases, RunLimits, SourceParser, Storage};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

pub use self::certificates::development_certificate;
pub(crate) use self::certificates::{Certificates, PrivilegedCertificates, certificates, tls};
pub use self::confinement::{CheckedConfinement, NotConfined, check_confinements};
use self::{
    confinement::confinements,
    pools::{calls, of_hosts, options},
    upstreams::{HealthChecks, proxies},
};
use crate::{
    auth::{AuthError, Authenticators, KeySources, RouteAuth, authenticators},
    calls::{Admission, CallThread, Tql},
    check::{HandlerFaults, check_handlers},
    compression::Compression,
    config::{self, Config, PathKind},
    failure::Refusal,
    front::{Client, Head},
    logging::{self, AccessLog, LogExporter, LoggingError, WorkflowLogs},
    metrics::{RouteCounts, RouteMetrics, ScriptMetrics, WorkflowMetrics, name_of},
    otlp::MetricsExporter,
    policy::{
        BodySchema, CHECKED_BYTES_MAX, Left, Policies, RateLimiters,
        cache::{Caches, caches},
    },
    profiles::Profiles,
    reply::{HeaderLines, Reply},
    sources::DatabaseRegistry,
    store::OpenStore,
    target::{
        Bounds, BufferUsage, Cors, End, FilesTarget, Origins, PoolTarget, ProxyTarget, RecordsTarget,
        RedirectTarget, Request, RespondTarget, ScriptTarget, SqlTarget, StoreTarget, Target, TqlTarget, Via,
        WorkflowTarget, pool,
        pool::PoolWorkers,
        template,
        workflow::{ActiveReleases, DurableRuns, OfflineEnvironment, ReleaseApi, ReleaseThreads},
    },
    traces::Traces,
    watch::{Problems, look_at_workflows},
};

/// The script name under which workflow engines are counted; no real script can have it.
pub(crate) const WORKFLOW_COUNTS: &str = "(workflow)";

/// Services shared by every app of the process; they survive reloads.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) supervisor: Supervisor,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) routes: RouteMetrics,
    /// Keys of token issuers.
    pub(crate) key_sources: KeySources,
    /// The groups of other HTTP servers that some app still has.
    pub(crate) proxies: Mutex<Vec<Weak<Group>>>,
    pub(crate) scripts: ScriptMetrics,
    pub(crate) workflows: Arc<WorkflowMetrics>,
    /// Durable workflow runs; present if `workflow.runs` is configured, which cannot change while the server runs.
    pub(crate) kept_runs: Option<Arc<DurableRuns>>,
    /// The log files of workflow rules, if they are configured.
    pub(crate) workflow_logs: Mutex<Option<Arc<WorkflowLogs>>>,
    pub(crate) sources: DatabaseRegistry,
    /// Request tracing.
    pub(crate) traces: Arc<Traces>,
    /// Posts the metrics to a collector, if `trace.metrics_interval` is configured.
    pub(crate) metrics_exporter: MetricsExporter,
    /// Posts the log's lines to a collector; present if `trace.logs` is configured.
    pub(crate) log_exporter: Option<Arc<LogExporter>>,
    pub(crate) profiles: Profiles,
    pub(crate) rate_limiters: RateLimiters,
    /// Obtains and renews certificates.
    pub(crate) acme: AcmeClient,
    /// Certificates read with root privileges.
    pub(crate) privileged_certificates: PrivilegedCertificates,
    pub(crate) log: logging::Handle,
    /// Erases the types of TypeScript sources.
    pub(crate) parser: SourceParser,
    /// With `--watch`, why the newest code is not in force.
    pub(crate) problems: Option<Arc<Problems>>,
    /// Present if `[store]` is configured, which cannot change while the server runs.
    pub(crate) store: Option<Arc<OpenStore>>,
    /// Answers the calls of controllers on standard input and output.
    pub(crate) tql: CallThread<Tql>,
    pub(crate) tql_admission: Arc<Admission>,
    /// Runs the database operations of handlers in pools.
    pub(crate) sql: CallThread<SqlSession>,
    /// Bodies of requests and responses spooled so that no worker waits for a slow client.
    pub(crate) kept: Arc<BufferUsage>,
    /// Present if `[cluster]` is configured, which cannot change while the server runs.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) role: Role,
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It listens for HTTP requests.
    Server,
    /// It runs pools for the servers of its cluster.
    WorkerHost,
}

/// Routes and pools in force. A request holds on to the app it started with.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) router: Router<Route>,
    pub(crate) pools: BTreeMap<String, Pool>,
    /// Groups of other HTTP servers.
    pub(crate) proxies: BTreeMap<String, Arc<Group>>,
    /// Those of the servers in `proxies`; they end with the app, or when another one takes its place.
    health_checks: Mutex<Option<HealthChecks>>,
    pub(crate) scripts: Vec<Arc<Script>>,
    pub(crate) workflow: Option<WorkflowTarget>,
    /// The log files of workflow rules.
    pub(crate) workflow_logs: Option<Arc<WorkflowLogs>>,
    /// The policies of requests that match no route.
    pub(crate) policies: Policies,
    /// The response caches of policies, which begin empty.
    pub(crate) caches: Caches,
    /// Counts of requests that match no route.
    pub(crate) unrouted: Arc<RouteCounts>,
    pub(crate) access_log: Option<AccessLog>,
    /// Settings of listeners with TLS; `None` without certificates.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Where those settings find the certificates, by the names of their sections.
    pub(crate) certificates: Certificates,
    /// Proofs to authorities that this server has its names.
    pub(crate) challenges: Arc<Challenges>,
    /// Whether authorities ask for proofs by HTTP. Nothing else is then found below the path that is for them.
    pub(crate) has_http_challenges: bool,
    /// A header field of responses over TLS (RFC 6797), or nothing.
    pub(crate) hsts: Vec<u8>,
    /// With `--watch`, why the newest code is not in force.
    pub(crate) problems: Option<Arc<Problems>>,
    /// Never sent on; receivers see it close once the app has been dropped everywhere.
    held: Arc<watch::Sender<()>>,
    /// Those of earlier apps that may still use pools of this one.
    held_before: Vec<watch::Receiver<()>>,
}

/// The pools that the next app takes over from the one in force.
#[derive(Debug)]
pub(crate) struct KeptPools {
    pub(crate) app: Arc<App>,
    /// The pools that are started again instead.
    pub(crate) renewed: BTreeSet<String>,
}

impl KeptPools {
    /// The pool of this name, if it is taken over.
    pub(crate) fn get(&self, name: &str) -> Option<&Pool> {
        self.app.pools.get(name).filter(|_| !self.renewed.contains(name))
    }

    fn held(&self) -> Vec<watch::Receiver<()>> {
        let mut held = self.app.held_before.clone();
        // Nothing is ever sent, so there is an error only once the sender is gone.
        held.retain(|held| held.has_changed().is_ok());
        held.push(self.app.held.subscribe());
        held
    }
}

/// A compiled route: its limits and its target.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) deadline: Duration,
    pub(crate) body_bytes_max: u64,
    /// `None`: everybody is answered.
    auth: Option<RouteAuth>,
    /// Origins allowed to make changes; only on routes that change stored data without a handler.
    pub(crate) origins: Option<Origins>,
    pub(crate) cors: Option<Cors>,
    pub(crate) policies: Policies,
    pub(crate) body_schema: Option<BodySchema>,
    /// Fields of every response, those of policies included.
    pub(crate) headers: HeaderLines,
    /// `None`: responses go out as they are.
    compression: Option<Compression>,
    pub(crate) target: Target,
    pub(crate) counts: Arc<RouteCounts>,
}

impl Route {
    /// Answers a request: whatever is checked for every target comes first, and what is done with every response last.
    pub(crate) async fn answer<'a>(
        &'a self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        if let Some(problems) = &request.app.problems {
            problems.check(request.head, &self.target, &request.app.config)?;
        }
        let (head, peer) = (request.head, request.peer);
        let counted = request.via.map(|via| &via.route.policies);
        let checked = self.policies.check(head, peer, request.arrived, counted);
        let left = checked.inspect_err(|_| request.via.iter().for_each(|via| via.give_back(head, peer)))?;
        if let Some(origins) = &self.origins {
            origins.check(request.head, self.cors.as_ref())?;
        }
        let auths = request
            .via
            .map(|via| &via.route.auth)
            .into_iter()
            .chain([&self.auth]);
        for auth in auths.flatten() {
            auth.check(request, client).await?;
        }
        if let Some(schema) = &self.body_schema {
            schema.check(request, client).await?;
        }
        let mut reply = match &self.policies.cache {
            None => self.target.answer(request, client).await?,
            Some(cache) => match cache.look_up(request) {
                Ok(reply) => reply,
                Err(miss) => Box::pin(cache.fill(miss, self, request, client)).await?,
            },
        };
        match request.via {
            None => self.policies.apply(left, &mut reply),
            Some(via) => {
                self.policies.apply(Left::nearest(left, via.left), &mut reply);
                via.apply(&self.headers, &mut reply);
            }
        }
        Ok(match &self.compression {
            Some(compression) => compression.apply(request, reply),
            None => reply,
        })
    }

    /// The response to a refused request that this route was to answer.
    pub(crate) fn refused(
        &self,
        via: Option<&Via<'_>>,
        refusal: &Refusal,
        head: &Head,
        id: &str,
    ) -> Reply<'static> {
        match via {
            None => self.policies.refused(refusal, Some(head), id),
            Some(via) => via.refused(self, refusal, head, id),
        }
    }
}

/// A configuration could not be turned into an app.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two routes match the same requests.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// A folder of static files cannot be opened.
    #[error("cannot open the folder of route `{route}`")]
    Folder {
        /// The route's path.
        route: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// An error page of a policy cannot be read.
    #[error("the error page `{}` cannot be read (policy.NAME.error_pages)", file.display())]
    ErrorPage {
        /// The page.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The keys of a token issuer cannot be read.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The JSON Schema of a route's bodies cannot be used.
    #[error("the schema `{}` cannot be used (route.body_schema): {why}", file.display())]
    BodySchema {
        /// The schema's file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// A script cannot be loaded.
    #[error("script `{script}` does not start")]
    Script {
        /// The script's name in the configuration.
        script: String,
        /// The script's failure.
        #[source]
        source: forebay_script::Failure,
    },
    /// Handlers of pools cannot be loaded.
    #[error(transparent)]
    Handlers(#[from] HandlerFaults),
    /// The graphs and rules of the workflows are invalid or unreadable.
    #[error("the workflows cannot be used")]
    Workflows(#[from] ActiveReleasesError),
    /// The log of workflow rules cannot be written.
    #[error("the workflows cannot log")]
    WorkflowLogs(#[source] LoggingError),
    /// The engines of the workflows failed to start.
    #[error("the workflows do not start")]
    WorkflowEngines(#[source] forebay_script::Failure),
    /// A thread for workers' calls cannot be started.
    #[error("cannot start a thread that answers calls of workers")]
    CallThread(#[source] std::io::Error),
    /// The authorities of a proxy's servers cannot be read.
    #[error("the authorities of proxy `{proxy}` (ca) cannot be used: {source}")]
    Authorities {
        /// The proxy's name in the configuration.
        proxy: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The thread for health checks cannot be started.
    #[error("cannot start the thread that checks the health of servers")]
    HealthChecks(#[source] std::io::Error),
    /// The SDK for workers cannot be unpacked.
    #[error(transparent)]
    Sdk(#[from] SdkError),
    /// The workers of a pool cannot be confined as the configuration says.
    #[error(transparent)]
    NotConfined(#[from] NotConfined),
}

impl App {
    /// Has the certificates that are not from files kept up to date, and no others.
    pub(crate) fn keep_certificates(&self, acme: &AcmeClient) {
        acme.keep(
            self.config
                .tls
                .iter()
                .filter_map(|(name, certificate)| match certificate {
                    config::Certificate::Acme(settings) => {
                        Some((&**name, settings, &self.certificates[name]))
                    }
                    config::Certificate::Files(_) => None,
                }),
        );
    }

    /// Starts the pools that are not kept, and compiles the routes.
    pub(crate) fn build(
        config: Config,
        services: &Services,
        kept: Option<&KeptPools>,
    ) -> Result<Self, BuildError> {
        let kept_pool = |name: &str| kept.and_then(|kept| kept.get(name));
        let is_watching = services.problems.is_some();
        check_handlers(&config, services.parser, |name| {
            // With `--watch`, each pool starts a worker, which says the same. A server that starts then waits for better code, and Python is
            // not started twice.
            let is_python = matches!(config.pools[name].worker, config::Worker::Python { .. });
            let is_left = is_watching && (is_python || kept.is_none());
            !is_left && kept_pool(name).is_none()
        })?;
        let certificates = certificates(&config, &services.acme, &services.privileged_certificates)?;
        let tls = tls(&config, &certificates)?;
        let authenticators = authenticators(&config.auth, &services.key_sources)?;
        let proxies = proxies(&config, services)?;
        let sdk = if config.pools.is_empty() {
            None
        } else {
            Some(Sdk::unpack()?)
        };
        let scripts = scripts(&config, services)?;
        let settings = config.records.settings();
        let is_here = |name: &str| config.pools[name].at == config::At::Here;
        let mut confinements = confinements(&config, sdk.as_ref(), |name| {
            kept_pool(name).is_none() && is_here(name)
        })?;
        let start = |(name, pool): (&String, &config::Pool)| {
            if let Some(kept) = kept_pool(name) {
                return Ok((name.clone(), kept.clone()));
            }
            let store = services.store.as_deref();
            let mut options = options(
                name,
                pool,
                sdk.as_ref(),
                store,
                &config,
                confinements.remove(name),
            );
            options.files = services.role == Role::Server;
            if let (config::At::Cluster, Some(cluster)) = (pool.at, &services.cluster) {
                let options = of_hosts(options);
                let pool = Pool::start(options, &services.supervisor, services.mailboxes.clone());
                cluster.attach_hosts(pool.clone());
                return Ok((name.clone(), pool));
            }
            if is_watching {
                // So that errors show when code is saved, not with the first request.
                options.workers_min = options.workers_min.max(1);
            }
            options.calls = calls(pool, services, &settings, &config).map_err(BuildError::CallThread)?;
            let pool = Pool::start(options, &services.supervisor, services.mailboxes.clone());
            Ok((pool.name().to_owned(), pool))
        };
        let pools = config
            .pools
            .iter()
            .map(start)
            .collect::<Result<BTreeMap<_, _>, BuildError>>()?;
        let stop_started = || {
            let started = pools.iter().filter(|(name, _)| kept_pool(name).is_none());
            started.for_each(|(_, pool)| pool.stop_now());
        };
        let held = Arc::new(watch::Sender::new(()));
        let workflow = config
            .workflow
            .as_ref()
            .map(|workflow| workflow_target(&config, workflow, &pools, &held, services))
            .transpose()
            .inspect_err(|_| stop_started())?;
        let store = services.store.as_ref().zip(config.store.as_ref());
        let caches = caches(&config, services.routes.threads());
        let store_target = store.map(|(open, config)| StoreTarget::new(open, config));
        let records = store.map(|(open, of_store)| RecordsTarget::new(open, of_store, &settings));
        let parts = Parts {
            authenticators: &authenticators,
            records: records.as_ref(),
            pools: &pools,
            proxies: &proxies,
            scripts: &scripts,
            workflow: workflow.as_ref(),
            store: store_target.as_ref(),
            open_store: services.store.as_ref(),
            sources: &services.sources,
            config: &config,
            kept: &services.kept,
            caches: &caches,
        };
        let rules = config.routes.iter().map(|route| rules(route, &parts, services));
        let router = rules
            .collect::<Result<Vec<_>, _>>()
            .and_then(|rules| Ok(Router::compile(rules.into_iter().flatten().collect())?))
            .inspect_err(|_| stop_started())?;
        Ok(Self {
            tls,
            certificates,
            challenges: services.acme.challenges(),
            has_http_challenges: config.tls.values().any(|certificate| {
                matches!(certificate, config::Certificate::Acme(acme) if acme.challenge == Challenge::Http01)
            }),
            hsts: match config.server.hsts.as_secs() {
                0 => Vec::new(),
                seconds => format!("strict-transport-security: max-age={seconds}\r\n").into_bytes(),
            },
            router,
            pools,
            health_checks: Mutex::new(HealthChecks::start(&proxies).map_err(BuildError::HealthChecks)?),
            proxies,
            workflow_logs: workflow.as_ref().and_then(WorkflowTarget::logs),
            scripts: scripts
                .values()
                .map(ScriptTarget::script)
                .chain(workflow.iter().map(WorkflowTarget::script))
                .cloned()
                .collect(),
            workflow,
            policies: Policies::new(config.server.policy.iter(), &config, &services.rate_limiters, &caches)?,
            caches,
            unrouted: services.routes.unrouted(),
            access_log: config.log.access.then(|| services.log.access_log(services.log_exporter.clone())),
            config,
            problems: services.problems.clone(),
            held,
            held_before: kept.map(KeptPools::held).unwrap_or_default(),
        })
    }

    /// Lets front ends use the pools, if this process is a worker host.
    pub(crate) fn serve_cluster(&self, services: &Services) {
        let Some(cluster) = services
            .cluster
            .as_ref()
            .filter(|_| services.role == Role::WorkerHost)
        else {
            return;
        };
        for (name, pool) in &self.pools {
            let of_pool = &self.config.pools[name];
            // A front end lets a job run again on any of its hosts.
            let retry = config::Retry::Never;
            let limits = pool::limits(of_pool.queue_timeout, of_pool.run_timeout, retry);
            cluster.serve(pool.clone(), limits);
        }
    }

    /// Ends its health checks: another app has taken its place, though requests may still hold it.
    pub(crate) fn end_health_checks(&self) {
        self.health_checks.lock().take();
    }

    /// Completes once no request can use the app's pools any more: neither the app nor an earlier one with a pool of it is held anywhere.
    pub(crate) fn released(&self) -> impl Future<Output = ()> + use<> {
        let mut held = self.held_before.clone();
        held.push(self.held.subscribe());
        async move {
            for mut held in held {
                // Nothing is ever sent, so this ends with the sender.
                let _ = held.changed().await;
            }
        }
    }
}

/// The parts from which targets are built.
struct Parts<'a> {
    authenticators: &'a Authenticators,
    pools: &'a BTreeMap<String, Pool>,
    proxies: &'a BTreeMap<String, Arc<Group>>,
    scripts: &'a BTreeMap<String, ScriptTarget>,
    workflow: Option<&'a WorkflowTarget>,
    store: Option<&'a StoreTarget>,
    records: Option<&'a RecordsTarget>,
    open_store: Option<&'a Arc<OpenStore>>,
    sources: &'a DatabaseRegistry,
    config: &'a Config,
    kept: &'a Arc<BufferUsage>,
    caches: &'a Caches,
}

/// The routing rules of a configured route: one for each of its paths.
fn rules(
    route: &config::Route,
    parts: &Parts<'_>,
    services: &Services,
) -> Result<Vec<Rule<Route>>, BuildError> {
    let rule = |(path, kind)| {
        let names = parts.config.server.policy.iter().chain(&route.policy);
        let policies = Policies::new(names.clone(), parts.config, &services.rate_limiters, parts.caches)?;
        let headers = headers(route, &policies);
        let of_policies = names
            .rev()
            .find_map(|name| parts.config.policies[name].cors.as_ref());
        let cors = route.cors.as_ref().or(of_policies);
        Ok(Rule {
            methods: route.methods().to_vec(),
            host: route.host.clone(),
            path,
            target: Route {
                deadline: route.deadline,
                auth: RouteAuth::new(route, parts.authenticators),
                body_bytes_max: match route.body_schema {
                    Some(_) => route.body_bytes_max.min(CHECKED_BYTES_MAX),
                    None => route.body_bytes_max,
                },
                body_schema: route.body_schema.as_deref().map(BodySchema::read).transpose()?,
                origins: match route.target {
                    config::Target::Store | config::Target::Records | config::Target::Tql => {
                        Some(Origins::new(route, cors))
                    }
                    _ => None,
                },
                cors: cors.map(Cors::new),
                compression: Compression::new(route, &headers, &parts.config.server),
                policies,
                headers,
                target: target(route, kind, parts)?,
                counts: services.routes.of(route),
            },
        })
    };
    route.paths().map(rule).collect()
}

fn headers(route: &config::Route, policies: &Policies) -> HeaderLines {
    let mut headers = policies.headers.clone();
    for (name, value) in &route.headers {
        headers.push_known(name, value);
    }
    headers
}

fn target(route: &config::Route, kind: PathKind, parts: &Parts<'_>) -> Result<Target, BuildError> {
    let checked = "the configuration was checked";
    Ok(match &route.target {
        config::Target::Respond(respond) => Target::Respond(RespondTarget::new(respond.clone())),
        config::Target::Redirect(redirect) => Target::Redirect(RedirectTarget::new(&route.path, redirect)),
        config::Target::Rewrite(path) => Target::Rewrite(template(&route.path, path)),
        config::Target::Files(files) => {
            Target::Files(FilesTarget::open(files).map_err(|source| BuildError::Folder {
                route: route.path.clone(),
                source,
            })?)
        }
        config::Target::Store => Target::Store(parts.store.expect(checked).at(kind)),
        config::Target::Records => Target::Records(parts.records.expect(checked).clone()),
        config::Target::Tql => Target::Tql(TqlTarget::new(parts.records.expect(checked).clone())),
        config::Target::Sql(way) => {
            let source = parts.sources.of(&way.source, parts.config);
            let meter = parts.sources.meter(&name_of(route));
            Target::Sql(SqlTarget::new(source.metered(meter), way))
        }
        config::Target::Script(name) => Target::Script(parts.scripts.get(name).expect(checked).clone()),
        config::Target::Workflow(route) => Target::Workflow(parts.workflow.expect(checked).at(*route)),
        config::Target::Proxy(way) => {
            let group = Arc::clone(parts.proxies.get(&way.proxy).expect(checked));
            Target::Proxy(ProxyTarget::new(group, &parts.config.proxies[&way.proxy], way))
        }
        config::Target::Pool(name) => {
            let of = &parts.config.pools[name];
            let limits = pool::limits(
                route.queue_timeout.unwrap_or(of.queue_timeout),
                route.run_timeout.unwrap_or(of.run_timeout),
                route.retry.unwrap_or(of.retry),
            );
            let pool = parts.pools.get(name).expect(checked).clone();
            let writes = of.store_mode() == config::StoreMode::ReadWrite;
            let store = parts.open_store.filter(|_| writes).cloned();
            let (kept, bounds) = (parts.kept.clone(), Bounds::of(&parts.config.server));
            Target::Pool(PoolTarget::new(pool, limits, of, store, kept, bounds))
        }
    })
}

/// Loads all scripts, by name.
fn scripts(config: &Config, services: &Services) -> Result<BTreeMap<String, ScriptTarget>, BuildError> {
    let load = |(name, script): (&String, &config::Script)| {
        let store = store_options(config, services);
        let counts = services.scripts.of(name);
        let mut options = script_options(name, script, store, services.parser, counts);
        options.allow.sql = sources(&script.allow, config, &services.sources);
        let loaded = Script::start(options).map_err(|source| BuildError::Script {
            script: name.clone(),
            source,
        })?;
        let io_input_max = usize::try_from(script.io_input_max).unwrap_or(usize::MAX);
        let store = services.store.clone();
        let target = ScriptTarget::new(Arc::new(loaded), script.on, io_input_max, store);
        Ok((name.clone(), target))
    };
    config.scripts.iter().map(load).collect()
}

/// Whether graphs are interpreted as Rengine interprets them.
pub(crate) fn compat_of(workflow: &config::Workflow) -> Compat {
    match workflow.compat {
        config::WorkflowCompat::Rengine => Compat::Rengine,
        config::WorkflowCompat::None => Compat::None,
    }
}

/// Reads the graphs and rules and starts an engine for them.
fn workflow_target(
    config: &Config,
    workflow: &config::Workflow,
    pools: &BTreeMap<String, Pool>,
    held: &Arc<watch::Sender<()>>,
    services: &Services,
) -> Result<WorkflowTarget, BuildError> {
    let reading = Reading {
        compat: compat_of(workflow),
        parser: services.parser,
    };
    let mut releases_api = None;
    let releases = match workflow.source() {
        config::WorkflowSource::Folder { path, watch } => {
            let stamps = watch.then(|| look_at_workflows(path.clone()));
            ActiveReleases::of_folder(&path, reading, stamps)?
        }
        config::WorkflowSource::Store { global } => {
            let checked = "the configuration was checked";
            let store = Arc::clone(services.store.as_ref().expect(checked));
            let pinned = config.routes.iter().filter_map(|route| match &route.target {
                config::Target::Workflow(route) => route.release,
                _ => None,
            });
            let releases = Releases::new(store as Arc<dyn Storage>, &global);
            let environment = OfflineEnvironment {
                config: config.clone(),
                parser: services.parser,
            };
            let api = ReleaseApi::new(releases.clone(), environment);
            releases_api = Some(Arc::new(ReleaseThreads::new(api)));
            ActiveReleases::of_store(releases, pinned.collect(), reading)?
        }
    };
    let environment = WorkflowEnvironment {
        parser: services.parser,
        now_ms: None,
        counts: services.scripts.of(WORKFLOW_COUNTS),
        workflows: Arc::clone(&services.workflows),
        sources: &services.sources,
        pools,
        held: Some(held.clone()),
        store: store_options(config, services),
        open_store: services.store.clone(),
        kept: services.kept_runs.clone(),
        logs: workflow_logs(workflow, services)?,
    };
    let target = workflow_engines(config, workflow, releases, environment)?;
    Ok(target.with_releases(releases_api))
}

/// The environment of workflow engines.
pub(crate) struct WorkflowEnvironment<'a> {
    pub(crate) parser: SourceParser,
    /// The time that rules find, in milliseconds since 1970 UTC; `None`: the current time.
    pub(crate) now_ms: Option<u64>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) workflows: Arc<WorkflowMetrics>,
    pub(crate) sources: &'a DatabaseRegistry,
    /// The pools that rules may call.
    pub(crate) pools: &'a BTreeMap<String, Pool>,
    /// The `held` sender of the app that owns these pools.
    pub(crate) held: Option<Arc<watch::Sender<()>>>,
    /// How rules open the store.
    pub(crate) store: Option<forebay_script::StoreOptions>,
    /// The server's own store, in which responses wait for commits to become durable.
    pub(crate) open_store: Option<Arc<OpenStore>>,
    /// Durable runs.
    pub(crate) kept: Option<Arc<DurableRuns>>,
    /// The log of rules.
    pub(crate) logs: Option<Arc<WorkflowLogs>>,
}

/// Starts an engine for workflows.
pub(crate) fn workflow_engines(
    config: &Config,
    workflow: &config::Workflow,
    releases: Arc<ActiveReleases>,
    around: WorkflowEnvironment<'_>,
) -> Result<WorkflowTarget, BuildError> {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let s3_buckets = config.s3.iter();
    let s3_buckets = s3_buckets.map(|(name, bucket)| (name.clone(), bucket.options()));
    let mail_servers = config.mail.iter();
    let mail_servers = mail_servers.map(|(name, server)| (name.clone(), server.options()));
    let kafka_clusters = config.kafka.iter();
    let kafka_clusters = kafka_clusters.map(|(name, cluster)| (name.clone(), cluster.options()));
    let all_pools = around.pools.iter().map(|(name, pool)| {
        let of = &config.pools[name];
        let writes = of.store_mode() == config::StoreMode::ReadWrite;
        let workers = PoolWorkers {
            pool: pool.clone(),
            limits: pool::limits(of.queue_timeout, of.run_timeout, of.retry),
            message_bytes_max: of.message_bytes_max as usize,
            bytes_max: bytes(workflow.fetch.fetch_bytes_max),
            store: around.open_store.clone().filter(|_| writes),
        };
        (
            name.clone(),
            Arc::new(workers) as Arc<dyn forebay_clients::Workers>,
        )
    });
    let options = forebay_script::Options {
        name: WORKFLOW_COUNTS.to_owned(),
        program: forebay_script::Program::Rules,
        limits: forebay_script::Limits {
            io_cpu_max: workflow.timeout,
            cpu_max: workflow.timeout,
            time_max: workflow.timeout,
            memory_max: bytes(workflow.memory_max),
            output_max: bytes(workflow.output_max),
            in_flight_max: workflow.accept_queue_max,
            queue_bytes_max: bytes(workflow.queue_bytes_max),
            executors: workflow.executors,
            engines_max: workflow.engines_max,
            isolated: false,
            fetch_time_max: workflow.fetch.fetch_time_max,
            fetch_bytes_max: bytes(workflow.fetch.fetch_bytes_max),
            fetches_max: workflow.fetch.fetches_max,
        },
        allow: forebay_script::Allow {
            sql: sources(&workflow.allow.common, config, around.sources),
            clients: Arc::new(forebay_clients::Options {
                redis: workflow.allow.redis.clone(),
                redis_servers: config.redis.clone(),
                s3: workflow.allow.s3.clone(),
                s3_buckets: s3_buckets.collect(),
                mail: workflow.allow.mail.clone(),
                mail_servers: mail_servers.collect(),
                kafka: workflow.allow.kafka.clone(),
                kafka_clusters: kafka_clusters.collect(),
                pools: workflow.allow.pool.clone(),
                all_pools: all_pools.collect(),
                programs: workflow.allow.process.clone(),
                output_bytes_max: bytes(workflow.process_output_max),
            }),
            ..allow(&workflow.allow.common)
        },
        blocks_rules: compat_of(workflow) == Compat::Rengine,
        rules_now_ms: around.now_ms,
        store: around.store.clone(),
        environment: environment(around.parser),
        counts: Arc::clone(&around.counts),
    };
    let limits = RunLimits {
        timeout: workflow.timeout,
        log_max: bytes(workflow.log_max),
        output_max: bytes(workflow.output_max),
    };
    let script = Script::start(options).map_err(BuildError::WorkflowEngines)?;
    Ok(WorkflowTarget::new(
        Arc::new(script),
        releases,
        limits,
        workflow,
        around,
    ))
}

/// The log of rules. If the folder is unchanged, the current log continues.
fn workflow_logs(
    workflow: &config::Workflow,
    services: &Services,
) -> Result<Option<Arc<WorkflowLogs>>, BuildError> {
    let Some(folder) = &workflow.logs else {
        return Ok(None);
    };
    let current = services.workflow_logs.lock().clone();
    let current = current.filter(|logs| logs.folder() == folder);
    let start = || WorkflowLogs::start(folder, workflow.logs_rotate, services.log_exporter.clone());
    let logs = current.map_or_else(start, Ok);
    logs.map(Some).map_err(BuildError::WorkflowLogs)
}

fn store_options(config: &Config, services: &Services) -> Option<forebay_script::StoreOptions> {
    services.store.as_ref().map(|store| forebay_script::StoreOptions {
        folder: store.path().into(),
        options: *store.store().options(),
        records: config.records.settings().to_text(),
    })
}

fn environment(parser: SourceParser) -> forebay_script::ScriptEnvironment {
    forebay_script::ScriptEnvironment {
        sdk: sdk_file,
        erase_types: parser.erase_types,
    }
}

/// Permissions of a script without its databases.
fn allow(allow: &config::ScriptAllow) -> forebay_script::Allow {
    forebay_script::Allow {
        store: allow.store.clone(),
        fetch: allow.fetch.clone(),
        sql: Arc::default(),
        clients: Arc::default(),
        files: allow.files.clone(),
    }
}

/// The accessible databases, by name.
fn sources(
    allow: &config::ScriptAllow,
    config: &Config,
    sources: &DatabaseRegistry,
) -> Arc<BTreeMap<String, forebay_pg::Source>> {
    let source = |name: &String| (name.clone(), sources.of(name, config));
    Arc::new(allow.sql.iter().map(source).collect())
}

pub(crate) fn script_options(
    name: &str,
    script: &config::Script,
    store: Option<forebay_script::StoreOptions>,
    parser: SourceParser,
    counts: Arc<Counts>,
) -> forebay_script::Options {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    forebay_script::Options {
        name: name.to_owned(),
        program: forebay_script::Program::Handler {
            file: script.handler.clone(),
            modules: script.modules().to_owned(),
        },
        limits: forebay_script::Limits {
            io_cpu_max: script.io_cpu_max,
            cpu_max: script.cpu_max,
            time_max: script.time_max,
            memory_max: bytes(script.memory_max),
            output_max: bytes(script.output_max),
            in_flight_max: script.in_flight_max,
            queue_bytes_max: bytes(script.queue_bytes_max),
            executors: script.executors,
            engines_max: script.engines_max,
            fetch_time_max: script.fetch.fetch_time_max,
            fetch_bytes_max: bytes(script.fetch.fetch_bytes_max),
            fetches_max: script.fetch.fetches_max,
            isolated: script.isolated,
        },
        allow: allow(&script.allow),
        blocks_rules: false,
        rules_now_ms: None,
        store,
        environment: environment(parser),
        counts,
    }
}
