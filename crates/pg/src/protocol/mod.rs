//! The PostgreSQL protocol (manual, chapter 53) without I/O: bytes in, bytes and events out. Both drivers share it, so
//! their results are equal.

mod conversation;
mod messages;
mod startup;

pub use conversation::Column;
pub(crate) use conversation::{
    Conversation, Copying, Description, Direction, Event, Expected, Outcome, Transaction, misplaced,
    server_error,
};
pub(crate) use messages::next as next_message;
pub(crate) use messages::{
    Format, body, foreign, make_room, write_cancel, write_copy, write_copy_bytes, write_copy_done,
    write_copy_fail, write_end, write_fetch, write_open, write_prepare, write_run, write_run_as,
};
pub(crate) use startup::{CancelKey, Startup, wants_tls, write_tls_request};
