//! The JSONL dialect: one JSON object per line (PROTOCOL.md, section 7).

use base64::{Engine, prelude::BASE64_STANDARD};
use forebay_wire::{ContentKind, Pairs, RequestView, ResponseHead, put_pair};

use super::{
    Answered, Said, latin1, log_line,
    members::{Members, Text, text},
    put_json, put_text,
};

/// The members that an answer may have.
const ANSWER: [&str; 6] = ["id", "status", "headers", "body", "json", "body_base64"];
/// Any of these makes an object without an id an answer.
const TELLING: [&str; 4] = ["status", "body", "json", "body_base64"];

/// Writes the message in two parts: `before` between the job's number and the remaining time, `out` after that.
pub(super) fn put_request(before: &mut Vec<u8>, out: &mut Vec<u8>, request: &RequestView<'_>) {
    for (name, part) in [
        (",\"method\":", request.method),
        (",\"path\":", request.path),
        (",\"query\":", request.query),
        (",\"route\":", request.route),
        (",\"peer\":", request.peer),
        (",\"request_id\":", request.id),
    ] {
        before.extend_from_slice(name.as_bytes());
        put_text(before, part);
    }
    if !request.identity.is_empty() {
        before.extend_from_slice(b",\"user\":");
        put_json(before, request.identity);
    }
    before.extend_from_slice(b",\"remaining_ms\":");
    out.extend_from_slice(b",\"params\":{");
    for (place, (name, value)) in Pairs::new(request.params).flatten().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        put_text(out, value);
    }
    out.extend_from_slice(b"},\"headers\":[");
    for (place, (name, value)) in Pairs::new(request.headers).flatten().enumerate() {
        out.extend_from_slice(if place > 0 { b",[" } else { b"[" });
        put_text(out, name);
        out.push(b',');
        if value.is_ascii() {
            put_text(out, value);
        } else {
            // Header values are bytes; UTF-8 would change them.
            put_text(out, latin1(value).as_bytes());
        }
        out.push(b']');
    }
    out.extend_from_slice(b"],");
    if let Ok(body) = std::str::from_utf8(request.body) {
        out.extend_from_slice(b"\"body\":");
        put_text(out, body.as_bytes());
    } else {
        out.extend_from_slice(b"\"body_base64\":\"");
        out.extend_from_slice(BASE64_STANDARD.encode(request.body).as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b"}\n");
}

