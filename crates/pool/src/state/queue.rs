//! The jobs that wait for a worker: in the order of their arrival, bounded by count and by bytes.

use std::collections::BTreeMap;

/// A job's place in the order of arrival, never reused. A job that comes back from a worker takes its old place.
pub(crate) type Arrival = u64;

#[derive(Debug)]
pub(crate) struct Queue {
    waiting: BTreeMap<Arrival, Entry>,
    bytes: usize,
    max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    job: usize,
    bytes: usize,
}

/// Which bound of the queue is reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Jobs,
    Bytes,
}

impl Queue {
    pub(crate) fn new(max: usize, bytes_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            bytes: 0,
            max,
            bytes_max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a job that has just arrived.
    pub(crate) fn push(&mut self, arrival: Arrival, job: usize, bytes: usize) -> Result<(), Full> {
        if self.waiting.len() >= self.max {
            return Err(Full::Jobs);
        }
        if self.bytes + bytes > self.bytes_max {
            return Err(Full::Bytes);
        }
        self.put_back(arrival, job, bytes);
        Ok(())
    }

    /// Returns a job that a worker had but did not start. It was accepted before, so no bound turns it away; there are at most
    /// as many of these as the workers hold.
    pub(crate) fn put_back(&mut self, arrival: Arrival, job: usize, bytes: usize) {
        self.bytes += bytes;
        let before = self.waiting.insert(arrival, Entry { job, bytes });
        assert!(before.is_none(), "a job waits once");
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        let (_, entry) = self.waiting.pop_first()?;
        self.bytes -= entry.bytes;
        Some(entry.job)
    }

    pub(crate) fn remove(&mut self, arrival: Arrival) {
        let entry = self
            .waiting
            .remove(&arrival)
            .expect("a queued job is in the queue");
        self.bytes -= entry.bytes;
    }
}
