//! Time as nanoseconds since the session began.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}
