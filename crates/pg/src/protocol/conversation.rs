//! Statements and their answers on one connection, in order.
//!
//! **Invariant:** every statement has its own Sync, so that an error ends only that statement, and a pipeline has the
//! same effect as running its statements one by one.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut};
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::{
    Oid,
    message::backend::{
        BIND_COMPLETE_TAG as BOUND, COMMAND_COMPLETE_TAG as COMPLETE, DATA_ROW_TAG as ROW, ErrorFields,
        Message, READY_FOR_QUERY_TAG as READY,
    },
};

use super::messages::{body, foreign, head, next};
use crate::{
    PgError, Row, ServerError,
    json::{Writer, write_string},
};

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name in the result.
    pub name: String,
    /// OID of its type.
    pub oid: Oid,
    /// Its name as the key of a JSON member: `"name":`.
    pub(crate) json_key: Box<[u8]>,
    pub(crate) writer: Writer,
}

/// OIDs of `bytea` and of its array type.
const BYTES: [Oid; 2] = [17, 1001];

impl Column {
    /// Whether its values are bytes, or arrays of bytes.
    pub fn is_bytes(&self) -> bool {
        BYTES.contains(&self.oid)
    }

    fn new(name: &str, oid: Oid) -> Self {
        let mut json_key = Vec::with_capacity(name.len() + 3);
        write_string(name.as_bytes(), &mut json_key);
        json_key.push(b':');
        Self {
            name: name.to_owned(),
            oid,
            json_key: json_key.into(),
            writer: Writer::of(oid),
        }
    }
}

/// The server's description of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Description {
    /// Types of the parameters.
    pub(crate) parameters: Vec<Oid>,
    /// Empty if the statement returns no rows.
    pub(crate) columns: Vec<Column>,
}

/// A statement in progress, in the order of sending. `M` is the owner's mark.
#[derive(Debug)]
struct Exchange<M> {
    mark: M,
    description: Option<Description>,
    is_copy: bool,
    affected: u64,
    error: Option<PgError>,
}

/// Kind of answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Description of a statement.
    Description,
    /// Rows, and their number.
    Rows,
    /// COPY data in either direction.
    Copy,
}

/// Successful end of a statement.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was prepared.
    Prepared(Description),
    /// It was run, and changed or returned that many rows.
    Run(u64),
}

/// An event while receiving.
#[derive(Debug)]
pub(crate) enum Event<'m, M> {
    /// A row of the statement with this mark.
    Row(&'m M, Row),
    /// As many rows as requested have arrived, and there may be more.
    Suspended,
    /// A step of a COPY statement.
    Copy(Copying),
    /// The statement has returned all its rows, or has failed; its end is still to come.
    Complete,
    /// The statement with this mark has ended.
    Over(M, Result<Outcome, PgError>),
}

/// A message of a COPY statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// The copy begins.
    Begins(Direction),
    /// Copied-out data.
    Bytes(Bytes),
}

/// Direction of a COPY statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into the database.
    In,
    /// Out of the database.
    Out {
        /// Whether the data is binary.
        is_binary: bool,
    },
}

/// Transaction status of a connection after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Not in a transaction.
    None,
    /// In a transaction.
    Open,
    /// In a failed transaction, which rejects everything until it is rolled back.
    Failed,
}

/// State of a connection after its startup.
#[derive(Debug)]
pub(crate) struct Conversation<M> {
    exchanges: VecDeque<Exchange<M>>,
    transaction: Transaction,
    is_notified: bool,
    is_warned: bool,
}

impl<M> Conversation<M> {
    pub(crate) fn new() -> Self {
        Self {
            exchanges: VecDeque::new(),
            transaction: Transaction::None,
            is_notified: false,
            is_warned: false,
        }
    }

    /// Number of statements in progress.
    pub(crate) fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Transaction status after the last finished statement.
    pub(crate) fn transaction(&self) -> Transaction {
        self.transaction
    }

    /// Whether notifications have arrived since the last call.
    pub(crate) fn take_notified(&mut self) -> bool {
        std::mem::take(&mut self.is_notified)
    }

    /// Whether the server has warned since the last call.
    pub(crate) fn take_warned(&mut self) -> bool {
        std::mem::take(&mut self.is_warned)
    }

