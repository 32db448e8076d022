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
    pools::PoolRegistry,
    process::ProcessUse,
    prometheus::{CertificateFacts, Facts, exposition},
    routes::{CLASSES, RouteCounts, RouteMetrics, RouteTotals, name_of},
    scripts::ScriptMetrics,
    workflows::{RUN_OUTCOMES, WorkflowMetrics, WorkflowTotals},
};
