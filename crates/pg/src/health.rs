//! Whether a server can be reached, and what is told of it in the log.
//!
//! While it cannot, one connection at a time is tried, and everybody else is told why at once: nobody waits for a server that does not answer, and the log has a line when it goes and one when it is back.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{Code, PgError};

/// Failures of statements, and slow ones, that are told in the log each second; there is one line for those beyond.
const LINES_MAX: u32 = 10;
const LINES_EVERY: Duration = Duration::from_secs(1);

/// What is known of a source's server.
#[derive(Debug)]
pub(crate) struct Health {
    source: String,
    down: Mutex<Down>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Down {
    /// Why it cannot be reached, and since when.
    failure: Option<(PgError, Instant)>,
    /// Somebody tries whether it can be again.
    is_tried: bool,
}

/// Lines of the log.
#[derive(Debug)]
struct Lines {
    since: Instant,
    count: u32,
}

/// A connection that is being made.
pub(crate) struct Attempt<'h> {
    health: &'h Health,
    /// Others are refused meanwhile.
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

    /// Whether a connection may be made; else why there is none.
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

    /// Why it cannot be reached.
    pub(crate) fn failure(&self) -> Option<PgError> {
        self.down
            .lock()
            .failure
            .as_ref()
            .map(|(failure, _)| failure.clone())
    }

    /// Whether the log is to be told of a statement's failure: it is of the first in a second, and of no server that is gone, which it has been told of.
    pub(crate) fn is_told(&self, error: &PgError) -> bool {
        error.code() != Code::Unreachable && self.may_tell()
    }

    /// Whether the log bears another line in this second.
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
    /// How it went.
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
        // One that is given up lets another try.
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
