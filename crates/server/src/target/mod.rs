//! What answers a route: one module for each target.

pub mod files;
