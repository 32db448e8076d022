//! Tests that run on a store in a folder and on one in a database.

use super::{FEWER_CASES, Home, home};

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
