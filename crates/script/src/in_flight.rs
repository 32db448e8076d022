//! Number of calls in flight and total size of their requests. Includes calls on executors, calls that wait for an executor, and calls that
//! wait on I/O threads.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Failure, options::Limits};

/// Calls and bytes in flight.
#[derive(Debug, Default)]
pub(crate) struct Load {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// Counts a call while it exists. It stays with the request, so a client that leaves frees capacity only when the request is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    load: Arc<Load>,
    bytes: usize,
}

impl InFlight {
    /// Counts another call with a request of this size. A lone request may exceed the byte limit, otherwise it could never run; its size is
    /// limited elsewhere.
    pub(crate) fn begin(load: &Arc<Load>, bytes: usize, limits: &Limits) -> Result<Self, Failure> {
        let calls_before = load.calls.fetch_add(1, Ordering::AcqRel);
        let bytes_before = load.bytes.fetch_add(bytes, Ordering::AcqRel);
        // Dropped again, and uncounted, if the call is refused.
        let in_flight = Self {
            load: load.clone(),
            bytes,
        };
        let Limits {
            in_flight_max,
            queue_bytes_max,
            ..
        } = *limits;
        if calls_before >= in_flight_max {
            return Err(Failure::Busy { in_flight_max });
        }
        if bytes_before > 0 && bytes_before.saturating_add(bytes) > queue_bytes_max {
            return Err(Failure::BytesFull {
                bytes,
                queue_bytes_max,
            });
        }
        Ok(in_flight)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.load.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.load.calls.fetch_sub(1, Ordering::AcqRel);
    }
}
