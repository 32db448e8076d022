//! The server's counters and its status document.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use forebay_pg::Durations;
use forebay_script::Counted;
use forebay_tls::CertificateSlot;
use forebay_upstream::{Group, ServerCounts};
use serde_json::{Map, Value, json};

use crate::{
    config::{self, WorkflowSource},
    metrics::{CLASSES, CertificateFacts, Facts, ProcessUse, RUN_OUTCOMES, WorkflowTotals},
    server::Shared,
    sources::Database,
    store::StoreFacts,
    target::WorkflowTarget,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Shared {
    /// A snapshot of every counter.
    pub(crate) fn facts(&self) -> Facts {
        let app = self.front.app();
        let config = app.config.trace.as_ref();
        let generation = self.reloading.generation();
        let logs = self.services.workflow_logs.lock().clone();
        let caches = app.caches.iter();
        let workflow = app.workflow.clone();
        let of_workflows = logs.map_or(0, |logs| logs.lines_lost());
        Facts {
            version: VERSION,
            started_at: self.started_at.duration_since(UNIX_EPOCH).unwrap_or_default(),
            process: ProcessUse::now(),
            generation,
            reloads_refused: self.reloading.refused(),
            log_lines_lost: self.services.log.lines_lost() + of_workflows,
            trace_spans: self.services.traces.exported(),
            log_records: self.services.log_exporter.as_ref().map(|logs| logs.counts()),
            metric_posts: config
                .and_then(|trace| trace.metrics_interval)
                .map(|_| self.services.metrics_exporter.counts()),
            certificates: self.certificates(),
            connections: self.front.connections(),
            kept_bytes: self.services.kept.bytes(),
            compression: self.front.compression(),
            routes: self.services.routes.totals(),
            caches: caches
                .map(|(name, cache)| (name.clone(), cache.totals()))
                .collect(),
            store: self.services.store.as_ref().map(|store| store.facts()),
            pools: self.pools.states(generation),
            proxies: app.proxies.clone(),
            scripts: self.services.scripts.read(),
            workflows: self.services.workflows.read(),
            workflow_releases: workflow.as_ref().map_or_else(Vec::new, WorkflowTarget::releases),
            kept_runs_open: self.services.kept_runs.as_ref().map(|kept| kept.open()),
            jobs: self
                .services
                .jobs
                .as_ref()
                .and_then(|jobs| jobs.storage().queues().ok())
                .unwrap_or_default(),
            databases: self.services.sources.read(),
        }
    }

    /// The same as JSON for people and programs, plus values that are not numbers.
    pub(crate) fn status(&self) -> Value {
        let facts = self.facts();
        let routes: Vec<Value> = facts
            .routes
            .iter()
            .map(|route| {
                let requests = by_name(CLASSES.iter().zip(route.classes));
                json!({ "route": route.name, "requests": requests, "duration": route.durations.percentiles() })
            })
            .collect();
        json!({
            "version": facts.version,
            "pid": std::process::id(),
            "state": if *self.stopping.borrow() { "stopping" } else { "serving" },
            "uptime_s": self.started.elapsed().as_secs_f64(),
            "started_at_s": facts.started_at.as_secs_f64(),
            "listen": self.listen,
            "generation": facts.generation,
            "reloads_refused": facts.reloads_refused,
            "certificates": facts.certificates.iter().map(certificate).collect::<Vec<_>>(),
            "connections": {
                "open": facts.connections.open,
                "accepted": facts.connections.accepted,
                "turned_away": facts.connections.turned_away,
                "too_slow": facts.connections.too_slow,
            },
            "process": {
                "rss_bytes": facts.process.rss_bytes,
                "cpu_s": facts.process.cpu.as_secs_f64(),
                "open_fds": facts.process.open_fds,
            },
            "log": { "level": self.services.log.level(), "lines_lost": facts.log_lines_lost },
            "routes": routes,
            "store": facts.store.as_ref().map(store),
            "databases": facts.databases.databases.iter().map(database).collect::<Vec<_>>(),
            "scripts": facts.scripts.iter().map(script).collect::<Vec<_>>(),
            "workflows": facts.workflows.iter().map(workflow).collect::<Vec<_>>(),
            "workflow_releases": facts.workflow_releases.iter().map(|(release, state)| json!({ "release": release, "state": state })).collect::<Vec<_>>(),
            "workflow_store": self.workflow_store(),
            "kept_runs_open": facts.kept_runs_open,
            "jobs": facts.jobs,
            "proxies": facts.proxies.iter().map(proxy).collect::<Vec<_>>(),
            "pools": facts.pools.current,
            "retiring": facts.pools.retiring,
        })
    }

    fn certificates(&self) -> Vec<CertificateFacts> {
        let facts = |(name, slot): (&String, &Arc<CertificateSlot>)| CertificateFacts {
            name: name.clone(),
            expires_at: slot
                .current()
                .map(|current| since_epoch(current.validity().until)),
            progress: self.services.acme.progress(name),
        };
        self.front.app().certificates.iter().map(facts).collect()
    }

    /// The store and the global of the workflows' releases.
    fn workflow_store(&self) -> Option<Value> {
        let app = self.front.app();
        let source = app.config.workflow.as_ref().map(config::Workflow::source)?;
        let WorkflowSource::Store { global } = source else {
            return None;
        };
        let folder = self.services.store.as_ref()?.path();
        let path = folder.canonicalize().ok()?;
        Some(json!({ "path": path.to_string_lossy(), "global": global }))
    }
}

/// Counts as an object.
fn by_name<N: AsRef<str>>(counts: impl IntoIterator<Item = (N, u64)>) -> Map<String, Value> {
    let counts = counts.into_iter();
    counts
        .map(|(name, count)| (name.as_ref().to_owned(), count.into()))
        .collect()
}

fn since_epoch(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn certificate(facts: &CertificateFacts) -> Value {
    let progress = facts.progress.as_ref();
    let next_order = progress.and_then(|progress| progress.next_order);
    json!({
        "name": facts.name,
        "expires_at_s": facts.expires_at.map(|moment| moment.as_secs()),
        "next_order_at_s": next_order.map(|moment| since_epoch(moment).as_secs()),
        "failure": progress.and_then(|progress| progress.failure.as_deref()),
    })
}

fn database(known: &Database) -> Value {
    let Database {
        name,
        settings,
        counted,
        failure,
    } = known;
    let ended = counted.outcomes.into_iter().filter(|(_, count)| *count > 0);
    let errors = counted.classes.iter().map(|(class, count)| (class, *count));
    json!({
        "name": name,
        "server": settings.server.to_string(),
        "driver": settings.driver.name(),
        "reachable": failure.is_none(),
        "reason": failure,
        "statements": by_name(ended),
        "errors": by_name(errors),
        "in_flight": counted.in_flight,
        "in_flight_max": settings.in_flight_max,
        "connections_max": settings.connections_max,
        "rows": counted.rows,
        "wait": spent(&counted.wait),
        "execution": spent(&counted.execution),
    })
}

fn spent(durations: &Durations) -> Value {
    let (count, sum_us) = (durations.count(), durations.sum().as_micros() as u64);
    json!({ "count": count, "mean_us": sum_us.checked_div(count).unwrap_or_default() })
}

fn proxy((name, group): (&String, &Arc<Group>)) -> Value {
    let server = |server: &Arc<forebay_upstream::Server>| {
        let ServerCounts {
            in_flight,
            requests,
            failures,
        } = server.counts();
        json!({
            "address": server.name(),
            "up": group.is_up(server),
            "in_flight": in_flight,
            "requests": requests,
            "failures": failures,
        })
    };
    json!({ "name": name, "servers": group.servers().iter().map(server).collect::<Vec<_>>() })
}

fn script((name, counted): &(String, Counted)) -> Value {
    json!({
        "name": name,
        "answered": { "io": counted.answered_io, "executor": counted.answered_executor },
        "faulted": counted.faulted,
        "cancelled": counted.cancelled,
        "stopped": by_name(counted.stopped),
        "refused": counted.refused,
        "handed_over": counted.handed_over,
        "queued": counted.queued,
        "threads": { "running": counted.threads, "given_up": counted.given_up },
        "engines": counted.engines,
        "engine_bytes": counted.engine_bytes,
    })
}

fn workflow((name, totals): &(String, WorkflowTotals)) -> Value {
    let runs = by_name(RUN_OUTCOMES.iter().zip(totals.outcomes));
    json!({ "name": name, "in_flight": totals.in_flight, "runs": runs, "duration": spent(&totals.durations) })
}

fn store(facts: &StoreFacts) -> Value {
    let writer = &facts.writer;
    let stats = facts.stats.as_ref().map(|stats| {
        json!({
            "bytes": stats.file_bytes,
            "bytes_max": stats.map_max,
            "last_commit": stats.last_commit,
            "flushed_commit": stats.flushed_commit,
            "not_checkpointed_bytes": stats.not_checkpointed_bytes,
            "readers": stats.readers,
        })
    });
    json!({
        "file": stats,
        "queue": { "writes": writer.queued, "writes_max": writer.queue_max, "bytes": writer.queued_bytes },
        "writes": by_name(writer.outcomes()),
        "commits": writer.commits,
        "flushes": writer.flushes,
    })
}
