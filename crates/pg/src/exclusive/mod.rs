//! Connections used exclusively by one task at a time: for streams and transactions, with either driver.

mod connection;
mod copy;
mod describe;
mod lease;
mod stream;
mod transaction;

use connection::Connection;
pub(crate) use copy::check_copies;
pub use copy::{CopyIn, CopyOut};
pub use describe::Takes;
pub(crate) use describe::describe;
pub(crate) use lease::{Lease, Leases};
pub use stream::RowStream;
pub use transaction::{Beginning, Isolation, Savepoint, Transaction};
