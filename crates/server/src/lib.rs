//! server

pub mod config;
pub mod router;
pub mod target;
