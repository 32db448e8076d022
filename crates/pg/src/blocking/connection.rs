//! A connection that one thread at a time uses, with blocking I/O.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::{
    statement::{Over, Sent, Statement},
    stream::{Stream, late, left},
};
use crate::{
    Ask, PgError, Rows, Settings, Stage,
    prepared::{Prepared, PreparedStatements},
    protocol::{
        CancelKey, Conversation, Event, Expected, Format, Outcome, Startup, Transaction, misplaced,
        write_cancel, write_run_as,
    },
    statement::check_session,
};

/// Size of the buffer for one read.
const READ_BYTES: usize = 16_384;
/// How often a blocked read checks whether the caller is still waiting.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit for a cancellation and the end of the cancelled statement; a connection that takes longer is closed.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for the answer of a connection that was idle; one that takes longer is closed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes sent before the first answer to them, unless they belong to a single statement. A server blocked on
/// sending its answers can still buffer that many, so the two sides never wait for each other.
const AHEAD_BYTES: usize = 16_384;

/// A connection and its prepared statements.
#[derive(Debug)]
pub(super) struct Connection {
    settings: Settings,
    stream: Stream,
    key: Option<CancelKey>,
    /// Marks are the indices of the statements being run together.
    conversation: Conversation<usize>,
    received: BytesMut,
    out: BytesMut,
    prepared: PreparedStatements<Prepared>,
    /// Whether callers share it, and so the format of values.
    usage: Usage,
    is_broken: bool,
}

/// Whether callers take turns on a connection or one of them has it to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    /// Callers take turns, so a statement must leave no transaction open. Values are text.
    Shared,
    /// One caller has it, and may keep a transaction open. Values are binary.
    Exclusive,
}

/// Deadline of a run, and whether the caller is still waiting.
pub(super) struct StatementLimits<'w> {
    pub(super) until: Instant,
    pub(super) is_wanted: &'w dyn Fn() -> bool,
}

impl StatementLimits<'_> {
    /// For a caller that never gives up.
    pub(super) fn until(until: Instant) -> Self {
        Self {
            until,
            is_wanted: &|| true,
        }
    }

    /// How long to wait before checking again; an error if the caller has given up.
    fn wait(&self) -> Result<Duration, PgError> {
        if !(self.is_wanted)() {
            return Err(late());
        }
        Ok(left(self.until)?.min(LOOK))
    }
}

impl Connection {
    /// Connects and logs in, within the connect timeout.
    pub(super) fn connect(settings: &Settings, usage: Usage) -> Result<Self, PgError> {
        let limit = settings.connect_timeout;
        Self::begin(settings, usage, Instant::now() + limit).map_err(|error| match error {
            PgError::TimedOut { .. } => PgError::TimedOut {
                what: Stage::Connect,
                limit,
            },
            // Its code says more than that there is no connection.
            error @ PgError::Server(_) if usage == Usage::Exclusive => error,
            error => error.at_start(&settings.server),
        })
    }

