//! The WABuR dialect: messages between a runner and its controllers (PROTOCOL.md, section 8).

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use forebay_wire::{ContentKind, Pairs, RequestView, ResponseHead};
use memchr::memmem;
use percent_encoding::percent_decode;
use serde_json::Value;

use super::{
    Answered, Said, jsonl, log_line,
    members::{Members, text},
    put_json, put_text,
};
use crate::Statuses;

/// Message types: values of `api`.
const REQUEST: i64 = 1;
const ANSWER: i64 = 2;
const CALL: i64 = 3;
const RETURN: i64 = 4;
const LOG: i64 = 5;
const LOGGED: i64 = 6;

/// Error codes that the reference server documents.
const EXISTS: i64 = 17;
const NOT_FOUND: i64 = 166;

/// Writes the part of the message behind the job's number, which is the beginning of `rid`.
pub(super) fn put_request(out: &mut Vec<u8>, request: &RequestView<'_>) {
    let id = request.id;
    let mut rid = Vec::new();
    put_text(&mut rid, &[b".", id].concat());
    out.extend_from_slice(&rid[1..]);
    out.extend_from_slice(format!(",\"api\":{REQUEST},\"body\":{{\"op\":").as_bytes());
    put_text(out, op(request.method).as_bytes());
    out.extend_from_slice(b",\"path\":[");
    let path = request.path.split(|&byte| byte == b'/');
    for (place, part) in path.filter(|part| !part.is_empty()).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_text(out, &Cow::from(percent_decode(part)));
    }
    out.push(b']');
    if !request.query.is_empty() {
        out.extend_from_slice(b",\"query\":");
        put_query(out, request.query);
    }
    if !request.body.is_empty() {
        out.extend_from_slice(b",\"content\":");
        put_json(out, request.body);
    }
    out.extend_from_slice(b"}}\n");
}

/// The operation for a method. Other methods keep their name, which leaves them to a controller's fallback.
fn op(method: &[u8]) -> Cow<'_, str> {
    match method {
        b"PUT" => "NEW".into(),
        b"GET" | b"HEAD" => "GET".into(),
        b"POST" => "MOD".into(),
        b"DELETE" => "DEL".into(),
        other => String::from_utf8_lossy(other),
    }
}

/// Appends an object of texts. If a name is repeated, the last value counts.
fn put_query(out: &mut Vec<u8>, query: &[u8]) {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for pair in query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
        let split = pair.iter().position(|&byte| byte == b'=');
        let (name, value) = pair.split_at(split.unwrap_or(pair.len()));
        let (name, value) = (decoded(name), decoded(value.get(1..).unwrap_or(b"")));
        match places.entry(name) {
            Entry::Occupied(place) => pairs[*place.get()].1 = value,
            Entry::Vacant(place) => {
                pairs.push((place.key().clone(), value));
                place.insert(pairs.len() - 1);
            }
        }
    }
    out.push(b'{');
    for (place, (name, value)) in pairs.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        put_text(out, value);
    }
    out.push(b'}');
}

/// Percent-decodes a part of a query, in which `+` is a space. Invalid codes stay unchanged.
fn decoded(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text
        .iter()
        .map(|&byte| if byte == b'+' { b' ' } else { byte })
        .collect();
    percent_decode(&spaced).collect()
}

pub(super) fn put_return(out: &mut Vec<u8>, id: &str, body: &[u8]) {
    put_message(out, id, RETURN, body);
}

pub(super) fn put_stop(out: &mut Vec<u8>, signal: i32) {
    out.extend_from_slice(format!("{{\"rid\":\"0\",\"api\":{}}}\n", -signal).as_bytes());
}

fn put_message(out: &mut Vec<u8>, id: &str, api: i64, body: &[u8]) {
    out.extend_from_slice(b"{\"rid\":");
    put_json(out, id.as_bytes());
    out.extend_from_slice(format!(",\"api\":{api},\"body\":").as_bytes());
    put_json(out, body);
    out.extend_from_slice(b"}\n");
}

