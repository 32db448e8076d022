//! Tests of the public API: reading, checking and running graphs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod any;
mod checks;
mod definitions;
mod jdm;
mod recorded;
mod runs;
