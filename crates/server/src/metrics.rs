//! What routes count.

use std::sync::atomic::{AtomicU64, Ordering};

/// Answers of one route by class of status. Each I/O thread counts for itself, so that no two cores write the same memory.
#[derive(Debug)]
pub(crate) struct RouteCounts {
    threads: Box<[ThreadCounts]>,
}

/// The counts of one thread, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounts {
    classes: [AtomicU64; 6],
}

impl RouteCounts {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads: (0..threads).map(|_| ThreadCounts::default()).collect(),
        }
    }

    pub(crate) fn of_thread(&self, thread: usize) -> &ThreadCounts {
        &self.threads[thread]
    }
}

impl ThreadCounts {
    pub(crate) fn count(&self, status: u16) {
        let class = usize::from(status / 100).min(self.classes.len() - 1);
        // Only this thread writes, so no atomic addition is needed.
        let counter = &self.classes[class];
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
