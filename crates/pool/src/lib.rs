//! A bounded queue of jobs and a supervised pool of worker processes that run them. The crate knows no HTTP: a job is the payload of a
//! REQUEST frame, its response that of a RESPONSE frame.

#![deny(unsafe_code)]

mod abort_on_panic;
mod asked;
mod calls;
mod confinement;
mod delivery;
mod dialect;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod guard;
mod link;
mod mailbox;
mod options;
mod outbox;
mod pool;
mod profile;
mod reader;
mod remote;
mod session;
mod state;
mod stats;
mod status;
mod supervisor;
mod sys;
mod worker_log;

pub use abort_on_panic::abort_on_panic;
pub use asked::{NoAnswer, Whole};
pub use calls::{Call, CallHandler, Unwritten};
pub use confinement::{Account, CgroupLimits, Confinement, ConfinementError, Files, Limit};
pub use delivery::{Answer, Delivery, FilePart, Message, PUBLISHED_BYTES_MAX, Timing, Upgrade};
pub use dialect::latin1;
pub use error::Failure;
pub use forebay_wire::{Connection, ContentKind, HEADER_BYTES, Pairs, RequestParts, put_pair};
pub use mailbox::{LocalMailbox, Mailboxes};
pub use options::{Limits, Options, Program, Protocol, Recycle, Retry, Statuses};
pub use pool::{Job, MESSAGE_PIECE_MAX, Pending, Pool};
pub use profile::{Unprofiled, WorkerProfile};
pub use reader::CallSocket;
pub use remote::{AttachedHost, HOSTS_MAX};
pub use state::EndCause;
pub use stats::{Counters, Timings};
pub use status::{Percentiles, Readiness, Status, WorkerStatus};
pub use supervisor::{INLINE_BODY_BYTES, Supervisor};
pub use sys::{Watchable, raise_open_files_max, watch};
