//! The counters of the server, and their samples for each metric family. Every form of export is a [`Sink`] of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use forebay_acme::Progress;
use forebay_jobs::QueueFacts;
use forebay_pg::{BOUNDS_US, Durations};
use forebay_pool::{EndCause, Readiness, Status};
use forebay_script::Counted;
use forebay_upstream::Group;

use super::{
    ProcessUse, RouteTotals,
    families::{self, Family, Statements},
    pools::PoolStates,
    routes::CLASSES,
    workflows::{NODE_OUTCOMES, RUN_OUTCOMES, WorkflowTotals},
};
use crate::{
    compression::{Coding, Skipped, Totals},
    front::ConnectionCounts,
    otlp::OUTCOMES,
    policy::cache::{self, CacheTotals},
    sources::{Database, DatabaseFacts},
    store::StoreFacts,
};

/// The lifecycle phases of a worker.
const PHASES: [&str; 5] = ["starting", "ready", "draining", "terminating", "killed"];

/// A snapshot of everything that is exported.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) version: &'static str,
    /// Time since the Unix epoch.
    pub(crate) started_at: Duration,
    pub(crate) process: ProcessUse,
    pub(crate) generation: u64,
    pub(crate) reloads_refused: u64,
    pub(crate) log_lines_lost: u64,
    /// By outcome; `None` if no collector is configured, or if it does not get them.
    pub(crate) trace_spans: Option<[u64; OUTCOMES.len()]>,
    pub(crate) log_records: Option<[u64; OUTCOMES.len()]>,
    pub(crate) metric_posts: Option<[u64; OUTCOMES.len()]>,
    pub(crate) certificates: Vec<CertificateFacts>,
    pub(crate) connections: ConnectionCounts,
    /// Bytes of spooled bodies: in memory, and in files.
    pub(crate) kept_bytes: (u64, u64),
    pub(crate) compression: Totals,
    pub(crate) routes: Vec<RouteTotals>,
    /// The response caches, by the name of their policy.
    pub(crate) caches: Vec<(String, CacheTotals)>,
    /// `None` if there is no store.
    pub(crate) store: Option<StoreFacts>,
    pub(crate) pools: PoolStates,
    /// By the name of the proxy.
    pub(crate) proxies: BTreeMap<String, Arc<Group>>,
    /// With the script's name.
    pub(crate) scripts: Vec<(String, Counted)>,
    /// With the workflow's name.
    pub(crate) workflows: Vec<(String, WorkflowTotals)>,
    /// The releases in use, with the status of each.
    pub(crate) workflow_releases: Vec<(u64, &'static str)>,
    /// Durable runs that are not finished; `None` if they are not configured.
    pub(crate) kept_runs_open: Option<usize>,
    /// The queues of durable jobs.
    pub(crate) jobs: Vec<QueueFacts>,
    pub(crate) databases: DatabaseFacts,
}

/// A certificate of the listeners.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFacts {
    /// The name of its section.
    pub(crate) name: String,
    /// Until when it is good, since the Unix epoch; `None` if it has not been obtained yet.
    pub(crate) expires_at: Option<Duration>,
    /// `None` if it is from files.
    pub(crate) progress: Option<Progress>,
}

/// Receives families in exposition order, each followed by its samples.
pub(crate) trait Sink {
    /// Begins a family.
    fn family(&mut self, family: &Family);

    /// A value of the family, with the values of its labels in order.
    fn sample(&mut self, family: &Family, values: &[&str], value: f64);

    /// A histogram of the family, whose only label has this value.
    fn histogram(&mut self, family: &Family, of: &str, histogram: &Histogram);
}

/// A histogram of durations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Histogram {
    /// How many were shorter than each of [`BOUNDS_US`].
    pub(crate) below: [u64; BOUNDS_US.len()],
    pub(crate) count: u64,
    /// In seconds.
    pub(crate) sum: f64,
}

impl dyn Sink + '_ {
    /// A family with a single sample.
    pub(super) fn one(&mut self, family: &Family, values: &[&str], value: f64) {
        self.family(family);
        self.sample(family, values, value);
    }

    pub(super) fn durations(&mut self, family: &Family, of: &str, durations: &Durations) {
        let histogram = Histogram {
            below: durations.below(),
            count: durations.count(),
            sum: durations.sum().as_secs_f64(),
        };
        self.histogram(family, of, &histogram);
    }

    /// A pool's histogram. The sum is computed from the middles of its buckets and is accurate to one percent.
    pub(super) fn timings(&mut self, family: &Family, pool: &str, micros: &hdrhistogram::Histogram<u64>) {
        let histogram = Histogram {
            below: BOUNDS_US.map(|bound| micros.count_between(0, bound - 1)),
            count: micros.len(),
            sum: micros.mean() * micros.len() as f64 / 1e6,
        };
        self.histogram(family, pool, &histogram);
    }
}

