//! Graphs of rules: a [`Definition`] is read, checked into a [`Graph`], and run as often as it is asked for.
//!
//! A run goes from node to node and has somebody else run the rules ([`Rules`]); it knows neither scripts nor HTTP, and what rules give as values is nothing to it. The graphs are those of Rengine's executor, with more kinds
//! of nodes and without its defects, of which those a graph may depend on are there with [`Compat::Rengine`].

mod check;
mod definition;
mod errand;
mod error;
mod graph;
pub mod jdm;
mod run;
mod schema;

pub use check::check;
pub use definition::{Definition, Edge, Fallback, Join, Kind, Logical, Node};
pub use errand::{Errand, Given, Operation, Request, Taken};
pub use error::{DefinitionError, Problem};
pub use graph::Graph;
pub use run::{
    Before, Cause, DEPTH_MAX, ITEMS_MAX, Outcome, RuleCall, Rules, Run, RunError, Step, Subflow, WAY_MAX, run,
};
pub use schema::{Mismatch, Schema};

/// Whose graphs these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Ours: what a graph says is what is done, or it is refused.
    #[default]
    None,
    /// Written for Rengine's executor. A node keeps its first parent and, where it has room for one only, its last successor; what `BOOT` does not reach is left out. `ALL_OR` is always true. A rule sees as the last
    /// result what a whole branch has come to, not the rule before it in its own branch.
    Rengine,
}

/// The beginning of a text that may be long, in characters.
fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
