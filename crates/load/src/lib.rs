//! An HTTP load generator: says what to send ([`plan`]), sends it from event loops of its own ([`engine`]), and says what came of it
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
