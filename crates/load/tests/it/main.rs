//! The load generator through its public API, against a test server and against peers that break every rule.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod connections;
mod counts;
mod epoll;
mod faults;
mod io_uring;
mod latency;
mod many_connections;
mod open_load;
mod peer;
mod requests;
mod rig;
mod tls;
mod tls_peer;
mod warm_up;
