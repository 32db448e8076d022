//! Statements of many tasks of one thread on few connections, each sent without waiting for the answers before it.

mod connection;

pub use connection::Connection;
