//! Prometheus export: text exposition format 0.0.4.

use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

use forebay_acme::Progress;
use forebay_pg::{BOUNDS_US, Durations};
use forebay_pool::{EndCause, Readiness, Status};
use forebay_script::Counted;
use forebay_upstream::Group;

use super::{
    ProcessUse, RouteTotals,
    families::{self, Family, Kind, Statements},
    pools::PoolStates,
    routes::CLASSES,
    workflows::{NODE_OUTCOMES, RUN_OUTCOMES, WorkflowTotals},
};
use crate::{
    compression::{Coding, Skipped, Totals},
    front::ConnectionCounts,
    policy::cache::{CacheTotals, OUTCOMES},
    sources::{Database, DatabaseFacts},
    store::StoreFacts,
    traces::SPAN_OUTCOMES,
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
    /// By outcome; `None` if no collector is configured.
    pub(crate) trace_spans: Option<[u64; SPAN_OUTCOMES.len()]>,
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

/// The snapshot in exposition format.
pub(crate) fn exposition(facts: &Facts) -> String {
    let mut text = Text::default();
    server(&mut text, facts);
    routes(&mut text, &facts.routes);
    caches(&mut text, &facts.caches);
    if let Some(facts) = &facts.store {
        store(&mut text, facts);
    }
    scripts(&mut text, &facts.scripts);
    workflows(&mut text, &facts.workflows);
    text.family(&families::WORKFLOW_RELEASES);
    for (release, state) in &facts.workflow_releases {
        text.sample(&families::WORKFLOW_RELEASES, &[&release.to_string(), state], 1.0);
    }
    text.family(&families::WORKFLOW_RUNS_OPEN);
    if let Some(open) = facts.kept_runs_open {
        text.sample(&families::WORKFLOW_RUNS_OPEN, &[], open as f64);
    }
    databases(&mut text, &facts.databases);
    proxies(&mut text, &facts.proxies);
    pools(&mut text, &facts.pools);
    text.out
}

fn server(text: &mut Text, facts: &Facts) {
    text.one(&families::BUILD_INFO, &[facts.version], 1.0);
    text.one(&families::START_TIME, &[], facts.started_at.as_secs_f64());
    text.one(&families::CPU, &[], facts.process.cpu.as_secs_f64());
    if let Some(bytes) = facts.process.rss_bytes {
        text.one(&families::RSS, &[], bytes as f64);
    }
    if let Some(fds) = facts.process.open_fds {
        text.one(&families::OPEN_FDS, &[], fds as f64);
    }
    text.one(&families::GENERATION, &[], facts.generation as f64);
    text.one(&families::RELOADS_REFUSED, &[], facts.reloads_refused as f64);
    text.one(&families::LOG_LINES_LOST, &[], facts.log_lines_lost as f64);
    text.family(&families::TRACE_SPANS);
    for (outcome, count) in SPAN_OUTCOMES.iter().zip(facts.trace_spans.into_iter().flatten()) {
        text.sample(&families::TRACE_SPANS, &[outcome], count as f64);
    }
    text.family(&families::CERTIFICATE_EXPIRY);
    for certificate in &facts.certificates {
        if let Some(expires_at) = certificate.expires_at {
            text.sample(
                &families::CERTIFICATE_EXPIRY,
                &[&certificate.name],
                expires_at.as_secs_f64(),
            );
        }
    }
    text.one(&families::CONNECTIONS_OPEN, &[], facts.connections.open as f64);
    text.one(
        &families::CONNECTIONS_ACCEPTED,
        &[],
        facts.connections.accepted as f64,
    );
    text.one(
        &families::CONNECTIONS_TURNED_AWAY,
        &[],
        facts.connections.turned_away as f64,
    );
    text.one(
        &families::CONNECTIONS_TOO_SLOW,
        &[],
        facts.connections.too_slow as f64,
    );
    let (memory, files) = facts.kept_bytes;
    text.one(&families::KEPT_MEMORY, &[], memory as f64);
    text.one(&families::KEPT_FILES, &[], files as f64);
    compression(text, &facts.compression);
}

fn compression(text: &mut Text, totals: &Totals) {
    let codings = || Coding::ALL.iter().zip(totals.codings);
    text.family(&families::COMPRESSION_INPUT);
    for (coding, (before, _)) in codings() {
        text.sample(&families::COMPRESSION_INPUT, &[coding.name()], before as f64);
    }
    text.family(&families::COMPRESSION_OUTPUT);
    for (coding, (_, after)) in codings() {
        text.sample(&families::COMPRESSION_OUTPUT, &[coding.name()], after as f64);
    }
    text.one(&families::COMPRESSION_CPU, &[], totals.cpu.as_secs_f64());
    text.family(&families::COMPRESSION_SKIPPED);
    for (reason, count) in Skipped::NAMES.iter().zip(totals.skipped) {
        text.sample(&families::COMPRESSION_SKIPPED, &[reason], count as f64);
    }
}

fn routes(text: &mut Text, routes: &[RouteTotals]) {
    text.family(&families::REQUESTS);
    for route in routes {
        for (class, count) in CLASSES.iter().zip(route.classes) {
            text.sample(&families::REQUESTS, &[&route.name, class], count as f64);
        }
    }
    text.family(&families::REQUEST_DURATION);
    for route in routes {
        let buckets = BOUNDS_US.map(|bound| route.durations.below(bound));
        let sum = route.durations.sum_us as f64 / 1e6;
        text.histogram(
            &families::REQUEST_DURATION,
            &route.name,
            &buckets,
            route.durations.count(),
            sum,
        );
    }
}

fn caches(text: &mut Text, caches: &[(String, CacheTotals)]) {
    text.family(&families::CACHE_REQUESTS);
    for (policy, totals) in caches {
        for (outcome, count) in OUTCOMES.iter().zip(totals.requests) {
            text.sample(&families::CACHE_REQUESTS, &[policy, outcome], count as f64);
        }
    }
    type Value = fn(&CacheTotals) -> u64;
    let simple: [(&Family, Value); 3] = [
        (&families::CACHE_BYTES, |totals| totals.bytes),
        (&families::CACHE_BYTES_MAX, |totals| totals.bytes_max),
        (&families::CACHE_EVICTIONS, |totals| totals.evictions),
    ];
    for (family, value) in simple {
        text.family(family);
        for (policy, totals) in caches {
            text.sample(family, &[policy], value(totals) as f64);
        }
    }
}

fn store(text: &mut Text, facts: &StoreFacts) {
    if let Some(stats) = facts.stats {
        text.one(&families::STORE_FILE, &[], stats.file_bytes as f64);
        text.one(&families::STORE_MAP_MAX, &[], stats.map_max as f64);
        text.one(&families::STORE_LAST_COMMIT, &[], stats.last_commit as f64);
        text.one(
            &families::STORE_NOT_CHECKPOINTED,
            &[],
            stats.not_checkpointed_bytes as f64,
        );
        text.one(&families::STORE_READERS, &[], f64::from(stats.readers));
    }
    let writer = &facts.writer;
    text.one(&families::STORE_QUEUE, &[], writer.queued as f64);
    text.one(&families::STORE_QUEUE_MAX, &[], writer.queue_max as f64);
    text.one(&families::STORE_QUEUE_BYTES, &[], writer.queued_bytes as f64);
    text.family(&families::STORE_WRITES);
    for (outcome, count) in writer.outcomes() {
        text.sample(&families::STORE_WRITES, &[outcome], count as f64);
    }
    text.one(&families::STORE_COMMITS, &[], writer.commits as f64);
    text.one(&families::STORE_FLUSHES, &[], writer.flushes as f64);
}

fn scripts(text: &mut Text, scripts: &[(String, Counted)]) {
    type Value = fn(&Counted) -> u64;
    text.family(&families::SCRIPT_ANSWERED);
    for (name, counted) in scripts {
        for (place, count) in [
            ("io", counted.answered_io),
            ("executor", counted.answered_executor),
        ] {
            text.sample(&families::SCRIPT_ANSWERED, &[name, place], count as f64);
        }
    }
    text.family(&families::SCRIPT_STOPPED);
    for (name, counted) in scripts {
        for (reason, count) in counted.stopped {
            text.sample(&families::SCRIPT_STOPPED, &[name, reason], count as f64);
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
        text.family(family);
        for (name, counted) in scripts {
            text.sample(family, &[name], value(counted) as f64);
        }
    }
}

fn workflows(text: &mut Text, workflows: &[(String, WorkflowTotals)]) {
    text.family(&families::WORKFLOW_RUNS);
    for (name, totals) in workflows {
        for (outcome, count) in RUN_OUTCOMES.iter().zip(totals.outcomes) {
            text.sample(&families::WORKFLOW_RUNS, &[name, outcome], count as f64);
        }
    }
    text.family(&families::WORKFLOW_IN_FLIGHT);
    for (name, totals) in workflows {
        text.sample(&families::WORKFLOW_IN_FLIGHT, &[name], totals.in_flight as f64);
    }
    text.family(&families::WORKFLOW_DURATION);
    for (name, totals) in workflows {
        text.durations(&families::WORKFLOW_DURATION, name, &totals.durations);
    }
    text.family(&families::WORKFLOW_NODE_RUNS);
    for (name, totals) in workflows {
        for node in &totals.nodes {
            for (outcome, count) in NODE_OUTCOMES.iter().zip(node.outcomes) {
                let labels = [&**name, &node.node, outcome];
                text.sample(&families::WORKFLOW_NODE_RUNS, &labels, count as f64);
            }
        }
    }
    text.family(&families::WORKFLOW_NODE_SECONDS);
    for (name, totals) in workflows {
        for node in &totals.nodes {
            let labels = [&**name, &node.node];
            text.sample(&families::WORKFLOW_NODE_SECONDS, &labels, node.sum.as_secs_f64());
        }
    }
}

fn databases(text: &mut Text, facts: &DatabaseFacts) {
    type Value = fn(&Database) -> f64;
    let of_databases = facts
        .databases
        .iter()
        .map(|database| (&*database.name, &database.counted));
    statements(text, &families::OF_DATABASES, &of_databases.collect::<Vec<_>>());
    let of_routes = facts.routes.iter().map(|(name, counted)| (&**name, counted));
    statements(text, &families::OF_ROUTES, &of_routes.collect::<Vec<_>>());
    let simple: [(&Family, Value); 2] = [
        (&families::SQL_REACHABLE, |database| {
            f64::from(u8::from(database.failure.is_none()))
        }),
        (&families::SQL_IN_FLIGHT_MAX, |database| {
            database.settings.in_flight_max as f64
        }),
    ];
    for (family, value) in simple {
        text.family(family);
        for database in &facts.databases {
            text.sample(family, &[&database.name], value(database));
        }
    }
}

/// Writes the statement metrics of databases or of routes.
fn statements(text: &mut Text, families: &Statements, counted: &[(&str, &forebay_pg::Counted)]) {
    type Histogram = fn(&forebay_pg::Counted) -> &Durations;
    text.family(&families.ended);
    for (name, counted) in counted {
        for (outcome, count) in counted.outcomes {
            text.sample(&families.ended, &[name, outcome], count as f64);
        }
    }
    text.family(&families.errors);
    for (name, counted) in counted {
        for (class, count) in &counted.classes {
            text.sample(&families.errors, &[name, class], *count as f64);
        }
    }
    let histograms: [(&Family, Histogram); 2] = [
        (&families.wait, |counted| &counted.wait),
        (&families.execution, |counted| &counted.execution),
    ];
    for (family, histogram) in histograms {
        text.family(family);
        for (name, counted) in counted {
            text.durations(family, name, histogram(counted));
        }
    }
    text.family(&families.rows);
    for (name, counted) in counted {
        text.sample(&families.rows, &[name], counted.rows as f64);
    }
    text.family(&families.in_flight);
    for (name, counted) in counted {
        text.sample(&families.in_flight, &[name], counted.in_flight as f64);
    }
}

fn proxies(text: &mut Text, proxies: &BTreeMap<String, Arc<Group>>) {
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
        text.family(family);
        for (name, group) in proxies {
            for server in group.servers() {
                text.sample(family, &[name, server.name()], value(group, server));
            }
        }
    }
}

fn pools(text: &mut Text, pools: &PoolStates) {
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
        text.family(family);
        for pool in &pools.current {
            text.sample(family, &[&pool.name], value(pool));
        }
    }
    text.family(&families::POOL_FAILED);
    for pool in &pools.current {
        for (reason, count) in &pool.counters.failed {
            text.sample(&families::POOL_FAILED, &[&pool.name, reason], *count as f64);
        }
    }
    text.family(&families::POOL_REFUSED);
    for pool in &pools.current {
        for (reason, count) in &pool.counters.refused {
            text.sample(&families::POOL_REFUSED, &[&pool.name, reason], *count as f64);
        }
    }
    workers(text, pools);
    text.family(&families::POOL_WAIT);
    for pool in &pools.current {
        text.timings(&families::POOL_WAIT, &pool.name, &pool.timings.wait_us);
    }
    text.family(&families::POOL_RUN);
    for pool in &pools.current {
        text.timings(&families::POOL_RUN, &pool.name, &pool.timings.run_us);
    }
}

