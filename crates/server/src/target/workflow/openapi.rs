//! The workflows of a server as an `OpenAPI` document (3.1), for viewers and client generators.

use serde_json::{Map, Value, json};

use super::{Bundle, WorkflowTarget, release_paths};
use crate::config::{Config, Target, WorkflowApi};

impl WorkflowTarget {
    /// Describes the workflows in force at the routes of a configuration.
    pub(crate) fn openapi(&self, config: &Config, version: &str) -> Value {
        let mut paths = Map::new();
        for route in &config.routes {
            let Target::Workflow(way) = &route.target else {
                continue;
            };
            // A canary release may answer a share of the requests; the document describes the published one.
            let published = self.at(*way).choose_published();
            let path = placed(&route.path);
            match (way.api, &published) {
                (WorkflowApi::Releases, _) => paths.extend(release_paths(path.trim_end_matches("/{rest}"))),
                (_, Err(_)) => {}
                (WorkflowApi::Named, Ok(chosen)) => {
                    let prefix = path.trim_end_matches("{rest}");
                    for name in chosen.book.names() {
                        paths.insert(format!("{prefix}{name}"), self.named(&chosen.book, name));
                    }
                }
                (WorkflowApi::Scenes, Ok(_)) => {
                    let summary = "Runs workflows by their scenes' codes, at the same time";
                    paths.insert(path, envelope("scenesCodes", summary, &scenes()));
                }
                (WorkflowApi::RuleScript, Ok(_)) => {
                    let rule = json!({ "type": ["string", "integer"], "description": "the name of a rule" });
                    paths.insert(path, envelope("ruleScriptId", "Runs one rule", &rule));
                }
                (WorkflowApi::Custom, Ok(_)) => {
                    let summary = "Runs a workflow for a system that knows nothing of workflows";
                    let answer = json!({ "description": "What the template makes of the result" });
                    let operation =
                        json!({ "summary": summary, "responses": { "200": answer, "default": problem() } });
                    paths.insert(path, json!({ "get": operation, "post": operation }));
                }
            }
        }
        for (path, item) in &mut paths {
            let declared = in_path(path);
            if !declared.is_empty() {
                item["parameters"] = declared.into();
            }
        }
        let mut document = json!({
            "openapi": "3.1.0",
            "info": { "title": "Workflows", "version": version },
            "paths": paths,
        });
        if !self.runner.admission.is_open() {
            document["components"] = json!({ "securitySchemes": {
                "client": { "type": "http", "scheme": "basic" },
                "token": { "type": "http", "scheme": "bearer" },
            } });
            document["security"] = json!([{ "client": [] }, { "token": [] }]);
        }
        document
    }

    /// The path item of one workflow.
    fn named(&self, book: &Bundle, name: &str) -> Value {
        let schemas = book.schemas(name);
        let args = schemas.and_then(|schemas| schemas.written().0.cloned());
        let args = whole(args.unwrap_or_else(|| json!({ "type": "object" })), name, "args");
        let values = schemas.and_then(|schemas| schemas.written().1.cloned());
        let values = whole(values.unwrap_or_else(|| json!({})), name, "result");
        let result = if book.is_decision(name) {
            json!({ "type": "object", "properties": { "performance": { "type": "string" }, "result": values } })
        } else {
            json!({ "type": "object", "properties": { "state": { "type": "boolean" }, "valueMap": values } })
        };
        let mut parameters = vec![parameter(
            "trace",
            "query",
            "what each node has come to",
            "boolean",
        )];
        if self.runner.releases.has_releases() && self.route.release.is_none() {
            parameters.push(parameter(
                "release",
                "query",
                "a release by its number",
                "integer",
            ));
        }
        let mut responses = json!({
            "200": { "description": "What the run has come to", "content": { "application/json": { "schema": result } } },
            "default": problem(),
        });
        let mut item = Map::new();
        if self.kept.is_some() {
            parameters.push(parameter(
                "Prefer",
                "header",
                "`respond-async`: the run goes on without its client; `wait=N`: seconds to wait",
                "string",
            ));
            parameters.push(parameter(
                "Idempotency-Key",
                "header",
                "all requests with it are one run",
                "string",
            ));
            responses["202"] = json!({
                "description": "The run is accepted",
                "headers": { "Location": { "description": "where to ask for it", "schema": { "type": "string" } } },
            });
            let mut run = parameter("run", "query", "the id of a run", "string");
            run["required"] = true.into();
            let told = json!({ "description": "How far the run has come", "content": { "application/json": { "schema": { "type": "object" } } } });
            item.insert(
                "get".to_owned(),
                json!({ "summary": format!("Asks about a run of {name}"), "parameters": [run], "responses": { "200": told, "default": problem() } }),
            );
        }
        let one_or_many = json!({ "anyOf": [args, { "type": "array", "items": args, "maxItems": forebay_workflow::ARGUMENTS_MAX }] });
        item.insert(
            "post".to_owned(),
            json!({
                "summary": format!("Runs {name}"),
                "parameters": parameters,
                "requestBody": { "content": { "application/json": { "schema": one_or_many } } },
                "responses": responses,
            }),
        );
        item.into()
    }
}

/// Gives a schema an id, so that its references resolve within it wherever it is embedded.
fn whole(mut schema: Value, workflow: &str, part: &str) -> Value {
    if let Some(members) = schema.as_object_mut()
        && members.contains_key("$defs")
    {
        let id = || format!("urn:forebay:workflow:{workflow}:{part}").into();
        members.entry("$id").or_insert_with(id);
    }
    schema
}

/// The path's parameters.
fn in_path(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let declared = names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    declared.collect()
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

pub(super) fn parameter(name: &str, place: &str, description: &str, kind: &str) -> Value {
    json!({ "name": name, "in": place, "description": description, "schema": { "type": kind } })
}

pub(super) fn problem() -> Value {
    json!({ "description": "What went wrong (RFC 9457)", "content": { "application/problem+json": { "schema": {
        "type": "object",
        "properties": { "title": { "type": "string" }, "status": { "type": "integer" }, "detail": { "type": "string" }, "request_id": { "type": "string" } },
    } } } })
}

fn scenes() -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
}

/// The operation for a request in Rengine's format that has this member.
fn envelope(member: &str, summary: &str, schema: &Value) -> Value {
    let text = json!({ "type": "string" });
    let request = json!({
        "type": "object",
        "required": ["requestId", "clientId", "clientSecret", member],
        "properties": {
            "requestId": text, "clientId": text, "clientSecret": text, "trace": { "type": "boolean" },
            "timeout": { "type": "integer", "description": "milliseconds" }, "args": { "type": "object" }, member: schema,
        },
    });
    let answer = json!({
        "type": "object",
        "properties": {
            "code": { "type": "integer" }, "status": { "enum": ["SUCCESS", "PART_SUCCESS", "FAILED"] }, "requestId": text,
            "timestamp": { "type": "integer" }, "message": text, "data": { "type": ["object", "null"] },
        },
    });
    let content = |schema: Value| json!({ "application/json": { "schema": schema } });
    let answers = json!({ "description": "What has become of it, errors too", "content": content(answer) });
    json!({ "post": {
        "summary": summary,
        "requestBody": { "required": true, "content": content(request) },
        "responses": { "200": answers, "default": answers },
    } })
}
