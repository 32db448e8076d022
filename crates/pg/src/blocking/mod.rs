//! The blocking driver: statements run on threads that wait for them, each with its own connection.

mod connection;
mod exclusive;
mod pool;
mod statement;
mod stream;

use connection::{Connection, StatementLimits, Usage};
pub use exclusive::BlockingConnection;
pub(crate) use pool::Pool;
use statement::Statement;
