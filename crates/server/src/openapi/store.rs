//! Operations on the store, on its records, and statements of TQL.

use serde_json::{Value, json};

use super::{
    PathOperations,
    operations::{Described, described},
    path::template,
};
use crate::config::{PathKind, Route};

/// Errors of whatever reads or changes the store.
const ERRORS: &[u16] = &[400, 403, 404, 412, 503, 504];

pub(super) fn query(name: &str, kind: &str, description: &str) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": { "type": kind } })
}

fn condition(name: &str) -> Value {
    let description = "`*`, or the `ETag` of the document that is meant";
    json!({ "name": name, "in": "header", "description": description, "schema": { "type": "string" } })
}

fn body(media_type: &str, schema: &Value) -> Value {
    json!({ "required": true, "content": { media_type: { "schema": schema } } })
}

/// A response with a JSON document.
fn document(description: &str) -> Value {
    json!({ "description": description, "content": { "application/json": {} } })
}

fn appended() -> Value {
    let mut response = document("Added");
    response["headers"]["Location"] = json!({ "description": "Where it is", "schema": { "type": "string" } });
    response
}

/// Responses to requests that read a document.
fn found(found: &Value) -> Value {
    json!({ "200": found, "304": { "description": "The client has it" } })
}

fn written() -> Value {
    json!({ "201": { "description": "Made" }, "204": { "description": "Changed" } })
}

fn removed() -> Value {
    json!({ "204": { "description": "Removed" } })
}

/// The paths of a route with `store`.
pub(super) fn nodes(route: &Route) -> Vec<PathOperations> {
    let paths = route.paths().map(|(path, kind)| {
        let path = template(&path);
        match kind {
            // A store has no jobs.
            PathKind::Own | PathKind::Job => node(route, path),
            PathKind::Batch => batch(route, path),
            PathKind::Changes => changes(route, path),
        }
    });
    paths.collect()
}

fn node(route: &Route, path: String) -> PathOperations {
    let mut filter = query(
        "where",
        "array",
        "Children whose values match, such as `name=Ada` or `age>=30`; an index finds them",
    );
    filter["schema"]["items"] = json!({ "type": "string" });
    let children = [
        query(
            "from",
            "string",
            "Children from this one on, in place of the document",
        ),
        query("to", "string", "Children up to this one"),
        query("prefix", "string", "Children whose names begin so"),
        filter,
        query("index", "string", "The index to use"),
        query("after", "string", "Continues behind this entry of an index"),
        query("limit", "integer", "How many children"),
        query("reverse", "boolean", "From the last to the first"),
        query("keys", "boolean", "Only names"),
        query("depth", "integer", "How many levels are shown"),
    ];
    let lifetime = query("ttl", "string", "How long it is there, such as `60s`");
    let conditions = [condition("If-Match"), condition("If-None-Match")];
    let reading = [&children[..], &conditions].concat();
    let writing = [&[lifetime][..], &conditions].concat();
    let mut read = document("The document, or children");
    read["content"]["application/x-ndjson"] = json!({ "schema": { "type": "string" } });
    let value = || Some(body("application/json", &json!({})));
    let patch = body("application/merge-patch+json", &json!({}));
    let added = json!({ "201": appended() });
    let operations: [Described<'_>; 5] = [
        (
            "get",
            "Reads a document, or children",
            &reading,
            None,
            found(&read),
        ),
        ("put", "Replaces a document", &writing, value(), written()),
        (
            "patch",
            "Changes a document (RFC 7396)",
            &writing,
            Some(patch),
            written(),
        ),
        (
            "post",
            "Adds a child under the next number",
            &writing,
            value(),
            added,
        ),
        ("delete", "Removes a document", &conditions, None, removed()),
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
    let changes = body("application/json", &json!({ "type": "array", "items": change }));
    let done = json!({ "200": document("What each change has done") });
    let operation = (
        "post",
        "Does several changes, or none",
        &[][..],
        Some(changes),
        done,
    );
    described(route, path, [operation], ERRORS)
}

fn changes(route: &Route, path: String) -> PathOperations {
    let since = [query("since", "integer", "Changes after this one")];
    let events = json!({ "description": "Changes, as they happen", "content": { "text/event-stream": {} } });
    let operation = (
        "get",
        "Follows changes",
        &since[..],
        None,
        json!({ "200": events }),
    );
    described(route, path, [operation], &[403, 410, 503])
}

/// The paths of a route with `records`: a record, and all.
pub(super) fn records(route: &Route, path: &str) -> Vec<PathOperations> {
    let conditions = [condition("If-Match"), condition("If-None-Match")];
    let indent = query("indent", "integer", "Spaces for each level");
    let reading = [&[indent.clone()][..], &conditions].concat();
    let mut list = [
        query("kind", "string", "Which records"),
        query("page", "integer", "The number of the page"),
        query("after", "string", "The last record of the page before"),
        query("size", "integer", "How many records, at most 1000"),
        query("full", "boolean", "Records, not only their references"),
        indent,
    ];
    list[0]["required"] = true.into();
    let record = || Some(body("application/json", &json!({ "type": "object" })));
    let patch = body("application/merge-patch+json", &json!({ "type": "object" }));
    let read = found(&document("The record"));
    let one: [Described<'_>; 4] = [
        ("get", "Reads a record", &reading, None, read),
        ("put", "Replaces a record", &conditions, record(), written()),
        (
            "patch",
            "Changes a record (RFC 7396)",
            &conditions,
            Some(patch),
            written(),
        ),
        ("delete", "Removes a record", &conditions, None, removed()),
    ];
    let page = json!({ "200": document("A page") });
    let all: [Described<'_>; 2] = [
        ("get", "Lists the records of a kind", &list, None, page),
        (
            "post",
            "Adds a record",
            &[],
            record(),
            json!({ "201": appended() }),
        ),
    ];
    let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
    vec![
        described(route, format!("{collection}/"), all, ERRORS),
        described(route, path.to_owned(), one, ERRORS),
    ]
}

/// The path of a route with `tql`.
pub(super) fn tql(route: &Route, path: String) -> PathOperations {
    let statement = json!({ "required": true, "content": {
        "application/json": {}, "text/plain": { "schema": { "type": "string" } },
    } });
    let results = json!({ "200": document("The results") });
    let operation = (
        "post",
        "Runs a statement of TQL",
        &[][..],
        Some(statement),
        results,
    );
    described(route, path, [operation], &[400, 401, 403, 422, 503, 504])
}
