//! Statements of many tasks of one thread on few connections, each sent without waiting for the answers before it.

mod connection;
mod lines;

use connection::Connection;
pub(crate) use lines::{CONNECTIONS_MAX, Lines};
