//! Operations as they come.

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::DeskError;

/// A statement whose parameters are text; `None` is null. As JSON `["select $1", ["1"]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(String, Vec<Option<String>>)")]
pub struct Statement {
    /// With `$1`, `$2` and so on.
    pub text: String,
    /// As many as it has.
    pub parameters: Vec<Option<String>>,
}

impl From<(String, Vec<Option<String>>)> for Statement {
    fn from((text, parameters): (String, Vec<Option<String>>)) -> Self {
        Self { text, parameters }
    }
}

impl Statement {
    /// The parameters as they are sent.
    pub(super) fn parameters(&self) -> Vec<Option<&[u8]>> {
        self.parameters
            .iter()
            .map(|value| value.as_deref().map(str::as_bytes))
            .collect()
    }
}

/// One operation.
#[derive(Debug)]
pub(super) enum Operation {
    Statements(Run),
}

/// Statements that are sent without waiting for each other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) source: String,
    pub(super) statements: Vec<Statement>,
}

/// Which operation it is. The rest is read once that is known.
#[derive(Deserialize)]
struct Head {
    op: String,
}

const OPERATIONS: [&str; 1] = ["statements"];

impl Operation {
    pub(super) fn parse(body: &[u8]) -> Result<Self, DeskError> {
        let Head { op } = read(body)?;
        Ok(match op.as_str() {
            "statements" => Self::Statements(read(body)?),
            _ => {
                return Err(DeskError::UnknownOperation {
                    op,
                    known: OPERATIONS.join(", "),
                });
            }
        })
    }
}

fn read<O: DeserializeOwned>(body: &[u8]) -> Result<O, DeskError> {
    serde_json::from_slice(body).map_err(|error| DeskError::Malformed {
        reason: error.to_string(),
    })
}
