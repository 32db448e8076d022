//! `copy … from stdin` and `copy … to stdout` (manual, 53.2.7).

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use bytes::Bytes;

use super::{Connection, Step};
use crate::{
    PgError,
    prepared::Prepared,
    protocol::{Direction, Expected, Outcome, misplaced, write_copy, write_copy_bytes, write_copy_done},
    timing::Timing,
};

impl Connection {
    /// Starts a COPY statement and returns its direction.
    pub(in crate::exclusive) async fn copy(
        &mut self,
        text: &str,
        timing: &Timing,
    ) -> Result<Direction, PgError> {
        let Prepared { name, .. } = self.prepare(text).await?;
        write_copy(&name, &mut self.out)?;
        self.expect(Expected::Copy, false);
        self.timing = timing.clone();
        while self.direction.is_none() && self.conversation.len() > 0 {
            if let Err(error) = self.advance().await {
                return Err(self.stale(text, error));
            }
        }
        self.direction.ok_or_else(|| PgError::Unsendable {
            reason: "it copies neither from `stdin` nor to `stdout`".into(),
        })
    }

    /// Whether a COPY statement is in progress.
    pub(in crate::exclusive) fn is_copying(&self) -> bool {
        self.direction.is_some() && self.conversation.len() > 0
    }

    /// Sends data at the pace of the server; an error if the server has rejected earlier data.
    pub(in crate::exclusive) async fn copy_bytes(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        if self.takes_bytes {
            write_copy_bytes(bytes, &mut self.out)?;
            let sent = self.send_and_look().await;
            self.is_broken |= sent.is_err();
            sent?;
        }
        // Before the end the server sends nothing but an error.
        if self.takes_bytes {
            Ok(())
        } else {
            self.last().await.and(Err(misplaced()))
        }
    }

    /// Ends the data; returns the number of rows.
    pub(in crate::exclusive) async fn copy_done(&mut self) -> Result<u64, PgError> {
        if self.takes_bytes {
            self.takes_bytes = false;
            write_copy_done(&mut self.out);
        }
        self.last().await
    }

    /// Ends the statement and waits for that.
    async fn last(&mut self) -> Result<u64, PgError> {
        if !self.is_ended {
            self.end()?;
        }
        while self.conversation.len() > 0 {
            match self.step().await? {
                Some(Step::Over(Ok(Outcome::Run(affected)))) => return Ok(affected),
                Some(Step::Over(Ok(Outcome::Prepared(_)))) => return Err(misplaced()),
                Some(Step::Over(Err(error))) => return Err(error),
                _ => {}
            }
        }
        Err(misplaced())
    }

    /// Waits for the next copied-out data; `None` after the last.
    pub(in crate::exclusive) async fn copied(&mut self) -> Result<Option<Bytes>, PgError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if self.conversation.len() == 0 {
                return Ok(None);
            }
            self.advance().await?;
        }
    }

    /// The next copied-out data, if it has already arrived.
    pub(in crate::exclusive) fn copied_already(&mut self) -> Option<Bytes> {
        self.pieces.pop_front()
    }

    /// Sends the buffer and handles received data, if there is any.
    async fn send_and_look(&mut self) -> Result<(), PgError> {
        self.send().await?;
        poll_fn(|context: &mut Context<'_>| match self.poll_read(context) {
            Poll::Ready(read) => Poll::Ready(read),
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await?;
        self.take().map(drop)
    }
}
