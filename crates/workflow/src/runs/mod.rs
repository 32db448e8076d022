//! Runs, on the engines' threads: a graph or a decision picks the next rule, and the engine executes it.

mod decisions;
pub(super) mod driver;
pub(super) mod result;
mod rules;
mod tasks;
