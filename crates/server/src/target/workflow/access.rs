//! Finds nodes that need what `allow` of `[workflow]` does not name.

use forebay_workflow::BuiltinTask;

use super::Bundle;
use crate::config;

/// The warnings of a bundle, among them its nodes that will fail because they may not reach what they name.
pub(crate) fn warnings(bundle: &Bundle, workflow: &config::Workflow) -> Vec<String> {
    let denied = bundle.tasks().filter_map(|(place, task)| {
        let (what, key) = denied(workflow, task)?;
        Some(format!(
            "{place}: {what} may not be reached: `allow` of `[workflow]` does not name it in `{key}`"
        ))
    });
    bundle.warnings().iter().cloned().chain(denied).collect()
}

/// The database, global, pool or address that a task may not reach, and the key that would allow it.
fn denied(workflow: &config::Workflow, task: &BuiltinTask) -> Option<(String, &'static str)> {
    let allow = &workflow.allow.common;
    let (is_allowed, what, key) = match task {
        BuiltinTask::Sql { source, .. } => {
            (allow.sql.contains(source), format!("database `{source}`"), "sql")
        }
        BuiltinTask::Store { global, .. } => {
            let is_allowed = allow.store.iter().any(|name| name == "*" || name == global);
            (is_allowed, format!("global `{global}`"), "store")
        }
        BuiltinTask::Pool { pool, .. } => (
            workflow.allow.pool.contains(pool),
            format!("pool `{pool}`"),
            "pool",
        ),
        BuiltinTask::Http { url, .. } => {
            // An invalid URL has an error of its own when it is fetched.
            let is_allowed = allow.fetch.iter().any(|host| host.allows(url) != Some(false));
            (is_allowed, format!("`{url}`"), "fetch")
        }
    };
    (!is_allowed).then_some((what, key))
}
