//! The load generator through its public API, against a server for tests and against peers that break every rule.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod connections;
mod counts;
mod epoll;
mod faults;
#[path = "../../src/engine/ring/granted.rs"]
mod granted;
mod held;
mod latency;
mod open_load;
mod peer;
mod reports;
mod requests;
mod rig;
mod tls;
mod tls_peer;
mod warm_up;
