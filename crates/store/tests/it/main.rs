//! The store through its public API.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::duplicate_mod, reason = "the same tests run on both kinds of stores")]

mod compact;
mod crashes;
mod disk;
mod full;
mod place;
mod power;
mod recovery;
mod restart;
mod verify;

/// Stores in folders.
mod folder {
    use super::place::Folder as Home;

    #[path = "../both/mod.rs"]
    mod both;
    mod flushes;
    mod log_files;
}

/// Stores in databases.
mod database {
    use super::place::Schema as Home;

    #[path = "../both/mod.rs"]
    mod both;
    mod copy;
    mod faults;
    mod leases;
    mod long_reads;
}
