//! The counters of the server, and their samples for each metric family. Every form of export is a [`Sink`] of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use forebay_acme::Progress;
use forebay_jobs::QueueFacts;
use forebay_pg::{BOUNDS_US, Durations};
use forebay_pool::{EndCause, Readiness};
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
    sources::DatabaseFacts,
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

/// The value of a family for an item.
type Value<T> = fn(&T) -> f64;

impl dyn Sink + '_ {
    /// A family with a single sample, without labels.
    fn one(&mut self, family: &Family, value: f64) {
        self.put(family, [([], value)]);
    }

    /// A family with the values of the labels of each sample.
    fn put<'s, const LABELS: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([&'s str; LABELS], f64)>,
    ) {
        self.family(family);
        for (labels, value) in samples {
            self.sample(family, &labels, value);
        }
    }

    /// Families with a sample for each of the items, labelled with its name.
    fn put_each<'i, T: 'i>(
        &mut self,
        items: &(impl Iterator<Item = (&'i str, &'i T)> + Clone),
        families: &[(&Family, Value<T>)],
    ) {
        for (family, value) in families {
            self.put(family, items.clone().map(|(name, item)| ([name], value(item))));
        }
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
    let open = facts.kept_runs_open.map(|open| ([], open as f64));
    sink.put(&families::WORKFLOW_RUNS_OPEN, open);
    jobs(sink, &facts.jobs);
    databases(sink, &facts.databases);
    proxies(sink, &facts.proxies);
    pools(sink, &facts.pools);
}

/// Items with their names.
fn named<T>(items: &[(String, T)]) -> impl Iterator<Item = (&str, &T)> + Clone {
    items.iter().map(|(name, item)| (&**name, item))
}

fn jobs(sink: &mut dyn Sink, queues: &[QueueFacts]) {
    let queues = queues.iter().map(|facts| (&*facts.queue, facts));
    sink.put_each(
        &queues,
        &[
            (&families::JOBS_WAITING, |facts| facts.waiting as f64),
            (&families::JOBS_RUNNING, |facts| facts.running as f64),
            (&families::JOBS_BYTES, |facts| facts.bytes as f64),
            (&families::JOBS_OLDEST, |facts| facts.oldest_ms as f64 / 1e3),
        ],
    );
    let ended = |(name, facts): (_, &QueueFacts)| {
        let (done, failed) = (facts.done as f64, facts.failed as f64);
        [([name, "done"], done), ([name, "failed"], failed)]
    };
    sink.put(&families::JOBS_ENDED, queues.flat_map(ended));
}

fn server(sink: &mut dyn Sink, facts: &Facts) {
    sink.put(&families::BUILD_INFO, [([facts.version], 1.0)]);
    sink.one(&families::START_TIME, facts.started_at.as_secs_f64());
    sink.one(&families::CPU, facts.process.cpu.as_secs_f64());
    if let Some(bytes) = facts.process.rss_bytes {
        sink.one(&families::RSS, bytes as f64);
    }
    if let Some(fds) = facts.process.open_fds {
        sink.one(&families::OPEN_FDS, fds as f64);
    }
    sink.one(&families::GENERATION, facts.generation as f64);
    sink.one(&families::RELOADS_REFUSED, facts.reloads_refused as f64);
    sink.one(&families::LOG_LINES_LOST, facts.log_lines_lost as f64);
    for (family, counts) in [
        (&families::TRACE_SPANS, facts.trace_spans),
        (&families::LOG_RECORDS, facts.log_records),
        (&families::METRIC_POSTS, facts.metric_posts),
    ] {
        let counts = OUTCOMES.iter().zip(counts.into_iter().flatten());
        sink.put(family, counts.map(|(outcome, count)| ([*outcome], count as f64)));
    }
    let expiry = |certificate: &CertificateFacts| Some(certificate.expires_at?.as_secs_f64());
    let certificates = facts.certificates.iter();
    let certificates = certificates.filter_map(|of| Some(([&*of.name], expiry(of)?)));
    sink.put(&families::CERTIFICATE_EXPIRY, certificates);
    let connections = &facts.connections;
    sink.one(&families::CONNECTIONS_OPEN, connections.open as f64);
    sink.one(&families::CONNECTIONS_ACCEPTED, connections.accepted as f64);
    sink.one(&families::CONNECTIONS_TURNED_AWAY, connections.turned_away as f64);
    sink.one(&families::CONNECTIONS_TOO_SLOW, connections.too_slow as f64);
    let (memory, files) = facts.kept_bytes;
    sink.one(&families::KEPT_MEMORY, memory as f64);
    sink.one(&families::KEPT_FILES, files as f64);
    compression(sink, &facts.compression);
}