fn workers(text: &mut Text, pools: &PoolStates) {
    text.family(&families::POOL_WORKERS);
    for pool in &pools.current {
        for phase in PHASES {
            let count = pool.workers.iter().filter(|worker| worker.phase == phase).count();
            text.sample(&families::POOL_WORKERS, &[&pool.name, phase], count as f64);
        }
    }
    text.family(&families::POOL_WORKERS_RSS);
    for pool in &pools.current {
        let bytes: u64 = pool.workers.iter().filter_map(|worker| worker.rss_bytes).sum();
        text.sample(&families::POOL_WORKERS_RSS, &[&pool.name], bytes as f64);
    }
    text.family(&families::POOL_WORKERS_STARTED);
    for pool in &pools.current {
        text.sample(
            &families::POOL_WORKERS_STARTED,
            &[&pool.name],
            pool.counters.started as f64,
        );
    }
    text.family(&families::POOL_WORKERS_ENDED);
    for pool in &pools.current {
        for cause in EndCause::ALL {
            let count = pool.counters.ended.get(&cause).copied().unwrap_or(0);
            text.sample(
                &families::POOL_WORKERS_ENDED,
                &[&pool.name, cause.name()],
                count as f64,
            );
        }
    }
    text.family(&families::POOL_RETIRING_WORKERS);
    for pool in &pools.current {
        let of_name = pools.retiring.iter().filter(|other| other.name == pool.name);
        let count: usize = of_name.map(|other| other.workers.len()).sum();
        text.sample(&families::POOL_RETIRING_WORKERS, &[&pool.name], count as f64);
    }
}

