//! A connection shared by the tasks of one thread.
//!
//! A task appends its statement to the connection's send buffer and wakes the connection's own task once. That runs
//! after all ready tasks, so one write carries the statements of all of them. Nothing here crosses threads.

use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::Rc,
    task::Waker,
    time::{Duration, Instant},
};

use bytes::BytesMut;

use super::{
    slot::{Slot, Statement},
    task::Task,
};
use crate::{
    Ask, PgError, Row, Rows, Settings,
    error::FailureOutcome,
    prepared::PreparedStatements,
    protocol::{Conversation, Expected, write_run},
    statement::{check_session, only_reads},
    timing::{Reached, Timing},
};

/// Most statements sent and not answered yet. Further ones wait here, where they can still be dropped.
const PIPELINE_MAX: usize = 256;
/// A server that has answered nothing for this long is assumed to be busy with a long statement.
const STALLED_AFTER: Duration = Duration::from_millis(2);
/// How often a statement is run whose plan is out of date, or that was cancelled along with another: if that happens
/// again, the cause is a different one.
const RUNS_MAX: usize = 3;

/// A connection; clones share it. It ends when the last one is dropped.
#[derive(Clone)]
pub(super) struct Connection {
    handle: Rc<Handle>,
}

struct Handle(Rc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.borrow_mut().is_closed = true;
        self.0.wake();
    }
}

/// State shared by a connection's users and its task.
pub(super) struct Shared {
    pub(super) state: RefCell<State>,
    /// Wakes the connection's task.
    pub(super) task: RefCell<Option<Waker>>,
}

impl Shared {
    pub(super) fn new(settings: &Settings, out: BytesMut) -> Self {
        Self {
            state: RefCell::new(State {
                result_bytes_max: settings.result_bytes_max,
                conversation: Conversation::new(),
                out,
                waiting: VecDeque::new(),
                unwritten: Vec::new(),
                is_held: false,
                is_closed: false,
                prepared: PreparedStatements::default(),
                moved: Instant::now(),
                broken: None,
            }),
            task: RefCell::new(None),
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.task.borrow_mut().take() {
            waker.wake();
        }
    }
}

pub(super) struct State {
    /// Largest result, in bytes.
    result_bytes_max: usize,
    pub(super) conversation: Conversation<Mark>,
    /// Bytes to be sent.
    pub(super) out: BytesMut,
    /// Statements that may not be sent yet.
    waiting: VecDeque<Unsent>,
    /// Traced statements in `out`, which are told when it has been sent.
    pub(super) unwritten: Vec<Timing>,
    /// A statement is being cancelled: anything sent now could be cancelled in its place.
    pub(super) is_held: bool,
    /// All handles have been dropped.
    pub(super) is_closed: bool,
    prepared: PreparedStatements<Rc<Statement>>,
    /// When the server last answered, or was first sent something after it had answered everything.
    pub(super) moved: Instant,
    pub(super) broken: Option<PgError>,
}

/// Recipient of an answer.
#[derive(Clone)]
pub(super) enum Mark {
    Prepare(Rc<Statement>),
    Run(Rc<Slot>),
}

struct Unsent {
    mark: Mark,
    bytes: BytesMut,
}

impl Mark {
    fn expected(&self) -> Expected {
        match self {
            Self::Prepare(_) => Expected::Description,
            Self::Run(_) => Expected::Rows,
        }
    }

    /// Whether it is a statement whose caller has given up.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Run(slot) if slot.is_abandoned())
    }
}

impl State {
    /// Sends a statement, or queues it until that is allowed.
    fn push(
        &mut self,
        mark: Mark,
        write: impl FnOnce(&mut BytesMut) -> Result<(), PgError>,
    ) -> Result<(), PgError> {
        if self.waiting.is_empty() && self.may_send() {
            write(&mut self.out)?;
            if self.conversation.len() == 0 {
                self.moved = Instant::now();
            }
            self.expect(mark);
        } else {
            let mut bytes = BytesMut::new();
            write(&mut bytes)?;
            self.waiting.push_back(Unsent { mark, bytes });
        }
        Ok(())
    }

    fn may_send(&self) -> bool {
        !self.is_held && self.conversation.len() < PIPELINE_MAX
    }

