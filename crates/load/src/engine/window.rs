//! What a thread has measured in one stretch of time.

use hdrhistogram::{Counter, Histogram};

use super::notes::UrlWindow;
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

/// First bytes that came before the rest of their answers. Most answers come whole: they are counted among the latencies alone.
#[derive(Clone, Debug)]
struct Split {
    /// From when a request was due to the first byte of its answer.
    first: Histogram<u64>,
    /// The latencies of the same requests, and of those that were never answered.
    latency: Histogram<u64>,
}

impl Split {
    fn nothing() -> Box<Self> {
        Box::new(Self {
            first: latencies(),
            latency: latencies(),
        })
    }
}

/// The same to two digits and from a microsecond on, where many are kept.
pub(crate) fn slice_latencies<C: Counter>() -> Histogram<C> {
    Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 2).expect("the bounds are valid")
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
    /// Answers whose first byte came before the last.
    pub in_pieces: u64,
    /// Their first bytes.
    split: Option<Box<Split>>,
    /// From the attempt to the open connection.
    pub connecting: Histogram<u64>,
    /// The part of that which TLS took.
    pub handshakes: Histogram<u64>,
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
    /// Attempts to open one that came to nothing.
    pub connects_failed: u64,
    /// Connections that were open when the stretch began.
    pub held: u64,
    /// Requests that were under way when the stretch began. Their answers count in it, and they among those sent before it.
    pub under_way: u64,
    /// Those among them that took up an earlier TLS session.
    pub resumed: u64,
    /// What was measured of each request that is told apart, as far as there was something.
    pub urls: Vec<Option<Box<UrlWindow>>>,
    /// How far behind its time a request was sent at most, with a rate; in nanoseconds.
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
            in_pieces: 0,
            split: None,
            connecting: slice_latencies(),
            handshakes: slice_latencies(),
            statuses: Vec::new(),
            failures: Counts::default(),
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            connects: 0,
            connects_failed: 0,
            held: 0,
            under_way: 0,
            resumed: 0,
            urls: Vec::new(),
            lag_max_ns: 0,
        }
    }

    /// Records a latency; `first`: how long it took to the first byte of the answer, where that came before the last, and nothing
    /// where none came.
    pub(crate) fn record_split(&mut self, latency_ns: u64, first_ns: Option<u64>) {
        self.latency.saturating_record(latency_ns);
        let split = self.split.get_or_insert_with(Split::nothing);
        split.latency.saturating_record(latency_ns);
        if let Some(first_ns) = first_ns {
            self.in_pieces += 1;
            split.first.saturating_record(first_ns);
        }
    }

    /// From when a request was due to the first byte of its answer, for every request that got one.
    pub fn first_bytes(&self) -> Histogram<u64> {
        let mut all = self.latency.clone();
        if let Some(split) = &self.split {
            all.subtract(&split.latency)
                .expect("what was recorded apart is among the latencies");
            all.add(&split.first)
                .expect("all histograms have the same bounds");
        }
        all
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
        self.in_pieces += other.in_pieces;
        if let Some(theirs) = &other.split {
            let mine = self.split.get_or_insert_with(Split::nothing);
            for (mine, theirs) in [
                (&mut mine.first, &theirs.first),
                (&mut mine.latency, &theirs.latency),
            ] {
                mine.add(theirs).expect("all histograms have the same bounds");
            }
        }
        for (mine, theirs) in [
            (&mut self.connecting, &other.connecting),
            (&mut self.handshakes, &other.handshakes),
        ] {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
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
        self.resumed += other.resumed;
        if self.urls.len() < other.urls.len() {
            self.urls.resize_with(other.urls.len(), || None);
        }
        for (mine, theirs) in self.urls.iter_mut().zip(&other.urls) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(theirs);
            }
        }
        self.lag_max_ns = self.lag_max_ns.max(other.lag_max_ns);
    }
}
