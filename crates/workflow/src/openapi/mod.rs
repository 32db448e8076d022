//! The workflows of a server as an `OpenAPI` document (3.1), for viewers and client generators.

mod releases;

use serde_json::{Map, Value, json};

use self::releases::release_paths;
use crate::{Bundle, Evaluator, Runner, arguments::ARGUMENTS_MAX};

/// A route of workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkflowRoute {
    /// The format of requests.
    pub api: WorkflowApi,
    /// The release to run; `None`: the published one.
    pub release: Option<u64>,
}

/// A format of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowApi {
    /// The path names the workflow; the body holds its arguments.
    Named,
    /// Rengine's requests for workflows.
    Scenes,
    /// Rengine's requests for a single rule.
    RuleScript,
    /// Other systems' requests, answered with a template.
    Custom,
    /// Requests about releases, not for runs.
    Releases,
}

impl WorkflowApi {
    /// The word used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Scenes => "scenes",
            Self::RuleScript => "rulescript",
            Self::Custom => "custom",
            Self::Releases => "releases",
        }
    }
}

impl<E: Evaluator> Runner<E> {
    /// Describes the workflows in force at these routes, each with its path in the document, where `{rest}` is the rest of a path.
    pub fn openapi(
        &self,
        routes: impl Iterator<Item = (String, WorkflowRoute)>,
        has_durable_runs: bool,
        version: &str,
    ) -> Value {
        let mut paths = Map::new();
        for (path, WorkflowRoute { api, release }) in routes {
            // A canary release may answer a share of the requests; the document describes the published one.
            let published = self.releases.published(release);
            match (api, &published) {
                (WorkflowApi::Releases, _) => paths.extend(release_paths(path.trim_end_matches("/{rest}"))),
                (_, Err(_)) => {}
                (WorkflowApi::Named, Ok(chosen)) => {
                    let prefix = path.trim_end_matches("{rest}");
                    for name in chosen.bundle.names() {
                        let item = self.path_item(&chosen.bundle, name, release.is_some(), has_durable_runs);
                        paths.insert(format!("{prefix}{name}"), item);
                    }
                }
                (WorkflowApi::Scenes, Ok(_)) => {
                    let summary = "Runs workflows by their scenes' codes, at the same time";
                    let codes = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
                    paths.insert(path, envelope("scenesCodes", summary, &codes));
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
        if !self.admission.is_open() {
            document["components"] = json!({ "securitySchemes": {
                "client": { "type": "http", "scheme": "basic" },
                "token": { "type": "http", "scheme": "bearer" },
            } });
            document["security"] = json!([{ "client": [] }, { "token": [] }]);
        }
        document
    }

    /// The path item of one workflow.
    fn path_item(
        &self,
        bundle: &Bundle<E>,
        name: &str,
        has_own_release: bool,
        has_durable_runs: bool,
    ) -> Value {
        let schemas = bundle.schemas(name);
        let args = schemas.and_then(|schemas| schemas.written().0.cloned());
        let args = whole(args.unwrap_or_else(|| json!({ "type": "object" })), name, "args");
        let values = schemas.and_then(|schemas| schemas.written().1.cloned());
        let values = whole(values.unwrap_or_else(|| json!({})), name, "result");
        let result = if bundle.is_decision(name) {
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
        if self.releases.has_releases() && !has_own_release {
            parameters.push(parameter(
                "release",
                "query",
                "a release by its number",
                "integer",
            ));
        }
        let done = json!({ "description": "What the run has come to", "content": content(&result) });
        let mut responses = json!({ "200": done, "default": problem() });
        let mut item = Map::new();
        if has_durable_runs {
            let prefer = "`respond-async`: the run goes on without its client; `wait=N`: seconds to wait";
            parameters.push(parameter("Prefer", "header", prefer, "string"));
            let key = "all requests with it are one run";
            parameters.push(parameter("Idempotency-Key", "header", key, "string"));
            responses["202"] = json!({
                "description": "The run is accepted",
                "headers": { "Location": { "description": "where to ask for it", "schema": { "type": "string" } } },
            });
            let mut run = parameter("run", "query", "the id of a run", "string");
            run["required"] = true.into();
            let report = json!({ "description": "How far the run has come", "content": content(&json!({ "type": "object" })) });
            let get = json!({
                "summary": format!("Asks about a run of {name}"),
                "parameters": [run],
                "responses": { "200": report, "default": problem() },
            });
            item.insert("get".to_owned(), get);
        }
        let one_or_many =
            json!({ "anyOf": [args, { "type": "array", "items": args, "maxItems": ARGUMENTS_MAX }] });
        let post = json!({
            "summary": format!("Runs {name}"),
            "parameters": parameters,
            "requestBody": { "content": content(&one_or_many) },
            "responses": responses,
        });
        item.insert("post".to_owned(), post);
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

fn parameter(name: &str, place: &str, description: &str, kind: &str) -> Value {
    json!({ "name": name, "in": place, "description": description, "schema": { "type": kind } })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn problem() -> Value {
    json!({ "description": "What went wrong (RFC 9457)", "content": { "application/problem+json": { "schema": {
        "type": "object",
        "properties": { "title": { "type": "string" }, "status": { "type": "integer" }, "detail": { "type": "string" }, "request_id": { "type": "string" } },
    } } } })
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
    let answers = json!({ "description": "What has become of it, errors too", "content": content(&answer) });
    json!({ "post": {
        "summary": summary,
        "requestBody": { "required": true, "content": content(&request) },
        "responses": { "200": answers, "default": answers },
    } })
}
