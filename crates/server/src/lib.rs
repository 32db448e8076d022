//! server

pub mod config;
