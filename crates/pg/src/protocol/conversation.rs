//! Statements and their answers on one connection, in order.
//!
//! **Invariant:** every statement has a Sync of its own, so that an error of one ends nothing but that one, and a pipeline means what its statements would mean one by one.

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
    /// As the statement calls it.
    pub name: String,
    /// Its type.
    pub oid: Oid,
    /// Its name as that of a JSON member: `"name":`.
    pub(crate) json_key: Box<[u8]>,
    pub(crate) writer: Writer,
}

/// OIDs of `bytea` and of its arrays.
const BYTES: [Oid; 2] = [17, 1001];

impl Column {
    /// Whether its values are bytes, or arrays of such.
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

/// What the server says of a statement that it has prepared.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Description {
    /// Types of the parameters.
    pub(crate) parameters: Vec<Oid>,
    /// Empty where it gives no rows.
    pub(crate) columns: Vec<Column>,
}

/// What is under way, in the order in which it was sent. `M` is the owner's mark.
#[derive(Debug)]
struct Exchange<M> {
    mark: M,
    description: Option<Description>,
    is_copy: bool,
    affected: u64,
    error: Option<PgError>,
}

/// What the answer to something sent will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A description of a statement.
    Description,
    /// Rows, and how many.
    Rows,
    /// Bytes in either direction.
    Copy,
}

/// The end of a statement.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was prepared.
    Prepared(Description),
    /// It was run; so many rows were changed, or given.
    Run(u64),
}

/// What has come.
#[derive(Debug)]
pub(crate) enum Event<'m, M> {
    /// A row of the statement with this mark.
    Row(&'m M, Row),
    /// As many rows as were asked for have come, and there may be more.
    Suspended,
    /// A step of a statement that copies.
    Copy(Copying),
    /// The statement has given all its rows, or has failed; its end is still to come.
    Complete,
    /// The statement with this mark is over.
    Over(M, Result<Outcome, PgError>),
}

/// What a statement that copies says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// It begins to.
    Begins(Direction),
    /// Bytes that it copies out.
    Bytes(Bytes),
}

/// Where a statement copies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into the database.
    In,
    /// Out of it.
    Out {
        /// Whether what comes is no text.
        is_binary: bool,
    },
}

/// Where a connection is after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// In none.
    None,
    /// In one.
    Open,
    /// In one that has failed, where all is refused until it is rolled back.
    Failed,
}

/// One connection after its start.
#[derive(Debug)]
pub(crate) struct Conversation<M> {
    exchanges: VecDeque<Exchange<M>>,
    transaction: Transaction,
}

impl<M> Conversation<M> {
    pub(crate) fn new() -> Self {
        Self {
            exchanges: VecDeque::new(),
            transaction: Transaction::None,
        }
    }

    /// Statements that are under way.
    pub(crate) fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Where the connection was after the last statement that is over.
    pub(crate) fn transaction(&self) -> Transaction {
        self.transaction
    }

    /// The marks of what is under way, what the server is at first.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &M> {
        self.exchanges.iter().map(|exchange| &exchange.mark)
    }

    /// Something is sent whose answer comes after all that was sent before.
    pub(crate) fn expect(&mut self, mark: M, expected: Expected) {
        self.exchanges.push_back(Exchange {
            mark,
            description: (expected == Expected::Description).then(Description::default),
            is_copy: expected == Expected::Copy,
            affected: 0,
            error: None,
        });
    }

    /// Takes what the server has sent, as far as it is whole, and gives each event as it comes.
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

    /// The server is ready for what comes next: the first of what is under way is over.
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

    /// Takes one of the messages that not every statement has.
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
            Message::ParseComplete
            | Message::CloseComplete
            | Message::NoData
            | Message::NoticeResponse(_)
            | Message::NotificationResponse(_)
            | Message::ParameterStatus(_) => {}
            _ => {
                return Err(PgError::Protocol {
                    reason: "a message that nothing asked for".into(),
                });
            }
        }
        Ok(())
    }

    /// The connection is over: the marks of all that was under way, in order, with what the server has said of it.
    pub(crate) fn broken(&mut self) -> impl Iterator<Item = (M, Option<PgError>)> {
        self.exchanges
            .drain(..)
            .map(|exchange| (exchange.mark, exchange.error))
    }

    /// Nothing else than a statement that copies says such things.
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

/// An answer to something else than what was sent last, or first.
pub(crate) fn misplaced() -> PgError {
    PgError::Protocol {
        reason: "an answer to another statement".into(),
    }
}

/// The last word of `INSERT 0 5` and its like.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = tag.split_at(tag.len() - digits);
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    number.filter(|_| before.ends_with(b" ")).unwrap_or(0)
}

/// The number of the parameter that a context such as `unnamed portal parameter $2 = 'x'` is about (since version 14).
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
