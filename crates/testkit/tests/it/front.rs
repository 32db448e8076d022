//! Connections.