/// Writes all families and their samples.
pub(crate) fn write(facts: &Facts, sink: &mut dyn Sink) {
    server(sink, facts);
    routes(sink, &facts.routes);
    caches(sink, &facts.caches);
    if let Some(facts) = &facts.store {
        store(sink, facts);
    }
    scripts(sink, &facts.scripts);
    workflows(sink, &facts.workflows);
    sink.family(&families::WORKFLOW_RELEASES);
    for (release, state) in &facts.workflow_releases {
        sink.sample(&families::WORKFLOW_RELEASES, &[&release.to_string(), state], 1.0);
    }
    sink.family(&families::WORKFLOW_RUNS_OPEN);
    if let Some(open) = facts.kept_runs_open {
        sink.sample(&families::WORKFLOW_RUNS_OPEN, &[], open as f64);
    }
    jobs(sink, &facts.jobs);
    databases(sink, &facts.databases);
    proxies(sink, &facts.proxies);
    pools(sink, &facts.pools);
}

/// The value of a gauge for a queue.
type Gauge = fn(&QueueFacts) -> f64;

fn jobs(sink: &mut dyn Sink, queues: &[QueueFacts]) {
    let gauges: [(_, Gauge); 4] = [
        (&families::JOBS_WAITING, |facts| facts.waiting as f64),
        (&families::JOBS_RUNNING, |facts| facts.running as f64),
        (&families::JOBS_BYTES, |facts| facts.bytes as f64),
        (&families::JOBS_OLDEST, |facts| facts.oldest_ms as f64 / 1e3),
    ];
    for (family, value) in gauges {
        sink.family(family);
        for facts in queues {
            sink.sample(family, &[&facts.queue], value(facts));
        }
    }
    sink.family(&families::JOBS_ENDED);
    for facts in queues {
        sink.sample(&families::JOBS_ENDED, &[&facts.queue, "done"], facts.done as f64);
        sink.sample(
            &families::JOBS_ENDED,
            &[&facts.queue, "failed"],
            facts.failed as f64,
        );
    }
}

fn server(sink: &mut dyn Sink, facts: &Facts) {
    sink.one(&families::BUILD_INFO, &[facts.version], 1.0);
    sink.one(&families::START_TIME, &[], facts.started_at.as_secs_f64());
    sink.one(&families::CPU, &[], facts.process.cpu.as_secs_f64());
    if let Some(bytes) = facts.process.rss_bytes {
        sink.one(&families::RSS, &[], bytes as f64);
    }
    if let Some(fds) = facts.process.open_fds {
        sink.one(&families::OPEN_FDS, &[], fds as f64);
    }
    sink.one(&families::GENERATION, &[], facts.generation as f64);
    sink.one(&families::RELOADS_REFUSED, &[], facts.reloads_refused as f64);
    sink.one(&families::LOG_LINES_LOST, &[], facts.log_lines_lost as f64);
    for (family, counts) in [
        (&families::TRACE_SPANS, facts.trace_spans),
        (&families::LOG_RECORDS, facts.log_records),
        (&families::METRIC_POSTS, facts.metric_posts),
    ] {
        sink.family(family);
        for (outcome, count) in OUTCOMES.iter().zip(counts.into_iter().flatten()) {
            sink.sample(family, &[outcome], count as f64);
        }
    }
    sink.family(&families::CERTIFICATE_EXPIRY);
    for certificate in &facts.certificates {
        if let Some(expires_at) = certificate.expires_at {
            sink.sample(
                &families::CERTIFICATE_EXPIRY,
                &[&certificate.name],
                expires_at.as_secs_f64(),
            );
        }
    }
    sink.one(&families::CONNECTIONS_OPEN, &[], facts.connections.open as f64);
    sink.one(
        &families::CONNECTIONS_ACCEPTED,
        &[],
        facts.connections.accepted as f64,
    );
    sink.one(
        &families::CONNECTIONS_TURNED_AWAY,
        &[],
        facts.connections.turned_away as f64,
    );
    sink.one(
        &families::CONNECTIONS_TOO_SLOW,
        &[],
        facts.connections.too_slow as f64,
    );
    let (memory, files) = facts.kept_bytes;
    sink.one(&families::KEPT_MEMORY, &[], memory as f64);
    sink.one(&families::KEPT_FILES, &[], files as f64);
    compression(sink, &facts.compression);
}

