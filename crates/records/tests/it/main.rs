//! Records and TQL through their public API.

#![allow(clippy::unwrap_used, reason = "tests")]

mod changes;
mod cursors;
mod expired;
mod garbage;
mod house;
mod language;
mod model;
mod plans;
mod records;
mod refusals;
