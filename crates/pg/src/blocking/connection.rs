//! One connection, used by one thread at a time.

use std::{
    collections::HashMap,
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;

use crate::{
    Column, PgError, Row, Rows,
    protocol::{Conversation, Event, Outcome, Startup},
    settings::ServerUrl,
};

/// Room for one read.
const READ_BYTES: usize = 16_384;

/// A connection with what it has prepared.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    conversation: Conversation<()>,
    received: BytesMut,
    out: BytesMut,
    prepared: HashMap<Arc<str>, Prepared>,
    count: u64,
    is_broken: bool,
}

#[derive(Clone, Debug)]
struct Prepared {
    name: Arc<str>,
    columns: Arc<[Column]>,
}

impl Connection {
    /// Connects and logs in, within a time.
    pub(super) fn connect(server: &ServerUrl, limit: Duration) -> Result<Self, PgError> {
        Self::begin(server, Instant::now() + limit).map_err(|error| match error {
            PgError::TimedOut { .. } => PgError::TimedOut {
                what: "connecting",
                limit,
            },
            error => error.at_start(server),
        })
    }

    fn begin(server: &ServerUrl, until: Instant) -> Result<Self, PgError> {
        let mut failure = None;
        let mut addresses = (&*server.host, server.port).to_socket_addrs()?;
        let stream = addresses.find_map(|address| {
            TcpStream::connect_timeout(&address, left(until).ok()?)
                .inspect_err(|error| failure = Some(error.to_string()))
                .ok()
        });
        let stream = stream.ok_or_else(|| PgError::Broken {
            reason: failure.unwrap_or_else(|| "its name has no address".into()),
        })?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            conversation: Conversation::new(),
            received: BytesMut::new(),
            out: BytesMut::new(),
            prepared: HashMap::new(),
            count: 0,
            is_broken: false,
        };
        let mut startup = Startup::begin(server, &mut connection.out)?;
        loop {
            connection.send(until)?;
            connection.read(until)?;
            if startup.receive(&mut connection.received, &mut connection.out)? {
                return Ok(connection);
            }
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether the server has not closed it while nothing was asked.
    pub(super) fn is_alive(&self) -> bool {
        let is_quiet = || {
            self.stream.set_nonblocking(true)?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            Ok::<_, io::Error>(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
        };
        is_quiet().unwrap_or(false)
    }

    /// Runs a statement, prepared when it comes for the first time. Whatever is no error of the server's breaks the connection.
    pub(super) fn query(
        &mut self,
        text: &str,
        parameters: &[Option<&[u8]>],
        until: Instant,
    ) -> Result<Rows, PgError> {
        let outcome = self.run(text, parameters, until);
        self.is_broken = match &outcome {
            Ok(_) => false,
            Err(PgError::Server(error)) => error.is_fatal,
            Err(_) => true,
        };
        outcome
    }

    fn run(&mut self, text: &str, parameters: &[Option<&[u8]>], until: Instant) -> Result<Rows, PgError> {
        let Prepared { name, columns } = self.prepare(text, until)?;
        self.conversation
            .run((), &name, parameters.iter().copied(), &mut self.out)?;
        let mut rows = Vec::new();
        let outcome = self.wait(until, |row| {
            rows.push(row);
            Ok(())
        })?;
        let Outcome::Run(affected) = outcome else {
            return Err(misplaced());
        };
        Ok(Rows {
            columns,
            rows,
            affected,
        })
    }

    fn prepare(&mut self, text: &str, until: Instant) -> Result<Prepared, PgError> {
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(prepared.clone());
        }
        self.count += 1;
        let name: Arc<str> = format!("s{}", self.count).into();
        self.conversation.prepare((), &name, text, &mut self.out)?;
        let Outcome::Prepared(description) = self.wait(until, |_| Ok(()))? else {
            return Err(misplaced());
        };
        let prepared = Prepared {
            name,
            columns: description.columns.into(),
        };
        self.prepared.insert(text.into(), prepared.clone());
        Ok(prepared)
    }

    /// Sends what is to be sent and waits for the end of the one statement that is under way.
    fn wait(
        &mut self,
        until: Instant,
        mut row: impl FnMut(Row) -> Result<(), PgError>,
    ) -> Result<Outcome, PgError> {
        self.send(until)?;
        loop {
            let mut over = None;
            let mut failed = None;
            self.conversation
                .receive(&mut self.received, |event| match event {
                    Event::Row((), body) => {
                        if let Err(error) = Row::new(&body).and_then(&mut row) {
                            failed.get_or_insert(error);
                        }
                    }
                    Event::Over((), outcome) => over = Some(outcome),
                })?;
            match (over, failed) {
                (Some(_), Some(error)) => return Err(error),
                (Some(outcome), None) => return outcome,
                (None, _) => self.read(until)?,
            }
        }
    }

    fn send(&mut self, until: Instant) -> Result<(), PgError> {
        self.stream.set_write_timeout(Some(left(until)?))?;
        self.stream.write_all(&self.out).map_err(late)?;
        self.out.clear();
        Ok(())
    }

    fn read(&mut self, until: Instant) -> Result<(), PgError> {
        self.stream.set_read_timeout(Some(left(until)?))?;
        let from = self.received.len();
        self.received.resize(from + READ_BYTES, 0);
        let read = self.stream.read(&mut self.received[from..]);
        let count = *read.as_ref().unwrap_or(&0);
        self.received.truncate(from + count);
        if read.map_err(late)? == 0 {
            return Err(PgError::Broken {
                reason: "the server has closed it".into(),
            });
        }
        Ok(())
    }
}

fn misplaced() -> PgError {
    PgError::Protocol {
        reason: "an answer to another statement".into(),
    }
}

/// The time until then, which has to be some.
fn left(until: Instant) -> Result<Duration, PgError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(over()) } else { Ok(left) }
}

fn late(error: io::Error) -> PgError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => over(),
        _ => error.into(),
    }
}

/// Who waits knows its limit, and says it.
fn over() -> PgError {
    PgError::TimedOut {
        what: "the statement",
        limit: Duration::ZERO,
    }
}