    fn begin(settings: &Settings, usage: Usage, until: Instant) -> Result<Self, PgError> {
        let stream = Stream::connect(&settings.server, until)?;
        let mut connection = Self {
            settings: settings.clone(),
            key: None,
            conversation: Conversation::new(),
            received: BytesMut::new(),
            out: BytesMut::new(),
            prepared: PreparedStatements::default(),
            usage,
            is_broken: false,
            stream,
        };
        let mut startup = Startup::begin(
            &settings.server,
            Some(settings.server_timeout()),
            connection.stream.end_point(),
            &mut connection.out,
        )?;
        let wanted = StatementLimits::until(until);
        loop {
            connection.send(until)?;
            connection.read(&wanted)?;
            if startup.receive(&mut connection.received, &mut connection.out)? {
                connection.key = startup.key();
                return Ok(connection);
            }
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether the server has kept the idle connection open.
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_quiet()
    }

    /// Whether the server answers soon, and before `until`.
    pub(super) fn answers(&mut self, until: Instant) -> bool {
        let until = until.min(Instant::now() + PROBE_TIMEOUT);
        let nothing = Statement::from(&Ask::new("", &[]));
        let mut is_answered = false;
        self.run(&[nothing], &StatementLimits::until(until), &mut |_, outcome| {
            is_answered = outcome.is_ok();
        });
        is_answered
    }

    /// Pipelines as many of the first statements as possible, calls `tell` with the index and outcome of each, and
    /// returns how many they were. A new statement must be prepared first, which waits for the server: unless it is the
    /// first one, it and those after it are left for the next call.
    ///
    /// When the deadline passes or the caller gives up, the statements in progress are cancelled. Any error that is not
    /// reported by the server breaks the connection, unless the cancellation completes.
    pub(super) fn run(
        &mut self,
        statements: &[Statement],
        wanted: &StatementLimits<'_>,
        tell: &mut dyn FnMut(usize, Result<Rows, PgError>),
    ) -> usize {
        let (count, refused) = self.run_once(statements, wanted, tell);
        for (number, error) in &refused {
            if error.is_stale() {
                self.prepared.forget(&statements[*number].text, |_| true);
            }
        }
        for (number, error) in refused {
            // A caller who has the connection to itself may have meant the statement for a transaction that is over.
            let belongs_elsewhere =
                self.usage == Usage::Exclusive || self.conversation.transaction() != Transaction::None;
            if self.is_broken || belongs_elsewhere {
                tell(number, Err(error));
                continue;
            }
            let statement = &statements[number..=number];
            let (_, refused) = self.run_once(statement, wanted, &mut |_, outcome| tell(number, outcome));
            for (_, error) in refused {
                tell(number, Err(error));
            }
        }
        count
    }

    /// One attempt of `run`. Returns how many statements were run, and those that must be run again, with their errors.
    fn run_once(
        &mut self,
        statements: &[Statement],
        wanted: &StatementLimits<'_>,
        tell: &mut dyn FnMut(usize, Result<Rows, PgError>),
    ) -> (usize, Vec<(usize, PgError)>) {
        let mut refused = Vec::new();
        let mut sent = match self.write_first(statements, wanted) {
            Ok(sent) => sent,
            Err(error) => {
                self.fail(&error);
                tell(0, Err(error));
                return (1, refused);
            }
        };
        let mut end = |number, over| match over {
            Over::Told(outcome) => tell(number, outcome),
            Over::Refused(error) => refused.push((number, error)),
        };
        if let Err(error) = self.take_answers(&mut sent, wanted, &mut end) {
            // The server may have given the reason before it closed the connection.
            let mut said = self.fail(&error);
            for (number, sent) in sent.iter().enumerate() {
                if !sent.is_over {
                    let error = said.take().unwrap_or_else(|| error.clone());
                    end(number, Over::Told(Err(error)));
                }
            }
        }
        // A transaction left open by a procedure must not affect the next statement.
        self.is_broken |= self.usage == Usage::Shared && self.conversation.transaction() != Transaction::None;
        (sent.len(), refused)
    }

    /// Writes the first statements into the send buffer: as many as are prepared and may be sent ahead of their
    /// answers.
    fn write_first<'s>(
        &mut self,
        statements: &'s [Statement],
        wanted: &StatementLimits<'_>,
    ) -> Result<Vec<Sent<'s>>, PgError> {
        let mut sent = Vec::with_capacity(statements.len());
        for statement in statements {
            let Prepared { name, columns } = match self.prepared.find(&statement.text) {
                Some(prepared) => prepared,
                None if sent.is_empty() => {
                    statement.place();
                    self.prepare(&statement.text, wanted)?
                }
                None => break,
            };
            let from = self.out.len();
            let format = match self.usage {
                Usage::Shared => Format::Text,
                Usage::Exclusive => Format::Binary,
            };
            let written = write_run_as(format, &name, &statement.parameters(), &mut self.out);
            if !sent.is_empty() && (written.is_err() || self.out.len() > AHEAD_BYTES) {
                self.out.truncate(from);
                break;
            }
            written?;
            statement.place();
            self.conversation.expect(sent.len(), Expected::Rows);
            sent.push(Sent::new(statement, columns));
        }
        Ok(sent)
    }

    /// Sends the buffer and passes the outcome of each of its statements to `end`.
    fn take_answers(
        &mut self,
        sent: &mut [Sent<'_>],
        wanted: &StatementLimits<'_>,
        end: &mut dyn FnMut(usize, Over),
    ) -> Result<(), PgError> {
        self.send(wanted.until)?;
        for sent in &mut *sent {
            sent.is_written();
        }
        let result_bytes_max = self.settings.result_bytes_max;
        while self.conversation.len() > 0 {
            self.read(wanted)?;
            let mut is_too_large = false;
            self.conversation
                .receive(&mut self.received, |event| match event {
                    Event::Row(&number, row) => {
                        if !sent[number].push(row, result_bytes_max) {
                            is_too_large = true;
                            end(number, Over::Told(Err(PgError::TooLarge { result_bytes_max })));
                        }
                    }
                    Event::Over(number, outcome) => {
                        if let Some(over) = sent[number].over(outcome) {
                            end(number, over);
                        }
                    }
                    Event::Suspended | Event::Complete | Event::Copy(_) => {}
                })?;
            if is_too_large && self.conversation.len() > 0 {
                // The statement may have finished by now, so that the cancellation hits another one.
                for sent in &mut *sent {
                    sent.is_exposed = true;
                }
                let asked = self.ask_to_cancel(Instant::now() + CANCEL_TIMEOUT);
                // Otherwise the cancellation may still arrive later and hit any statement sent by then.
                asked.map_err(|error| PgError::Broken {
                    reason: format!("it is not known whether the server has cancelled a statement: {error}"),
                })?;
            }
        }
        Ok(())
    }

    /// Transaction status after the last finished statement.
    pub(super) fn transaction(&self) -> Transaction {
        self.conversation.transaction()
    }

    /// Whether the server has warned since the last call.
    pub(super) fn take_warned(&mut self) -> bool {
        self.conversation.take_warned()
    }

    /// Waits until the server sends something without having been asked; false if it does not within `wait`. True at
    /// once if a notification has arrived with the answers to statements since the last call.
    pub(super) fn hear(&mut self, wait: Duration) -> Result<bool, PgError> {
        if self.conversation.take_notified() {
            return Ok(true);
        }
        let mut buffer = [0; 4096];
        let Some(count) = self.stream.receive(&mut buffer, wait)? else {
            return Ok(false);
        };
        self.received.extend_from_slice(&buffer[..count]);
        self.conversation.receive(&mut self.received, |_| {})?;
        self.conversation.take_notified();
        Ok(true)
    }

    /// Handles an error that does not belong to one statement: after a timeout it cancels the statements in progress,
    /// otherwise it marks the connection as broken. Returns the error that the server reported before it closed the
    /// connection, if any.
    fn fail(&mut self, error: &PgError) -> Option<PgError> {
        self.is_broken |= match error {
            PgError::Unsendable { .. } | PgError::Session { .. } => false,
            PgError::Server(error) => error.is_fatal,
            PgError::TimedOut { .. } => self.cancel_all().is_err(),
            _ => true,
        };
        self.conversation.broken().find_map(|(_, said)| said)
    }

    fn prepare(&mut self, text: &str, wanted: &StatementLimits<'_>) -> Result<Prepared, PgError> {
        if let Some(prepared) = self.prepared.find(text) {
            return Ok(prepared);
        }
        if self.usage == Usage::Shared {
            check_session(text)?;
        }
        let name = self.prepared.write(text, &mut self.out)?;
        self.conversation.expect(0, Expected::Description);
        self.send(wanted.until)?;
        match self.next_over(wanted)?? {
            Outcome::Prepared(description) => Ok(self.prepared.learn(text, name, description.columns)),
            Outcome::Run(_) => Err(misplaced()),
        }
    }

    /// Cancels the statements in progress one after another and waits for their ends. Nothing is sent meanwhile.
    fn cancel_all(&mut self) -> Result<(), PgError> {
        let until = Instant::now() + CANCEL_TIMEOUT;
        while self.conversation.len() > 0 {
            self.ask_to_cancel(until)?;
            match self.next_over(&StatementLimits::until(until))? {
                Err(PgError::Server(error)) if error.is_fatal => return Err(PgError::Server(error)),
                // The statement was cancelled, or had already finished.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Asks the server, on a separate connection, to cancel the current statement. After an error it is unknown whether
    /// it still will.
    fn ask_to_cancel(&self, until: Instant) -> Result<(), PgError> {
        let Some(key) = self.key else { return Ok(()) };
        let mut stream = Stream::connect(&self.settings.server, until)?;
        let mut out = BytesMut::new();
        write_cancel(key, &mut out);
        stream.send(&out, until)?;
        // The server does not reply; it closes the connection once it has signalled its process.
        while stream.receive(&mut [0; 64], left(until)?).is_ok() {}
        Ok(())
    }

    /// Waits for the end of the next statement in progress and returns the server's answer. Rows are dropped.
    fn next_over(&mut self, wanted: &StatementLimits<'_>) -> Result<Result<Outcome, PgError>, PgError> {
        loop {
            self.read(wanted)?;
            let mut over = None;
            self.conversation.receive(&mut self.received, |event| {
                if let Event::Over(_, outcome) = event {
                    over = Some(outcome);
                }
            })?;
            if let Some(outcome) = over {
                return Ok(outcome);
            }
        }
    }

    fn send(&mut self, until: Instant) -> Result<(), PgError> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.stream.send(&self.out, until)?;
        self.out.clear();
        Ok(())
    }

    fn read(&mut self, wanted: &StatementLimits<'_>) -> Result<(), PgError> {
        let from = self.received.len();
        self.received.resize(from + READ_BYTES, 0);
        let read = loop {
            let read = wanted
                .wait()
                .and_then(|wait| self.stream.receive(&mut self.received[from..], wait));
            match read {
                Ok(None) => {}
                Ok(Some(count)) => break Ok(count),
                Err(error) => break Err(error),
            }
        };
        self.received.truncate(from + read.as_ref().copied().unwrap_or(0));
        read.map(drop)
    }
}
