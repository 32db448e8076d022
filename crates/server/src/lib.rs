//! server

pub mod config;
pub mod router;