fn compression(sink: &mut dyn Sink, totals: &Totals) {
    let codings = || Coding::ALL.iter().zip(totals.codings);
    sink.family(&families::COMPRESSION_INPUT);
    for (coding, (before, _)) in codings() {
        sink.sample(&families::COMPRESSION_INPUT, &[coding.name()], before as f64);
    }
    sink.family(&families::COMPRESSION_OUTPUT);
    for (coding, (_, after)) in codings() {
        sink.sample(&families::COMPRESSION_OUTPUT, &[coding.name()], after as f64);
    }
    sink.one(&families::COMPRESSION_CPU, &[], totals.cpu.as_secs_f64());
    sink.family(&families::COMPRESSION_SKIPPED);
    for (reason, count) in Skipped::NAMES.iter().zip(totals.skipped) {
        sink.sample(&families::COMPRESSION_SKIPPED, &[reason], count as f64);
    }
}

fn routes(sink: &mut dyn Sink, routes: &[RouteTotals]) {
    sink.family(&families::REQUESTS);
    for route in routes {
        for (class, count) in CLASSES.iter().zip(route.classes) {
            sink.sample(&families::REQUESTS, &[&route.name, class], count as f64);
        }
    }
    sink.family(&families::REQUEST_DURATION);
    for route in routes {
        let histogram = Histogram {
            below: BOUNDS_US.map(|bound| route.durations.below(bound)),
            count: route.durations.count(),
            sum: route.durations.sum_us as f64 / 1e6,
        };
        sink.histogram(&families::REQUEST_DURATION, &route.name, &histogram);
    }
}

fn caches(sink: &mut dyn Sink, caches: &[(String, CacheTotals)]) {
    type Value = fn(&CacheTotals) -> u64;
    sink.family(&families::CACHE_REQUESTS);
    for (policy, totals) in caches {
        for (outcome, count) in cache::OUTCOMES.iter().zip(totals.requests) {
            sink.sample(&families::CACHE_REQUESTS, &[policy, outcome], count as f64);
        }
    }
    let simple: [(&Family, Value); 3] = [
        (&families::CACHE_BYTES, |totals| totals.bytes),
        (&families::CACHE_BYTES_MAX, |totals| totals.bytes_max),
        (&families::CACHE_EVICTIONS, |totals| totals.evictions),
    ];
    for (family, value) in simple {
        sink.family(family);
        for (policy, totals) in caches {
            sink.sample(family, &[policy], value(totals) as f64);
        }
    }
}

fn store(sink: &mut dyn Sink, facts: &StoreFacts) {
    if let Some(stats) = facts.stats {
        sink.one(&families::STORE_FILE, &[], stats.file_bytes as f64);
        sink.one(&families::STORE_MAP_MAX, &[], stats.map_max as f64);
        sink.one(&families::STORE_LAST_COMMIT, &[], stats.last_commit as f64);
        sink.one(
            &families::STORE_NOT_CHECKPOINTED,
            &[],
            stats.not_checkpointed_bytes as f64,
        );
        sink.one(&families::STORE_READERS, &[], f64::from(stats.readers));
    }
    let writer = &facts.writer;
    sink.one(&families::STORE_QUEUE, &[], writer.queued as f64);
    sink.one(&families::STORE_QUEUE_MAX, &[], writer.queue_max as f64);
    sink.one(&families::STORE_QUEUE_BYTES, &[], writer.queued_bytes as f64);
    sink.family(&families::STORE_WRITES);
    for (outcome, count) in writer.outcomes() {
        sink.sample(&families::STORE_WRITES, &[outcome], count as f64);
    }
    sink.one(&families::STORE_COMMITS, &[], writer.commits as f64);
    sink.one(&families::STORE_FLUSHES, &[], writer.flushes as f64);
}

