//! A safe interface to libmdbx: tables, snapshots, write transactions, cursors.
//!
//! It takes care of what the engine leaves to its caller:
//!
//! - Lengths are checked first, because the engine's release builds abort the process on invalid ones.
//! - Borrowed memory is tied to the transaction that lends it, and handles are closed in the right order.
//! - The engine makes no checkpoints of its own, neither for a threshold, nor to shrink a file, nor on closing one: they would bring the tree to
//!   the disk before the change log. When a file reaches its maximum size the engine still does; [`crate::durability`] is ready for that.
//! - After a failed flush no other is tried, and no write transaction begins.
//! - Threads of one process write in the order of arrival, and a thread never waits for itself.
//! - A snapshot cannot be read from for longer than the options allow.
//!
//! Fields are visible in this folder only; unsafe code in any of its files relies on them.

mod cursor;
mod environment;
mod failure;
mod flushing;
mod memory;
mod savepoint;
mod snapshot;
mod table;
mod transaction;
mod writer_queue;

pub(crate) use cursor::{Cursor, Seek};
pub(crate) use environment::{Environment, Opening};
pub(crate) use failure::{BUSY, UNRECOVERED};
pub(crate) use snapshot::Parked;
pub(crate) use table::Table;
pub(crate) use transaction::Transaction;
pub(crate) use writer_queue::WriterQueue;