    /// Sends queued statements, as far as allowed, and drops abandoned ones.
    pub(super) fn release(&mut self) {
        while self.may_send() {
            let Some(Unsent { mark, bytes }) = self.waiting.pop_front() else {
                return;
            };
            if mark.is_abandoned() {
                continue;
            }
            self.out.extend_from_slice(&bytes);
            self.expect(mark);
        }
    }

    /// Registers the answer to the bytes just appended to `out`.
    fn expect(&mut self, mark: Mark) {
        if let Mark::Run(slot) = &mark
            && slot.timing.is_wanted()
        {
            slot.timing.reach(Reached::Placed);
            self.unwritten.push(slot.timing.clone());
        }
        let expected = mark.expected();
        self.conversation.expect(mark, expected);
    }

    /// Records that the send buffer has been written.
    pub(super) fn written(&mut self) {
        for timing in self.unwritten.drain(..) {
            timing.reach(Reached::Sent);
        }
    }

    /// Whether the connection is closed and nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.is_closed && self.conversation.len() == 0 && self.waiting.is_empty() && self.out.is_empty()
    }

    /// Ends the connection and every statement on it with an error.
    pub(super) fn end(&mut self, error: &PgError) {
        self.broken = Some(error.clone());
        let unsent = self.waiting.drain(..).map(|unsent| (unsent.mark, None));
        for (mark, told) in self.conversation.broken().chain(unsent) {
            if let Mark::Run(slot) = mark {
                slot.finish(Err(told.unwrap_or_else(|| error.clone())));
            }
        }
    }

    /// The statement with this text; starts preparing it if necessary.
    fn statement(&mut self, text: &str) -> Result<Rc<Statement>, PgError> {
        if let Some(known) = self.prepared.find(text) {
            return Ok(known);
        }
        check_session(text)?;
        let mut bytes = BytesMut::new();
        let name = self.prepared.write(text, &mut bytes)?;
        let statement = Rc::new(Statement::new(text, name));
        self.push(Mark::Prepare(Rc::clone(&statement)), |out| {
            out.extend_from_slice(&bytes);
            Ok(())
        })?;
        self.prepared.insert(text, Rc::clone(&statement));
        Ok(statement)
    }

    /// Makes the next run prepare the statement again.
    pub(super) fn forget(&mut self, statement: &Rc<Statement>) {
        self.prepared
            .forget(&statement.text, |known| Rc::ptr_eq(known, statement));
    }
}

/// Abandons a statement when dropped before its outcome: it is then dropped from the queue, or cancelled.
struct Waiting<'c> {
    connection: &'c Connection,
    slot: Rc<Slot>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.slot.is_over() {
            self.slot.abandon();
            self.connection.handle.0.wake();
        }
    }
}

impl Connection {
    /// Connects and logs in. The future returned along with the connection is its own task, which ends with the
    /// connection.
    pub(super) async fn connect(
        settings: &Settings,
    ) -> Result<(Self, impl Future<Output = ()> + use<>), PgError> {
        let task = Task::connect(settings)
            .await
            .map_err(|error| error.at_start(&settings.server))?;
        let connection = Self {
            handle: Rc::new(Handle(task.shared())),
        };
        Ok((connection, task.run()))
    }

    /// Cost of sending something here: first whether a cancellation holds everything up, then the number of statements
    /// sent or queued.
    pub(super) fn burden(&self) -> (bool, usize) {
        let state = self.handle.0.state.borrow();
        (state.is_held, state.conversation.len() + state.waiting.len())
    }

    /// Whether a new statement would have to wait: for a cancellation, a long statement, or a full pipeline.
    pub(super) fn is_held_up(&self) -> bool {
        let state = self.handle.0.state.borrow();
        let is_stalled = || state.conversation.len() > 0 && state.moved.elapsed() > STALLED_AFTER;
        !state.may_send() || is_stalled()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.handle.0.state.borrow().broken.is_some()
    }

    /// Runs a statement, preparing it the first time. It is sent on the first poll, and cancelled when the future is
    /// dropped.
    pub(super) async fn query(&self, ask: &Ask<'_>) -> Result<Rows, PgError> {
        let mut runs = 1;
        loop {
            let sent = self.send(ask, None)?;
            let outcome = sent.waiting.slot.outcome().await;
            match self.judge(ask, &sent, outcome, runs) {
                Verdict::Over(outcome) => return outcome,
                Verdict::Again => runs += 1,
            }
        }
    }

