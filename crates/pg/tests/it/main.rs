//! Sources with a real PostgreSQL server.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails with where it is"
)]

mod blocking;
mod cancel;
mod copy;
mod exclusive;
mod faults;
mod listen;
mod pipelining;
mod prepared;
mod relay;
mod results;
mod rig;
mod session;
mod tls;
mod transact;
