//! The calls that are under way on executors, those included that wait for one, and those that wait on I/O threads: their number, and the bytes of their requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Failure, options::Limits};

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Load {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// One of the calls, as long as this is there. It goes with the request: whoever does not wait any more makes no room as long as that is kept.
#[derive(Debug)]
pub(crate) struct InFlight {
    load: Arc<Load>,
    bytes: usize,
}

impl InFlight {
    /// A further call, whose request has so many bytes. One that is alone is taken whatever its length, which others bound.
    pub(crate) fn begin(load: &Arc<Load>, bytes: usize, limits: &Limits) -> Result<Self, Failure> {
        let calls_before = load.calls.fetch_add(1, Ordering::AcqRel);
        let bytes_before = load.bytes.fetch_add(bytes, Ordering::AcqRel);
        // What is refused goes with this.
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
