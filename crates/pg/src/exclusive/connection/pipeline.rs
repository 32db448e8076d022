//! Pipelined statements of one task.

use std::{collections::VecDeque, mem};

use super::Connection;
use crate::{
    PgError, Row, Rows,
    prepared::Prepared,
    protocol::{Event, Expected, Outcome, misplaced, write_run},
    timing::{Reached, Timing},
};

/// Most statements sent together: fewer than are kept prepared.
const TOGETHER_MAX: usize = 128;

/// A statement and its parameters.
pub(crate) type Statement<'a> = (&'a str, Vec<Option<&'a [u8]>>);

impl Connection {
    /// Runs statements one after another. Prepared ones are sent without waiting for those before them; a new one
    /// waits, because it may be invalid until they have run. After an error that is not reported by the server, the
    /// remaining statements are not sent and get the same error.
    pub(in crate::exclusive) async fn query_all(
        &mut self,
        statements: &[Statement<'_>],
        timings: &[Timing],
    ) -> Vec<Result<Rows, PgError>> {
        let mut outcomes: Vec<Result<Rows, PgError>> = Vec::with_capacity(statements.len());
        while let Some((text, parameters)) = statements.get(outcomes.len()) {
            if let Some(Err(error)) = outcomes.last()
                && !matches!(error, PgError::Server(_) | PgError::Unsendable { .. })
            {
                let error = error.clone();
                outcomes.push(Err(error));
                continue;
            }
            let rest = &statements[outcomes.len()..];
            let timings = &timings[outcomes.len()..];
            let known = rest.iter().take(TOGETHER_MAX);
            let known: Vec<Prepared> = known.map_while(|(text, _)| self.prepared.find(text)).collect();
            if known.len() < 2 {
                outcomes.push(self.query(text, parameters, &timings[0]).await);
                continue;
            }
            match self.run_together(known, rest, timings).await {
                Ok(ended) => outcomes.extend(ended),
                Err(error) => {
                    self.is_broken |= !matches!(error, PgError::TooLarge { .. });
                    outcomes.push(Err(error));
                }
            }
        }
        outcomes
    }

    /// Runs the first statements, as many as are prepared.
    async fn run_together(
        &mut self,
        known: Vec<Prepared>,
        statements: &[Statement<'_>],
        timings: &[Timing],
    ) -> Result<Vec<Result<Rows, PgError>>, PgError> {
        let mut written = Vec::with_capacity(known.len());
        let mut sent = Vec::with_capacity(known.len());
        for ((prepared, (_, parameters)), timing) in known.iter().zip(statements).zip(timings) {
            let wrote = write_run(&prepared.name, parameters, &mut self.out);
            if wrote.is_ok() {
                self.expect(Expected::Rows, true);
                sent.push(timing);
            }
            written.push(wrote);
        }
        let mut ended = self.ends(&sent).await?;
        let mut outcomes = Vec::with_capacity(known.len());
        for ((prepared, (text, _)), wrote) in known.into_iter().zip(statements).zip(written) {
            let outcome = match wrote {
                Ok(()) => ended.pop_front().ok_or_else(misplaced)?,
                Err(error) => (Vec::new(), Err(error)),
            };
            outcomes.push(match outcome {
                (rows, Ok(Outcome::Run(affected))) => Rows::new(prepared.columns, rows, affected),
                (_, Ok(Outcome::Prepared(_))) => Err(misplaced()),
                (_, Err(error)) => Err(self.stale(text, error)),
            });
        }
        Ok(outcomes)
    }

    /// Sends the statements and collects their results.
    async fn ends(&mut self, sent: &[&Timing]) -> Result<VecDeque<End>, PgError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut ends: VecDeque<End> = VecDeque::with_capacity(sent.len());
        let reach = |ends: &VecDeque<End>, stage| sent[ends.len()].reach(stage);
        loop {
            self.send().await?;
            for timing in sent {
                timing.reach(Reached::Sent);
            }
            self.conversation
                .receive(&mut self.received, |event| match event {
                    Event::Row((), row) => {
                        reach(&ends, Reached::Answered);
                        bytes += row.bytes();
                        rows.push(row);
                    }
                    Event::Over((), outcome) => {
                        reach(&ends, Reached::Answered);
                        reach(&ends, Reached::Decoded);
                        ends.push_back((mem::take(&mut rows), outcome));
                    }
                    Event::Suspended | Event::Complete | Event::Copy(_) => {}
                })?;
            if bytes > self.settings.result_bytes_max {
                return Err(self.too_large());
            }
            if ends.len() == sent.len() {
                return Ok(ends);
            }
            self.read().await?;
        }
    }
}

/// Rows of a statement, and its outcome.
type End = (Vec<Row>, Result<Outcome, PgError>);
