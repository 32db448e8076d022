//! The engines of workflows, and what surrounds them.

use std::{collections::BTreeMap, sync::Arc};

use forebay_pool::Pool;
use forebay_script::{Counts, Script};
use forebay_workflow::{Compat, Reading, Releases, RunLimits, SourceParser, Storage};
use tokio::sync::watch;

use super::{
    BuildError, Services, WORKFLOW_COUNTS,
    scripts::{allow, environment, sources, store_options},
};
use crate::{
    config::{self, Config},
    logging::WorkflowLogs,
    metrics::WorkflowMetrics,
    sources::DatabaseRegistry,
    store::OpenStore,
    target::{
        WorkflowTarget,
        pool::{self, PoolWorkers},
        workflow::{ActiveReleases, DurableRuns, OfflineEnvironment, ReleaseApi, ReleaseThreads},
    },
    watch::look_at_workflows,
};

/// Whether graphs are interpreted as Rengine interprets them.
pub(crate) fn compat_of(workflow: &config::Workflow) -> Compat {
    match workflow.compat {
        config::WorkflowCompat::Rengine => Compat::Rengine,
        config::WorkflowCompat::None => Compat::None,
    }
}

/// Reads the graphs and rules and starts an engine for them.
pub(super) fn workflow_target(
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
            let active = ActiveReleases::of_store(releases, pinned.collect(), reading)?;
            releases_api = Some(Arc::new(ReleaseThreads::new(api, Arc::clone(&active))));
            active
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
        durable_runs: services.kept_runs.clone(),
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
    pub(crate) durable_runs: Option<Arc<DurableRuns>>,
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
