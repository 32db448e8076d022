//! Parsed operations.

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::SqlSessionError;
use crate::{Beginning, Isolation};

/// A statement with parameters as text; `None` is null. As JSON `["select $1", ["1"]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(String, Vec<Option<String>>)")]
pub struct Statement {
    /// SQL text with `$1`, `$2` and so on.
    pub text: String,
    /// Values of the parameters, in order.
    pub parameters: Vec<Option<String>>,
}

impl From<(String, Vec<Option<String>>)> for Statement {
    fn from((text, parameters): (String, Vec<Option<String>>)) -> Self {
        Self { text, parameters }
    }
}

impl Statement {
    /// The parameters as bytes.
    pub(super) fn parameters(&self) -> Vec<Option<&[u8]>> {
        self.parameters
            .iter()
            .map(|value| value.as_deref().map(str::as_bytes))
            .collect()
    }
}

/// Id of an open object.
pub(super) type Id = u32;

/// A parsed operation.
#[derive(Debug)]
pub(super) enum Operation {
    Statements(Run),
    Begin(Begin),
    Savepoint(InTransaction),
    Release(ToSavepoint),
    RollbackTo(ToSavepoint),
    Commit(InTransaction),
    Rollback(InTransaction),
    Cursor(OpenCursor),
    Fetch(Fetch),
    CopyIn(Copy),
    CopySend(CopyPiece),
    CopyDone(CopyOperation),
    CopyOut(Copy),
    CopyRead(CopyOperation),
    Listen(Listen),
    Hear(Hear),
    Close(Close),
}

/// Statements to be pipelined.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) source: String,
    /// Transaction to run them in.
    pub(super) transaction: Option<Id>,
    pub(super) statements: Vec<Statement>,
}

/// Begins a transaction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) source: String,
    isolation: Option<IsolationName>,
    #[serde(default)]
    read_only: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum IsolationName {
    #[serde(rename = "read committed")]
    ReadCommitted,
    #[serde(rename = "repeatable read")]
    RepeatableRead,
    #[serde(rename = "serializable")]
    Serializable,
}

impl Begin {
    pub(super) fn beginning(&self) -> Beginning {
        Beginning {
            isolation: self.isolation.map(|name| match name {
                IsolationName::ReadCommitted => Isolation::ReadCommitted,
                IsolationName::RepeatableRead => Isolation::RepeatableRead,
                IsolationName::Serializable => Isolation::Serializable,
            }),
            is_read_only: self.read_only,
        }
    }
}

/// An operation on a transaction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InTransaction {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) transaction: Id,
}

/// An operation on a savepoint of a transaction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToSavepoint {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) transaction: Id,
    pub(super) savepoint: Id,
}

/// Opens a cursor and reads its first rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenCursor {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) source: String,
    /// Transaction to open it in.
    pub(super) transaction: Option<Id>,
    pub(super) statement: Statement,
    /// Rows per part.
    pub(super) batch: usize,
}

/// Reads the next rows of a cursor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fetch {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) cursor: Id,
}

/// Starts a copy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Copy {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) source: String,
    /// Transaction to run it in.
    pub(super) transaction: Option<Id>,
    pub(super) text: String,
}

/// An operation on a copy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyOperation {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) copy: Id,
}

/// Data to copy in: text, or bytes in the database's notation for `bytea`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyPiece {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) copy: Id,
    text: Option<String>,
    bytes: Option<String>,
}

impl CopyPiece {
    pub(super) fn bytes(self) -> Result<Vec<u8>, SqlSessionError> {
        match (self.text, self.bytes) {
            (Some(text), None) => Ok(text.into_bytes()),
            (None, Some(hex)) => from_hex(&hex).ok_or_else(|| SqlSessionError::Malformed {
                reason: "`bytes` is not two digits for each byte after `\\x`".to_owned(),
            }),
            _ => Err(SqlSessionError::Malformed {
                reason: "what is copied is either `text` or `bytes`".to_owned(),
            }),
        }
    }
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE
        .decode(hex.strip_prefix("\\x")?.as_bytes())
        .ok()
}

/// Listens to a channel.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listen {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) source: String,
    pub(super) channel: String,
}

/// Waits for notifications, but no longer than the given time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hear {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) listen: Id,
    pub(super) wait_ms: u16,
}

/// Closes an open object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Close {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    #[serde(rename = "source")]
    _source: IgnoredAny,
    pub(super) id: Id,
}

/// Name of the operation. The rest is parsed once that is known.
#[derive(Deserialize)]
struct Head {
    op: String,
}

const OPERATIONS: [&str; 17] = [
    "statements",
    "begin",
    "savepoint",
    "release",
    "rollback_to",
    "commit",
    "rollback",
    "cursor",
    "fetch",
    "copy_in",
    "copy_send",
    "copy_done",
    "copy_out",
    "copy_read",
    "listen",
    "hear",
    "close",
];

impl Operation {
    pub(super) fn parse(body: &[u8]) -> Result<Self, SqlSessionError> {
        let Head { op } = read(body)?;
        Ok(match op.as_str() {
            "statements" => Self::Statements(read(body)?),
            "begin" => Self::Begin(read(body)?),
            "savepoint" => Self::Savepoint(read(body)?),
            "release" => Self::Release(read(body)?),
            "rollback_to" => Self::RollbackTo(read(body)?),
            "commit" => Self::Commit(read(body)?),
            "rollback" => Self::Rollback(read(body)?),
            "cursor" => Self::Cursor(read(body)?),
            "fetch" => Self::Fetch(read(body)?),
            "copy_in" => Self::CopyIn(read(body)?),
            "copy_send" => Self::CopySend(read(body)?),
            "copy_done" => Self::CopyDone(read(body)?),
            "copy_out" => Self::CopyOut(read(body)?),
            "copy_read" => Self::CopyRead(read(body)?),
            "listen" => Self::Listen(read(body)?),
            "hear" => Self::Hear(read(body)?),
            "close" => Self::Close(read(body)?),
            _ => {
                return Err(SqlSessionError::UnknownOperation {
                    op,
                    known: OPERATIONS.join(", "),
                });
            }
        })
    }
}

fn read<O: DeserializeOwned>(body: &[u8]) -> Result<O, SqlSessionError> {
    serde_json::from_slice(body).map_err(|error| SqlSessionError::Malformed {
        reason: error.to_string(),
    })
}
