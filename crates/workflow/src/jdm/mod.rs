//! Decision graphs of GoRules: a [`Document`] in the JSON Decision Model is read, checked into a [`Decision`], and evaluated as often as it is asked for.
//!
//! The nodes pass a JSON value on: tables of rules, lists of expressions, switches, functions, other decisions. Expressions are compiled when a document is checked, never in a run. What functions do is for others
//! ([`Functions`]); everything else happens here, on one thread, and waits for nothing.
//!
//! A document means what it means to ZEN, GoRules' own engine, with these differences: what cannot work is refused when the document is checked, not in the run that comes to it; expressions never change what other
//! nodes have come to; all is bounded.

mod bounds;
mod check;
mod clock;
mod course;
mod document;
mod error;
mod expression;
mod program;
mod reader;
mod run;
mod switch;
mod table;
mod test;
mod value;

pub use check::{Decision, check};
pub use document::{Document, Edge, Expression, Kind, Mode, Node, Statement, Transform};
pub use error::{Cause, Problem, RunError};
pub use program::Fault;
pub use run::{Answer, DEPTH_MAX, Evaluation, FunctionCall, Functions, RUNS_MAX, Step, Work};
pub use table::{Decided, Flaw, Hits, Input, Output, Row, Rows, Table};
pub use value::{Excess, ITEMS_MAX, from_json, to_json};
pub use zen_expression::Variable;
