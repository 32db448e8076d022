//! The wire format from outside: golden vectors, round trips, and bytes that are not frames.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod garbage;
mod vectors;
