//! The workflows of a configuration as an `OpenAPI` document.

use serde_json::Value;

use super::WorkflowTarget;
use crate::config::{Config, Target};

impl WorkflowTarget {
    /// Describes the workflows in force at the routes of a configuration.
    pub(crate) fn openapi(&self, config: &Config, version: &str) -> Value {
        let routes = config.routes.iter().filter_map(|route| match &route.target {
            Target::Workflow(way) => Some((placed(&route.path), *way)),
            _ => None,
        });
        self.runner.openapi(routes, self.kept.is_some(), version)
    }
}

/// A route's pattern in `OpenAPI`'s syntax: `:name` becomes `{name}`, and `*` becomes `{rest}`.
fn placed(pattern: &str) -> String {
    let parts = pattern.split('/').map(|part| match part.strip_prefix(':') {
        Some(name) => format!("{{{name}}}"),
        None if part == "*" => "{rest}".to_owned(),
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}
