//! Measurements of one thread over a short stretch of time.

use hdrhistogram::{Counter, Histogram};

use crate::failure::{Class, Counts};

/// Length of a window.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// The longest latency that is distinguished, in nanoseconds: an hour.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// An empty histogram of latencies in nanoseconds, to three digits.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are valid")
}

/// Like [`latencies`], but to two digits and from a microsecond on, because many of these are kept.
pub(crate) fn slice_latencies<C: Counter>() -> Histogram<C> {
    Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 2).expect("the bounds are valid")
}

/// One thread's measurements between two moments.
#[derive(Clone, Debug)]
pub struct Window {
    /// Number of the stretch that it belongs to.
    pub(crate) epoch: u64,
    /// Start in nanoseconds since the session began.
    pub start_ns: u64,
    /// End in nanoseconds since the session began.
    pub end_ns: u64,
    /// Requests written.
    pub sent: u64,
    /// Complete responses, whatever their status.
    pub answers: u64,
    /// From when a request was due to the end of its response.
    pub latency: Histogram<u64>,
    /// From when the request was written, where that differs.
    pub service: Option<Histogram<u64>>,
    /// From the start of the attempt to the open connection.
    pub connecting: Histogram<u64>,
    /// Responses by status.
    pub statuses: Vec<(u16, u64)>,
    /// Failures by class.
    pub failures: Counts,
    /// Bytes of responses, with their heads.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub body_bytes_in: u64,
    /// Bytes of requests.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Failed attempts to open a connection.
    pub connects_failed: u64,
    /// Connections that were open when the stretch began.
    pub held: u64,
    /// Requests that were in flight when the stretch began. Their responses count in it, but they count among those sent before it.
    pub under_way: u64,
    /// Longest delay between when a request was due and when it was sent, in nanoseconds; with a rate only.
    pub lag_max_ns: u64,
}

impl Window {
    pub(crate) fn new(epoch: u64, start_ns: u64, with_service: bool) -> Self {
        Self {
            epoch,
            start_ns,
            end_ns: start_ns,
            sent: 0,
            answers: 0,
            latency: latencies(),
            service: with_service.then(latencies),
            connecting: slice_latencies(),
            statuses: Vec::new(),
            failures: Counts::default(),
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            connects: 0,
            connects_failed: 0,
            held: 0,
            under_way: 0,
            lag_max_ns: 0,
        }
    }

    pub(crate) fn count_status(&mut self, status: u16) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, count)) => *count += 1,
            None => self.statuses.push((status, 1)),
        }
    }

    pub(crate) fn fail(&mut self, class: Class) {
        self.failures.add(class, 1);
    }

    /// Adds another window.
    pub fn merge(&mut self, other: &Self) {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.sent += other.sent;
        self.answers += other.answers;
        self.latency
            .add(&other.latency)
            .expect("all histograms have the same bounds");
        match (&mut self.service, &other.service) {
            (Some(mine), Some(theirs)) => mine.add(theirs).expect("all histograms have the same bounds"),
            (none @ None, Some(theirs)) => *none = Some(theirs.clone()),
            (_, None) => {}
        }
        self.connecting
            .add(&other.connecting)
            .expect("all histograms have the same bounds");
        for &(status, count) in &other.statuses {
            match self.statuses.iter_mut().find(|(known, _)| *known == status) {
                Some((_, mine)) => *mine += count,
                None => self.statuses.push((status, count)),
            }
        }
        self.failures.merge(&other.failures);
        self.bytes_in += other.bytes_in;
        self.body_bytes_in += other.body_bytes_in;
        self.bytes_out += other.bytes_out;
        self.connects += other.connects;
        self.connects_failed += other.connects_failed;
        self.held += other.held;
        self.under_way += other.under_way;
        self.lag_max_ns = self.lag_max_ns.max(other.lag_max_ns);
    }
}
