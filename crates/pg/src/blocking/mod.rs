//! The blocking driver: statements run on threads that wait for them, each with its own connection.

mod connection;
mod pool;
mod statement;
mod stream;

use connection::{Connection, StatementLimits};
pub(crate) use pool::Pool;
use statement::Statement;
