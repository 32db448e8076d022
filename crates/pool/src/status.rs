//! The status of a pool, for the admin interface and metrics.

use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    Counters, EndCause,
    pool::Shared,
    state::{Phase, Worker},
};

/// Whether a pool can run jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum Readiness {
    /// The first workers are starting.
    Starting,
    /// The pool accepts and runs jobs.
    Ready,
    /// Workers fail to start; the message of the last one.
    Failing(String),
    /// No worker is left after a stop.
    Stopped,
}

/// A snapshot of a pool.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The pool's name.
    pub name: String,
    /// Whether the pool can run jobs.
    pub readiness: Readiness,
    /// Minimum number of workers.
    pub workers_min: usize,
    /// Maximum number of workers.
    pub workers_max: usize,
    /// Number of queued jobs.
    pub queued: usize,
    /// Total size of queued jobs, in bytes.
    pub queued_bytes: usize,
    /// Maximum number of queued jobs.
    pub queue_max: usize,
    /// Number of open event streams and upgraded connections.
    pub connections: usize,
    /// Counters since the pool was created.
    #[serde(serialize_with = "counters")]
    pub counters: Counters,
    /// Percentiles of the time in the queue.
    pub wait: Percentiles,
    /// Percentiles of handler run times.
    pub run: Percentiles,
    /// The workers, oldest first.
    pub workers: Vec<WorkerStatus>,
    /// The histograms behind the percentiles, for exporters.
    #[serde(skip)]
    pub timings: crate::Timings,
}

/// A snapshot of one worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStatus {
    /// The worker's number in the pool.
    pub id: u64,
    /// The process id of the worker; 0 for a host.
    pub pid: u32,
    /// The name of the machine, if the worker is a host.
    pub host: Option<String>,
    /// `starting`, `ready`, `draining`, `terminating` or `killed`.
    pub phase: &'static str,
    /// Number of jobs it holds.
    pub in_flight: usize,
    /// Number of its open event streams and upgraded connections.
    pub connections: usize,
    /// Number of jobs it may hold beyond those it runs.
    pub credit: usize,
    /// Number of jobs it has answered.
    pub answered: u64,
    /// Seconds since it became ready.
    pub ready_s: Option<u64>,
    /// Resident memory in bytes, if `/proc` tells it.
    pub rss_bytes: Option<u64>,
}

/// Percentiles of durations in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "each field is the percentile of its name")]
pub struct Percentiles {
    pub count: u64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p99_9_us: u64,
    pub max_us: u64,
}

impl Percentiles {
    /// The percentiles of a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p99_9_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

fn counters<S: serde::Serializer>(counters: &Counters, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(None)?;
    for (name, count) in [
        ("accepted", counters.accepted),
        ("answered", counters.answered),
        ("faulted", counters.faulted),
        ("cancelled", counters.cancelled),
        ("stray_frames", counters.stray_frames),
        ("workers_started", counters.started),
        ("workers_ready", counters.ready),
    ] {
        map.serialize_entry(name, &count)?;
    }
    map.serialize_entry("failed", &counters.failed)?;
    map.serialize_entry("refused", &counters.refused)?;
    let ended: std::collections::BTreeMap<&str, u64> = EndCause::ALL
        .iter()
        .map(|cause| (cause.name(), counters.ended.get(cause).copied().unwrap_or(0)))
        .collect();
    map.serialize_entry("workers_ended", &ended)?;
    map.end()
}

impl Status {
    pub(crate) fn of(shared: &Shared) -> Self {
        let now = Instant::now();
        let state = shared.state.lock();
        let (workers_min, workers_max) = state.size();
        let (queued, queued_bytes) = state.queued();
        let mut workers: Vec<_> = state
            .workers()
            .map(|(_, worker)| worker_status(worker, now))
            .collect();
        let (counters, timings) = (state.counters.clone(), state.timings.clone());
        let queue_max = state.options().queue_max;
        let connections = state.connections();
        drop(state);
        workers.sort_by_key(|worker| worker.id);
        for worker in &mut workers {
            worker.rss_bytes = rss_bytes(worker.pid);
        }
        Self {
            name: shared.name.clone(),
            readiness: shared.readiness.borrow().clone(),
            workers_min,
            workers_max,
            queued,
            queued_bytes,
            queue_max,
            connections,
            counters,
            wait: Percentiles::of(&timings.wait_us),
            run: Percentiles::of(&timings.run_us),
            workers,
            timings,
        }
    }
}

fn worker_status<L>(worker: &Worker<L>, now: Instant) -> WorkerStatus {
    WorkerStatus {
        id: worker.id,
        pid: worker.pid,
        host: worker.host.as_ref().map(|host| host.name.clone()),
        phase: match worker.phase {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
            Phase::Terminating => "terminating",
            Phase::Killed => "killed",
        },
        in_flight: worker.in_flight(),
        connections: worker.detached().len(),
        credit: worker.credit(),
        answered: worker.answered,
        ready_s: worker
            .ready_at
            .map(|ready| now.saturating_duration_since(ready).as_secs()),
        rss_bytes: None,
    }
}

/// Resident memory of a process, from `/proc/PID/statm` (proc(5)).
pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
