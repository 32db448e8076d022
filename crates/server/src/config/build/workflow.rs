//! `[workflow]`, and its routes

use super::Builder;
use crate::config::fields::Fields;
use crate::config::{Workflow, WorkflowApi};
use crate::router::Pattern;

impl Builder<'_> {
    /// `None`: a problem has been noted.
    pub(super) fn workflow(&mut self, fields: &Fields) -> Option<Workflow> {
        let path = self.existing_folder(fields, "path");
        let allow = fields.table("allow");
        let (fetch, files) = (self.fetch_hosts(allow), self.file_folders(allow));
        Some(Workflow {
            path: path?,
            is_as_rengine: fields.text("compat") == "rengine",
            timeout: fields.duration("timeout"),
            executors: match fields.integer("executors") as usize {
                0 => self.surroundings.cores,
                executors => executors,
            },
            engines_max: fields.integer("engines_max") as usize,
            accept_queue_max: fields.integer("accept_queue_max") as usize,
            queue_bytes_max: fields.integer("queue_bytes_max"),
            memory_max: fields.integer("memory_max"),
            output_max: fields.integer("output_max"),
            log_max: fields.integer("log_max"),
            fetch_time_max: fields.duration("fetch_time_max"),
            fetch_bytes_max: fields.integer("fetch_bytes_max"),
            fetches_max: fields.integer("fetches_max") as u32,
            fetch,
            files,
        })
    }

    pub(super) fn workflow_route(&mut self, fields: &Fields) -> Option<WorkflowApi> {
        let path = fields.text("path");
        let ends_with_rest = Pattern::parse(path).is_ok_and(|pattern| pattern.ends_with_rest());
        match fields.table("workflow").opt_text("api") {
            Some("named") if !ends_with_rest => {
                let message = format!(
                    "found {path:?}; a route with `workflow = {{ api = \"named\" }}` ends with `/*`, which names the workflow"
                );
                self.note(fields.problem("path", message));
                None
            }
            Some("rulescript") => Some(WorkflowApi::RuleScript),
            Some("scenes") => Some(WorkflowApi::Scenes),
            None if !ends_with_rest => Some(WorkflowApi::Scenes),
            _ => Some(WorkflowApi::Named),
        }
    }
}
