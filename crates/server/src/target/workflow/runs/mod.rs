//! Runs, on the engines' threads: a graph or a decision picks the next rule, and the engine executes it.

pub(super) mod builtin_tasks;
mod decisions;
pub(super) mod driver;
mod pending_tasks;
pub(super) mod result;
mod rules;
