//! libmdbx behind a safe face: tables, snapshots, write transactions, cursors.
//!
//! What the engine leaves to its caller is settled here:
//!
//! - Lengths are checked before it sees them: its release builds end the process otherwise.
//! - Memory that it lends is tied to the transaction that lends it, and handles are closed in the right order.
//! - It makes no checkpoint of its own for a threshold, to make a file smaller or when it closes one: that would bring the tree to the disk
//!   before the log of changes. Where a file has come to its greatest size it still does; [`crate::durability`] is ready for that.
//! - Once a flush has failed none is tried again, and nobody begins to write.
//! - Threads of one process begin to write in the order of asking, and none waits for itself.
//! - A snapshot cannot be read from for longer than who opened the file allows.
//!
//! Fields are seen in this folder alone; unsafe code in any of its files relies on them.

mod cursor;
mod environment;
mod failure;
mod flushing;
mod gate;
mod memory;
mod parts;
mod snapshot;
mod table;
mod transaction;

pub(crate) use cursor::{Cursor, Record, Seek};
pub(crate) use environment::{Environment, Opening};
pub(crate) use failure::{BUSY, UNRECOVERED};
pub(crate) use snapshot::Parked;
pub(crate) use table::Table;
pub(crate) use transaction::Transaction;
