//! One connection, used by one thread at a time.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::{
    statement::{Over, Sent, Statement},
    stream::{Stream, late, left},
};
use crate::{
    Ask, PgError, Rows, Settings, Stage,
    prepared::{Prepared, PreparedBook},
    protocol::{
        CancelKey, Conversation, Event, Expected, Outcome, Startup, Transaction, misplaced, write_cancel,
        write_run,
    },
    statement::check_session,
};

/// Room for one read.
const READ_BYTES: usize = 16_384;
/// How often it is looked whether anybody still waits.
const LOOK: Duration = Duration::from_millis(50);
/// How long a cancellation, and then the statement's end, may take; a connection that needs longer is given up.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection that was idle may need to answer; one that needs longer is given up.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes that are sent before the first answer to them, unless they are of one statement. A server that cannot get rid of its answers has room for so many, so that neither side waits for the other to read.
const AHEAD_BYTES: usize = 16_384;

/// A connection with what it has prepared.
#[derive(Debug)]
pub(super) struct Connection {
    settings: Settings,
    stream: Stream,
    key: Option<CancelKey>,
    /// Marks are the numbers of the statements that are run together.
    conversation: Conversation<usize>,
    received: BytesMut,
    out: BytesMut,
    prepared: PreparedBook<Prepared>,
    is_broken: bool,
}

/// How long a statement may take, and whether anybody waits for it.
pub(super) struct Wanted<'w> {
    pub(super) until: Instant,
    pub(super) is_wanted: &'w dyn Fn() -> bool,
}

impl Wanted<'_> {
    /// For what is waited for at any rate.
    fn until(until: Instant) -> Self {
        Self {
            until,
            is_wanted: &|| true,
        }
    }

    /// How long to wait before looking again; an error when nobody waits any more.
    fn wait(&self) -> Result<Duration, PgError> {
        if !(self.is_wanted)() {
            return Err(late());
        }
        Ok(left(self.until)?.min(LOOK))
    }
}

impl Connection {
    /// Connects and logs in, within a time.
    pub(super) fn connect(settings: &Settings) -> Result<Self, PgError> {
        let limit = settings.connect_timeout;
        Self::begin(settings, Instant::now() + limit).map_err(|error| match error {
            PgError::TimedOut { .. } => PgError::TimedOut {
                what: Stage::Connect,
                limit,
            },
            error => error.at_start(&settings.server),
        })
    }

    fn begin(settings: &Settings, until: Instant) -> Result<Self, PgError> {
        let stream = Stream::connect(&settings.server, until)?;
        let mut connection = Self {
            settings: settings.clone(),
            key: None,
            conversation: Conversation::new(),
            received: BytesMut::new(),
            out: BytesMut::new(),
            prepared: PreparedBook::default(),
            is_broken: false,
            stream,
        };
        let mut startup = Startup::begin(
            &settings.server,
            Some(settings.server_timeout()),
            connection.stream.end_point(),
            &mut connection.out,
        )?;
        let wanted = Wanted::until(until);
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

    /// Whether the server has not closed it while nothing was asked.
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_quiet()
    }

    /// Whether the server answers, soon and before `until`.
    pub(super) fn answers(&mut self, until: Instant) -> bool {
        let until = until.min(Instant::now() + PROBE_TIMEOUT);
        let nothing = Statement::from(&Ask::new("", &[]));
        let mut is_answered = false;
        self.run(&[nothing], &Wanted::until(until), &mut |_, outcome| {
            is_answered = outcome.is_ok();
        });
        is_answered
    }

