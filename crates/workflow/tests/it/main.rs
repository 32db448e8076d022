//! Graphs that are read, checked and run.

#![allow(clippy::unwrap_used, reason = "tests")]

mod any;
mod checks;
mod definitions;
mod jdm;
mod recorded;
mod runs;
