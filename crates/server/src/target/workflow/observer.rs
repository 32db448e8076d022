//! Counts and logs the runs of workflows in the metrics and the log of the server.

use std::sync::Arc;

use forebay_workflow::{Observer, RunCounts, RunLog};

use crate::{logging::WorkflowLogs, metrics::WorkflowMetrics};

#[derive(Debug)]
pub(super) struct WorkflowObserver {
    pub(super) metrics: Arc<WorkflowMetrics>,
    pub(super) logs: Option<Arc<WorkflowLogs>>,
}

impl Observer for WorkflowObserver {
    fn counts(&self, workflow: &str) -> Arc<dyn RunCounts> {
        self.metrics.of(workflow)
    }

    fn log(&self, workflow: &str, request_id: &str) -> Option<Box<dyn RunLog>> {
        let logs = self.logs.as_ref()?;
        Some(Box::new(logs.of_run(workflow, request_id)))
    }
}
