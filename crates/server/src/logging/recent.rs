//! The most recent events, kept for the control socket, and a feed of new ones.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::Level;

use super::LogExporter;

/// Number of events kept.
const KEPT: usize = 1000;
/// Number of events a slow follower may lag behind.
const BEHIND_MAX: usize = 1000;

/// One logged event.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    pub(crate) at: SystemTime,
    /// The event as JSON, with its line feed.
    pub(crate) json: String,
}

#[derive(Debug)]
pub(crate) struct Recent {
    kept: Mutex<RecentLines>,
    feed: broadcast::Sender<Arc<Entry>>,
}

#[derive(Debug, Default)]
struct RecentLines {
    entries: VecDeque<Arc<Entry>>,
    exporter: Option<Arc<LogExporter>>,
}

/// A feed of new events.
#[derive(Debug)]
pub(crate) struct Feed {
    events: broadcast::Receiver<Arc<Entry>>,
}

/// The number of events that a slow follower missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed(pub(crate) u64);

impl Default for Recent {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            feed: broadcast::Sender::new(BEHIND_MAX),
        }
    }
}

impl Recent {
    pub(super) fn push(&self, entry: Entry) {
        let entry = Arc::new(entry);
        let mut kept = self.kept.lock();
        if kept.entries.len() == KEPT {
            kept.entries.pop_front();
        }
        kept.entries.push_back(entry.clone());
        if let Some(exporter) = &kept.exporter {
            exporter.put(entry.clone());
        }
        // Sent under the lock, so that a caller of [`Recent::look`] sees each event exactly once. It is fine if there are no followers.
        let _ = self.feed.send(entry);
    }

    /// Queues the kept events and all that follow for a collector.
    pub(super) fn export_to(&self, exporter: &Arc<LogExporter>) {
        let mut kept = self.kept.lock();
        for entry in &kept.entries {
            exporter.put(entry.clone());
        }
        kept.exporter = Some(exporter.clone());
    }

    /// The kept events, oldest first, and a feed of those that follow.
    pub(crate) fn look(&self) -> (Vec<Arc<Entry>>, Feed) {
        let kept = self.kept.lock();
        (
            kept.entries.iter().cloned().collect(),
            Feed {
                events: self.feed.subscribe(),
            },
        )
    }
}

impl Feed {
    /// Waits for the next event.
    ///
    /// # Panics
    /// If the log is gone; followers keep it alive.
    pub(crate) async fn next(&mut self) -> Result<Arc<Entry>, Missed> {
        match self.events.recv().await {
            Ok(entry) => Ok(entry),
            Err(broadcast::error::RecvError::Lagged(missed)) => Err(Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => unreachable!("followers keep the log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize) -> Entry {
        Entry {
            level: Level::INFO,
            at: SystemTime::now(),
            json: number.to_string(),
        }
    }

    #[tokio::test]
    async fn the_newest_events_are_kept_and_the_next_ones_follow() {
        let recent = Recent::default();
        (0..KEPT + 3).for_each(|number| recent.push(entry(number)));
        let (kept, mut feed) = recent.look();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(
            (kept[0].json.as_str(), kept[KEPT - 1].json.as_str()),
            ("3", "1002")
        );
        recent.push(entry(1003));
        assert_eq!(feed.next().await.unwrap().json, "1003");
    }

    #[tokio::test]
    async fn a_slow_follower_learns_what_it_missed() {
        let recent = Recent::default();
        let (_, mut feed) = recent.look();
        (0..BEHIND_MAX * 2).for_each(|number| recent.push(entry(number)));
        let Missed(missed) = feed.next().await.unwrap_err();
        let next = feed.next().await.unwrap();
        assert_eq!(
            next.json,
            missed.to_string(),
            "what follows is the first event not missed"
        );
    }
}
