//! Jobs waiting for a worker, oldest first; bounded by count and by bytes.

use std::collections::BTreeMap;

/// Position in the order of arrival, never reused. A job that is returned by a worker keeps its position.
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

/// The limit that the queue has reached.
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

    /// Returns a job that a worker had but did not start. It was accepted before, so no limit rejects it; there are at most as many of
    /// these as workers hold.
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

    /// The jobs, oldest first.
    pub(crate) fn jobs(&self) -> Vec<usize> {
        self.waiting.values().map(|entry| entry.job).collect()
    }

    pub(crate) fn remove(&mut self, arrival: Arrival) {
        let entry = self
            .waiting
            .remove(&arrival)
            .expect("a queued job is in the queue");
        self.bytes -= entry.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_leave_in_the_order_of_their_arrival_also_those_that_come_back() {
        let mut queue = Queue::new(10, 1000);
        for arrival in [3, 5, 6] {
            queue.push(arrival, arrival as usize * 10, 1).unwrap();
        }
        queue.put_back(4, 40, 1);
        queue.put_back(1, 10, 1);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [10, 30, 40, 50, 60]);
    }

    #[test]
    fn a_full_queue_says_which_bound_is_reached_and_takes_nothing() {
        let mut queue = Queue::new(2, 100);
        queue.push(1, 1, 60).unwrap();
        assert_eq!(queue.push(2, 2, 41), Err(Full::Bytes));
        queue.push(2, 2, 40).unwrap();
        assert_eq!(queue.push(3, 3, 0), Err(Full::Jobs));
        assert_eq!((queue.len(), queue.bytes()), (2, 100));
    }

    #[test]
    fn what_comes_back_is_taken_beyond_the_bounds_and_keeps_others_out() {
        let mut queue = Queue::new(1, 100);
        queue.push(2, 2, 100).unwrap();
        queue.put_back(1, 1, 100);
        assert_eq!((queue.len(), queue.bytes()), (2, 200));
        assert_eq!(queue.push(3, 3, 0), Err(Full::Jobs));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.pop(), Some(2));
        queue.push(3, 3, 100).unwrap();
    }

    #[test]
    fn a_job_that_is_removed_gives_its_bytes_back() {
        let mut queue = Queue::new(9, 100);
        queue.push(1, 1, 30).unwrap();
        queue.push(2, 2, 50).unwrap();
        queue.remove(1);
        assert_eq!((queue.len(), queue.bytes(), queue.pop()), (1, 50, Some(2)));
        assert!(queue.is_empty() && queue.bytes() == 0);
    }
}
