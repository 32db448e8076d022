//! A random source that can be repeated from a seed.

use std::time::Duration;

/// The splitmix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    pub(super) fn size(&mut self, low: usize, high: usize) -> usize {
        self.between(low as u64, high as u64) as usize
    }

    /// True in this many of a thousand cases.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.between(0, 999) < per_mille
    }

    pub(super) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }

    /// A random pause between events with exponential distribution and this mean.
    pub(super) fn pause(&mut self, mean_us: u64) -> Duration {
        let uniform = (self.roll() >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_micros((-(1.0 - uniform).ln() * mean_us as f64) as u64)
    }
}
