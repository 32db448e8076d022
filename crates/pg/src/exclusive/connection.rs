//! A connection used exclusively by one task.
//!
//! Its futures may be dropped at any time: the bytes sent and received stay in the connection, and
//! [`Connection::settle`] completes what is in progress.

mod copy;
mod pipeline;

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};

use crate::{
    PgError, Row, Rows, Settings,
    pipelined::{Stream, cancel, start_unlimited},
    prepared::{Prepared, PreparedStatements},
    protocol::{
        CancelKey, Conversation, Copying, Description, Direction, Event, Expected, Outcome, Transaction,
        make_room, misplaced, write_copy_fail, write_end, write_fetch, write_open, write_prepare, write_run,
    },
    timing::{Reached, Timing},
};

/// Read size while the server does not accept what is being sent.
const READ_WHILE_SENDING_BYTES: usize = 8192;
/// Rows that a stream requests at a time: at most these still arrive when it is dropped.
const FETCH_ROWS: u16 = 256;
/// How long an abandoned statement may still run before it is cancelled.
const GRACE: Duration = Duration::from_millis(10);

/// An exclusively used connection.
#[derive(Debug)]
pub(super) struct Connection {
    settings: Settings,
    stream: Stream,
    key: Option<CancelKey>,
    conversation: Conversation<()>,
    received: BytesMut,
    out: BytesMut,
    prepared: PreparedStatements<Prepared>,
    /// Rows of a stream that have arrived.
    rows: VecDeque<Row>,
    /// Direction of the COPY in progress.
    direction: Option<Direction>,
    /// Whether the COPY still accepts data.
    takes_bytes: bool,
    /// Copied-out data that has arrived.
    pieces: VecDeque<Bytes>,
    /// Timing of the statement in progress.
    timing: Timing,
    /// Rows returned or changed by the last finished statement.
    affected: u64,
    /// Whether the end of the statement in progress has been requested.
    is_ended: bool,
    is_broken: bool,
    pub(super) since: Instant,
}

/// An event other than a row.
enum Step {
    Copies,
    Suspended,
    Complete,
    Over(Result<Outcome, PgError>),
}

impl Connection {
    pub(super) async fn connect(settings: &Settings) -> Result<Self, PgError> {
        // Without a statement timeout: how long a stream or transaction takes is up to its reader.
        let started = start_unlimited(settings).await?;
        Ok(Self {
            settings: settings.clone(),
            stream: started.stream,
            key: started.key,
            conversation: Conversation::new(),
            received: started.received,
            out: started.out,
            prepared: PreparedStatements::default(),
            rows: VecDeque::new(),
            direction: None,
            takes_bytes: false,
            pieces: VecDeque::new(),
            timing: Timing::default(),
            affected: 0,
            is_ended: true,
            is_broken: false,
            since: Instant::now(),
        })
    }

    /// Rows returned or changed by the last statement.
    pub(super) fn affected(&self) -> u64 {
        self.affected
    }

    pub(super) fn transaction(&self) -> Transaction {
        self.conversation.transaction()
    }

    /// Whether nothing is in progress and no transaction is open.
    pub(super) fn is_clean(&self) -> bool {
        !self.is_broken && self.conversation.len() == 0 && self.transaction() == Transaction::None
    }

