//! Pipes that are read while the event loop stands still, and pairs of sockets.

mod sys;

pub(crate) use sys::{socket_pair, wait_readable};
