//! An app is a configuration in force: its routes with their targets, and its pools. Immutable; a reload builds another one.

mod certificates;
mod confinement;
mod error;
mod jobs;
mod pools;
mod scripts;
mod upstreams;
mod workflow;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use forebay_acme::{AcmeClient, Challenge, Challenges};
use forebay_cluster::Cluster;
use forebay_pg::SqlSession;
use forebay_pool::{Mailboxes, Options, Pool, Supervisor};
use forebay_router::{Router, Rule};
use forebay_runtimes::Sdk;
use forebay_script::Script;
use forebay_upstream::Group;
use forebay_workflow::SourceParser;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

pub use self::certificates::development_certificate;
pub(crate) use self::certificates::{Certificates, PrivilegedCertificates, certificates, tls};
pub use self::confinement::{CheckedConfinement, NotConfined, check_confinements};
pub use self::error::BuildError;
pub(crate) use self::scripts::script_options;
pub(crate) use self::workflow::{WorkflowEnvironment, compat_of, workflow_engines};
use self::{
    confinement::confinements,
    jobs::job_routes,
    pools::{calls, of_hosts, options},
    scripts::scripts,
    upstreams::{HealthChecks, proxies},
    workflow::workflow_target,
};
use crate::{
    auth::{KeySources, authenticators},
    calls::{Admission, CallThread, Tql},
    check::check_handlers,
    compression::Compression,
    config::{self, Config, PathKind},
    jobs::{JobRoute, Jobs},
    logging::{self, AccessLog, LogExporter, WorkflowLogs},
    metrics::{RouteCounts, RouteMetrics, ScriptMetrics, WorkflowMetrics, login_name, name_of},
    openapi::{Sources, WrittenDocument},
    otlp::MetricsExporter,
    policy::{
        BodySchemas, CHECKED_BYTES_MAX, Policies, PolicyParts, RateLimiters,
        cache::{Caches, caches},
        error_pages,
    },
    profiles::Profiles,
    reply::HeaderLines,
    route::Route,
    sources::DatabaseRegistry,
    store::OpenStore,
    target::{
        Bounds, BufferUsage, Cors, FilesTarget, JobTarget, LoginTarget, OpenApiTarget, Origins, PoolTarget,
        ProxyTarget, RecordsTarget, RedirectTarget, RespondTarget, Rules, ScriptTarget, SqlTarget,
        StoreTarget, Tagged, Target, TqlTarget, WorkflowTarget, pool, template, workflow::DurableRuns,
    },
    traces::Traces,
    watch::Problems,
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
    /// The queue of durable jobs; present if there is a store.
    pub(crate) jobs: Option<Arc<Jobs>>,
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

/// The role of a process.
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
    body_schemas: BodySchemas,
    openapi: WrittenDocument,
    /// How the jobs of its durable routes are done.
    pub(crate) jobs: Arc<Vec<Arc<JobRoute>>>,
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
    /// Whether browsers log in here, so that requests may have cookies of logins.
    pub(crate) has_logins: bool,
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
        let body_schemas = BodySchemas::read(&config)?;
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
        let caches = caches(&config, services.routes.threads());
        let policies = PolicyParts {
            config: &config,
            authenticators: &authenticators,
            limiters: &services.rate_limiters,
            caches: &caches,
            error_pages: error_pages(&config)?,
        };
        let health_checks = Mutex::new(HealthChecks::start(&proxies).map_err(BuildError::HealthChecks)?);
        let cluster_of = |pool: &config::Pool| {
            services
                .cluster
                .as_ref()
                .filter(|_| pool.at == config::At::Cluster)
        };
        let options = |(name, pool): (&String, &config::Pool)| {
            if kept_pool(name).is_some() {
                return Ok((name.clone(), None));
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
            if cluster_of(pool).is_some() {
                return Ok((name.clone(), Some(of_hosts(options))));
            }
            if is_watching {
                // So that errors show when code is saved, not with the first request.
                options.workers_min = options.workers_min.max(1);
            }
            options.calls = calls(pool, services, &settings, &config).map_err(BuildError::CallThread)?;
            Ok((name.clone(), Some(options)))
        };
        let options = config.pools.iter().map(options);
        let options = options.collect::<Result<Vec<_>, BuildError>>()?;
        let start = |(name, options): (String, Option<Options>)| {
            let pool = match options {
                None => kept_pool(&name).expect("it has no options").clone(),
                Some(options) => {
                    let pool = Pool::start(options, &services.supervisor, services.mailboxes.clone());
                    if let Some(cluster) = cluster_of(&config.pools[&name]) {
                        cluster.attach_hosts(pool.clone());
                    }
                    pool
                }
            };
            (name, pool)
        };
        let pools: BTreeMap<_, _> = options.into_iter().map(start).collect();
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
        let access = config.store.as_ref().map(|store| store.access.clone());
        let access = Arc::new(Rules::Configured(access.unwrap_or_default()));
        let store_target = store.map(|(open, config)| StoreTarget::new(open, config, &access));
        let records = store.map(|(open, config)| RecordsTarget::new(open, config, &access, settings.clone()));
        let parts = Parts {
            body_schemas: &body_schemas,
            policies: &policies,
            records: records.as_ref(),
            pools: &pools,
            proxies: &proxies,
            scripts: &scripts,
            workflow: workflow.as_ref(),
            store: store_target.as_ref(),
            open_store: services.store.as_ref(),
            jobs: services.jobs.as_ref(),
            sources: &services.sources,
            config: &config,
            kept: &services.kept,
        };
        let rules = config.routes.iter().map(|route| rules(route, &parts, services));
        let logins = config.login_paths();
        let logins = logins
            .iter()
            .map(|login| Ok(vec![login_rule(login, &parts, services)]));
        let router = rules
            .chain(logins)
            .collect::<Result<Vec<_>, _>>()
            .and_then(|rules| Ok(Router::compile(rules.into_iter().flatten().collect())?))
            .inspect_err(|_| stop_started())?;
        let job_routes = job_routes(&config, &pools, services.store.as_ref(), &held);
        let policies = Policies::new(None, &policies);
        let app = Self {
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
            has_logins: config.auth.values().any(|auth| auth.oidc.is_some()),
            router,
            pools,
            health_checks,
            proxies,
            workflow_logs: workflow.as_ref().and_then(WorkflowTarget::logs),
            scripts: scripts
                .values()
                .map(ScriptTarget::script)
                .chain(workflow.iter().map(WorkflowTarget::script))
                .cloned()
                .collect(),
            workflow,
            body_schemas,
            openapi: WrittenDocument::default(),
            policies,
            jobs: Arc::new(job_routes),
            caches,
            unrouted: services.routes.unrouted(),
            access_log: config.log.access.then(|| services.log.access_log(services.log_exporter.clone())),
            config,
            problems: services.problems.clone(),
            held,
            held_before: kept.map(KeptPools::held).unwrap_or_default(),
        };
        if app
            .config
            .routes
            .iter()
            .any(|route| route.target == config::Target::OpenApi)
        {
            // So that the first request for it finds it written.
            app.openapi();
        }
        Ok(app)
    }

    /// The OpenAPI document of its routes, with the workflows in force.
    pub(crate) fn openapi(&self) -> Tagged {
        let workflow = self.workflow.as_ref();
        self.openapi.get(&Sources {
            config: &self.config,
            body_schemas: &self.body_schemas,
            workflows: &|release| Some(workflow?.runner().releases.published(release).ok()?.bundle),
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
    body_schemas: &'a BodySchemas,
    policies: &'a PolicyParts<'a>,
    pools: &'a BTreeMap<String, Pool>,
    proxies: &'a BTreeMap<String, Arc<Group>>,
    scripts: &'a BTreeMap<String, ScriptTarget>,
    workflow: Option<&'a WorkflowTarget>,
    store: Option<&'a StoreTarget>,
    records: Option<&'a RecordsTarget>,
    open_store: Option<&'a Arc<OpenStore>>,
    jobs: Option<&'a Arc<Jobs>>,
    sources: &'a DatabaseRegistry,
    config: &'a Config,
    kept: &'a Arc<BufferUsage>,
}

/// The routing rules of a configured route: one for each of its paths.
fn rules(
    route: &config::Route,
    parts: &Parts<'_>,
    services: &Services,
) -> Result<Vec<Rule<Route>>, BuildError> {
    let rule = |(path, kind)| {
        let config = parts.config;
        let policies = Policies::new(Some(route), parts.policies);
        let headers = headers(route, &policies);
        let of_policies = config
            .policies_of(Some(route))
            .rev()
            .find_map(|name| config.policies[name].cors.as_ref());
        // A rewritten request has the CORS of the route that answers it.
        let is_rewrite = matches!(route.target, config::Target::Rewrite(_));
        let cors = route.cors.as_ref().or(of_policies).filter(|_| !is_rewrite);
        let required = config.auth_requirement(Some(route));
        let has_sessions = required
            .any_of
            .iter()
            .any(|name| config.auth[name].oidc.is_some());
        Ok(Rule {
            methods: route.methods_at(kind),
            host: route.host.clone(),
            path,
            target: Route {
                deadline: route.deadline,
                body_bytes_max: match route.body_schema {
                    Some(_) => route.body_bytes_max.min(CHECKED_BYTES_MAX),
                    None => route.body_bytes_max,
                },
                body_schema: route
                    .body_schema
                    .as_deref()
                    .filter(|_| kind != PathKind::Job)
                    .map(|file| Arc::clone(parts.body_schemas.get(file))),
                origins: match route.target {
                    config::Target::Store | config::Target::Records | config::Target::Tql => {
                        Some(Origins::new(route, cors))
                    }
                    // Browsers send the cookie of a session with requests of other origins' pages, too, if these are of the same site.
                    _ if has_sessions => Some(Origins::new(route, cors)),
                    _ => None,
                },
                cors: cors.map(Cors::new),
                compression: Compression::new(route, &headers, &config.server),
                policies,
                headers,
                target: target(route, kind, parts)?,
                counts: services.routes.of(name_of(route)),
            },
        })
    };
    route.paths().map(rule).collect()
}

/// The rule of a path that the server answers itself for logins. The policies of the server hold for it.
fn login_rule(login: &config::LoginPath, parts: &Parts<'_>, services: &Services) -> Rule<Route> {
    let server = &parts.config.server;
    let policies = Policies::new(None, parts.policies).without_auth();
    let client = parts.policies.authenticators[&login.auth]
        .oidc()
        .expect("the configuration was checked");
    login.rule(Route {
        deadline: server.deadline,
        body_bytes_max: server.body_bytes_max,
        body_schema: None,
        origins: None,
        cors: None,
        compression: None,
        headers: policies.headers.clone(),
        policies,
        target: Target::Login(LoginTarget::new(Arc::clone(client), login.is_logout())),
        counts: services.routes.of(login_name(login)),
    })
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
        config::Target::OpenApi => Target::OpenApi(OpenApiTarget::new()),
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
            if let Some(durable) = &route.durable {
                let (jobs, queue) = (parts.jobs.expect(checked), name_of(route));
                return Ok(Target::Job(JobTarget::new(
                    jobs,
                    queue,
                    kind,
                    durable,
                    pool,
                    parts.config,
                )));
            }
            let writes = of.store_mode() == config::StoreMode::ReadWrite;
            let store = parts.open_store.filter(|_| writes).cloned();
            let (kept, bounds) = (parts.kept.clone(), Bounds::of(&parts.config.server));
            Target::Pool(PoolTarget::new(pool, limits, of, store, kept, bounds))
        }
    })
}
