//! The pool of workers by itself, without HTTP: the server's own in this process, JavaScript pools in a driver that is part of the SDK
//! (`sdk/node/src/pool/benchmark`), all with the same loop. Reports how fast each is, what it costs, and how certain the figures are.

mod adaptive;
mod cpu;
mod driver;
mod error;
mod lines;
mod outcome;
mod plan;
mod report;
mod server_pool;
mod suite;

pub use error::BenchError;
pub use outcome::{ErrorText, Handled, Outcome, Times};
pub use plan::{
    Contender, DELAY_MAX, Kind, Language, Load, OUTSTANDING_MAX, PAYLOAD_MAX, Peer, Plan, SWEEP, WORKERS_MAX,
};
pub use report::{Report, Subject, html, json, text};
pub use suite::{Suite, SuiteEvent, run};
