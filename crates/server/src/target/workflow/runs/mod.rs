//! Runs, on the threads of the engines: a graph or a decision says what is next, the engine runs it.

pub(super) mod course;
mod decisions;
mod desk;
pub(super) mod errands;
pub(super) mod result;
mod rules;
