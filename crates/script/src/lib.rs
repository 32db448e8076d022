//! JavaScript inside the server: a module and a request go in, an answer comes out, within time and memory limits. The engine is QuickJS,
//! which this crate does not expose.
//!
//! An [`IoScript`] runs on the calling I/O thread, which others wait for; it is for short calls that only read. A [`Script`] has threads
//! for all other calls. Engines share nothing. A call that exceeds its limits is stopped, and one that cannot be stopped costs its thread.

mod answer;
mod budget;
mod calls;
mod check;
mod counts;
mod entry;
mod executor;
mod fetch;
mod fetch_host;
mod fiber;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
mod host_ops;
mod in_flight;
mod instance;
mod io;
mod member;
mod modules;
mod options;
mod rejections;
mod rules;
mod script;
mod sql;
mod stream;
mod sys;
mod text;
mod values;
mod watchdog;
mod work;

pub use answer::{Answer, Body, Failure, Weight};
pub use check::{Checked, Fault, check};
pub use counts::{Counted, Counts};
pub use executor::Awaited;
pub use fetch_host::{FetchHost, NoHost};
pub use host::ReadRecord;
pub use io::{Finished, IoScript, Shape, Tried, Waiting};
pub use options::{Allow, Limits, Options, Program, ScriptEnvironment, StoreOptions};
pub use rules::{Rule, engine::RuleEngine};
pub use script::Script;
pub use stream::{Next, Piece, Stream};
