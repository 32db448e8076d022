//! Runs, on the engines' threads: a graph or a decision picks the next rule, and the engine executes it.

pub(super) mod course;
mod decisions;
mod desk;
pub(super) mod errands;
pub(super) mod result;
mod rules;
