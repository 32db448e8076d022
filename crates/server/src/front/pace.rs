//! The slowest rate at which a client may send or receive; only time spent waiting for the client counts.

use std::time::Duration;

/// A client's progress with one body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes per second; 0: no minimum.
    min_rate: u64,
    grace: Duration,
    /// Total time spent waiting for the client. Time that the server or a worker takes does not count.
    waited: Duration,
    bytes: u64,
}

impl Pace {
    pub(crate) fn new(min_rate: u64, grace: Duration) -> Self {
        Self {
            min_rate,
            grace,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Records that the client has sent or received so many bytes after a wait.
    pub(crate) fn note(&mut self, bytes: usize, waited: Duration) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.waited += waited;
    }

    /// How much longer the client may be waited for; `None`: as long as other limits allow.
    pub(crate) fn left(&self) -> Option<Duration> {
        let seconds = self.bytes.checked_div(self.min_rate)?;
        let earned = Duration::from_secs(seconds).max(self.grace);
        Some(earned.saturating_sub(self.waited))
    }

    pub(crate) fn min_rate(&self) -> u64 {
        self.min_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_grace_and_then_what_its_bytes_have_earned() {
        let mut pace = Pace::new(100, Duration::from_secs(5));
        assert_eq!(pace.left(), Some(Duration::from_secs(5)));
        pace.note(50, Duration::from_secs(4));
        assert_eq!(pace.left(), Some(Duration::from_secs(1)));
        pace.note(950, Duration::ZERO);
        assert_eq!(pace.left(), Some(Duration::from_secs(6)));
        pace.note(1, Duration::from_secs(7));
        assert_eq!(pace.left(), Some(Duration::ZERO));
        assert_eq!(Pace::new(0, Duration::ZERO).left(), None);
    }
}
