//! PostgreSQL client.
//!
//! A [`Source`] runs statements, with a pipelined or a blocking driver; [`Sql`] parses statements with named
//! parameters; [`json`] writes values as JSON. A [`SqlSession`] executes the database operations of one call of a handler.

mod blocking;
mod counts;
mod csv;
mod error;
mod exclusive;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod health;
pub mod json;
mod listen;
mod pipelined;
mod prepared;
mod protocol;
mod rows;
pub mod session;
mod settings;
mod source;
mod sql;
mod statement;
mod timing;
mod tls;
mod transact;
mod watch;

pub use blocking::BlockingConnection;
pub use counts::{BOUNDS_US, Counted, Durations, Histogram, Meter};
pub use csv::write_csv_names;
pub use error::{Code, PgError, ServerError, Stage};
pub use exclusive::{Beginning, CopyIn, CopyOut, Isolation, RowStream, Savepoint, Takes, Transaction};
pub use listen::{Heard, Listener};
pub use rows::{Column, Row, Rows};
pub use session::SqlSession;
pub use settings::{Driver, ServerUrl, Settings, UrlError, UrlParameters};
pub use source::{Ask, Source};
pub use sql::{Sql, SqlError};
pub use statement::is_harmless;
pub use transact::{Failed, Step};
