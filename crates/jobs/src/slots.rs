//! Which jobs may begin now: how many run in each pool and of each queue, and which pools are left alone for a while.

use std::{collections::HashMap, time::Duration};

/// Pause of a pool after it had no room for a job. It doubles each time, up to [`PAUSE_MAX`], until a job begins.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The jobs that this process runs. Times are milliseconds since 1970 UTC.
#[derive(Debug, Default)]
pub struct Slots {
    pools: HashMap<String, PoolSlots>,
    queues: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct PoolSlots {
    running: usize,
    paused_until_ms: u64,
    pause: Duration,
}

impl Slots {
    /// How many jobs may begin in a pool that runs at most `room` of them at a time; the error is the time from when it may be asked again.
    pub fn free(&self, pool: &str, room: usize, now_ms: u64) -> Result<usize, u64> {
        match self.pools.get(pool) {
            None => Ok(room),
            Some(slots) if slots.paused_until_ms > now_ms => Err(slots.paused_until_ms),
            Some(slots) => Ok(room.saturating_sub(slots.running)),
        }
    }

    /// How many jobs of a queue run.
    pub fn running(&self, queue: &str) -> usize {
        self.queues.get(queue).copied().unwrap_or_default()
    }

    /// How many jobs run.
    pub fn all(&self) -> usize {
        self.queues.values().sum()
    }

    /// A job begins.
    pub fn begin(&mut self, pool: &str, queue: &str) {
        self.pools.entry(pool.to_owned()).or_default().running += 1;
        *self.queues.entry(queue.to_owned()).or_default() += 1;
    }

    /// A job has ended. `has_begun`: its pool had room for it.
    pub fn end(&mut self, pool: &str, queue: &str, has_begun: bool, now_ms: u64) {
        if let Some(slots) = self.pools.get_mut(pool) {
            slots.running -= 1;
            if has_begun {
                slots.pause = Duration::ZERO;
            } else if slots.paused_until_ms <= now_ms {
                slots.pause = (slots.pause * 2).clamp(PAUSE, PAUSE_MAX);
                slots.paused_until_ms = now_ms + slots.pause.as_millis() as u64;
            }
        }
        if let Some(running) = self.queues.get_mut(queue) {
            *running -= 1;
            if *running == 0 {
                self.queues.remove(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_room_for_as_many_as_it_runs_at_a_time() {
        let mut slots = Slots::default();
        assert_eq!(slots.free("p", 2, 0), Ok(2));
        slots.begin("p", "a");
        slots.begin("p", "b");
        assert_eq!(
            (slots.free("p", 2, 0), slots.running("a"), slots.all()),
            (Ok(0), 1, 2)
        );
        // A reload may leave less room than is taken.
        assert_eq!(slots.free("p", 1, 0), Ok(0));
        slots.end("p", "a", true, 0);
        assert_eq!((slots.free("p", 2, 0), slots.running("a")), (Ok(1), 0));
    }

    #[test]
    fn a_pool_without_room_is_left_alone_for_longer_each_time_until_a_job_begins() {
        let mut slots = Slots::default();
        let mut now_ms = 0;
        for pause_ms in [100, 200, 400] {
            slots.begin("p", "a");
            slots.begin("p", "a");
            slots.end("p", "a", false, now_ms);
            // Another that was rejected at the same time makes it no longer.
            slots.end("p", "a", false, now_ms);
            assert_eq!(slots.free("p", 1, now_ms), Err(now_ms + pause_ms));
            now_ms += pause_ms;
            assert_eq!(slots.free("p", 1, now_ms), Ok(1));
        }
        slots.begin("p", "a");
        slots.end("p", "a", true, now_ms);
        slots.begin("p", "a");
        slots.end("p", "a", false, now_ms);
        assert_eq!(slots.free("p", 1, now_ms), Err(now_ms + 100));
    }
}
