//! The parent process.

mod sys;

pub(crate) use sys::die_with_parent;
