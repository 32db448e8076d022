//! Statements on PostgreSQL.
//!
//! [`Sql`] is a statement whose parameters have names; [`json`] writes values as JSON.

pub mod blocking;
mod error;
pub mod json;
pub mod pipelined;
mod protocol;
mod rows;
mod sql;

pub use error::{PgError, ServerError};
pub use rows::{Column, Row, Rows};
pub use sql::{Sql, SqlError};
