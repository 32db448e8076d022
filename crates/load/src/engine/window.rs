//! Measurements of one thread over a short stretch of time.

use hdrhistogram::{Counter, Histogram};

use super::notes::UrlWindow;
use crate::failure::{Class, Counts};

/// Length of a window.
pub(crate) const WINDOW_NS: u64 = 100_000_000;
/// The longest latency that is distinguished, in nanoseconds: an hour.
pub const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// Decimal digits to which a latency is recorded.
pub const LATENCY_DIGITS: u8 = 3;

/// An empty histogram of latencies in nanoseconds.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS).expect("the bounds are valid")
}

/// First bytes that arrived before the rest of their responses. Most responses arrive at once: they are counted among the latencies alone.
#[derive(Clone, Debug)]
struct Split {
    /// From when a request was due to the first byte of its response.
    first: Histogram<u64>,
    /// Latencies of the same requests, and of those that were never answered.
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
    /// Responses whose first byte arrived before the last.
    pub in_pieces: u64,
    /// First bytes of those responses.
    split: Option<Box<Split>>,
    /// From the start of the attempt to the open connection.
    pub connecting: Histogram<u64>,
    /// The part of `connecting` that TLS took.
    pub handshakes: Histogram<u64>,
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
    /// Opened connections that resumed an earlier TLS session.
    pub resumed: u64,
    /// Measurements of each request that is measured separately; `None` for those without any.
    pub urls: Vec<Option<Box<UrlWindow>>>,
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

    /// Records a latency; `first_ns`: the time to the first byte of the response if that arrived before the last, `None` if no byte
    /// arrived.
    pub(crate) fn record_split(&mut self, latency_ns: u64, first_ns: Option<u64>) {
        self.latency.saturating_record(latency_ns);
        let split = self.split.get_or_insert_with(Split::nothing);
        split.latency.saturating_record(latency_ns);
        if let Some(first_ns) = first_ns {
            self.in_pieces += 1;
            split.first.saturating_record(first_ns);
        }
    }

    /// From when a request was due to the first byte of its response, for every request that got one.
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
