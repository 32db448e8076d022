//! PostgreSQL's protocol (manual, chapter 53) without input and output: bytes go in, bytes and events come out. Both drivers have it, so both give the same results.

mod conversation;
mod startup;

pub use conversation::Column;
pub(crate) use conversation::{Conversation, Event, Outcome};
pub(crate) use startup::Startup;
