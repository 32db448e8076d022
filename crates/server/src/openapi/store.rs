//! Operations on the store, on its records, and statements of TQL.

use serde_json::{Value, json};

use super::{
    PathOperations,
    operations::{described, operation},
    template,
};
use crate::config::{PathKind, Route};

/// Errors of whatever reads or changes the store.
const ERRORS: &[u16] = &[400, 403, 404, 412, 503, 504];

fn parameter(name: &str, place: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": place, "description": description, "schema": schema })
}

fn query(name: &str, kind: &str, description: &str) -> Value {
    parameter(name, "query", description, json!({ "type": kind }))
}

fn condition(name: &str) -> Value {
    let description = "`*`, or the `ETag` of the document that is meant";
    parameter(name, "header", description, json!({ "type": "string" }))
}

fn body(media_type: &str, schema: Value) -> Option<Value> {
    Some(json!({ "required": true, "content": { media_type: { "schema": schema } } }))
}

fn document(description: &str) -> Value {
    json!({ "description": description, "content": { "application/json": {} } })
}

fn appended() -> Value {
    json!({
        "description": "Added",
        "headers": { "Location": { "description": "Where it is", "schema": { "type": "string" } } },
        "content": { "application/json": {} },
    })
}

/// The paths of a route with `store`.
pub(super) fn nodes(route: &Route) -> Vec<PathOperations> {
    let paths = route.paths().map(|(path, kind)| {
        let path = template(&path);
        match kind {
            PathKind::Own => node(route, path),
            PathKind::Batch => batch(route, path),
            PathKind::Changes => changes(route, path),
        }
    });
    paths.filter(|path| !path.operations.is_empty()).collect()
}

fn node(route: &Route, path: String) -> PathOperations {
    let children = [
        query(
            "from",
            "string",
            "Children from this one on, in place of the document",
        ),
        query("to", "string", "Children up to this one"),
        query("prefix", "string", "Children whose names begin so"),
        parameter(
            "where",
            "query",
            "Children whose values match, such as `name=Ada` or `age>=30`; an index finds them",
            json!({ "type": "array", "items": { "type": "string" } }),
        ),
        query("index", "string", "The index to use"),
        query("after", "string", "Continues behind this entry of an index"),
        query("limit", "integer", "How many children"),
        query("reverse", "boolean", "From the last to the first"),
        query("keys", "boolean", "Only names"),
        query("depth", "integer", "How many levels are shown"),
    ];
    let lifetime = query("ttl", "string", "How long it is there, such as `60s`");
    let (if_match, if_none_match) = (condition("If-Match"), condition("If-None-Match"));
    let conditions = [if_match.clone(), if_none_match.clone()];
    let reading = [&children[..], &conditions].concat();
    let writing = [&[lifetime][..], &conditions].concat();
    let written = json!({ "201": { "description": "Made" }, "204": { "description": "Changed" } });
    let lines = json!({ "schema": { "type": "string" } });
    let found = json!({ "description": "The document, or children", "content": { "application/json": {}, "application/x-ndjson": lines } });
    let operations = vec![
        (
            "get",
            operation(
                "Reads a document, or children",
                &reading,
                None,
                json!({ "200": found, "304": { "description": "The client has it" } }),
            ),
        ),
        (
            "put",
            operation(
                "Replaces a document",
                &writing,
                body("application/json", json!({})),
                written.clone(),
            ),
        ),
        (
            "patch",
            operation(
                "Changes a document (RFC 7396)",
                &writing,
                body("application/merge-patch+json", json!({})),
                written,
            ),
        ),
        (
            "post",
            operation(
                "Adds a child under the next number",
                &writing,
                body("application/json", json!({})),
                json!({ "201": appended() }),
            ),
        ),
        (
            "delete",
            operation(
                "Removes a document",
                &conditions,
                None,
                json!({ "204": { "description": "Removed" } }),
            ),
        ),
    ];
    described(route, path, operations, ERRORS)
}

fn batch(route: &Route, path: String) -> PathOperations {
    let change = json!({
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "op": { "enum": ["put", "patch", "append", "delete"] },
            "path": { "type": ["string", "array"], "items": { "type": "string" } },
            "value": {},
            "ttl": { "type": "string" },
            "if_match": { "type": "string" },
            "if_none_match": { "type": "string" },
        },
    });
    let changes = body("application/json", json!({ "type": "array", "items": change }));
    let done = json!({ "200": document("What each change has done") });
    let operations = vec![(
        "post",
        operation("Does several changes, or none", &[], changes, done),
    )];
    described(route, path, operations, ERRORS)
}

fn changes(route: &Route, path: String) -> PathOperations {
    let since = query("since", "integer", "Changes after this one");
    let events = json!({ "description": "Changes, as they happen", "content": { "text/event-stream": {} } });
    let operations = vec![(
        "get",
        operation("Follows changes", &[since], None, json!({ "200": events })),
    )];
    described(route, path, operations, &[403, 410, 503])
}

/// The paths of a route with `records`: a record, and all.
pub(super) fn records(route: &Route, path: &str) -> Vec<PathOperations> {
    let conditions = [condition("If-Match"), condition("If-None-Match")];
    let indent = query("indent", "integer", "Spaces for each level");
    let list = [
        parameter_required(query("kind", "string", "Which records")),
        query("page", "integer", "The number of the page"),
        query(
            "after",
            "string",
            "The record that the page before has ended with",
        ),
        query("size", "integer", "How many records, at most 1000"),
        query("full", "boolean", "Records, not only their references"),
        indent.clone(),
    ];
    let record = || body("application/json", json!({ "type": "object" }));
    let reading = [&[indent][..], &conditions].concat();
    let changed = json!({ "204": { "description": "Changed" } });
    let patch = body("application/merge-patch+json", json!({ "type": "object" }));
    let one = vec![
        (
            "get",
            operation(
                "Reads a record",
                &reading,
                None,
                json!({ "200": document("The record"), "304": { "description": "The client has it" } }),
            ),
        ),
        (
            "put",
            operation("Replaces a record", &conditions, record(), changed.clone()),
        ),
        (
            "patch",
            operation("Changes a record (RFC 7396)", &conditions, patch, changed),
        ),
        (
            "delete",
            operation(
                "Removes a record",
                &conditions,
                None,
                json!({ "204": { "description": "Removed" } }),
            ),
        ),
    ];
    let all = vec![
        (
            "get",
            operation(
                "Lists the records of a kind",
                &list,
                None,
                json!({ "200": document("A page") }),
            ),
        ),
        (
            "post",
            operation("Adds a record", &[], record(), json!({ "201": appended() })),
        ),
    ];
    let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
    let paths = [
        described(route, format!("{collection}/"), all, ERRORS),
        described(route, path.to_owned(), one, ERRORS),
    ];
    paths
        .into_iter()
        .filter(|path| !path.operations.is_empty())
        .collect()
}

fn parameter_required(mut parameter: Value) -> Value {
    parameter["required"] = true.into();
    parameter
}

/// The path of a route with `tql`.
pub(super) fn tql(route: &Route, path: String) -> Vec<PathOperations> {
    let statement = json!({ "required": true, "content": {
        "application/json": {}, "text/plain": { "schema": { "type": "string" } },
    } });
    let results = json!({ "200": document("The results") });
    let operations = vec![(
        "post",
        operation("Runs a statement of TQL", &[], Some(statement), results),
    )];
    let path = described(route, path, operations, &[400, 401, 403, 422, 503, 504]);
    [path]
        .into_iter()
        .filter(|path| !path.operations.is_empty())
        .collect()
}
