//! What values have to be: JSON Schema.

use std::fmt;

use jsonschema::Validator;
use serde_json::Value;

/// Longest part of a reason that is shown, in characters: it may hold the value.
const SHOWN_MAX: usize = 200;

/// A JSON Schema, compiled. It is whole in itself: nothing is looked up elsewhere.
#[derive(Clone, Debug)]
pub struct Schema(Validator);

/// What a value is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {path}: {reason}")]
pub struct Mismatch {
    /// A JSON Pointer (RFC 6901) to the part that is wrong; `/` is the value itself.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of(schema: &Value) -> Result<Self, String> {
        let compiled = jsonschema::validator_for(schema);
        compiled.map(Self).map_err(|error| shown(&error))
    }

    /// Whether a value is as the schema says.
    ///
    /// # Errors
    /// The first part of it that is not.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.0.validate(value).map_err(|error| {
            let path = error.instance_path().to_string();
            Mismatch {
                path: if path.is_empty() { "/".to_owned() } else { path },
                reason: shown(&error),
            }
        })
    }
}

fn shown(what: &impl fmt::Display) -> String {
    crate::shortened(&what.to_string(), SHOWN_MAX)
}
