//! Records and TQL through their public API.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::duplicate_mod, reason = "the same tests run on both kinds of stores")]

mod database;
mod folder;
