//! The server's metrics: the same families under the same names as on the admin listener, sent at an interval.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use forebay_pg::BOUNDS_US;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use super::{
    Counts, OUTCOMES, Outcome,
    body::{self, Attribute, Decimal, SERVER, nanos, text},
    ended,
    sending::Delivery,
};
use crate::{
    config,
    metrics::{Facts, Family, Histogram, Kind, Sink, write},
    server::Shared,
};

/// Sums since the start of the server (`AggregationTemporality`).
const CUMULATIVE: u8 = 2;

/// Posts the metrics, and counts the posts.
#[derive(Debug, Default)]
pub(crate) struct MetricsExporter {
    counts: Counts,
    /// True once the server stops.
    ending: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl MetricsExporter {
    /// Starts to post, if the configuration says so.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub(crate) fn start(&self, shared: &Arc<Shared>, config: Option<&config::Trace>) {
        let Some((config, interval)) = config.and_then(|config| Some((config, config.metrics_interval?)))
        else {
            return;
        };
        let delivery = Delivery::new(config, "/v1/metrics", "metrics", self.ending.subscribe()).once();
        let task = send_all(shared.clone(), delivery, config.service.clone(), interval);
        *self.task.lock() = Some(tokio::spawn(task));
    }

    /// Numbers of posts by outcome, in the order of [`OUTCOMES`].
    pub(crate) fn counts(&self) -> [u64; OUTCOMES.len()] {
        self.counts.read()
    }

    /// Posts the metrics a last time.
    pub(crate) async fn end(&self, deadline: tokio::time::Instant) {
        self.ending.send_replace(true);
        if ended(&self.task, deadline).await.is_err() {
            tracing::warn!(target: "forebay::trace", "the collector is too slow; the last metrics are lost");
        }
    }
}

/// Posts the metrics at this interval, and once more when the server stops.
async fn send_all(shared: Arc<Shared>, mut delivery: Delivery, service: String, interval: Duration) {
    let exporter = &shared.services.metrics_exporter;
    let mut ending = exporter.ending.subscribe();
    loop {
        let is_last = timeout(interval, ending.wait_for(|ending| *ending)).await.is_ok();
        let body = encode(&shared.facts(), &service);
        // One unit, the post: which data points a collector rejects makes no difference to the next one.
        let (sent, failed) = delivery.deliver(body, 1, "rejectedDataPoints").await;
        exporter.counts.add(Outcome::Sent, sent);
        exporter.counts.add(Outcome::Failed, failed);
        if is_last {
            return;
        }
    }
}

#[derive(Serialize)]
struct Metric {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    #[serde(flatten)]
    data: Data,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Data {
    Gauge {
        data_points: Vec<NumberPoint>,
    },
    Sum {
        data_points: Vec<NumberPoint>,
        aggregation_temporality: u8,
        is_monotonic: bool,
    },
    Histogram {
        data_points: Vec<HistogramPoint>,
        aggregation_temporality: u8,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NumberPoint {
    attributes: Vec<Attribute<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time_unix_nano: Option<Decimal<u64>>,
    time_unix_nano: Decimal<u64>,
    as_double: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistogramPoint {
    attributes: Vec<Attribute<'static>>,
    start_time_unix_nano: Decimal<u64>,
    time_unix_nano: Decimal<u64>,
    count: Decimal<u64>,
    sum: f64,
    bucket_counts: Vec<Decimal<u64>>,
    /// In seconds.
    explicit_bounds: [f64; BOUNDS_US.len()],
}

/// The snapshot as an `ExportMetricsServiceRequest`.
fn encode(facts: &Facts, service: &str) -> Vec<u8> {
    let started_at = u64::try_from(facts.started_at.as_nanos()).unwrap_or(u64::MAX);
    let mut points = Points {
        metrics: Vec::new(),
        started_at: Decimal(started_at),
        now: Decimal(nanos(SystemTime::now())),
    };
    write(facts, &mut points);
    // OTLP has no metric without data points.
    points.metrics.retain(|metric| match &metric.data {
        Data::Gauge { data_points } | Data::Sum { data_points, .. } => !data_points.is_empty(),
        Data::Histogram { data_points, .. } => !data_points.is_empty(),
    });
    let by_scope = [(SERVER, &*points.metrics)];
    body::encode(["resourceMetrics", "scopeMetrics", "metrics"], service, by_scope)
}

/// Collects families as metrics.
struct Points {
    metrics: Vec<Metric>,
    started_at: Decimal<u64>,
    now: Decimal<u64>,
}

impl Points {
    fn current(&mut self) -> &mut Data {
        &mut self.metrics.last_mut().expect("its family has begun").data
    }
}

impl Sink for Points {
    fn family(&mut self, family: &Family) {
        let data = match family.kind {
            Kind::Gauge => Data::Gauge {
                data_points: Vec::new(),
            },
            Kind::Counter => Data::Sum {
                data_points: Vec::new(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            },
            Kind::Histogram => Data::Histogram {
                data_points: Vec::new(),
                aggregation_temporality: CUMULATIVE,
            },
        };
        self.metrics.push(Metric {
            name: family.name,
            description: family.help,
            unit: unit(family.name),
            data,
        });
    }

    fn sample(&mut self, family: &Family, values: &[&str], value: f64) {
        let labels = family.labels.iter().zip(values);
        let attributes = labels
            .map(|(label, value)| text(label, (*value).to_owned()))
            .collect();
        let is_sum = family.kind == Kind::Counter;
        let point = NumberPoint {
            attributes,
            start_time_unix_nano: is_sum.then_some(self.started_at),
            time_unix_nano: self.now,
            as_double: value,
        };
        match self.current() {
            Data::Gauge { data_points } | Data::Sum { data_points, .. } => data_points.push(point),
            Data::Histogram { .. } => unreachable!("{} is a histogram", family.name),
        }
    }

    fn histogram(&mut self, family: &Family, of: &str, histogram: &Histogram) {
        let mut before = 0;
        let ends = histogram.below.iter().copied().chain([histogram.count]);
        let counts = ends.map(|below| {
            // A recording during the snapshot may be in a later bound only.
            let count = below.saturating_sub(before);
            before = below.max(before);
            Decimal(count)
        });
        let bucket_counts: Vec<_> = counts.collect();
        let point = HistogramPoint {
            attributes: vec![text(family.labels[0], of.to_owned())],
            start_time_unix_nano: self.started_at,
            time_unix_nano: self.now,
            count: Decimal(bucket_counts.iter().map(|count| count.0).sum()),
            sum: histogram.sum,
            bucket_counts,
            explicit_bounds: BOUNDS_US.map(|bound| bound as f64 / 1e6),
        };
        match self.current() {
            Data::Histogram { data_points, .. } => data_points.push(point),
            Data::Gauge { .. } | Data::Sum { .. } => unreachable!("{} is no histogram", family.name),
        }
    }
}

/// The unit that a name ends with, in UCUM: what Prometheus makes of a metric with this unit has the same name.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}
