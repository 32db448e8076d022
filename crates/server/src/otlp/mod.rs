//! Exports spans, log records and metrics to an OpenTelemetry collector: OTLP over HTTP, as JSON.
//!
//! Spans and log records wait in a bounded queue each, from which one task sends batches; nothing that the server does waits for the
//! collector. Metrics are sent at an interval.

mod body;
mod logs;
mod metrics;
mod sending;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout_at,
};

use self::sending::Delivery;
pub(crate) use self::{
    body::{Attribute, Decimal, SERVER, encode, nanos, number, text},
    logs::LOG_BYTES_MAX,
    metrics::MetricsExporter,
};
use crate::config;

/// Outcomes of spans, log records and posts of metrics.
pub(crate) const OUTCOMES: [&str; 3] = ["sent", "dropped", "failed"];
/// How long an item may wait for others to fill its batch.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Most time that the collector gets for what remains when the server stops.
pub(crate) const END_MAX: Duration = Duration::from_secs(5);

/// The discriminant is the index in [`OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    Dropped,
    Failed,
}

/// Numbers of spans, log records or posts by outcome.
#[derive(Debug, Default)]
struct Counts([AtomicU64; OUTCOMES.len()]);

impl Counts {
    fn add(&self, outcome: Outcome, more: usize) {
        self.0[outcome as usize].fetch_add(more as u64, Ordering::Relaxed);
    }

    fn read(&self) -> [u64; OUTCOMES.len()] {
        std::array::from_fn(|outcome| self.0[outcome].load(Ordering::Relaxed))
    }
}

/// A unit that waits in a queue for the collector.
pub(crate) trait Item: Send + Sized + 'static {
    /// The path of the endpoint, relative to the collector's address.
    const PATH: &'static str;
    /// The name of the units in the log: spans, log records.
    const UNITS: &'static str;
    /// The member of a response's `partialSuccess` that says how many units were rejected.
    const REJECTED: &'static str;
    /// The size of a batch that is sent at once.
    const BATCH_SIZE: usize;

    /// How many spans or log records it is.
    fn units(&self) -> usize;

    /// Its size, in the unit of the queue's bound.
    fn size(&self) -> usize;

    /// The body of a request.
    fn encode(batch: &[Self], service: &str) -> Vec<u8>;
}

/// The queue of one signal, and counts of what has left it.
#[derive(Debug)]
pub(crate) struct Exporter<T> {
    size_max: usize,
    queue: Mutex<Queue<T>>,
    /// Signals that the queue is no longer empty or that a batch is full.
    filled: Notify,
    /// True once nothing more will be sent than what waits.
    ending: watch::Sender<bool>,
    counts: Counts,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<T>,
    /// The sizes of all items together.
    size: usize,
    /// When the oldest one was queued.
    since: Option<Instant>,
}

