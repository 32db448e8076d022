//! Statements on threads that wait for them, each with a connection of its own.

mod connection;
mod pool;
mod statement;
mod stream;

use connection::{Connection, Wanted};
pub(crate) use pool::Pool;
use statement::Statement;
