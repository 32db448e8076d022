//! The store through its public face.

#![allow(clippy::unwrap_used, reason = "tests")]

mod model;
mod processes;