impl<T: Item> Exporter<T> {
    /// Starts the task that sends.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub(crate) fn start(config: &config::Trace, size_max: usize) -> Arc<Self> {
        let exporter = Arc::new(Self::new(size_max));
        let delivery = Delivery::new(config, T::PATH, T::UNITS, exporter.ending.subscribe());
        let task = tokio::spawn(exporter.clone().send_all(delivery, config.service.clone()));
        *exporter.task.lock() = Some(task);
        exporter
    }

    pub(crate) fn new(size_max: usize) -> Self {
        Self {
            size_max,
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                size: 0,
                since: None,
            }),
            filled: Notify::new(),
            ending: watch::Sender::new(false),
            counts: Counts::default(),
            task: Mutex::default(),
        }
    }

    /// Queues an item, or drops it if the queue is full. Never waits for the collector.
    pub(crate) fn put(&self, item: T) {
        if self.queue(item) {
            self.filled.notify_one();
        }
    }

    /// Returns whether the sending task must be woken.
    fn queue(&self, item: T) -> bool {
        let size = item.size();
        let mut queue = self.queue.lock();
        if queue.size + size > self.size_max {
            drop(queue);
            self.counts.add(Outcome::Dropped, item.units());
            return false;
        }
        let before = queue.size;
        queue.size += size;
        queue.since.get_or_insert_with(Instant::now);
        queue.items.push_back(item);
        before == 0 || (before < T::BATCH_SIZE && queue.size >= T::BATCH_SIZE)
    }

    /// A batch that is due. Otherwise the error says when one will be, if anything is queued.
    fn take(&self, at: Instant) -> Result<Vec<T>, Option<Instant>> {
        let mut queue = self.queue.lock();
        let due = queue.since.ok_or(None)? + BATCH_TIME;
        if queue.size < T::BATCH_SIZE && at < due && !*self.ending.borrow() {
            return Err(Some(due));
        }
        let (mut batch, mut size) = (Vec::new(), 0);
        while size < T::BATCH_SIZE
            && let Some(item) = queue.items.pop_front()
        {
            size += item.size();
            batch.push(item);
        }
        queue.size -= size;
        if queue.items.is_empty() {
            queue.since = None;
        }
        Ok(batch)
    }

    /// Sends batches until the exporter ends and the queue is empty.
    async fn send_all(self: Arc<Self>, mut delivery: Delivery, service: String) {
        let mut ending = self.ending.subscribe();
        loop {
            let batch = match self.take(Instant::now()) {
                Ok(batch) => batch,
                Err(None) if *ending.borrow() => return,
                Err(due) => {
                    let more = async {
                        tokio::select! {
                            () = self.filled.notified() => {}
                            // The sender is a field of the exporter, so it cannot be closed here.
                            _ = ending.wait_for(|ending| *ending) => {}
                        }
                    };
                    match due {
                        None => more.await,
                        Some(due) => drop(timeout_at(due.into(), more).await),
                    }
                    continue;
                }
            };
            let units = batch.iter().map(T::units).sum();
            let body = T::encode(&batch, &service);
            drop(batch);
            let (sent, failed) = delivery.deliver(body, units, T::REJECTED).await;
            self.counts.add(Outcome::Sent, sent);
            self.counts.add(Outcome::Failed, failed);
        }
    }

    /// Numbers of units by outcome, in the order of [`OUTCOMES`].
    pub(crate) fn counts(&self) -> [u64; OUTCOMES.len()] {
        self.counts.read()
    }

    /// Sends what remains until the deadline, without further retries.
    pub(crate) async fn end(&self, deadline: tokio::time::Instant) {
        self.ending.send_replace(true);
        if ended(&self.task, deadline).await.is_err() {
            let lost: usize = self.queue.lock().items.iter().map(T::units).sum();
            tracing::warn!(target: "forebay::trace", lost, "the collector is too slow; {} that wait for it are lost", T::UNITS);
        }
    }
}

/// The task had to be aborted.
struct TooSlow;

/// Waits for the end of a task that has been asked to end.
async fn ended(task: &Mutex<Option<JoinHandle<()>>>, deadline: tokio::time::Instant) -> Result<(), TooSlow> {
    let Some(mut task) = task.lock().take() else {
        return Ok(());
    };
    if timeout_at(deadline, &mut task).await.is_err() {
        task.abort();
        return Err(TooSlow);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many units.
    struct Units(usize);

    impl Item for Units {
        const PATH: &'static str = "/";
        const UNITS: &'static str = "units";
        const REJECTED: &'static str = "rejectedUnits";
        const BATCH_SIZE: usize = 512;

        fn units(&self) -> usize {
            self.0
        }

        fn size(&self) -> usize {
            self.0
        }

        fn encode(_: &[Self], _: &str) -> Vec<u8> {
            Vec::new()
        }
    }

    const BATCH: usize = Units::BATCH_SIZE;

    #[test]
    fn a_batch_is_due_when_it_is_whole_or_has_waited() {
        let exporter = Exporter::new(10_000);
        assert!(matches!(exporter.take(Instant::now()), Err(None)));
        assert!(exporter.queue(Units(2)), "something waits now");
        assert!(!exporter.queue(Units(2)), "that was known");
        let Err(Some(due)) = exporter.take(Instant::now()) else {
            panic!("it waits");
        };
        assert_eq!(exporter.take(due).ok().map(|batch| batch.len()), Some(2));
        assert!(exporter.queue(Units(BATCH - 1)));
        assert!(exporter.queue(Units(2)), "a batch is whole now");
        assert!(!exporter.queue(Units(5)));
        let now = Instant::now();
        assert_eq!(exporter.take(now).ok().map(|batch| batch.len()), Some(2));
        assert!(matches!(exporter.take(now), Err(Some(_))), "5 are no batch");
        exporter.ending.send_replace(true);
        assert_eq!(exporter.take(now).ok().map(|batch| batch.len()), Some(1));
        assert!(matches!(exporter.take(now), Err(None)));
    }

    #[test]
    fn what_the_queue_has_no_room_for_is_dropped_whole_and_counted() {
        let exporter = Exporter::new(10);
        for units in [6, 5, 4, 1] {
            exporter.put(Units(units));
        }
        assert_eq!(exporter.counts(), [0, 6, 0]);
        assert_eq!(exporter.queue.lock().size, 10);
    }
}