pub(super) fn put_return(out: &mut Vec<u8>, id: &str, body: &[u8]) {
    out.extend_from_slice(b"{\"call\":");
    put_json(out, id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    put_json(out, body);
    out.extend_from_slice(b"}\n");
}

/// Interprets an object. `None` if it is plain output.
pub(super) fn read(members: &Members<'_>, object: &str) -> Option<Said> {
    if let Some(id) = members.get("call") {
        let body = members.get("tql").ok_or("the call has no `tql`");
        return Some(Said::Call {
            id: id.to_owned(),
            body: body.map(str::to_owned).map_err(str::to_owned),
        });
    }
    if let Some(line) = members.get("log").filter(|_| members.0.len() == 1) {
        return Some(log_line(line, None));
    }
    let unknown = members.names().find(|name| !ANSWER.contains(name));
    let to = match members.get("id") {
        // Shells and awk write numbers as text.
        Some(id) => Some(text(id).as_deref().unwrap_or(id).parse().ok()?),
        None if unknown.is_some() || !TELLING.iter().any(|name| members.has(name)) => return None,
        None => None,
    };
    let payload = match unknown {
        Some(unknown) => Err(format!(
            "`{unknown}` is no member of an answer; those are {}",
            ANSWER.join(", ")
        )),
        None => payload(members),
    };
    Some(Said::Answer(Answered {
        to,
        faulted: payload.is_err(),
        payload,
        note: None,
        text: unknown.map(|_| object.to_owned()),
    }))
}

fn payload(members: &Members<'_>) -> Result<Vec<u8>, String> {
    let mut headers = Vec::new();
    let mut typed = false;
    if let Some(json) = members.get("headers").filter(|json| *json != "null") {
        typed = put_headers(&mut headers, json)?;
    }
    let mut bodies = ["body", "json", "body_base64"]
        .into_iter()
        .filter_map(|name| Some((name, members.get(name)?)));
    let body = bodies.next();
    if let (Some((first, _)), Some((second, _))) = (body, bodies.next()) {
        return Err(format!("it has both `{first}` and `{second}`"));
    }
    let mut bytes = Vec::new();
    let content = match body {
        Some(("json", json)) => {
            put_json(&mut bytes, json.as_bytes());
            ContentKind::Json
        }
        None | Some(("body", "null")) => ContentKind::Unset,
        Some(("body", json)) => {
            let body = text(json).ok_or("`body` is not a string; `json` takes any value")?;
            bytes = body.into_owned().into_bytes();
            ContentKind::Text
        }
        Some((_, json)) => {
            let body = text(json).ok_or("`body_base64` is not a string")?;
            bytes = BASE64_STANDARD
                .decode(&*body)
                .map_err(|error| format!("`body_base64` is not base64: {error}"))?;
            ContentKind::Bytes
        }
    };
    let head = ResponseHead {
        status: status(members)?,
        content: if typed { ContentKind::Unset } else { content },
        run_us: 0,
    };
    let mut payload = Vec::with_capacity(forebay_wire::RESPONSE_TABLE_BYTES + headers.len() + bytes.len());
    head.put(&mut payload, &headers, &bytes);
    Ok(payload)
}

/// The status of an answer; 200 if it has none.
pub(super) fn status(members: &Members<'_>) -> Result<u16, String> {
    let Some(json) = members.get("status").filter(|json| *json != "null") else {
        return Ok(200);
    };
    let status = text(json).as_deref().unwrap_or(json).parse().ok();
    status
        .filter(|status| (200..=599).contains(status))
        .ok_or_else(|| format!("its `status` is {}; 200 to 599 are accepted", short(json)))
}

/// Appends headers to a pair block, from an object or a list of pairs. Returns whether a content type is among them.
pub(super) fn put_headers(block: &mut Vec<u8>, json: &str) -> Result<bool, String> {
    // The SDK's form: pairs of texts, for which no value needs to be built.
    if json.starts_with('[')
        && let Ok(pairs) = serde_json::from_str::<Vec<(Text<'_>, Text<'_>)>>(json)
        && pairs.iter().all(|(_, value)| value.0.is_ascii())
    {
        let mut typed = false;
        block.reserve(json.len() + 8 * pairs.len());
        for (mut name, value) in pairs {
            if name.0.bytes().any(|byte| byte.is_ascii_uppercase()) {
                name.0.to_mut().make_ascii_lowercase();
            }
            typed |= name.0 == "content-type";
            put_pair(block, name.0.as_bytes(), value.0.as_bytes());
        }
        return Ok(typed);
    }
    let pairs: Vec<(String, serde_json::Value)> = if json.starts_with('{') {
        let object: serde_json::Map<_, _> =
            serde_json::from_str(json).map_err(|error| format!("its headers cannot be read: {error}"))?;
        object.into_iter().collect()
    } else {
        serde_json::from_str(json)
            .map_err(|_| "its `headers` are neither an object nor a list of pairs [name, value]".to_owned())?
    };
    let mut typed = false;
    for (name, value) in pairs {
        let name = name.to_ascii_lowercase();
        typed |= name == "content-type";
        let values = match value {
            serde_json::Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let text = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Number(number) => number.to_string(),
                _ => return Err(format!("its header `{name}` is neither text nor a number")),
            };
            let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
            let bytes =
                bytes.map_err(|_| format!("its header `{name}` has a character that is not Latin-1"))?;
            put_pair(block, name.as_bytes(), &bytes);
        }
    }
    Ok(typed)
}

/// The beginning of a value, for error messages.
fn short(json: &str) -> String {
    json.chars().take(40).collect()
}
