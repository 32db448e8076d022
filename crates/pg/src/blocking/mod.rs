//! Statements on threads that wait for them, each with a connection of its own.

mod connection;
mod pool;

use connection::Connection;
pub(crate) use pool::Pool;