    /// Runs the first of these statements without waiting for the answers to those before, gives the outcome of each with its number to `tell` when it is there, and says how many these were. A statement that comes for the
    /// first time is prepared before, which is waited for: where it is not the first of all it is left, with those behind it.
    ///
    /// When the time is over, or nobody waits any more, what is under way is cancelled. What is no error of the server's breaks the connection, unless the cancellation comes to an end.
    pub(super) fn run(
        &mut self,
        statements: &[Statement],
        wanted: &Wanted<'_>,
        tell: &mut dyn FnMut(usize, Result<Rows, PgError>),
    ) -> usize {
        let (count, refused) = self.run_once(statements, wanted, tell);
        for (number, error) in &refused {
            if error.is_stale() {
                self.prepared.forget(&statements[*number].text, |_| true);
            }
        }
        for (number, error) in refused {
            if self.is_broken {
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

    /// The same; gives how many these were, and those that are to be run once more, with why.
    fn run_once(
        &mut self,
        statements: &[Statement],
        wanted: &Wanted<'_>,
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
            // The server may have said why.
            let mut said = self.fail(&error);
            for (number, sent) in sent.iter().enumerate() {
                if !sent.is_over {
                    let error = said.take().unwrap_or_else(|| error.clone());
                    end(number, Over::Told(Err(error)));
                }
            }
        }
        // What a procedure has begun is not for the next statement.
        self.is_broken |= self.conversation.transaction() != Transaction::None;
        (sent.len(), refused)
    }

    /// Writes the first of these statements into what is to be sent: as many as are prepared, and may be sent before they are answered.
    fn write_first<'s>(
        &mut self,
        statements: &'s [Statement],
        wanted: &Wanted<'_>,
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
            let written = write_run(&name, &statement.parameters(), &mut self.out);
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

    /// Sends what is written, and gives what becomes of each of its statements to `end`.
    fn take_answers(
        &mut self,
        sent: &mut [Sent<'_>],
        wanted: &Wanted<'_>,
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
                // It may have come to its end by now, and another one be hit.
                for sent in &mut *sent {
                    sent.is_exposed = true;
                }
                let asked = self.ask_to_cancel(Instant::now() + CANCEL_TIMEOUT);
                // Otherwise it may come to its end later, in whatever is sent by then.
                asked.map_err(|error| PgError::Broken {
                    reason: format!("it is not known whether the server has cancelled a statement: {error}"),
                })?;
            }
        }
        Ok(())
    }

    /// After an error that is not a statement's: has the server cancel what is under way where the time was over, and counts as broken otherwise. Gives what the server has said before it closed the connection.
    fn fail(&mut self, error: &PgError) -> Option<PgError> {
        self.is_broken |= match error {
            PgError::Unsendable { .. } | PgError::Session { .. } => false,
            PgError::Server(error) => error.is_fatal,
            PgError::TimedOut { .. } => self.cancel_all().is_err(),
            _ => true,
        };
        self.conversation.broken().find_map(|(_, said)| said)
    }

    fn prepare(&mut self, text: &str, wanted: &Wanted<'_>) -> Result<Prepared, PgError> {
        if let Some(prepared) = self.prepared.find(text) {
            return Ok(prepared);
        }
        check_session(text)?;
        let name = self.prepared.write(text, &mut self.out)?;
        self.conversation.expect(0, Expected::Description);
        self.send(wanted.until)?;
        match self.next_over(wanted)?? {
            Outcome::Prepared(description) => Ok(self.prepared.learn(text, name, description.columns)),
            Outcome::Run(_) => Err(misplaced()),
        }
    }

    /// Has the server cancel one after another of what is under way, and waits for their ends. Nothing is sent meanwhile.
    fn cancel_all(&mut self) -> Result<(), PgError> {
        let until = Instant::now() + CANCEL_TIMEOUT;
        while self.conversation.len() > 0 {
            self.ask_to_cancel(until)?;
            match self.next_over(&Wanted::until(until))? {
                Err(PgError::Server(error)) if error.is_fatal => return Err(PgError::Server(error)),
                // It was cancelled, or had come to its end.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Asks the server to cancel what it is at, on a connection made for that. An error leaves open whether it still will.
    fn ask_to_cancel(&self, until: Instant) -> Result<(), PgError> {
        let Some(key) = self.key else { return Ok(()) };
        let mut stream = Stream::connect(&self.settings.server, until)?;
        let mut out = BytesMut::new();
        write_cancel(key, &mut out);
        stream.send(&out, until)?;
        // The server answers nothing, and closes once it has signalled its process.
        while stream.receive(&mut [0; 64], left(until)?).is_ok() {}
        Ok(())
    }

    /// Waits until something that is under way is over: what the server has said of the last that is. Rows are dropped.
    fn next_over(&mut self, wanted: &Wanted<'_>) -> Result<Result<Outcome, PgError>, PgError> {
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

    fn read(&mut self, wanted: &Wanted<'_>) -> Result<(), PgError> {
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
