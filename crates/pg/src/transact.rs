//! Transactions whose statements are all known in advance, so that they can be run again.

use std::time::{Duration, Instant};

use crate::{
    Beginning, Isolation, PgError, Rows, Source,
    counts::{Counting, Placed},
};

/// How often a transaction is run that conflicts with others.
const RUNS_MAX: u32 = 5;
/// Longest pause before the first repetition; it doubles each time. A random part of it is used, so that two
/// conflicting transactions do not meet again.
const PAUSE_FIRST: Duration = Duration::from_millis(10);

/// A statement of a transaction, with its parameters as text; `None` is null.
pub type Step<'s> = (&'s str, Vec<Option<&'s [u8]>>);

/// Why a transaction has not taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Index of the failed statement; `None` if beginning or committing failed.
    pub step: Option<usize>,
    /// Error of the statement or transaction.
    pub error: PgError,
}

impl Source {
    /// Runs statements as one transaction, until `deadline`, and returns the last one's result once all have taken
    /// effect; if `is_wanted` rejects that result, none has. A transaction that conflicts with another is run again.
    pub async fn transact(
        &self,
        steps: &[Step<'_>],
        isolation: Isolation,
        deadline: Instant,
        is_wanted: impl Fn(&Rows) -> bool,
    ) -> Result<Rows, Failed> {
        let text: Vec<&str> = steps.iter().map(|(text, _)| *text).collect();
        let mut counting = Counting::begin(self, text.join("; "), Placed::default());
        let mut pause = PAUSE_FIRST;
        let mut runs = 1;
        loop {
            let failed = match self
                .run_once(steps, isolation, deadline, &is_wanted, &counting)
                .await
            {
                Err(failed) if failed.error.is_conflict() && runs < RUNS_MAX => failed,
                Ok(rows) => {
                    counting.gives(rows.affected);
                    counting.done();
                    return Ok(rows);
                }
                Err(failed) => {
                    counting.fail(&failed.error);
                    return Err(failed);
                }
            };
            let wait = pause.mul_f64(fastrand::f64());
            if Instant::now() + wait >= deadline {
                counting.fail(&failed.error);
                return Err(failed);
            }
            tokio::time::sleep(wait).await;
            pause *= 2;
            runs += 1;
        }
    }

    async fn run_once(
        &self,
        steps: &[Step<'_>],
        isolation: Isolation,
        deadline: Instant,
        is_wanted: &impl Fn(&Rows) -> bool,
        counting: &Counting<'_, &Self>,
    ) -> Result<Rows, Failed> {
        let outside = |error| Failed { step: None, error };
        let beginning = Beginning {
            isolation: Some(isolation),
            is_read_only: false,
        };
        let mut transaction = self
            .begin_counted(None, beginning, deadline)
            .await
            .map_err(outside)?;
        counting.place(Instant::now());
        let mut last = None;
        // Statements after a failed one are rejected by the server.
        for (index, outcome) in transaction
            .query_all(steps)
            .await
            .map_err(outside)?
            .into_iter()
            .enumerate()
        {
            last = Some(outcome.map_err(|error| Failed {
                step: Some(index),
                error,
            })?);
        }
        let last = last.expect("a transaction has a statement");
        let ended = if is_wanted(&last) {
            transaction.commit().await
        } else {
            transaction.rollback().await
        };
        ended.map_err(outside)?;
        Ok(last)
    }
}
