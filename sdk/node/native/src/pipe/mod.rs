//! A pipe that is read while the event loop stands still.

mod sys;

pub(crate) use sys::wait_readable;
