//! Parsed operations.

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::SqlSessionError;
use crate::{Beginning, Isolation, json::bytes_of};

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

/// Declares the operations: the name of each, its variant and its type, with the members besides `op` and `source`.
macro_rules! operations {
    ($($name:literal $variant:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })+) => {
        /// A parsed operation.
        #[derive(Debug)]
        pub(super) enum Operation { $($variant($variant)),+ }

        $(
            #[derive(Debug, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub(super) struct $variant {
                #[serde(rename = "op")]
                _op: IgnoredAny,
                /// Name of the database.
                #[allow(dead_code, reason = "what is open belongs to one already")]
                pub(super) source: String,
                $($(#[$attribute])* pub(super) $field: $type,)*
            }
        )+

        impl Operation {
            pub(super) fn parse(body: &[u8]) -> Result<Self, SqlSessionError> {
                let Head { op } = read(body)?;
                match op.as_str() {
                    $($name => read(body).map(Self::$variant),)+
                    _ => Err(SqlSessionError::UnknownOperation { op, known: [$($name),+].join(", ") }),
                }
            }
        }
    };
}

operations! {
    "statements" RunStatements { transaction: Option<Id>, statements: Vec<Statement> }
    "begin" Begin { isolation: Option<IsolationName>, #[serde(default)] read_only: bool }
    "savepoint" MakeSavepoint { transaction: Id }
    "release" Release { transaction: Id, savepoint: Id }
    "rollback_to" RollbackTo { transaction: Id, savepoint: Id }
    "commit" Commit { transaction: Id }
    "rollback" Rollback { transaction: Id }
    "cursor" OpenCursor { transaction: Option<Id>, statement: Statement, batch: usize }
    "fetch" Fetch { cursor: Id }
    "copy_in" CopyIn { transaction: Option<Id>, text: String }
    "copy_send" CopySend { copy: Id, text: Option<String>, bytes: Option<String> }
    "copy_done" CopyDone { copy: Id }
    "copy_out" CopyOut { transaction: Option<Id>, text: String }
    "copy_read" CopyRead { copy: Id }
    "listen" Listen { channel: String }
    "hear" Hear { listen: Id, wait_ms: u16 }
    "close" Close { id: Id }
}

/// Name of the operation. The rest is parsed once that is known.
#[derive(Deserialize)]
struct Head {
    op: String,
}

fn read<O: DeserializeOwned>(body: &[u8]) -> Result<O, SqlSessionError> {
    serde_json::from_slice(body).map_err(|error| SqlSessionError::Malformed {
        reason: error.to_string(),
    })
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum IsolationName {
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

impl CopySend {
    /// The data to be copied in, which is text, or bytes in the database's notation for `bytea`.
    pub(super) fn data(self) -> Result<Vec<u8>, SqlSessionError> {
        match (self.text, self.bytes) {
            (Some(text), None) => Ok(text.into_bytes()),
            (None, Some(hex)) => bytes_of(hex.as_bytes()).ok_or_else(|| SqlSessionError::Malformed {
                reason: "`bytes` is not two digits for each byte after `\\x`".to_owned(),
            }),
            _ => Err(SqlSessionError::Malformed {
                reason: "what is copied is either `text` or `bytes`".to_owned(),
            }),
        }
    }
}
