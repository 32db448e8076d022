//! Blocking waits on pipes, and socket pairs.

mod sys;

pub(crate) use sys::{socket_pair, wait_readable};