    /// Runs statements that are sent together; returns the outcome of each that has one by `until`, and cancels the
    /// others.
    pub(super) async fn pipeline(
        &self,
        asks: &[Ask<'_>],
        until: Instant,
    ) -> Vec<Option<Result<Rows, PgError>>> {
        let mut sent: Vec<Result<Sent<'_>, PgError>> = Vec::with_capacity(asks.len());
        for (at, ask) in asks.iter().enumerate() {
            // Often a statement has the same text as the one before, which saves the lookup.
            let known = match (at.checked_sub(1).map(|before| asks[before].text), sent.last()) {
                (Some(before), Some(Ok(sent))) if std::ptr::eq(before, ask.text) => {
                    Some(Rc::clone(&sent.statement))
                }
                _ => None,
            };
            sent.push(self.send(ask, known));
        }
        // Answers arrive in the order of sending: once the last is there, all are.
        if let Some(last) = sent.iter().rev().find_map(|sent| sent.as_ref().ok()) {
            let over = last.waiting.slot.over();
            // A timeout shows below, where outcomes are missing.
            let _ = tokio::time::timeout_at(until.into(), over).await;
        }
        let mut outcomes = Vec::with_capacity(asks.len());
        for (sent, ask) in sent.into_iter().zip(asks) {
            outcomes.push(match sent {
                Ok(sent) => self.outcome_of(ask, sent, until).await,
                Err(error) => Some(Err(error)),
            });
        }
        outcomes
    }

    /// The outcome of a finished statement, after running it again if necessary; `None` if it is too late.
    async fn outcome_of(
        &self,
        ask: &Ask<'_>,
        sent: Sent<'_>,
        until: Instant,
    ) -> Option<Result<Rows, PgError>> {
        let outcome = sent.waiting.slot.take_outcome()?;
        match self.judge(ask, &sent, outcome, 1) {
            Verdict::Over(outcome) => Some(outcome),
            Verdict::Again => tokio::time::timeout_at(until.into(), self.query(ask)).await.ok(),
        }
    }

    /// Decides what to do with a statement that has finished for the `runs`th time.
    fn judge(
        &self,
        ask: &Ask<'_>,
        sent: &Sent<'_>,
        outcome: Result<(Vec<Row>, u64), PgError>,
        runs: usize,
    ) -> Verdict {
        let statement = &sent.statement;
        let error = match outcome {
            Ok((rows, affected)) => {
                let columns = statement.columns();
                return Verdict::Over(columns.and_then(|columns| Rows::new(columns, rows, affected)));
            }
            Err(error) => error,
        };
        let failure = statement.failure();
        // If the statement could not be prepared, running it only reports that it is unknown.
        let is_unprepared = failure.is_some();
        let error = failure.unwrap_or(error);
        let is_exposed = sent.waiting.slot.is_exposed() || statement.is_exposed();
        match error.fate(is_exposed, || is_unprepared || only_reads(ask.text)) {
            FailureOutcome::Again(error) if runs < RUNS_MAX => {
                if error.is_stale() {
                    self.handle.0.state.borrow_mut().forget(statement);
                }
                Verdict::Again
            }
            FailureOutcome::Again(error) | FailureOutcome::Told(error) => Verdict::Over(Err(error)),
        }
    }

    /// Appends a statement to the send buffer and wakes the task. `known` is the prepared statement, if already looked
    /// up.
    fn send(&self, ask: &Ask<'_>, known: Option<Rc<Statement>>) -> Result<Sent<'_>, PgError> {
        let mut state = self.handle.0.state.borrow_mut();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let statement = match known {
            Some(known) => known,
            None => state.statement(ask.text)?,
        };
        let slot = Rc::new(Slot::new(state.result_bytes_max, ask.timing.clone()));
        state.push(Mark::Run(Rc::clone(&slot)), |out| {
            write_run(&statement.name, ask.parameters, out)
        })?;
        self.handle.0.wake();
        let waiting = Waiting {
            connection: self,
            slot,
        };
        Ok(Sent { statement, waiting })
    }
}

/// A statement in progress.
struct Sent<'c> {
    statement: Rc<Statement>,
    waiting: Waiting<'c>,
}

/// Whether a statement has its outcome.
enum Verdict {
    Over(Result<Rows, PgError>),
    Again,
}