    /// Whether the server has kept the idle connection open.
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_quiet()
    }

    /// Runs a statement to its end.
    pub(super) async fn query(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
        timing: &Timing,
    ) -> Result<Rows, PgError> {
        let Prepared { name, columns, .. } = self.prepare(text).await?;
        write_run(&name, parameters, &mut self.out)?;
        self.expect(Expected::Rows, true);
        self.timing = timing.clone();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let result_bytes_max = self.settings.result_bytes_max;
        let outcome = loop {
            let step = self.step().await?;
            for row in self.rows.drain(..) {
                bytes += row.bytes();
                rows.push(row);
            }
            if bytes > result_bytes_max {
                return Err(self.too_large());
            }
            if let Some(Step::Over(outcome)) = step {
                timing.reach(Reached::Decoded);
                break outcome;
            }
        };
        match outcome {
            Ok(Outcome::Run(affected)) => Rows::new(columns, rows, affected),
            Ok(Outcome::Prepared(_)) => Err(misplaced()),
            Err(error) => Err(self.stale(text, error)),
        }
    }

    /// Starts a statement whose rows are read with [`Connection::row`].
    pub(super) async fn open(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
        timing: &Timing,
    ) -> Result<std::sync::Arc<[crate::Column]>, PgError> {
        let Prepared { name, columns, .. } = self.prepare(text).await?;
        write_open(&name, parameters, FETCH_ROWS, &mut self.out)?;
        self.expect(Expected::Rows, false);
        self.timing = timing.clone();
        // Errors of the statement become known before its first rows.
        while self.rows.is_empty() && self.conversation.len() > 0 {
            if let Err(error) = self.advance().await {
                return Err(self.stale(text, error));
            }
        }
        Ok(columns)
    }

    /// The next row, if it has already arrived.
    pub(super) fn come(&mut self) -> Option<Row> {
        self.rows.pop_front()
    }

    /// Waits for the next row; `None` after the last.
    pub(super) async fn row(&mut self) -> Result<Option<Row>, PgError> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            if self.conversation.len() == 0 {
                return Ok(None);
            }
            self.advance().await?;
        }
    }

    /// One step of a stream: requests more rows once the current ones have arrived.
    async fn advance(&mut self) -> Result<(), PgError> {
        match self.step().await? {
            Some(Step::Suspended) if !self.is_ended => write_fetch(FETCH_ROWS, &mut self.out),
            Some(Step::Complete) if !self.is_ended => self.end(),
            Some(Step::Over(outcome)) => outcome.map(drop),
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), PgError> {
        self.is_ended = true;
        if std::mem::take(&mut self.takes_bytes) {
            write_copy_fail(&mut self.out)?;
        }
        write_end(&mut self.out)
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, PgError> {
        if let Some(known) = self.prepared.find(text) {
            return Ok(known);
        }
        let name = self.prepared.write(text, &mut self.out)?;
        let description = self.description().await?;
        Ok(self.prepared.learn(text, name, description.columns))
    }

    /// Description of a statement by the server, which does not keep it prepared.
    pub(super) async fn describe(&mut self, text: &str) -> Result<Description, PgError> {
        write_prepare("", text, None, &mut self.out)?;
        self.description().await
    }

    async fn description(&mut self) -> Result<Description, PgError> {
        self.expect(Expected::Description, true);
        loop {
            match self.step().await? {
                Some(Step::Over(Ok(Outcome::Prepared(description)))) => return Ok(description),
                Some(Step::Over(Ok(Outcome::Run(_)))) => return Err(misplaced()),
                Some(Step::Over(Err(error))) => return Err(error),
                _ => {}
            }
        }
    }

    fn stale(&mut self, text: &str, error: PgError) -> PgError {
        if error.is_stale() {
            self.prepared.forget(text, |_| true);
        }
        error
    }

    fn expect(&mut self, expected: Expected, is_ended: bool) {
        self.conversation.expect((), expected);
        self.timing = Timing::default();
        self.direction = None;
        self.is_ended = is_ended;
    }

    /// Handles received data, or else sends and reads once.
    async fn step(&mut self) -> Result<Option<Step>, PgError> {
        let moved = self.move_bytes().await;
        self.is_broken |= moved.is_err();
        moved
    }

    async fn move_bytes(&mut self) -> Result<Option<Step>, PgError> {
        self.send().await?;
        self.timing.reach(Reached::Sent);
        let step = self.take()?;
        if step.is_none() && self.rows.is_empty() && self.pieces.is_empty() {
            self.read().await?;
            self.timing.reach(Reached::Answered);
        }
        Ok(step)
    }

    /// Handles received data.
    fn take(&mut self) -> Result<Option<Step>, PgError> {
        let mut step = None;
        let (rows, pieces, affected) = (&mut self.rows, &mut self.pieces, &mut self.affected);
        let (direction, takes_bytes) = (&mut self.direction, &mut self.takes_bytes);
        self.conversation
            .receive(&mut self.received, |event| match event {
                Event::Row((), row) => rows.push_back(row),
                Event::Suspended => step = Some(Step::Suspended),
                Event::Complete => {
                    *takes_bytes = false;
                    step = Some(Step::Complete);
                }
                Event::Over((), outcome) => {
                    if let Ok(Outcome::Run(count)) = outcome {
                        *affected = count;
                    }
                    step = Some(Step::Over(outcome));
                }
                Event::Copy(Copying::Bytes(bytes)) => pieces.push_back(bytes),
                Event::Copy(Copying::Begins(to)) => {
                    *direction = Some(to);
                    *takes_bytes = to == Direction::In;
                    step = Some(Step::Copies);
                }
            })?;
        Ok(step)
    }

    /// Sends the buffer. Reads meanwhile, because a server that cannot send does not read either.
    async fn send(&mut self) -> Result<(), PgError> {
        poll_fn(|context| self.poll_send(context)).await
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PgError>> {
        loop {
            let stream = Pin::new(&mut self.stream);
            let sent = if self.out.is_empty() {
                stream.poll_flush(context)?.map(|()| 0)
            } else {
                stream.poll_write(context, &self.out)?
            };
            match sent {
                Poll::Ready(0) if self.out.is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(0) => return Poll::Ready(Err(closed())),
                Poll::Ready(count) => self.out.advance(count),
                Poll::Pending => ready!(self.poll_read(context))?,
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PgError>> {
        if self.received.len() > self.settings.result_bytes_max {
            return Poll::Ready(Err(self.too_large()));
        }
        let mut room = [0; READ_WHILE_SENDING_BYTES];
        let mut room = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut room))?;
        if room.filled().is_empty() {
            return Poll::Ready(Err(closed()));
        }
        self.received.extend_from_slice(room.filled());
        Poll::Ready(Ok(()))
    }

    fn too_large(&self) -> PgError {
        PgError::TooLarge {
            result_bytes_max: self.settings.result_bytes_max,
        }
    }

    async fn read(&mut self) -> Result<(), PgError> {
        make_room(&mut self.received);
        if self.stream.read_buf(&mut self.received).await? == 0 {
            return Err(closed());
        }
        Ok(())
    }

    /// Completes what is in progress, cancelling it if it takes long, and rolls back an open transaction.
    pub(super) async fn settle(&mut self) -> Result<(), PgError> {
        if self.is_broken {
            return Err(misplaced());
        }
        self.interrupt().await?;
        if self.transaction() != Transaction::None {
            self.query("rollback", &[], &Timing::default()).await?;
        }
        Ok(())
    }

    /// Completes what is in progress, cancelling it if it takes long.
    pub(super) async fn interrupt(&mut self) -> Result<(), PgError> {
        if self.conversation.len() == 0 {
            return Ok(());
        }
        if !self.is_ended {
            self.end()?;
        }
        if let Ok(ended) = tokio::time::timeout(GRACE, self.drain()).await {
            return ended;
        }
        if let Some(key) = self.key {
            cancel(&self.settings.server, key).await?;
        }
        self.drain().await
    }

    async fn drain(&mut self) -> Result<(), PgError> {
        loop {
            self.rows.clear();
            self.pieces.clear();
            if self.conversation.len() == 0 {
                return Ok(());
            }
            self.step().await?;
        }
    }
}

fn closed() -> PgError {
    PgError::Broken {
        reason: "the server has closed it".into(),
    }
}
