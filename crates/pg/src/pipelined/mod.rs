//! Statements of many tasks of one thread on few connections, each sent without waiting for the answers before it.

mod connection;
mod lines;
mod slot;
mod stream;
mod task;

use connection::Connection;
pub(crate) use lines::{CONNECTIONS_MAX, Lines};
pub(crate) use stream::{Stream, cancel, start_unlimited};
