//! Schemas of workflows' arguments and results: the files `schemas/NAME.json`.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{Schema, WorkflowFailure};

/// The schemas of one workflow.
#[derive(Debug, Default)]
pub struct Schemas {
    args: Option<Schema>,
    result: Option<Schema>,
    written: Written,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    args: Option<Value>,
    result: Option<Value>,
}

impl Schemas {
    /// Parses a file; the error says what is wrong with it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let compile = |name: &str, schema: Option<&Value>| {
            let compiled = schema.map(Schema::of).transpose();
            compiled.map_err(|error| format!("`{name}` is no JSON Schema: {error}"))
        };
        Ok(Self {
            args: compile("args", written.args.as_ref())?,
            result: compile("result", written.result.as_ref())?,
            written,
        })
    }

    /// Refuses arguments that do not match their schema.
    ///
    /// # Errors
    /// The first mismatch.
    pub fn check_args(&self, args: &RawValue) -> Result<(), WorkflowFailure> {
        check(self.args.as_ref(), args).map_err(|what| WorkflowFailure::OtherArguments { what })
    }

    /// Refuses results that do not match their schema.
    pub(crate) fn check_result(&self, values: Option<&RawValue>) -> Result<(), WorkflowFailure> {
        let Some(values) = values else {
            return Ok(());
        };
        check(self.result.as_ref(), values).map_err(|what| WorkflowFailure::Result { what })
    }

    /// The schemas of arguments and results, uncompiled.
    pub fn written(&self) -> (Option<&Value>, Option<&Value>) {
        (self.written.args.as_ref(), self.written.result.as_ref())
    }

    pub(crate) fn has_result(&self) -> bool {
        self.result.is_some()
    }
}

fn check(schema: Option<&Schema>, text: &RawValue) -> Result<(), String> {
    let Some(schema) = schema else {
        return Ok(());
    };
    let value = serde_json::from_str(text.get()).map_err(|error| error.to_string())?;
    schema.check(&value).map_err(|mismatch| mismatch.to_string())
}
