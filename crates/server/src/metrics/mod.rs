//! The server's metrics, which survive reloads, and their export to monitoring.

mod durations;
mod facts;
mod families;
mod pools;
mod process;
mod prometheus;
mod routes;
mod scripts;
mod workflows;

pub(crate) use self::{
    durations::Durations,
    facts::{CertificateFacts, Facts, Histogram, Sink, write},
    families::{Family, Kind},
    pools::PoolRegistry,
    process::ProcessUse,
    prometheus::exposition,
    routes::{CLASSES, RouteCounts, RouteMetrics, RouteTotals, login_name, name_of},
    scripts::ScriptMetrics,
    workflows::{RUN_OUTCOMES, WorkflowMetrics, WorkflowTotals},
};
