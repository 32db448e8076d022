//! What holds for a store in a folder and for one in a database: these tests run on both.

use super::Home;

pub(super) mod changes;
mod expiry;
mod facade;
mod group_commit;
mod indexes;
mod locks;
mod merge;
mod model;
mod patch;
mod processes;
mod transfer;
