//! Routes of workflows as part of an OpenAPI document (3.1).

mod releases;

use serde_json::{Map, Value, json};

use self::releases::release_operations;
use crate::{Bundle, Evaluator, arguments::ARGUMENTS_MAX};

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

/// The workflows of a route, for its OpenAPI document.
#[derive(Debug)]
pub struct WorkflowDocs<'a, E: Evaluator> {
    /// The workflows that are in force there; `None` if that is not known. A canary release may answer a share of the requests; a document
    /// describes the published one.
    pub bundle: Option<&'a Bundle<E>>,
    /// Whether the workflows are releases in the store.
    pub has_releases: bool,
    /// Whether runs can go on without their clients.
    pub has_durable_runs: bool,
}

/// The schemas of a document: takes a name and a schema, and returns what stands for it elsewhere in the document.
pub type Components<'a> = &'a mut dyn FnMut(&str, &Value) -> Value;

impl<E: Evaluator> WorkflowDocs<'_, E> {
    /// The operations of a route at this path, whose last segment is a parameter if it names the workflow or release: by path, then by
    /// method. Failures are answered as the document's response `Problem` says.
    pub fn operations(
        &self,
        path: &str,
        route: WorkflowRoute,
        components: Components<'_>,
    ) -> Vec<(String, Map<String, Value>)> {
        let text = json!({ "type": "string" });
        let root = path.rsplit_once('/').map_or("", |(root, _)| root);
        match (route.api, self.bundle) {
            (WorkflowApi::Releases, _) => release_operations(root),
            (WorkflowApi::Named, Some(bundle)) => {
                let mut operations = Vec::new();
                for name in bundle.names() {
                    let named = self.named(Some((bundle, name)), route.release.is_some(), components);
                    operations.push((format!("{root}/{name}"), named));
                }
                operations
            }
            (WorkflowApi::Named, None) => {
                vec![(
                    path.to_owned(),
                    self.named(None, route.release.is_some(), components),
                )]
            }
            (WorkflowApi::Scenes, _) => {
                let summary = "Runs workflows by their scenes' codes, at the same time";
                let codes = json!({ "type": "array", "items": text, "minItems": 1 });
                vec![(path.to_owned(), envelope("scenesCodes", summary, &codes))]
            }
            (WorkflowApi::RuleScript, _) => {
                let rule = json!({ "type": ["string", "integer"], "description": "The name of a rule" });
                vec![(path.to_owned(), envelope("ruleScriptId", "Runs one rule", &rule))]
            }
            (WorkflowApi::Custom, _) => {
                let summary = "Runs a workflow for a system that knows nothing of workflows";
                let answer = json!({ "description": "What the template makes of the result", "content": { "*/*": {} } });
                let operation =
                    json!({ "summary": summary, "responses": { "200": answer, "default": problem() } });
                let operations = ["get", "post"].map(|method| (method.to_owned(), operation.clone()));
                vec![(path.to_owned(), operations.into_iter().collect())]
            }
        }
    }

    /// The operations of one workflow, or of whichever the path names.
    fn named(
        &self,
        workflow: Option<(&Bundle<E>, &str)>,
        has_own_release: bool,
        components: Components<'_>,
    ) -> Map<String, Value> {
        let name = workflow.map_or("the workflow that the path names", |(_, name)| name);
        let schemas = workflow.and_then(|(bundle, name)| bundle.schemas(name));
        let (args, values) = schemas.map_or((None, None), |schemas| schemas.written());
        let args = args.map(|args| components(&format!("{name}.args"), args));
        let args = args.unwrap_or_else(|| json!({ "type": "object" }));
        let values = values.map(|values| components(&format!("{name}.result"), values));
        let values = values.unwrap_or_else(|| json!({}));
        let result = match workflow {
            None => json!({ "type": "object" }),
            Some((bundle, name)) if bundle.is_decision(name) => {
                json!({ "type": "object", "properties": { "performance": { "type": "string" }, "result": values } })
            }
            Some(_) => {
                json!({ "type": "object", "properties": { "state": { "type": "boolean" }, "valueMap": values } })
            }
        };
        let mut parameters = vec![parameter(
            "trace",
            "query",
            "What each node has come to",
            "boolean",
        )];
        if self.has_releases && !has_own_release {
            parameters.push(parameter(
                "release",
                "query",
                "A release by its number",
                "integer",
            ));
        }
        let done = json!({ "description": "What the run has come to", "content": content(&result) });
        let mut responses = json!({ "200": done, "default": problem() });
        let mut item = Map::new();
        if self.has_durable_runs {
            let prefer = "`respond-async`: the run goes on without its client; `wait=N`: seconds to wait";
            parameters.push(parameter("Prefer", "header", prefer, "string"));
            let key = "All requests with it are one run";
            parameters.push(parameter("Idempotency-Key", "header", key, "string"));
            responses["202"] = json!({
                "description": "The run is accepted",
                "headers": { "Location": { "description": "Where to ask for it", "schema": { "type": "string" } } },
            });
            let mut run = parameter("run", "query", "The id of a run", "string");
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
        item
    }
}

fn parameter(name: &str, place: &str, description: &str, kind: &str) -> Value {
    json!({ "name": name, "in": place, "description": description, "schema": { "type": kind } })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn problem() -> Value {
    json!({ "$ref": "#/components/responses/Problem" })
}

/// The operation for a request in Rengine's format that has this member.
fn envelope(member: &str, summary: &str, schema: &Value) -> Map<String, Value> {
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
    let post = json!({
        "summary": summary,
        "requestBody": { "required": true, "content": content(&request) },
        "responses": { "200": answers, "default": answers },
    });
    [("post".to_owned(), post)].into_iter().collect()
}
