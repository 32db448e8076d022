//! Decision graphs of GoRules: a [`Document`] in the JSON Decision Model is read, checked into a [`Decision`], and evaluated any number of
//! times.
//!
//! Nodes pass on a JSON value: decision tables, lists of expressions, switches, functions, other decisions. Expressions are compiled when a
//! document is checked, never during a run. Functions are left to the host ([`Functions`]); everything else happens here, on one thread,
//! without waiting.
//!
//! A document means what it means to ZEN, GoRules' own engine, with these differences: what cannot work is rejected when the document is
//! checked, not when a run gets there; expressions never change the results of other nodes; everything has a limit.

mod bounds;
mod check;
mod clock;
mod document;
mod error;
mod evaluation;
mod expression;
mod program;
mod run;
mod switch;
mod table;
mod template;
mod test;
mod traversal;
mod value;

pub use check::{Decision, check};
pub use document::{Document, Edge, Expression, Kind, Mode, Node, Statement, Transform};
pub use error::{Cause, Problem, RunError};
pub use evaluation::{Evaluation, Step, Steps};
pub use program::{Fault, evaluate};
pub use run::{Answer, DEPTH_MAX, FunctionCall, Functions, RUNS_MAX, Work};
pub use table::{CellError, Decided, Hits, Input, Output, Row, Rows, Table};
pub use value::{Excess, ITEMS_MAX, from_json, to_json};
pub use zen_expression::Variable;