fn compression(sink: &mut dyn Sink, totals: &Totals) {
    let codings = Coding::ALL.iter().zip(totals.codings);
    let before = |(coding, (before, _)): (&Coding, (u64, u64))| ([coding.name()], before as f64);
    let after = |(coding, (_, after)): (&Coding, (u64, u64))| ([coding.name()], after as f64);
    sink.put(&families::COMPRESSION_INPUT, codings.clone().map(before));
    sink.put(&families::COMPRESSION_OUTPUT, codings.map(after));
    sink.one(&families::COMPRESSION_CPU, totals.cpu.as_secs_f64());
    let skipped = Skipped::NAMES.iter().zip(totals.skipped);
    let skipped = skipped.map(|(reason, count)| ([*reason], count as f64));
    sink.put(&families::COMPRESSION_SKIPPED, skipped);
}

fn routes(sink: &mut dyn Sink, routes: &[RouteTotals]) {
    let requests = routes.iter().flat_map(|route| {
        let classes = CLASSES.iter().zip(route.classes);
        classes.map(|(class, count)| ([&*route.name, class], count as f64))
    });
    sink.put(&families::REQUESTS, requests);
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
    let requests = named(caches).flat_map(|(policy, totals)| {
        let outcomes = cache::OUTCOMES.iter().zip(totals.requests);
        outcomes.map(move |(outcome, count)| ([policy, outcome], count as f64))
    });
    sink.put(&families::CACHE_REQUESTS, requests);
    sink.put_each(
        &named(caches),
        &[
            (&families::CACHE_BYTES, |totals| totals.bytes as f64),
            (&families::CACHE_BYTES_MAX, |totals| totals.bytes_max as f64),
            (&families::CACHE_EVICTIONS, |totals| totals.evictions as f64),
        ],
    );
}

fn store(sink: &mut dyn Sink, facts: &StoreFacts) {
    if let Some(stats) = facts.stats {
        let not_checkpointed = stats.not_checkpointed_bytes as f64;
        sink.one(&families::STORE_FILE, stats.file_bytes as f64);
        sink.one(&families::STORE_MAP_MAX, stats.map_max as f64);
        sink.one(&families::STORE_LAST_COMMIT, stats.last_commit as f64);
        sink.one(&families::STORE_NOT_CHECKPOINTED, not_checkpointed);
        sink.one(&families::STORE_READERS, f64::from(stats.readers));
    }
    let writer = &facts.writer;
    sink.one(&families::STORE_QUEUE, writer.queued as f64);
    sink.one(&families::STORE_QUEUE_MAX, writer.queue_max as f64);
    sink.one(&families::STORE_QUEUE_BYTES, writer.queued_bytes as f64);
    let outcomes = writer.outcomes().into_iter();
    let outcomes = outcomes.map(|(outcome, count)| ([outcome], count as f64));
    sink.put(&families::STORE_WRITES, outcomes);
    sink.one(&families::STORE_COMMITS, writer.commits as f64);
    sink.one(&families::STORE_FLUSHES, writer.flushes as f64);
}

fn scripts(sink: &mut dyn Sink, scripts: &[(String, Counted)]) {
    let answered = named(scripts).flat_map(|(name, counted)| {
        let (io, executor) = (counted.answered_io as f64, counted.answered_executor as f64);
        [([name, "io"], io), ([name, "executor"], executor)]
    });
    sink.put(&families::SCRIPT_ANSWERED, answered);
    let stopped = named(scripts).flat_map(|(name, counted)| {
        let stopped = counted.stopped.into_iter();
        stopped.map(move |(reason, count)| ([name, reason], count as f64))
    });
    sink.put(&families::SCRIPT_STOPPED, stopped);
    sink.put_each(
        &named(scripts),
        &[
            (&families::SCRIPT_FAULTED, |of| of.faulted as f64),
            (&families::SCRIPT_CANCELLED, |of| of.cancelled as f64),
            (&families::SCRIPT_REFUSED, |of| of.refused as f64),
            (&families::SCRIPT_HANDED_OVER, |of| of.handed_over as f64),
            (&families::SCRIPT_QUEUE, |of| of.queued as f64),
            (&families::SCRIPT_THREADS, |of| of.threads as f64),
            (&families::SCRIPT_THREADS_GIVEN_UP, |of| of.given_up as f64),
            (&families::SCRIPT_ENGINES, |of| of.engines as f64),
            (&families::SCRIPT_ENGINES_MEMORY, |of| of.engine_bytes as f64),
        ],
    );
}

fn workflows(sink: &mut dyn Sink, workflows: &[(String, WorkflowTotals)]) {
    let runs = named(workflows).flat_map(|(name, totals)| {
        let outcomes = RUN_OUTCOMES.iter().zip(totals.outcomes);
        outcomes.map(move |(outcome, count)| ([name, outcome], count as f64))
    });
    sink.put(&families::WORKFLOW_RUNS, runs);
    sink.put_each(
        &named(workflows),
        &[(&families::WORKFLOW_IN_FLIGHT, |totals| totals.in_flight as f64)],
    );
    sink.family(&families::WORKFLOW_DURATION);
    for (name, totals) in workflows {
        sink.durations(&families::WORKFLOW_DURATION, name, &totals.durations);
    }
    let nodes = named(workflows).flat_map(|(name, totals)| totals.nodes.iter().map(move |node| (name, node)));
    let runs = nodes.clone().flat_map(|(name, node)| {
        let outcomes = NODE_OUTCOMES.iter().zip(node.outcomes);
        outcomes.map(move |(outcome, count)| ([name, &*node.node, outcome], count as f64))
    });
    sink.put(&families::WORKFLOW_NODE_RUNS, runs);
    let seconds = nodes.map(|(name, node)| ([name, &*node.node], node.sum.as_secs_f64()));
    sink.put(&families::WORKFLOW_NODE_SECONDS, seconds);
}

