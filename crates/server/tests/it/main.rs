//! The server crate from outside: static files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