    /// Marks of the statements in progress, the one being executed first.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &M> {
        self.exchanges.iter().map(|exchange| &exchange.mark)
    }

    /// Registers a sent message, whose answer follows those to all earlier ones.
    pub(crate) fn expect(&mut self, mark: M, expected: Expected) {
        self.exchanges.push_back(Exchange {
            mark,
            description: (expected == Expected::Description).then(Description::default),
            is_copy: expected == Expected::Copy,
            affected: 0,
            error: None,
        });
    }

    /// Parses complete messages from the server and passes each event to the callback.
    pub(crate) fn receive(
        &mut self,
        received: &mut BytesMut,
        mut give: impl FnMut(Event<'_, M>),
    ) -> Result<(), PgError> {
        while let Some((kind, bytes)) = head(received)? {
            match kind {
                ROW => {
                    let row = Row::take(received, bytes)?;
                    give(Event::Row(&self.front()?.mark, row));
                    continue;
                }
                BOUND => {}
                COMPLETE => {
                    let affected = affected(body(received, bytes));
                    self.front()?.affected = affected;
                    give(Event::Complete);
                }
                READY => {
                    let state = body(received, bytes).first().copied();
                    give(self.over(state)?);
                }
                _ => {
                    if let Some(message) = next(received)? {
                        self.other(message, &mut give)?;
                    }
                    continue;
                }
            }
            received.advance(bytes);
        }
        Ok(())
    }

    /// The server is ready for the next statement: the first one in progress has ended.
    fn over<'m>(&mut self, state: Option<u8>) -> Result<Event<'m, M>, PgError> {
        self.transaction = match state {
            Some(b'I') => Transaction::None,
            Some(b'T') => Transaction::Open,
            _ => Transaction::Failed,
        };
        let exchange = self.exchanges.pop_front().ok_or_else(unasked)?;
        let outcome = match (exchange.error, exchange.description) {
            (Some(error), _) => Err(error),
            (None, Some(description)) => Ok(Outcome::Prepared(description)),
            (None, None) => Ok(Outcome::Run(exchange.affected)),
        };
        Ok(Event::Over(exchange.mark, outcome))
    }

    /// Handles the less common messages.
    fn other(&mut self, message: Message, give: &mut impl FnMut(Event<'_, M>)) -> Result<(), PgError> {
        match message {
            Message::PortalSuspended => {
                self.front()?;
                give(Event::Suspended);
            }
            Message::ErrorResponse(body) => {
                let error = server_error(body.fields())?;
                if error.is_fatal && self.exchanges.is_empty() {
                    return Err(PgError::Server(Box::new(error)));
                }
                self.front()?
                    .error
                    .get_or_insert(PgError::Server(Box::new(error)));
                give(Event::Complete);
            }
            Message::ParameterDescription(body) => {
                let parameters: Vec<Oid> = body.parameters().collect().map_err(foreign)?;
                self.description()?.parameters = parameters;
            }
            Message::RowDescription(body) => {
                let columns: Vec<Column> = body
                    .fields()
                    .map(|field| Ok(Column::new(field.name(), field.type_oid())))
                    .collect()
                    .map_err(foreign)?;
                self.description()?.columns = columns;
            }
            Message::CopyInResponse(_) => give(self.copying(Copying::Begins(Direction::In))?),
            Message::CopyOutResponse(body) => {
                let is_binary = body.format() == 1;
                give(self.copying(Copying::Begins(Direction::Out { is_binary }))?);
            }
            Message::CopyData(body) => give(self.copying(Copying::Bytes(body.into_bytes()))?),
            Message::CopyDone => {
                self.front()?;
            }
            Message::EmptyQueryResponse => {
                self.front()?;
                give(Event::Complete);
            }
            Message::NotificationResponse(_) => self.is_notified = true,
            Message::NoticeResponse(body) => {
                let is_warning = |field: postgres_protocol::message::backend::ErrorField<'_>| {
                    Ok(field.type_() == b'V' && field.value_bytes() == b"WARNING")
                };
                self.is_warned |= body.fields().any(is_warning).map_err(foreign)?;
            }
            Message::ParseComplete
            | Message::CloseComplete
            | Message::NoData
            | Message::ParameterStatus(_) => {}
            _ => {
                return Err(PgError::Protocol {
                    reason: "a message that nothing asked for".into(),
                });
            }
        }
        Ok(())
    }

    /// Ends the connection: returns the marks of all statements in progress, in order, each with the error that the
    /// server reported for it, if any.
    pub(crate) fn broken(&mut self) -> impl Iterator<Item = (M, Option<PgError>)> {
        self.exchanges
            .drain(..)
            .map(|exchange| (exchange.mark, exchange.error))
    }

    /// Such messages are valid only for a COPY statement.
    fn copying<'m>(&mut self, said: Copying) -> Result<Event<'m, M>, PgError> {
        if self.front()?.is_copy {
            Ok(Event::Copy(said))
        } else {
            Err(unasked())
        }
    }

    fn front(&mut self) -> Result<&mut Exchange<M>, PgError> {
        self.exchanges.front_mut().ok_or_else(unasked)
    }

    fn description(&mut self) -> Result<&mut Description, PgError> {
        self.front()?.description.as_mut().ok_or_else(unasked)
    }
}

fn unasked() -> PgError {
    PgError::Protocol {
        reason: "an answer to nothing".into(),
    }
}

/// An answer that does not fit the statement.
pub(crate) fn misplaced() -> PgError {
    PgError::Protocol {
        reason: "an answer to another statement".into(),
    }
}

/// Row count at the end of a command tag such as `INSERT 0 5`.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = tag.split_at(tag.len() - digits);
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    number.filter(|_| before.ends_with(b" ")).unwrap_or(0)
}

/// Number of the parameter in a context such as `unnamed portal parameter $2 = 'x'` (since version 14).
fn parameter(context: &str) -> Option<usize> {
    let (_, rest) = context.split_once("portal parameter $")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

pub(crate) fn server_error(mut fields: ErrorFields<'_>) -> Result<ServerError, PgError> {
    let mut error = ServerError::default();
    while let Some(field) = fields.next().map_err(foreign)? {
        let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => error.code = text(),
            b'M' => error.message = text(),
            b'D' => error.detail = Some(text()),
            b'H' => error.hint = Some(text()),
            b'P' => error.position = text().parse().ok(),
            b'n' => error.constraint = Some(text()),
            b'R' => error.routine = Some(text()),
            b'W' => error.parameter = parameter(&text()),
            b'V' => error.is_fatal = matches!(field.value_bytes(), b"FATAL" | b"PANIC"),
            _ => {}
        }
    }
    Ok(error)
}
