//! Workflows of rules, from their files to the result of a run.
//!
//! - A [`Bundle`] is what a set of files is compiled into: graphs, decisions, rules, schemas and templates.
//! - [`ActiveReleases`] are the bundles in force: that of a folder, or [`Releases`] from a [`Storage`].
//! - A [`Runner`] runs them: [`Admission`] says who may run what and when, an [`Evaluator`] evaluates the rules, an [`Observer`] counts and
//!   logs. [`Offline`] runs them without a server, [`DurableRuns`] keeps runs and their outcomes in a [`RunStorage`].
//! - [`ReleaseService`] checks, tests and publishes releases. [`rengine`] has the formats of requests of Rengine's executor, as plain data.
//!
//! A run walks from node to node of a [`Graph`] ([`run`]), or evaluates a decision ([`jdm`]). The graphs are those of Rengine's executor, with
//! more kinds of nodes and without its defects; [`Compat::Rengine`] brings back those defects that a graph may depend on. This crate
//! serves no HTTP, and knows neither an engine for scripts nor a store.

mod admission;
mod arguments;
mod builtin_task;
mod bundle;
mod check;
mod definition;
mod durable_runs;
mod error;
mod evaluator;
mod failure;
mod graph;
pub mod jdm;
mod object;
mod observer;
mod offline;
mod openapi;
mod releases;
pub mod rengine;
mod run;
mod run_list;
mod runner;
mod runs;
mod schema;
mod storage;

pub use admission::{Admission, Asker, ClientLimits, WorkflowScene};
pub use arguments::{argument_list, arguments, is_list};
pub use builtin_task::{BuiltinTask, Operand, Operation, Request, ResultMode};
pub use bundle::{
    Bundle, BundleErrors, Schemas, SourceParser, SourceProblem, StoredTest, Template, WorkflowFiles,
    escape_markup, is_workflow_file,
};
pub use check::check;
pub use definition::{Definition, Edge, Fallback, Join, Kind, Logical, Node};
pub use durable_runs::{DurableRunLimits, DurableRuns, Entry, Progress, RunName, RunRequest, StoredOutcome};
pub use error::{DefinitionError, Problem};
pub use evaluator::{
    Begin, BegunRun, CompiledRule, Engine, EngineCall, Evaluator, LogLine, Priority, Required, RuleFile,
    RuleModule, RuleOutcome, RuleSource, RunHost, RunInput, RunOutput,
};
pub use failure::{FailureKind, WorkflowFailure, with_causes};
pub use graph::Graph;
pub use observer::{Observer, RunCounts, RunLog, RunOutcome};
pub use offline::{Offline, OfflineError, Tested, arguments_of};
pub use openapi::{Components, WorkflowApi, WorkflowDocs, WorkflowRoute};
pub use releases::{
    Abandoned, About, ActiveReleases, ActiveReleasesError, Actor, Canary, Draft, FileStamps, LogEntry,
    Publication, Reading, ReleaseAssignments, ReleaseEnvironment, ReleaseError, ReleaseService,
    ReleaseServiceError, Releases, ResolvedRelease, RolledBack, Stage, State, percent_of, place_of_release,
};
pub use run::{
    Before, Cause, DEPTH_MAX, Ended, ITEMS_MAX, NodeName, Outcome, RuleCall, Rules, RunError, Step, Subflow,
    Trace, WAY_MAX, run,
};
use runner::TRACE_TIME;
pub use runner::{RunCall, RunLimits, Runner};
pub use schema::{Mismatch, Schema};
pub use storage::{
    Changes, Documents, Fetched, NodeLocks, RunStorage, Storage, StorageError, Write, Written,
};

/// Which executor the graph was written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Forebay: a graph does exactly what it says, or is rejected.
    #[default]
    None,
    /// Rengine's executor. A node keeps its first parent and, if it can have only one successor, its last successor; nodes that are not
    /// reachable from `BOOT` are left out. `ALL_OR` is always true. The last result that a rule sees is that of a whole branch, not that of
    /// the rule before it in its own branch.
    Rengine,
}

/// The beginning of a long text: at most `chars_max` characters and an ellipsis.
fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
