//! The pipelined driver: many tasks of a thread share a few connections, and each statement is sent without waiting for
//! earlier answers.

mod connection;
mod lines;
mod slot;
mod stream;
mod task;

use connection::Connection;
pub(crate) use lines::{CONNECTIONS_MAX, Lines};
pub(crate) use stream::{Stream, cancel, start_unlimited};
