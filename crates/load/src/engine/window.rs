//! What a thread has measured in one stretch of time.

use hdrhistogram::Histogram;

use crate::failure::{Class, Counts};

/// Length of a window.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// The longest latency that is told apart, in nanoseconds: an hour.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// Decimal digits to which a latency is kept.
pub const LATENCY_DIGITS: u8 = 3;

/// An empty histogram of latencies in nanoseconds.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS).expect("the bounds are valid")
}

/// One thread's measurements between two moments.
#[derive(Clone, Debug)]
pub struct Window {
    /// The stretch of the run that it belongs to.
    pub(crate) epoch: u64,
    /// Nanoseconds since the session began.
    pub start_ns: u64,
    /// The same.
    pub end_ns: u64,
    /// Requests written.
    pub sent: u64,
    /// Whole answers, whatever they say.
    pub answers: u64,
    /// From when a request was due to the end of its answer.
    pub latency: Histogram<u64>,
    /// From when it was written, where that differs.
    pub service: Option<Histogram<u64>>,
    /// From the attempt to the open connection.
    pub connecting: Histogram<u64>,
    /// Answers by status.
    pub statuses: Vec<(u16, u64)>,
    /// What failed.
    pub failures: Counts,
    /// Bytes of answers, with their heads.
    pub bytes_in: u64,
    /// Bytes of answers' bodies.
    pub body_bytes_in: u64,
    /// Bytes of requests.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Those among them that took up an earlier TLS session.
    pub resumed: u64,
    /// Requests that were due, and latest behind their time, with an open load.
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
            connecting: Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 2).expect("the bounds are valid"),
            statuses: Vec::new(),
            failures: Counts::default(),
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            connects: 0,
            resumed: 0,
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

    /// Adds what another has measured.
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
        self.resumed += other.resumed;
        self.lag_max_ns = self.lag_max_ns.max(other.lag_max_ns);
    }
}
