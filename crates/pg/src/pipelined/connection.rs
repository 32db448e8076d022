//! One connection that tasks of its thread share.
//!
//! A task writes its statement into the connection's outgoing bytes and wakes the connection's own task once; that runs when the tasks that are ready have run, so one write carries what all of them ask.
//! Nothing here crosses threads.

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
    error::Fate,
    prepared::PreparedBook,
    protocol::{Conversation, Expected, write_run},
    statement::{check_session, only_reads},
    timing::{Reached, Timing},
};

/// Statements that the server has and has not answered. Those behind them wait here, where they can still be dropped.
const PIPELINE_MAX: usize = 256;
/// The server is taken to be held up by a long statement when it has answered nothing for so long.
const STALLED_AFTER: Duration = Duration::from_millis(2);
/// How often a statement is run whose plan is out of date, or that was cancelled with another: more often would be another reason.
const RUNS_MAX: usize = 3;

/// A connection; clones are the same one. It ends when the last is dropped.
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

/// What a connection's users and its task have in common.
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
                prepared: PreparedBook::default(),
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
    /// How large a result may be.
    result_bytes_max: usize,
    pub(super) conversation: Conversation<Mark>,
    /// What is to be written.
    pub(super) out: BytesMut,
    /// What is not to be written yet.
    waiting: VecDeque<Unsent>,
    /// Of the statements in `out`: those of which anybody wants to know when it is written.
    pub(super) unwritten: Vec<Timing>,
    /// A statement is being cancelled: whatever is sent now could be cancelled in its place.
    pub(super) is_held: bool,
    /// Nobody has the connection any more.
    pub(super) is_closed: bool,
    prepared: PreparedBook<Rc<Statement>>,
    /// When the server has answered something, or was first asked after it had answered everything.
    pub(super) moved: Instant,
    pub(super) broken: Option<PgError>,
}

/// Whom an answer is for.
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

    /// Whether it is a statement that nobody waits for.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Run(slot) if slot.is_abandoned())
    }
}

impl State {
    /// Sends something, or keeps it until that may be.
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

    /// Sends what has waited, as far as that may be, without what nobody waits for any more.
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

    /// What stands in the outgoing bytes has an answer.
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

    /// The outgoing bytes are written.
    pub(super) fn written(&mut self) {
        for timing in self.unwritten.drain(..) {
            timing.reach(Reached::Sent);
        }
    }

    /// Whether there is nothing left to do for anybody.
    pub(super) fn is_done(&self) -> bool {
        self.is_closed && self.conversation.len() == 0 && self.waiting.is_empty() && self.out.is_empty()
    }

    /// The connection is over: everything ends with that.
    pub(super) fn end(&mut self, error: &PgError) {
        self.broken = Some(error.clone());
        let unsent = self.waiting.drain(..).map(|unsent| (unsent.mark, None));
        for (mark, told) in self.conversation.broken().chain(unsent) {
            if let Mark::Run(slot) = mark {
                slot.finish(Err(told.unwrap_or_else(|| error.clone())));
            }
        }
    }

    /// The statement with this text, prepared now if it is not.
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

    /// Has a statement prepared anew when it is run next.
    pub(super) fn forget(&mut self, statement: &Rc<Statement>) {
        self.prepared
            .forget(&statement.text, |known| Rc::ptr_eq(known, statement));
    }
}

/// Has a statement dropped, or cancelled, that nobody waits for.
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
    /// Connects and logs in. The future that comes with it is the connection's own task: it ends when the connection does.
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

    /// How bad it would be to send something here: whether nothing is sent before a statement is cancelled, then how many are under way or wait.
    pub(super) fn burden(&self) -> (bool, usize) {
        let state = self.handle.0.state.borrow();
        (state.is_held, state.conversation.len() + state.waiting.len())
    }

    /// Whether what is sent now would wait: for a cancellation, a long statement, or because the server has as much to do as it is given.
    pub(super) fn is_held_up(&self) -> bool {
        let state = self.handle.0.state.borrow();
        let is_stalled = || state.conversation.len() > 0 && state.moved.elapsed() > STALLED_AFTER;
        !state.may_send() || is_stalled()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.handle.0.state.borrow().broken.is_some()
    }

    /// Runs a statement, prepared when it comes for the first time. It is sent when this is polled first, and cancelled when this is dropped.
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

    /// Runs statements that are sent together; gives the outcome of each that has one by `until`. Those that have none are cancelled.
    pub(super) async fn pipeline(
        &self,
        asks: &[Ask<'_>],
        until: Instant,
    ) -> Vec<Option<Result<Rows, PgError>>> {
        let mut sent: Vec<Result<Sent<'_>, PgError>> = Vec::with_capacity(asks.len());
        for (at, ask) in asks.iter().enumerate() {
            // Many ask for the same as the one before them, which is found without a search.
            let known = match (at.checked_sub(1).map(|before| asks[before].text), sent.last()) {
                (Some(before), Some(Ok(sent))) if std::ptr::eq(before, ask.text) => {
                    Some(Rc::clone(&sent.statement))
                }
                _ => None,
            };
            sent.push(self.send(ask, known));
        }
        // Answers come in the order of what was sent: with the last all are there.
        if let Some(last) = sent.iter().rev().find_map(|sent| sent.as_ref().ok()) {
            let over = last.waiting.slot.over();
            // What has no outcome by then is late, which shows below.
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

    /// The outcome of a statement that is over, after it was run again where that is needed; `None` where it is too late.
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

    /// What becomes of a statement that has come to an end for the `runs`th time.
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
        // A statement that could not be prepared is not known where it is run.
        let is_unprepared = failure.is_some();
        let error = failure.unwrap_or(error);
        let is_exposed = sent.waiting.slot.is_exposed() || statement.is_exposed();
        match error.fate(is_exposed, || is_unprepared || only_reads(ask.text)) {
            Fate::Again(error) if runs < RUNS_MAX => {
                if error.is_stale() {
                    self.handle.0.state.borrow_mut().forget(statement);
                }
                Verdict::Again
            }
            Fate::Again(error) | Fate::Told(error) => Verdict::Over(Err(error)),
        }
    }

    /// Puts a statement into the outgoing bytes and has them written; it may be known already that it is prepared.
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

/// A statement that is under way.
struct Sent<'c> {
    statement: Rc<Statement>,
    waiting: Waiting<'c>,
}

/// Whether a statement has its outcome.
enum Verdict {
    Over(Result<Rows, PgError>),
    Again,
}
