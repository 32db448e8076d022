//! One connection, used by one thread at a time.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::stream::{Stream, late, left};
use crate::{
    PgError, Row, Rows, Settings, Stage,
    prepared::{Prepared, PreparedBook},
    protocol::{
        CancelKey, Conversation, Event, Expected, Outcome, Startup, Transaction, misplaced, write_cancel,
        write_run,
    },
    statement::check_session,
    timing::{Reached, Timing},
};

/// Room for one read.
const READ_BYTES: usize = 16_384;
/// How often it is looked whether anybody still waits.
const LOOK: Duration = Duration::from_millis(50);
/// How long a cancellation, and then the statement's end, may take; a connection that needs longer is given up.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection that was idle may need to answer; one that needs longer is given up.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// A statement is run once more where its plan is out of date.
const RUNS_MAX: usize = 2;

/// A connection with what it has prepared.
#[derive(Debug)]
pub(super) struct Connection {
    settings: Settings,
    stream: Stream,
    key: Option<CancelKey>,
    conversation: Conversation<()>,
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
        self.query("", &[], &Wanted::until(until), &Timing::default())
            .is_ok()
    }

    /// Runs a statement, prepared when it comes for the first time, and cancels it when its time is over or nobody waits for it. What is no error of the server's breaks the connection, unless the cancellation comes
    /// to an end.
    pub(super) fn query(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
        wanted: &Wanted<'_>,
        timing: &Timing,
    ) -> Result<Rows, PgError> {
        let mut runs = 1;
        loop {
            let outcome = self.run(text, parameters, wanted, timing);
            self.is_broken = match &outcome {
                Ok(_) | Err(PgError::Unsendable { .. } | PgError::Session { .. }) => false,
                Err(PgError::Server(error)) => error.is_fatal,
                Err(PgError::TimedOut { .. } | PgError::TooLarge { .. }) => self.cancel().is_err(),
                Err(_) => true,
            };
            // What a procedure has begun is not for the next statement.
            self.is_broken |= self.conversation.transaction() != Transaction::None;
            let is_stale = outcome.as_ref().is_err_and(PgError::is_stale);
            if is_stale && runs < RUNS_MAX && !self.is_broken {
                self.prepared.forget(text, |_| true);
                runs += 1;
                continue;
            }
            return outcome;
        }
    }

    fn run(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
        wanted: &Wanted<'_>,
        timing: &Timing,
    ) -> Result<Rows, PgError> {
        let Prepared { name, columns, .. } = self.prepare(text, wanted)?;
        write_run(&name, parameters, &mut self.out)?;
        self.conversation.expect((), Expected::Rows);
        let mut rows = Vec::new();
        let mut bytes = 0;
        let result_bytes_max = self.settings.result_bytes_max;
        self.send(wanted.until)?;
        timing.reach(Reached::Sent);
        let outcome = self.wait(wanted, |row| {
            timing.reach(Reached::Answered);
            bytes += row.bytes();
            if bytes > result_bytes_max {
                return Err(PgError::TooLarge { result_bytes_max });
            }
            rows.push(row);
            Ok(())
        })?;
        let Outcome::Run(affected) = outcome else {
            return Err(misplaced());
        };
        Rows::new(columns, rows, affected)
    }

    fn prepare(&mut self, text: &str, wanted: &Wanted<'_>) -> Result<Prepared, PgError> {
        if let Some(prepared) = self.prepared.find(text) {
            return Ok(prepared);
        }
        check_session(text)?;
        let name = self.prepared.write(text, &mut self.out)?;
        self.conversation.expect((), Expected::Description);
        let Outcome::Prepared(description) = self.wait(wanted, |_| Ok(()))? else {
            return Err(misplaced());
        };
        Ok(self.prepared.learn(text, name, description.columns))
    }

    /// Has the server cancel what it is at, on a connection made for that, and waits for its end. Nothing else is sent meanwhile.
    fn cancel(&mut self) -> Result<(), PgError> {
        if self.conversation.len() == 0 {
            return Ok(());
        }
        let until = Instant::now() + CANCEL_TIMEOUT;
        if let Some(key) = self.key {
            let mut stream = Stream::connect(&self.settings.server, until)?;
            let mut out = BytesMut::new();
            write_cancel(key, &mut out);
            stream.send(&out, until)?;
            // The server answers nothing, and closes once it has signalled its process.
            while stream
                .receive(&mut [0; 64], left(until)?)
                .is_ok_and(|read| read.is_some())
            {}
        }
        match self.wait(&Wanted::until(until), |_| Ok(())) {
            Ok(_) => Ok(()),
            Err(PgError::Server(error)) if !error.is_fatal => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends what is to be sent and waits for the end of the one statement that is under way. An error of `row` ends that before.
    fn wait(
        &mut self,
        wanted: &Wanted<'_>,
        mut row: impl FnMut(Row) -> Result<(), PgError>,
    ) -> Result<Outcome, PgError> {
        self.send(wanted.until)?;
        loop {
            let mut over = None;
            let mut failed = None;
            self.conversation
                .receive(&mut self.received, |event| match event {
                    Event::Row((), given) => {
                        if let Err(error) = row(given) {
                            failed.get_or_insert(error);
                        }
                    }
                    Event::Over((), outcome) => over = Some(outcome),
                    Event::Suspended | Event::Complete | Event::Copy(_) => {}
                })?;
            match (over, failed) {
                (_, Some(error)) => return Err(error),
                (Some(outcome), None) => return outcome,
                (None, None) => self.read(wanted)?,
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
