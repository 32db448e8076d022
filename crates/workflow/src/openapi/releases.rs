//! Releases as part of an OpenAPI document.

use serde_json::{Map, Value, json};

use super::{content, parameter, problem};

/// The operations at the paths below `root`.
pub(super) fn release_operations(root: &str) -> Vec<(String, Map<String, Value>)> {
    let draft = json!({
        "type": "object",
        "required": ["files"],
        "properties": {
            "files": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Texts by paths, such as `order.json` and `rules/below.js`" },
            "note": { "type": "string" },
        },
    });
    let percent = json!({
        "type": "object",
        "properties": { "percent": { "type": "number", "minimum": 0.01, "maximum": 99.99, "description": "A share of the runs; without it all" } },
    });
    let stage = json!({ "type": "object", "required": ["state"], "properties": { "state": { "enum": ["draft", "test"] } } });
    let mut make = operation("Makes a release, a draft", "201", Some(&draft));
    make["responses"]["201"]["headers"] =
        json!({ "Location": { "description": "The release", "schema": { "type": "string" } } });
    let mut log = operation("Who has done what, the newest first", "200", None);
    log["parameters"] = json!([parameter("count", "query", "Most entries", "integer")]);
    let mut discard = operation("Removes a release that is not in use", "204", None);
    discard["parameters"] = json!([parameter(
        "former",
        "query",
        "Also one that was published",
        "boolean"
    )]);
    let get = |summary| vec![("get", operation(summary, "200", None))];
    let post = |summary, body| vec![("post", operation(summary, "200", body))];
    let stage = operation(
        "Makes a release available by its number, or a draft again",
        "200",
        Some(&stage),
    );
    [
        (
            "",
            vec![
                ("get", operation("Lists the releases", "200", None)),
                ("post", make),
            ],
        ),
        ("/log", vec![("get", log)]),
        ("/rollback", post("Takes back what was published last", None)),
        (
            "/{release}",
            vec![
                ("get", operation("Describes a release", "200", None)),
                ("delete", discard),
            ],
        ),
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
        ("/{release}/state", vec![("put", stage)]),
    ]
    .map(|(path, operations)| {
        let operations = operations.into_iter();
        let operations = operations.map(|(method, operation)| (method.to_owned(), operation));
        (format!("{root}{path}"), operations.collect())
    })
    .into()
}

fn operation(summary: &str, status: &str, body: Option<&Value>) -> Value {
    let mut done = json!({ "description": "Done" });
    if status != "204" {
        done["content"] = content(&json!({ "type": "object" }));
    }
    let mut operation = json!({
        "summary": summary, "responses": { status: done, "default": problem() },
    });
    if let Some(schema) = body {
        operation["requestBody"] = json!({ "content": content(schema) });
    }
    operation
}
