//! Statements that their thread waits for.

mod connection;

pub use connection::Connection;