/// Exposition text under construction.
#[derive(Debug, Default)]
struct Text {
    out: String,
}

impl Text {
    /// Writes a family's header; its samples must follow.
    fn family(&mut self, family: &Family) {
        let Family { name, help, .. } = family;
        writeln!(
            self.out,
            "# HELP {name} {help}\n# TYPE {name} {}",
            family.kind.name()
        )
        .expect("a String takes everything");
    }

    /// A family with a single sample.
    fn one(&mut self, family: &Family, values: &[&str], value: f64) {
        self.family(family);
        self.sample(family, values, value);
    }

    fn sample(&mut self, family: &Family, values: &[&str], value: f64) {
        self.line(
            family.name,
            "",
            family.labels.iter().copied().zip(values.iter().copied()),
            value,
        );
    }

    fn histogram(
        &mut self,
        family: &Family,
        of: &str,
        buckets: &[u64; BOUNDS_US.len()],
        count: u64,
        sum: f64,
    ) {
        debug_assert_eq!(family.kind, Kind::Histogram);
        let label = (family.labels[0], of);
        for (bound, below) in BOUNDS_US.iter().zip(buckets) {
            let bound = (*bound as f64 / 1e6).to_string();
            self.line(
                family.name,
                "_bucket",
                [label, ("le", bound.as_str())].into_iter(),
                *below as f64,
            );
        }
        self.line(
            family.name,
            "_bucket",
            [label, ("le", "+Inf")].into_iter(),
            count as f64,
        );
        self.line(family.name, "_sum", std::iter::once(label), sum);
        self.line(family.name, "_count", std::iter::once(label), count as f64);
    }

