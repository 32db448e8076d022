//! The error responses of the server itself.

use serde_json::{Map, Value, json};

use super::reference;
use crate::reply::reason;

pub(super) const RATE_LIMIT_HEADERS: [(&str, &str); 3] = [
    ("RateLimit-Limit", "Requests that a client may send in a time"),
    ("RateLimit-Remaining", "Those that are left"),
    ("RateLimit-Reset", "Seconds until all have come back"),
];

/// The name of an error response among the components.
pub(super) fn error_name(status: u16) -> String {
    match status {
        0 => "Problem".to_owned(),
        _ => reason(status).replace(' ', ""),
    }
}

/// A response of the server itself; status 0: any of these.
pub(super) fn error_response(status: u16) -> Value {
    let description = match status {
        400 => "The request cannot be used as it is.",
        401 => "The client has not proved who it is.",
        403 => "The client may not do this.",
        404 => "There is nothing here.",
        409 => "It conflicts with what is there.",
        410 => "It is no longer there.",
        412 => "`If-Match` or `If-None-Match` does not hold.",
        413 => "The body is longer than it may be.",
        415 => "The body is of a media type that is not accepted here.",
        422 => "The request is understood, and cannot be done.",
        429 => "The client has sent as many requests as it may.",
        502 => "What answers here has failed.",
        503 => "There is too much to do, or what answers here is not available.",
        504 => "The request was not answered by its deadline.",
        _ => "The server says why the request is not answered as asked.",
    };
    let text = json!({ "type": "string" });
    let mut headers = Map::new();
    if status == 401 {
        let description = "How clients can prove who they are";
        headers.insert(
            "WWW-Authenticate".to_owned(),
            json!({ "description": description, "schema": text }),
        );
    }
    if matches!(status, 429 | 503) {
        let header = json!({ "description": "Seconds until it is worth trying again", "schema": { "type": "integer" } });
        headers.insert("Retry-After".to_owned(), header);
    }
    if status == 429 {
        for (name, _) in RATE_LIMIT_HEADERS {
            headers.insert(name.to_owned(), reference("headers", name));
        }
    }
    let mut response = json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    if !headers.is_empty() {
        response["headers"] = headers.into();
    }
    response
}

pub(super) fn problem_schema() -> Value {
    json!({
        "description": "Problem details (RFC 9457)",
        "type": "object",
        "required": ["type", "title", "status", "detail", "request_id"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string", "description": "The meaning of the status" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What is wrong with this request" },
            "request_id": { "type": "string", "description": "The id that the log has" },
        },
    })
}
