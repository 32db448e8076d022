//! The server's metrics, which survive reloads, and their export to monitoring.

mod durations;
mod families;
mod pools;
mod process;
mod prometheus;
mod routes;
mod scripts;
mod workflows;

pub(crate) use self::{
    pools::PoolBook,
    process::ProcessUse,
    prometheus::{Facts, exposition},
    routes::{CLASSES, RouteBook, RouteCounts, RouteTotals, name_of},
    scripts::ScriptBook,
    workflows::{RUN_OUTCOMES, RunOutcome, WorkflowBook, WorkflowCounts, WorkflowTotals},
};
