//! Tests of the pool alone, without HTTP: real processes that speak the protocol over their links.
//!
//! The workers are this same program, started to run the one test that [`worker`] describes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "workers print, to show that nobody minds"
)]

mod answers;
mod calls;
mod faults;
mod house;
mod lifecycle;
mod sys;
mod worker;
