//! What holds in a folder and in a database: these tests run on both.

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
