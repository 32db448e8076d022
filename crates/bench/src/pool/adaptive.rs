//! The adaptive delay between two blocks of messages, as in `QOper8`'s benchmark. `sdk/node/src/pool/benchmark/adaptive.ts` is the same for
//! JavaScript pools.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(1);

/// How an observation of the queue changed the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Increased,
    Reduced,
    None,
}

/// Adds one step whenever the queue is longer than ever before and removes one whenever it is empty. Never falls below 0. An empty queue
/// also halves the recorded maximum, so that one slow moment at the start does not keep the delay from growing later.
#[derive(Debug)]
pub(crate) struct AdaptiveDelay {
    delay: Duration,
    longest: u64,
}

impl AdaptiveDelay {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, longest: 0 }
    }

    /// The delay before the next block.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Must be called before each block, with the number of waiting messages.
    pub(crate) fn observe(&mut self, waiting: u64) -> Change {
        if waiting > self.longest {
            self.longest = waiting;
            self.delay += STEP;
            return Change::Increased;
        }
        if waiting > 0 {
            return Change::None;
        }
        self.longest /= 2;
        self.delay = self.delay.saturating_sub(STEP);
        Change::Reduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_a_longer_queue_than_ever_shrinks_with_an_empty_one_and_stays_at_0() {
        let mut delay = AdaptiveDelay::new(STEP);
        let changes = [100, 100, 99, 101].map(|waiting| delay.observe(waiting));
        assert_eq!(
            changes,
            [Change::Increased, Change::None, Change::None, Change::Increased]
        );
        assert_eq!(delay.delay(), 3 * STEP);
        for _ in 0..5 {
            assert_eq!(delay.observe(0), Change::Reduced);
        }
        assert_eq!(delay.delay(), Duration::ZERO);
    }

    #[test]
    fn a_long_queue_at_the_start_does_not_keep_the_delay_from_growing_later() {
        let mut delay = AdaptiveDelay::new(10 * STEP);
        delay.observe(1000);
        assert_eq!(delay.observe(400), Change::None);
        delay.observe(0);
        delay.observe(0);
        assert_eq!(delay.observe(400), Change::Increased);
    }
}