fn scripts(sink: &mut dyn Sink, scripts: &[(String, Counted)]) {
    type Value = fn(&Counted) -> u64;
    sink.family(&families::SCRIPT_ANSWERED);
    for (name, counted) in scripts {
        for (place, count) in [
            ("io", counted.answered_io),
            ("executor", counted.answered_executor),
        ] {
            sink.sample(&families::SCRIPT_ANSWERED, &[name, place], count as f64);
        }
    }
    sink.family(&families::SCRIPT_STOPPED);
    for (name, counted) in scripts {
        for (reason, count) in counted.stopped {
            sink.sample(&families::SCRIPT_STOPPED, &[name, reason], count as f64);
        }
    }
    let simple: [(&Family, Value); 9] = [
        (&families::SCRIPT_FAULTED, |counted| counted.faulted),
        (&families::SCRIPT_CANCELLED, |counted| counted.cancelled),
        (&families::SCRIPT_REFUSED, |counted| counted.refused),
        (&families::SCRIPT_HANDED_OVER, |counted| counted.handed_over),
        (&families::SCRIPT_QUEUE, |counted| counted.queued),
        (&families::SCRIPT_THREADS, |counted| counted.threads),
        (&families::SCRIPT_THREADS_GIVEN_UP, |counted| counted.given_up),
        (&families::SCRIPT_ENGINES, |counted| counted.engines),
        (&families::SCRIPT_ENGINES_MEMORY, |counted| counted.engine_bytes),
    ];
    for (family, value) in simple {
        sink.family(family);
        for (name, counted) in scripts {
            sink.sample(family, &[name], value(counted) as f64);
        }
    }
}

fn workflows(sink: &mut dyn Sink, workflows: &[(String, WorkflowTotals)]) {
    sink.family(&families::WORKFLOW_RUNS);
    for (name, totals) in workflows {
        for (outcome, count) in RUN_OUTCOMES.iter().zip(totals.outcomes) {
            sink.sample(&families::WORKFLOW_RUNS, &[name, outcome], count as f64);
        }
    }
    sink.family(&families::WORKFLOW_IN_FLIGHT);
    for (name, totals) in workflows {
        sink.sample(&families::WORKFLOW_IN_FLIGHT, &[name], totals.in_flight as f64);
    }
    sink.family(&families::WORKFLOW_DURATION);
    for (name, totals) in workflows {
        sink.durations(&families::WORKFLOW_DURATION, name, &totals.durations);
    }
    sink.family(&families::WORKFLOW_NODE_RUNS);
    for (name, totals) in workflows {
        for node in &totals.nodes {
            for (outcome, count) in NODE_OUTCOMES.iter().zip(node.outcomes) {
                let labels = [&**name, &node.node, outcome];
                sink.sample(&families::WORKFLOW_NODE_RUNS, &labels, count as f64);
            }
        }
    }
    sink.family(&families::WORKFLOW_NODE_SECONDS);
    for (name, totals) in workflows {
        for node in &totals.nodes {
            let labels = [&**name, &node.node];
            sink.sample(&families::WORKFLOW_NODE_SECONDS, &labels, node.sum.as_secs_f64());
        }
    }
}

fn databases(sink: &mut dyn Sink, facts: &DatabaseFacts) {
    type Value = fn(&Database) -> f64;
    let of_databases = facts
        .databases
        .iter()
        .map(|database| (&*database.name, &database.counted));
    statements(sink, &families::OF_DATABASES, &of_databases.collect::<Vec<_>>());
    let of_routes = facts.routes.iter().map(|(name, counted)| (&**name, counted));
    statements(sink, &families::OF_ROUTES, &of_routes.collect::<Vec<_>>());
    let simple: [(&Family, Value); 2] = [
        (&families::SQL_REACHABLE, |database| {
            f64::from(u8::from(database.failure.is_none()))
        }),
        (&families::SQL_IN_FLIGHT_MAX, |database| {
            database.settings.in_flight_max as f64
        }),
    ];
    for (family, value) in simple {
        sink.family(family);
        for database in &facts.databases {
            sink.sample(family, &[&database.name], value(database));
        }
    }
}

/// Writes the statement metrics of databases or of routes.
fn statements(sink: &mut dyn Sink, families: &Statements, counted: &[(&str, &forebay_pg::Counted)]) {
    type Histogram = fn(&forebay_pg::Counted) -> &Durations;
    sink.family(&families.ended);
    for (name, counted) in counted {
        for (outcome, count) in counted.outcomes {
            sink.sample(&families.ended, &[name, outcome], count as f64);
        }
    }
    sink.family(&families.errors);
    for (name, counted) in counted {
        for (class, count) in &counted.classes {
            sink.sample(&families.errors, &[name, class], *count as f64);
        }
    }
    let histograms: [(&Family, Histogram); 2] = [
        (&families.wait, |counted| &counted.wait),
        (&families.execution, |counted| &counted.execution),
    ];
    for (family, histogram) in histograms {
        sink.family(family);
        for (name, counted) in counted {
            sink.durations(family, name, histogram(counted));
        }
    }
    sink.family(&families.rows);
    for (name, counted) in counted {
        sink.sample(&families.rows, &[name], counted.rows as f64);
    }
    sink.family(&families.in_flight);
    for (name, counted) in counted {
        sink.sample(&families.in_flight, &[name], counted.in_flight as f64);
    }
}

