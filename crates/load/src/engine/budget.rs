//! A fixed number of requests, shared by all threads.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Requests that may still be sent.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// `None`: any number.
    left: Option<Arc<AtomicU64>>,
    threads: u64,
    /// Taken from `left` in one go, not yet used.
    held: u64,
}

/// Most requests that a thread takes at a time.
const BLOCK_MAX: u64 = 256;

impl Budget {
    pub(crate) fn new(requests: Option<u64>, threads: usize) -> Self {
        Self {
            left: requests.map(|requests| Arc::new(AtomicU64::new(requests))),
            threads: threads as u64,
            held: 0,
        }
    }

    /// Takes up to `wanted`; fewer only when no more are left.
    pub(crate) fn take(&mut self, wanted: usize) -> usize {
        let Some(left) = &self.left else {
            return wanted;
        };
        let wanted = wanted as u64;
        while self.held < wanted {
            // Small blocks towards the end, so that no thread sits on what another could send.
            let seen = left.load(Ordering::Relaxed);
            let block = (seen / (16 * self.threads)).clamp(1, BLOCK_MAX).min(seen);
            if block == 0 {
                break;
            }
            if left
                .compare_exchange_weak(seen, seen - block, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                self.held += block;
            }
        }
        let taken = wanted.min(self.held);
        self.held -= taken;
        taken as usize
    }

    /// Whether all is used up, as far as this thread knows.
    pub(crate) fn is_spent(&self) -> bool {
        self.held == 0
            && self
                .left
                .as_ref()
                .is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_exactly_what_there_is() {
        let budget = Budget::new(Some(100_003), 4);
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let mut budget = budget.clone();
                    scope.spawn(move || {
                        let mut all = 0;
                        while !budget.is_spent() {
                            all += budget.take(3);
                        }
                        all
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 100_003);
    }
}
