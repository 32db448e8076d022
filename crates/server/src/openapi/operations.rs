//! The operations of each kind of target.

use forebay_workflow::WorkflowDocs;
use serde_json::{Map, Value, json};

use super::{
    Builder, METHODS, PathOperations, WITH_BODY,
    path::{parameter_names, template},
    reference, store,
};
use crate::{
    config::{Respond, Route, SqlResult, SqlRoute, Target, WorkflowRoute, WorkflowSource},
    reply::reason,
};

impl Builder<'_> {
    /// The operations of a route, by path.
    pub(super) fn operations(&mut self, route: &Route) -> Vec<PathOperations> {
        let path = template(&route.path);
        match &route.target {
            Target::Respond(respond) => {
                let methods = named_or(route, &["get"]);
                vec![same(
                    path,
                    methods,
                    &responses(respond.status, of_respond(respond)),
                    &[],
                )]
            }
            Target::Redirect(redirect) => {
                let location = json!({ "description": "The other address", "schema": { "type": "string" } });
                let response =
                    json!({ "description": reason(redirect.status), "headers": { "Location": location } });
                let methods = named_or(route, &["get"]);
                vec![same(path, methods, &responses(redirect.status, response), &[])]
            }
            Target::Files(_) => {
                let file = json!({ "description": "The file", "content": { "*/*": {} } });
                let methods = allowed(route, &["get"]);
                vec![same(path, methods, &responses(200, file), &[404])]
            }
            Target::Store => store::nodes(route),
            Target::Records => store::records(route, &path),
            Target::Tql => vec![store::tql(route, path)],
            Target::Sql(sql) => vec![of_sql(route, sql, path)],
            Target::Pool(_) if route.durable.is_some() => of_jobs(route, path),
            Target::Pool(_) | Target::Proxy(_) => vec![of_application(route, path, &[502, 503, 504])],
            Target::Script(_) => vec![of_application(route, path, &[503, 504])],
            Target::Rewrite(_) => vec![of_application(route, path, &[])],
            Target::Workflow(workflow) => self.of_workflows(route, *workflow, &path),
            Target::OpenApi => Vec::new(),
        }
    }

    fn of_workflows(&mut self, route: &Route, way: WorkflowRoute, path: &str) -> Vec<PathOperations> {
        let bundle = (self.sources.workflows)(way.release);
        let workflow = self.sources.config.workflow.as_ref();
        let docs = WorkflowDocs {
            bundle: bundle.as_deref(),
            has_releases: workflow
                .is_some_and(|workflow| matches!(workflow.source(), WorkflowSource::Store { .. })),
            has_durable_runs: workflow.is_some_and(|workflow| workflow.runs.global.is_some()),
        };
        let mut component = |name: &str, schema: &Value| reference("schemas", &self.put_schema(name, schema));
        let paths = docs.operations(path, way, &mut component).into_iter();
        let paths = paths.map(|(path, operations)| PathOperations {
            path,
            operations: operations
                .into_iter()
                .filter_map(|(method, operation)| match operation {
                    Value::Object(operation) if is_allowed(route, &method) => Some((method, operation)),
                    _ => None,
                })
                .collect(),
            errors: &[],
            have_summaries: true,
        });
        paths.collect()
    }
}

/// Whether a route answers requests with this method.
fn is_allowed(route: &Route, method: &str) -> bool {
    route.methods().is_empty()
        || route
            .methods()
            .iter()
            .any(|named| named.eq_ignore_ascii_case(method))
}

