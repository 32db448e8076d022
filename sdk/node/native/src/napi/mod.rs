//! Calls from JavaScript.

mod sys;

pub(crate) use sys::{Call, Class, Export, Failure, Outcome};
