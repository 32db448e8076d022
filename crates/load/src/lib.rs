//! An HTTP load generator: plans requests ([`plan`]), sends them from event loops of its own ([`engine`]), and evaluates the measurements
//! ([`stats`]). Shares no code with the server that it measures.

#![deny(unsafe_code)]

pub mod engine;
pub mod expect;
pub mod failure;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod machine;
pub mod plan;
pub mod report;
pub mod request;
mod response;
pub mod search;
pub mod stats;
pub mod target;
pub mod tls;

pub use self::{engine::Session, plan::Plan, target::Url};