fn proxies(sink: &mut dyn Sink, proxies: &BTreeMap<String, Arc<Group>>) {
    type Value = fn(&Group, &forebay_upstream::Server) -> f64;
    let families: [(&Family, Value); 4] = [
        (&families::PROXY_UP, |group, server| {
            f64::from(u8::from(group.is_up(server)))
        }),
        (&families::PROXY_IN_FLIGHT, |_, server| {
            server.counts().in_flight as f64
        }),
        (&families::PROXY_REQUESTS, |_, server| {
            server.counts().requests as f64
        }),
        (&families::PROXY_FAILURES, |_, server| {
            server.counts().failures as f64
        }),
    ];
    for (family, value) in families {
        sink.family(family);
        for (name, group) in proxies {
            for server in group.servers() {
                sink.sample(family, &[name, server.name()], value(group, server));
            }
        }
    }
}

fn pools(sink: &mut dyn Sink, pools: &PoolStates) {
    type Value = fn(&Status) -> f64;
    let simple: [(&Family, Value); 10] = [
        (&families::POOL_READY, |pool| {
            f64::from(u8::from(pool.readiness == Readiness::Ready))
        }),
        (&families::POOL_ACCEPTED, |pool| pool.counters.accepted as f64),
        (&families::POOL_ANSWERED, |pool| pool.counters.answered as f64),
        (&families::POOL_FAULTED, |pool| pool.counters.faulted as f64),
        (&families::POOL_CANCELLED, |pool| pool.counters.cancelled as f64),
        (&families::POOL_QUEUE, |pool| pool.queued as f64),
        (&families::POOL_QUEUE_MAX, |pool| pool.queue_max as f64),
        (&families::POOL_QUEUE_BYTES, |pool| pool.queued_bytes as f64),
        (&families::POOL_CONNECTIONS, |pool| pool.connections as f64),
        (&families::POOL_STRAY_FRAMES, |pool| {
            pool.counters.stray_frames as f64
        }),
    ];
    for (family, value) in simple {
        sink.family(family);
        for pool in &pools.current {
            sink.sample(family, &[&pool.name], value(pool));
        }
    }
    sink.family(&families::POOL_FAILED);
    for pool in &pools.current {
        for (reason, count) in &pool.counters.failed {
            sink.sample(&families::POOL_FAILED, &[&pool.name, reason], *count as f64);
        }
    }
    sink.family(&families::POOL_REFUSED);
    for pool in &pools.current {
        for (reason, count) in &pool.counters.refused {
            sink.sample(&families::POOL_REFUSED, &[&pool.name, reason], *count as f64);
        }
    }
    workers(sink, pools);
    sink.family(&families::POOL_WAIT);
    for pool in &pools.current {
        sink.timings(&families::POOL_WAIT, &pool.name, &pool.timings.wait_us);
    }
    sink.family(&families::POOL_RUN);
    for pool in &pools.current {
        sink.timings(&families::POOL_RUN, &pool.name, &pool.timings.run_us);
    }
}

fn workers(sink: &mut dyn Sink, pools: &PoolStates) {
    sink.family(&families::POOL_WORKERS);
    for pool in &pools.current {
        for phase in PHASES {
            let count = pool.workers.iter().filter(|worker| worker.phase == phase).count();
            sink.sample(&families::POOL_WORKERS, &[&pool.name, phase], count as f64);
        }
    }
    sink.family(&families::POOL_WORKERS_RSS);
    for pool in &pools.current {
        let bytes: u64 = pool.workers.iter().filter_map(|worker| worker.rss_bytes).sum();
        sink.sample(&families::POOL_WORKERS_RSS, &[&pool.name], bytes as f64);
    }
    sink.family(&families::POOL_WORKERS_STARTED);
    for pool in &pools.current {
        sink.sample(
            &families::POOL_WORKERS_STARTED,
            &[&pool.name],
            pool.counters.started as f64,
        );
    }
    sink.family(&families::POOL_WORKERS_ENDED);
    for pool in &pools.current {
        for cause in EndCause::ALL {
            let count = pool.counters.ended.get(&cause).copied().unwrap_or(0);
            sink.sample(
                &families::POOL_WORKERS_ENDED,
                &[&pool.name, cause.name()],
                count as f64,
            );
        }
    }
    sink.family(&families::POOL_RETIRING_WORKERS);
    for pool in &pools.current {
        let of_name = pools.retiring.iter().filter(|other| other.name == pool.name);
        let count: usize = of_name.map(|other| other.workers.len()).sum();
        sink.sample(&families::POOL_RETIRING_WORKERS, &[&pool.name], count as f64);
    }
}
