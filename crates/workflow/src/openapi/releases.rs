//! Releases as part of an `OpenAPI` document.

use serde_json::{Value, json};

use super::{content, parameter, problem};

/// The paths below `root`, with their operations.
pub(super) fn release_paths(root: &str) -> Vec<(String, Value)> {
    let draft = json!({
        "type": "object",
        "required": ["files"],
        "properties": {
            "files": { "type": "object", "additionalProperties": { "type": "string" }, "description": "texts by paths, such as `order.json` and `rules/below.js`" },
            "note": { "type": "string" },
        },
    });
    let percent = json!({
        "type": "object",
        "properties": { "percent": { "type": "number", "minimum": 0.01, "maximum": 99.99, "description": "a share of the runs; without it all" } },
    });
    let stage = json!({ "type": "object", "required": ["state"], "properties": { "state": { "enum": ["draft", "test"] } } });
    let mut make = operation("Makes a release, a draft", "201", Some(&draft));
    make["responses"]["201"]["headers"] =
        json!({ "Location": { "description": "the release", "schema": { "type": "string" } } });
    let mut log = operation("Who has done what, the newest first", "200", None);
    log["parameters"] = json!([parameter("count", "query", "most entries", "integer")]);
    let mut discard = operation("Removes a release that is not in use", "204", None);
    discard["parameters"] = json!([parameter(
        "former",
        "query",
        "also one that was published",
        "boolean"
    )]);
    let get = |summary| json!({ "get": operation(summary, "200", None) });
    let post = |summary, body| json!({ "post": operation(summary, "200", body) });
    let one = json!({ "get": operation("Describes a release", "200", None), "delete": discard });
    let stage = json!({ "put": operation("Makes a release available by its number, or a draft again", "200", Some(&stage)) });
    [
        (
            "",
            json!({ "get": operation("Lists the releases", "200", None), "post": make }),
        ),
        ("/log", json!({ "get": log })),
        ("/rollback", post("Takes back what was published last", None)),
        ("/{release}", one),
        ("/{release}/files", get("The files of a release")),
        ("/{release}/check", get("Checks a release")),
        (
            "/{release}/test",
            post("Runs the stored tests of a release", None),
        ),
        (
            "/{release}/publish",
            post("Publishes a release once its stored tests hold", Some(&percent)),
        ),
        ("/{release}/state", stage),
    ]
    .map(|(path, item)| (format!("{root}{path}"), item))
    .into()
}

fn operation(summary: &str, status: &str, body: Option<&Value>) -> Value {
    let mut done = json!({ "description": "Done" });
    if status != "204" {
        done["content"] = content(&json!({ "type": "object" }));
    }
    let mut operation = json!({
        "summary": summary, "security": [{ "token": [] }], "responses": { status: done, "default": problem() },
    });
    if let Some(schema) = body {
        operation["requestBody"] = json!({ "content": content(schema) });
    }
    operation
}
