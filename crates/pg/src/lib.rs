//! Statements on PostgreSQL.
//!
//! A [`Source`] runs them, pipelined or blocking; [`Sql`] is one whose parameters have names; [`json`] writes values as JSON. A [`Desk`] is what one call of a handler does with databases.

mod blocking;
mod counts;
pub mod desk;
mod error;
mod exclusive;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod json;
mod listen;
mod pipelined;
mod prepared;
mod protocol;
mod rows;
mod settings;
mod source;
mod sql;
mod statement;
mod timing;
mod tls;

pub use counts::Counted;
pub use desk::Desk;
pub use error::{Code, PgError, ServerError, Stage};
pub use exclusive::{Beginning, CopyIn, CopyOut, Isolation, RowStream, Savepoint, Transaction};
pub use listen::{Heard, Listener};
pub use rows::{Column, Row, Rows};
pub use settings::{Driver, ServerUrl, Settings, UrlError};
pub use source::{Ask, Source};
pub use sql::{Sql, SqlError};
