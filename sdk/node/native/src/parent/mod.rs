//! The process that has started this one.

mod sys;

pub(crate) use sys::die_with_parent;
