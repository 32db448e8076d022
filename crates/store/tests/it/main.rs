//! The store through its public API.

#![allow(clippy::unwrap_used, reason = "tests")]

mod changes;
mod compact;
mod crashes;
mod disk;
mod expiry;
mod facade;
mod full;
mod group_commit;
mod indexes;
mod locks;
mod merge;
mod model;
mod patch;
mod power;
mod processes;
mod recovery;
mod restart;
mod transfer;
mod verify;
