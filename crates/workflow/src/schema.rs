//! Validation of values with JSON Schema.

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Maximum length of a reason in a message, in characters. A reason may contain the value itself.
const SHOWN_MAX: usize = 200;

/// A compiled JSON Schema. It must be self-contained: references to other documents are not resolved.
#[derive(Clone, Debug)]
pub struct Schema(Validator);

/// Where and why a value does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {path}: {reason}")]
pub struct Mismatch {
    /// JSON Pointer (RFC 6901) to the part that does not match; `/` is the whole value.
    pub path: String,
    /// The validator's message.
    pub reason: String,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The reason why it is not a valid schema.
    pub fn of(schema: &Value) -> Result<Self, String> {
        let compiled = jsonschema::validator_for(schema);
        compiled.map(Self).map_err(|error| shown(&error))
    }

    /// Compiles a schema for values of strangers: its patterns take linear time, so they have no look-around and no back-references.
    ///
    /// # Errors
    /// The reason why it is not such a schema.
    pub fn for_strangers(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let compiled = options.build(schema);
        compiled.map(Self).map_err(|error| shown(&error))
    }

    /// Validates a value.
    ///
    /// # Errors
    /// The first mismatch.
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
