//! Statements on PostgreSQL.
//!
//! [`Sql`] is a statement whose parameters have names.

mod sql;

pub use sql::{Sql, SqlError};