/// Those of a target's methods that the route answers.
fn allowed(route: &Route, methods: &[&'static str]) -> Vec<&'static str> {
    let methods = methods.iter().copied();
    methods.filter(|method| is_allowed(route, method)).collect()
}

/// The methods that a route names, or these. GET answers HEAD, too, which is not worth a word.
fn named_or(route: &Route, others: &[&'static str]) -> Vec<&'static str> {
    if route.methods().is_empty() {
        return others.to_vec();
    }
    let is_named = |method: &&str| is_allowed(route, method);
    let is_read = is_named(&"get");
    METHODS
        .into_iter()
        .filter(|method| is_named(method) && !(*method == "head" && is_read))
        .collect()
}

fn responses(status: u16, response: Value) -> Value {
    let responses: Map<String, Value> = [(status.to_string(), response)].into_iter().collect();
    responses.into()
}

/// The same operation for all these methods.
fn same(path: String, methods: Vec<&str>, responses: &Value, errors: &'static [u16]) -> PathOperations {
    let operations = methods.into_iter().map(|method| {
        let operation = [("responses".to_owned(), responses.clone())];
        (method.to_owned(), operation.into_iter().collect())
    });
    PathOperations {
        path,
        operations: operations.collect(),
        errors,
        have_summaries: false,
    }
}

fn of_respond(respond: &Respond) -> Value {
    let mut response = json!({ "description": reason(respond.status) });
    if let Some(content_type) = &respond.content_type {
        response["content"][content_type] = json!({});
    }
    response
}

/// The operations of an application, or of a server behind: only it knows its responses, and its methods unless the route names them.
fn of_application(route: &Route, path: String, errors: &'static [u16]) -> PathOperations {
    let checked: &[&str] = if route.body_schema.is_some() {
        &WITH_BODY
    } else {
        &[]
    };
    let response = json!({ "default": { "description": "What the application answers." } });
    same(path, named_or(route, checked), &response, errors)
}

/// A durable route: requests become jobs, each of which has an address.
fn of_jobs(route: &Route, path: String) -> Vec<PathOperations> {
    let job = json!({ "description": "The job", "content": { "application/json": { "schema": { "type": "object" } } } });
    let mut stored = job.clone();
    stored["headers"]["Location"] = json!({ "description": "Its address", "schema": { "type": "string" } });
    let wait = store::query("wait", "string", "How long to wait for its end, such as `20s`");
    let found =
        json!({ "summary": "What has become of a job", "parameters": [wait], "responses": { "200": job } });
    let cancelled = json!({ "204": { "description": "It will not run" }, "409": { "description": "It runs, or is over" } });
    let cancel = json!({ "summary": "Cancels a job that has not begun", "responses": cancelled });
    let operations = [("get", found), ("delete", cancel)].map(|(method, operation)| {
        let operation = operation.as_object().cloned().unwrap_or_default();
        (method.to_owned(), operation)
    });
    let of_job = PathOperations {
        path: template(&route.jobs_path()),
        operations: operations.into(),
        errors: &[404],
        have_summaries: true,
    };
    vec![
        same(
            path,
            named_or(route, &["post"]),
            &responses(202, stored),
            &[422, 503, 507],
        ),
        of_job,
    ]
}

fn of_sql(route: &Route, sql: &SqlRoute, path: String) -> PathOperations {
    let (result, media_type) = match sql.result {
        SqlResult::Rows => (
            json!({ "type": "array", "items": { "type": "object" } }),
            "application/json",
        ),
        SqlResult::Row => (json!({ "type": "object" }), "application/json"),
        SqlResult::Value => (json!({}), "application/json"),
        SqlResult::Ndjson => (json!({ "type": "string" }), "application/x-ndjson"),
        SqlResult::Csv => (json!({ "type": "string" }), "text/csv"),
    };
    let mut responses = json!({
        "200": { "description": "The rows", "content": { media_type: { "schema": result } } },
        "default": reference("responses", "Problem"),
    });
    if sql.statements().last().is_none_or(|last| !last.sql.only_reads()) {
        responses["204"] = json!({ "description": "Done; the statement gives no rows" });
    }
    let errors: &'static [u16] = match sql.result {
        SqlResult::Row | SqlResult::Value => &[400, 404, 503, 504],
        _ => &[400, 503, 504],
    };
    let in_path: Vec<&str> = parameter_names(&path).collect();
    let mut parameters: Vec<(&str, Value)> = Vec::new();
    for statement in sql.statements() {
        for (at, name) in statement.sql.names().iter().enumerate() {
            let is_new = parameters.iter().all(|(known, _)| known != name);
            if is_new && !in_path.contains(&name.as_str()) {
                parameters.push((name, type_of(statement.sql.text(), at + 1)));
            }
        }
    }
    let mut operations = Vec::new();
    for method in named_or(route, &[]) {
        let is_required = |name: &str| !sql.optional.iter().any(|optional| optional == name);
        let mut operation = Map::new();
        operation.insert("responses".to_owned(), responses.clone());
        if WITH_BODY.contains(&method) && route.body_schema.is_none() && !parameters.is_empty() {
            let schema = json!({
                "type": "object",
                "properties": parameters.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect::<Map<_, _>>(),
                "required": parameters.iter().map(|(name, _)| *name).filter(|name| is_required(name)).collect::<Vec<_>>(),
            });
            let body = json!({ "content": { "application/json": { "schema": schema } } });
            operation.insert("requestBody".to_owned(), body);
        } else if !parameters.is_empty() {
            // Members of a body that is checked may be parameters, too.
            let is_sure = route.body_schema.is_none() || !WITH_BODY.contains(&method);
            let in_query = |(name, schema): &(&str, Value)| json!({ "name": name, "in": "query", "required": is_sure && is_required(name), "schema": schema });
            let in_query: Vec<Value> = parameters.iter().map(in_query).collect();
            operation.insert("parameters".to_owned(), in_query.into());
        }
        operations.push((method.to_owned(), operation));
    }
    PathOperations {
        path,
        operations,
        errors,
        have_summaries: false,
    }
}

/// The schema of the parameter with this number, by a cast such as `$1::int` behind it.
fn type_of(statement: &str, number: usize) -> Value {
    let name = statement
        .match_indices(&format!("${number}::"))
        .find_map(|(at, found)| {
            let rest = &statement[at + found.len()..];
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            (!rest[end..].starts_with('[')).then(|| rest[..end].to_ascii_lowercase())
        });
    match name.as_deref() {
        Some("int" | "int2" | "int4" | "int8" | "integer" | "smallint" | "bigint") => {
            json!({ "type": "integer" })
        }
        Some("numeric" | "decimal" | "real" | "float" | "float4" | "float8" | "double") => {
            json!({ "type": "number" })
        }
        Some("bool" | "boolean") => json!({ "type": "boolean" }),
        Some("uuid") => json!({ "type": "string", "format": "uuid" }),
        Some("text" | "varchar") => json!({ "type": "string" }),
        _ => json!({}),
    }
}

/// Method, summary, parameters, body and responses of an operation that says what it does.
pub(super) type Described<'a> = (&'static str, &'a str, &'a [Value], Option<Value>, Value);

/// The operations of a path, as far as the route answers their methods.
pub(super) fn described<'a>(
    route: &Route,
    path: String,
    operations: impl IntoIterator<Item = Described<'a>>,
    errors: &'static [u16],
) -> PathOperations {
    let operations = operations.into_iter();
    let operations = operations.filter(|(method, ..)| is_allowed(route, method));
    let operations = operations.map(|(method, summary, parameters, body, mut responses)| {
        responses["default"] = reference("responses", "Problem");
        let mut operation = Map::new();
        operation.insert("summary".to_owned(), summary.into());
        operation.insert("responses".to_owned(), responses);
        if !parameters.is_empty() {
            operation.insert("parameters".to_owned(), parameters.into());
        }
        operation.extend(body.map(|body| ("requestBody".to_owned(), body)));
        (method.to_owned(), operation)
    });
    PathOperations {
        path,
        operations: operations.collect(),
        errors,
        have_summaries: true,
    }
}
