//! Reachability of a server, and its log messages.
//!
//! While a server is unreachable, one connection attempt at a time is made, and all other callers get its error at
//! once, so that nothing waits for a dead server. The log has one line when the server goes down and one when it is
//! back.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{Code, PgError};

/// Failed and slow statements logged each second; further ones share one line.
const LINES_MAX: u32 = 10;
const LINES_EVERY: Duration = Duration::from_secs(1);

/// State of a source's server.
#[derive(Debug)]
pub(crate) struct Health {
    source: String,
    down: Mutex<Down>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Down {
    /// Why it is unreachable, and since when.
    failure: Option<(PgError, Instant)>,
    /// Whether an attempt to reach it is in progress.
    is_tried: bool,
}

/// Log lines of the current second.
#[derive(Debug)]
struct Lines {
    since: Instant,
    count: u32,
}

/// A connection attempt in progress.
pub(crate) struct Attempt<'h> {
    health: &'h Health,
    /// Whether others are rejected meanwhile.
    is_trial: bool,
}

impl Health {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            down: Mutex::default(),
            lines: Mutex::new(Lines {
                since: Instant::now(),
                count: 0,
            }),
        }
    }

    /// Starts a connection attempt; an error if the server is down and another attempt is in progress.
    pub(crate) fn attempt(&self) -> Result<Attempt<'_>, PgError> {
        let mut down = self.down.lock();
        if let (Some((failure, _)), true) = (&down.failure, down.is_tried) {
            return Err(failure.clone());
        }
        down.is_tried = down.failure.is_some();
        Ok(Attempt {
            health: self,
            is_trial: down.is_tried,
        })
    }

    /// Why the server is unreachable.
    pub(crate) fn failure(&self) -> Option<PgError> {
        self.down
            .lock()
            .failure
            .as_ref()
            .map(|(failure, _)| failure.clone())
    }

    /// Whether to log a statement's failure: only the first ones in each second, and none for an unreachable server,
    /// which has been logged already.
    pub(crate) fn is_told(&self, error: &PgError) -> bool {
        error.code() != Code::Unreachable && self.may_tell()
    }

    /// Whether another line may be logged in this second.
    pub(crate) fn may_tell(&self) -> bool {
        let mut lines = self.lines.lock();
        if lines.since.elapsed() >= LINES_EVERY {
            if let Some(more) = lines.count.checked_sub(LINES_MAX).filter(|&more| more > 0) {
                tracing::error!(target: "forebay::sql", source = self.source, "{more} more statements have failed or were slow");
            }
            *lines = Lines {
                since: Instant::now(),
                count: 0,
            };
        }
        lines.count = lines.count.saturating_add(1);
        lines.count <= LINES_MAX
    }
}

impl Attempt<'_> {
    /// Records the outcome of the attempt.
    pub(crate) fn end<C>(self, outcome: &Result<C, PgError>) {
        let mut down = self.health.down.lock();
        let source = &*self.health.source;
        match outcome {
            Ok(_) => {
                if let Some((_, since)) = down.failure.take() {
                    let down_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                    tracing::info!(target: "forebay::sql", source, down_ms, "the database is back");
                }
            }
            Err(error) if error.code() == Code::Unreachable => {
                let since = down.failure.take().map_or_else(
                    || {
                        tracing::error!(target: "forebay::sql", source, "the database is down: {error}");
                        Instant::now()
                    },
                    |(_, since)| since,
                );
                down.failure = Some((error.clone(), since));
            }
            Err(_) => {}
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.health.down.lock().is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable() -> PgError {
        PgError::Connect {
            address: "h:1".into(),
            reason: "refused".into(),
        }
    }

    #[test]
    fn one_at_a_time_tries_a_server_that_is_gone_and_the_others_are_told_why() {
        let health = Health::new("main");
        let (one, other) = (health.attempt().unwrap(), health.attempt().unwrap());
        one.end::<()>(&Err(unreachable()));
        drop(other);
        assert_eq!(health.failure(), Some(unreachable()));
        let trial = health.attempt().unwrap();
        assert_eq!(health.attempt().err(), Some(unreachable()));
        // An abandoned attempt lets another one start.
        drop(trial);
        let trial = health.attempt().unwrap();
        trial.end(&Ok(()));
        assert_eq!(health.failure(), None);
        let _both = (health.attempt().unwrap(), health.attempt().unwrap());
    }

    #[test]
    fn so_many_failures_are_told_each_second_and_none_of_a_server_that_is_gone() {
        let health = Health::new("main");
        assert!(!health.is_told(&unreachable()));
        let told = (0..1000).filter(|_| health.is_told(&PgError::Hit)).count();
        assert!((10..200).contains(&told), "{told}");
    }
}
