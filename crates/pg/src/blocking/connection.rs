//! One connection, used by one thread at a time.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use bytes::BytesMut;

use crate::{
    Column, PgError, Row, Rows,
    protocol::{Conversation, Event, Login, Outcome, Started, Startup},
};

/// Room for one read.
const READ_BYTES: usize = 16_384;

/// A connection with what it has prepared.
pub struct Connection {
    stream: TcpStream,
    started: Started,
    conversation: Conversation<()>,
    received: BytesMut,
    out: BytesMut,
    prepared: HashMap<Arc<str>, Prepared>,
    count: u64,
}

#[derive(Clone)]
struct Prepared {
    name: Arc<str>,
    columns: Arc<[Column]>,
}

impl Connection {
    pub(crate) fn connect(address: &str, login: Login, limit: Duration) -> Result<Self, PgError> {
        let connect = |error: std::io::Error| PgError::Connect {
            address: address.to_owned(),
            reason: error.to_string(),
        };
        let stream = TcpStream::connect(address).map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        stream.set_read_timeout(Some(limit)).map_err(connect)?;
        let mut connection = Self {
            stream,
            started: Started::default(),
            conversation: Conversation::new(),
            received: BytesMut::new(),
            out: BytesMut::new(),
            prepared: HashMap::new(),
            count: 0,
        };
        let mut startup = Startup::begin(login, &mut connection.out)?;
        loop {
            connection.send()?;
            connection.read()?;
            if let Some(started) = startup.receive(&mut connection.received, &mut connection.out)? {
                connection.started = started;
                return Ok(connection);
            }
        }
    }

    /// Names this connection to the server.
    pub(crate) fn started(&self) -> Started {
        self.started
    }

    /// Runs a statement, prepared when it comes for the first time.
    pub fn query(&mut self, text: &str, parameters: &[Option<&[u8]>]) -> Result<Rows, PgError> {
        let Prepared { name, columns } = self.prepare(text)?;
        self.conversation
            .run((), &name, parameters.iter().copied(), &mut self.out)?;
        let mut rows = Vec::new();
        let outcome = self.wait(|row| {
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

    fn prepare(&mut self, text: &str) -> Result<Prepared, PgError> {
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(prepared.clone());
        }
        self.count += 1;
        let name: Arc<str> = format!("s{}", self.count).into();
        self.conversation.prepare((), &name, text, &mut self.out)?;
        let Outcome::Prepared(description) = self.wait(|_| Ok(()))? else {
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
    fn wait(&mut self, mut row: impl FnMut(Row) -> Result<(), PgError>) -> Result<Outcome, PgError> {
        self.send()?;
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
                    Event::Notified { .. } => {}
                })?;
            match (over, failed) {
                (Some(_), Some(error)) => return Err(error),
                (Some(outcome), None) => return outcome,
                (None, _) => self.read()?,
            }
        }
    }

    fn send(&mut self) -> Result<(), PgError> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn read(&mut self) -> Result<(), PgError> {
        let from = self.received.len();
        self.received.resize(from + READ_BYTES, 0);
        let read = self.stream.read(&mut self.received[from..]);
        let count = *read.as_ref().unwrap_or(&0);
        self.received.truncate(from + count);
        if read? == 0 {
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