    fn durations(&mut self, family: &Family, of: &str, durations: &Durations) {
        let sum = durations.sum().as_secs_f64();
        self.histogram(family, of, &durations.below(), durations.count(), sum);
    }

    /// A pool's histogram. The sum is computed from the middles of its buckets and is accurate to one percent.
    fn timings(&mut self, family: &Family, pool: &str, micros: &hdrhistogram::Histogram<u64>) {
        let buckets = BOUNDS_US.map(|bound| micros.count_between(0, bound - 1));
        let sum = micros.mean() * micros.len() as f64 / 1e6;
        self.histogram(family, pool, &buckets, micros.len(), sum);
    }

    fn line<'l>(
        &mut self,
        name: &str,
        suffix: &str,
        labels: impl Iterator<Item = (&'l str, &'l str)>,
        value: f64,
    ) {
        self.out.push_str(name);
        self.out.push_str(suffix);
        let mut open = '{';
        for (label, of) in labels {
            self.out.push(open);
            open = ',';
            self.out.push_str(label);
            self.out.push_str("=\"");
            put_escaped(&mut self.out, of);
            self.out.push('"');
        }
        if open == ',' {
            self.out.push('}');
        }
        writeln!(self.out, " {value}").expect("a String takes everything");
    }
}

fn put_escaped(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            plain => out.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{metrics::RouteMetrics, store::WriterCounts};
    use forebay_store::Stats;

    fn facts() -> Facts {
        Facts {
            version: "0.1.0",
            started_at: Duration::from_millis(1_500),
            process: ProcessUse {
                rss_bytes: Some(1),
                cpu: Duration::from_micros(2),
                open_fds: Some(3),
            },
            generation: 4,
            reloads_refused: 5,
            log_lines_lost: 6,
            trace_spans: None,
            certificates: Vec::new(),
            connections: ConnectionCounts {
                open: 7,
                accepted: 8,
                turned_away: 9,
                too_slow: 10,
            },
            kept_bytes: (11, 12),
            compression: Totals::default(),
            routes: RouteMetrics::new(1).totals(),
            caches: Vec::new(),
            store: Some(StoreFacts {
                stats: Some(Stats {
                    file_bytes: 1 << 20,
                    map_max: 64 << 30,
                    page_bytes: 4096,
                    last_commit: 3,
                    readers: 1,
                    flushed_commit: 0,
                    not_checkpointed_bytes: 0,
                }),
                writer: WriterCounts {
                    queued: 0,
                    queued_bytes: 0,
                    queue_max: 1024,
                    done: 1,
                    failed: 2,
                    expired: 3,
                    refused: 4,
                    commits: 5,
                    flushes: 6,
                },
            }),
            pools: PoolStates {
                current: Vec::new(),
                retiring: Vec::new(),
            },
            proxies: BTreeMap::new(),
            scripts: Vec::new(),
            workflows: Vec::new(),
            workflow_releases: Vec::new(),
            kept_runs_open: None,
            databases: DatabaseFacts {
                databases: Vec::new(),
                routes: Vec::new(),
            },
        }
    }

    #[test]
    fn every_family_is_exported_once() {
        let text = exposition(&facts());
        let mut typed: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        let mut listed: Vec<_> = families::ALL
            .iter()
            .map(|family| format!("{} {}", family.name, family.kind.name()))
            .collect();
        typed.sort_unstable();
        listed.sort_unstable();
        assert_eq!(typed, listed);
    }

    #[test]
    fn values_and_labels_are_written_as_the_format_has_them() {
        let mut text = Text::default();
        text.sample(&families::POOL_FAILED, &["a\"\\\n", "x"], 12_345_678_901.0);
        text.sample(&families::CPU, &[], 0.000_002);
        assert_eq!(
            text.out,
            "forebay_pool_jobs_failed_total{pool=\"a\\\"\\\\\\n\",reason=\"x\"} 12345678901\nprocess_cpu_seconds_total 0.000002\n"
        );
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_its_count() {
        let mut micros = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 2).unwrap();
        for value in [15, 16, 1_023, 1_024, 200_000_000] {
            micros.record(value).unwrap();
        }
        let mut text = Text::default();
        text.timings(&families::POOL_RUN, "p", &micros);
        let below = |bound: &str| {
            let series = format!("forebay_pool_run_seconds_bucket{{pool=\"p\",le=\"{bound}\"}} ");
            text.out
                .lines()
                .find_map(|line| line.strip_prefix(series.as_str()))
                .unwrap()
                .to_owned()
        };
        let counts = [
            "0.000016",
            "0.000032",
            "0.001024",
            "0.002048",
            "67.108864",
            "+Inf",
        ]
        .map(below);
        assert_eq!(counts, ["1", "2", "3", "4", "4", "5"]);
    }
}