/// Interprets an object. `None` if it is plain output.
pub(super) fn read(members: &Members<'_>, statuses: Statuses) -> Option<Said> {
    let api: i64 = members.get("api")?.parse().ok()?;
    let rid = members.get("rid");
    let body = members.get("body");
    match api {
        ANSWER => {
            let rid = text(rid?)?;
            let number = rid.split('.').next()?.parse().ok()?;
            let mut answered = Answered {
                to: Some(number),
                faulted: false,
                payload: Err("it has no body".to_owned()),
                note: None,
                text: None,
            };
            if let Some(body) = body {
                answered.payload = payload(members, body, statuses, &mut answered);
            }
            answered.faulted |= answered.payload.is_err();
            Some(Said::Answer(answered))
        }
        CALL => Some(Said::Call {
            id: rid.unwrap_or("null").to_owned(),
            body: body
                .map(str::to_owned)
                .ok_or_else(|| "No body in request.".to_owned()),
        }),
        LOG | LOGGED => {
            let reply = rid.filter(|_| api == LOG).map(|rid| {
                let mut reply = Vec::new();
                put_message(&mut reply, rid, LOGGED, b"{\"code\":0}");
                reply
            });
            Some(log_line(body.unwrap_or("null"), reply))
        }
        _ => None,
    }
}

fn payload(
    members: &Members<'_>,
    body: &str,
    statuses: Statuses,
    answered: &mut Answered,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(body.len());
    put_json(&mut bytes, body.as_bytes());
    let mut status = jsonl::status(members)?;
    let mut content = ContentKind::Json;
    let mut headers = Vec::new();
    // Two members in addition to the reference, for controllers that need to say more than it allows.
    let told = members.has("status");
    if let Some(json) = members.get("headers").filter(|json| *json != "null")
        && jsonl::put_headers(&mut headers, json)?
    {
        content = ContentKind::Unset;
        if let Some(text) = text(body).filter(|_| !is_json(&headers)) {
            bytes = text.into_owned().into_bytes();
        }
    }
    if told && body == "null" && content == ContentKind::Json && headers.is_empty() {
        (content, bytes) = (ContentKind::Unset, Vec::new());
    }
    if !told && let Some(error) = Failed::of(body) {
        answered.faulted = error.code == -1;
        match statuses {
            Statuses::Wabur => status = 500,
            Statuses::Truthful => {
                status = error.status();
                if let Some(trace) = &error.backtrace {
                    // The backtrace is for the program's owner, not for clients.
                    answered.note = Some((error.error.clone(), trace.to_string()));
                    bytes = error.without_backtrace();
                }
            }
        }
    }
    let mut payload = Vec::with_capacity(forebay_wire::RESPONSE_TABLE_BYTES + headers.len() + bytes.len());
    ResponseHead {
        status,
        content,
        run_us: 0,
    }
    .put(&mut payload, &headers, &bytes);
    Ok(payload)
}

fn is_json(headers: &[u8]) -> bool {
    let mut types = Pairs::new(headers)
        .flatten()
        .filter(|(name, _)| *name == b"content-type");
    types.any(|(_, value)| value.windows(4).any(|part| part.eq_ignore_ascii_case(b"json")))
}

/// An answer with an error code.
struct Failed {
    code: i64,
    error: String,
    backtrace: Option<Value>,
    whole: serde_json::Map<String, Value>,
}

impl Failed {
    /// `None` if the body is not an error object.
    fn of(body: &str) -> Option<Self> {
        // Most answers are not errors; long ones should not be parsed for nothing.
        memmem::find(body.as_bytes(), b"\"error\"")?;
        let members: Members<'_> = serde_json::from_str(body).ok()?;
        let code: i64 = members.get("code")?.parse().ok()?;
        if code == 0 || !members.has("error") {
            return None;
        }
        let mut whole: serde_json::Map<String, Value> = serde_json::from_str(body).ok()?;
        Some(Self {
            code,
            error: whole["error"]
                .as_str()
                .map_or_else(|| whole["error"].to_string(), str::to_owned),
            backtrace: whole.remove("backtrace"),
            whole,
        })
    }

    /// The HTTP status that corresponds to the code.
    fn status(&self) -> u16 {
        match self.code {
            EXISTS => 409,
            NOT_FOUND => 404,
            _ => 500,
        }
    }

    fn without_backtrace(&self) -> Vec<u8> {
        Value::Object(self.whole.clone()).to_string().into_bytes()
    }
}