fn databases(sink: &mut dyn Sink, facts: &DatabaseFacts) {
    let databases = facts.databases.iter().map(|database| (&*database.name, database));
    let counted = databases
        .clone()
        .map(|(name, database)| (name, &database.counted));
    statements(sink, &families::OF_DATABASES, &counted);
    statements(sink, &families::OF_ROUTES, &named(&facts.routes));
    sink.put_each(
        &databases,
        &[
            (&families::SQL_REACHABLE, |database| {
                f64::from(u8::from(database.failure.is_none()))
            }),
            (&families::SQL_IN_FLIGHT_MAX, |database| {
                database.settings.in_flight_max as f64
            }),
        ],
    );
}

/// Writes the statement metrics of databases or of routes.
fn statements<'c>(
    sink: &mut dyn Sink,
    families: &Statements,
    counted: &(impl Iterator<Item = (&'c str, &'c forebay_pg::Counted)> + Clone),
) {
    let outcomes = counted.clone().flat_map(|(name, counted)| {
        let outcomes = counted.outcomes.into_iter();
        outcomes.map(move |(outcome, count)| ([name, outcome], count as f64))
    });
    sink.put(&families.ended, outcomes);
    let classes = counted.clone().flat_map(|(name, counted)| {
        let classes = counted.classes.iter();
        classes.map(move |(class, count)| ([name, &**class], *count as f64))
    });
    sink.put(&families.errors, classes);
    sink.family(&families.wait);
    for (name, counted) in counted.clone() {
        sink.durations(&families.wait, name, &counted.wait);
    }
    sink.family(&families.execution);
    for (name, counted) in counted.clone() {
        sink.durations(&families.execution, name, &counted.execution);
    }
    sink.put_each(
        counted,
        &[
            (&families.rows, |counted| counted.rows as f64),
            (&families.in_flight, |counted| counted.in_flight as f64),
        ],
    );
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
        let servers = proxies.iter().flat_map(|(name, group)| {
            let servers = group.servers().iter();
            servers.map(move |server| ([&**name, server.name()], value(group, server)))
        });
        sink.put(family, servers);
    }
}

fn pools(sink: &mut dyn Sink, states: &PoolStates) {
    let pools = states.current.iter().map(|pool| (&*pool.name, pool));
    sink.put_each(
        &pools,
        &[
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
            (&families::POOL_WORKERS_STARTED, |pool| {
                pool.counters.started as f64
            }),
            (&families::POOL_WORKERS_RSS, |pool| {
                let bytes = pool.workers.iter().filter_map(|worker| worker.rss_bytes);
                bytes.sum::<u64>() as f64
            }),
        ],
    );
    let failed = pools.clone().flat_map(|(name, pool)| {
        let failed = pool.counters.failed.iter();
        failed.map(move |(reason, count)| ([name, reason], *count as f64))
    });
    sink.put(&families::POOL_FAILED, failed);
    let refused = pools.clone().flat_map(|(name, pool)| {
        let refused = pool.counters.refused.iter();
        refused.map(move |(reason, count)| ([name, reason], *count as f64))
    });
    sink.put(&families::POOL_REFUSED, refused);
    let workers = pools.clone().flat_map(|(name, pool)| {
        PHASES.map(|phase| {
            let workers = pool.workers.iter().filter(|worker| worker.phase == phase);
            ([name, phase], workers.count() as f64)
        })
    });
    sink.put(&families::POOL_WORKERS, workers);
    let ended = pools.clone().flat_map(|(name, pool)| {
        let ended = &pool.counters.ended;
        EndCause::ALL.map(|cause| {
            (
                [name, cause.name()],
                ended.get(&cause).copied().unwrap_or(0) as f64,
            )
        })
    });
    sink.put(&families::POOL_WORKERS_ENDED, ended);
    let retiring = pools.map(|(name, _)| {
        let of_name = states.retiring.iter().filter(|other| other.name == name);
        let count: usize = of_name.map(|other| other.workers.len()).sum();
        ([name], count as f64)
    });
    sink.put(&families::POOL_RETIRING_WORKERS, retiring);
    sink.family(&families::POOL_WAIT);
    for pool in &states.current {
        sink.timings(&families::POOL_WAIT, &pool.name, &pool.timings.wait_us);
    }
    sink.family(&families::POOL_RUN);
    for pool in &states.current {
        sink.timings(&families::POOL_RUN, &pool.name, &pool.timings.run_us);
    }
}
