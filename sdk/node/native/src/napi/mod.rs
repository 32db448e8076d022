//! Calls from JavaScript.

mod sys;

pub(crate) use sys::{Call, Export, Failure, Outcome, Value};
