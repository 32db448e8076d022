//! A durable tree of JSON values, shared by many processes at the same time.
//!
//! [`Store::open`] opens a folder. [`Store::snapshot`] gives one consistent state of everything, which is read without
//! waiting for writers; [`Store::begin`] starts a write transaction, of which there is one at a time across all
//! processes. Both offer the same reads of nodes, which are named by a [`Key`]: a global and subscripts.

pub mod changes;
mod checkpoint;
mod clock;
mod compact;
mod copy;
mod database;
mod decimal;
mod digest;
pub mod durability;
mod engine;
mod error;
mod expiry;
pub mod facade;
mod folder;
pub mod index;
pub mod json;
pub mod key;
#[allow(
    unsafe_code,
    reason = "locks on bytes of a file; `sys.rs` is where that stays"
)]
mod locks;
mod opening;
mod patch;
mod read;
mod recovery;
mod store;
mod store_copy;
#[allow(unsafe_code, reason = "the engine is C; this folder is where that stays")]
mod sys;
mod transaction;
pub mod transfer;
mod tree;
pub mod verify;

pub use clock::now_ms;
pub use compact::{Compacted, compact};
pub use copy::Progress;
pub use database::{DatabaseError, DatabaseUrl, is_url};
pub use digest::digest;
pub use durability::Durability;
pub use error::StoreError;
pub use folder::Exposed;
pub use key::{Key, KeyError, Subscript};
pub use locks::Locks;
pub use opening::{Options, VALUE_BYTES_LIMIT};
pub use read::Read;
pub use store::{Stats, Store};
pub use store_copy::{Copied, copy_store};
pub use transaction::{Snapshot, Transaction};
pub use tree::{
    Defined,
    document::{Document, DocumentWalk},
    read::{ChildWalk, GlobalWalk, Range, Reader, ValueWalk},
};
