//! What workers speak that know nothing of frames: one JSON object for each message, on standard input and output (PROTOCOL.md,
//! sections 7 and 8). A job stays the payload of a REQUEST frame and an answer that of a RESPONSE; what stands here translates.

mod jsonl;
mod members;
mod resync;
mod scan;
#[cfg(test)]
mod tests;
mod wabur;

use bytes::BytesMut;
use forebay_wire::{REQUEST_TABLE_BYTES, RequestParts, RequestView};
use memchr::memchr2;
use serde_json::Value;

use self::{members::Members, scan::Scanner};
pub(crate) use self::{
    resync::{Piece, Resync},
    scan::Overlong,
};
use crate::{Protocol, worker_log::Level};

/// One thing that a worker has said.
#[derive(Debug)]
pub(crate) enum Said {
    /// The answer to a job.
    Answer(Answered),
    /// A call into the server.
    Call {
        /// How the worker names it: JSON text, given back as it came.
        id: String,
        /// What it asks, as JSON text; or what is wrong with it.
        body: Result<String, String>,
    },
    /// A line for the log.
    Log {
        level: Level,
        message: String,
        fields: Option<String>,
        /// The id of the request that it is about, where the worker says it.
        request: Option<String>,
        /// What the worker is told of it.
        reply: Option<Vec<u8>>,
    },
    /// A line of output that is no message.
    Printed(String),
}

/// An answer, not yet matched with a job.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The job's number; none: the only one that the worker has.
    pub(crate) to: Option<u32>,
    /// The payload of its RESPONSE without the time that the handler took; or why there is none.
    pub(crate) payload: Result<Vec<u8>, String>,
    pub(crate) faulted: bool,
    /// What the client is not told of a failure: what failed, and where.
    pub(crate) note: Option<(String, String)>,
    /// The message itself, where it may be mere output if no such job is under way.
    pub(crate) text: Option<String>,
}

/// Translates a job before it waits, as nothing long is to be done under the locks of a pool; the payload has the whole body. What becomes
/// of it is a payload again, with the request's id and the message, as a path and a body: what stands before its time left, and behind.
pub(crate) fn translated(protocol: Protocol, payload: Vec<u8>) -> Vec<u8> {
    if !protocol.takes_whole_bodies() {
        return payload;
    }
    let request = RequestView::decode(&payload).expect("the server wrote this payload");
    let (mut before, mut behind) = (Vec::new(), Vec::with_capacity(payload.len()));
    match protocol {
        Protocol::Jsonl => jsonl::put_request(&mut before, &mut behind, &request),
        Protocol::Wabur { .. } => wabur::put_request(&mut behind, &request),
        Protocol::Framed | Protocol::FramedStdio => unreachable!("frames are not translated"),
    }
    let id = request.request_id().unwrap_or_default();
    let mut translated =
        Vec::with_capacity(REQUEST_TABLE_BYTES + id.len() + before.len() + behind.len() + 32);
    RequestParts {
        remaining_ms: request.remaining_ms,
        method: b"",
        path: &before,
        query: b"",
        route: b"",
        params: std::iter::empty(),
        headers: std::iter::once((&b"x-request-id"[..], id)),
        peer: b"",
        body: &behind,
    }
    .put(&mut translated);
    translated
}

/// Writes a translated job as its worker reads it.
pub(crate) fn put_request(protocol: Protocol, out: &mut Vec<u8>, number: u32, translated: &[u8]) {
    let job = RequestView::decode(translated).expect("the server wrote this payload");
    let digits = |out: &mut Vec<u8>, number: u32| out.extend_from_slice(number.to_string().as_bytes());
    match protocol {
        Protocol::Jsonl => {
            out.extend_from_slice(b"{\"id\":");
            digits(out, number);
            out.extend_from_slice(job.path);
            digits(out, job.remaining_ms);
        }
        Protocol::Wabur { .. } => {
            out.extend_from_slice(b"{\"rid\":\"");
            digits(out, number);
        }
        Protocol::Framed | Protocol::FramedStdio => unreachable!("frames are not translated"),
    }
    out.extend_from_slice(job.body);
}

/// Writes the answer to a call: JSON text, in one line.
pub(crate) fn put_return(protocol: Protocol, out: &mut Vec<u8>, id: &str, body: &[u8]) {
    match protocol {
        Protocol::Jsonl => jsonl::put_return(out, id, body),
        Protocol::Wabur { .. } => wabur::put_return(out, id, body),
        Protocol::Framed | Protocol::FramedStdio => unreachable!("frames are not translated"),
    }
}

/// Writes what a worker is told before it is stopped; nothing in a dialect that has no word for it.
pub(crate) fn put_stop(protocol: Protocol, out: &mut Vec<u8>, signal: i32) {
    if let Protocol::Wabur { .. } = protocol {
        wabur::put_stop(out, signal);
    }
}

/// The body of the answer to a call that has failed.
pub(crate) fn call_error(error: &str) -> Vec<u8> {
    serde_json::json!({ "code": -1, "error": error })
        .to_string()
        .into_bytes()
}

/// Why a body cannot be told in this protocol.
pub(crate) fn check_body(protocol: Protocol, body: &[u8]) -> Result<(), String> {
    match protocol {
        Protocol::Wabur { .. } if !body.is_empty() => serde_json::from_slice::<serde::de::IgnoredAny>(body)
            .map(drop)
            .map_err(|error| format!("body is not JSON: {error}")),
        _ => Ok(()),
    }
}

/// Finds messages in what a worker writes.
#[derive(Debug)]
pub(crate) struct Decoder {
    protocol: Protocol,
    scanner: Scanner,
}

impl Decoder {
    pub(crate) fn new(protocol: Protocol, message_bytes_max: usize) -> Self {
        let lines = matches!(protocol, Protocol::Jsonl);
        Self {
            protocol,
            scanner: Scanner::new(lines, message_bytes_max),
        }
    }

    /// Takes everything that is complete off the front of `bytes`. What was said before an error counts.
    pub(crate) fn take(&mut self, bytes: &mut BytesMut, said: &mut Vec<Said>) -> Result<(), Overlong> {
        let protocol = self.protocol;
        self.scanner.take(bytes, said, |object| read(protocol, object))
    }

    /// Nothing more will come: what is left was output, or half a message.
    pub(crate) fn end(&mut self, bytes: &mut BytesMut, said: &mut Vec<Said>) {
        self.scanner.end(bytes, said);
    }
}

/// What a JSON object means; none: it is no message.
fn read(protocol: Protocol, object: &str) -> Option<Said> {
    let members: Members<'_> = serde_json::from_str(object).ok()?;
    match protocol {
        Protocol::Jsonl => jsonl::read(&members, object),
        Protocol::Wabur { statuses } => wabur::read(&members, statuses),
        Protocol::Framed | Protocol::FramedStdio => unreachable!("frames are not translated"),
    }
}

/// A line for the log: text, or an object with a level, a message, perhaps fields and the request's id.
fn log_line(json: &str, reply: Option<Vec<u8>>) -> Said {
    let line: Value = serde_json::from_str(json).unwrap_or_default();
    let part = |names: [&str; 2]| names.iter().find_map(|name| line.get(name)?.as_str());
    let (message, fields) = match (part(["message", "msg"]), line.as_str()) {
        (Some(message), _) => {
            let fields = line.get("fields").map_or(json.to_owned(), Value::to_string);
            (message.to_owned(), Some(fields))
        }
        (None, Some(text)) => (text.to_owned(), None),
        (None, None) => (json.to_owned(), None),
    };
    Said::Log {
        level: Level::named(part(["level", "severity"]).unwrap_or_default()),
        message,
        fields,
        request: line.get("request").and_then(Value::as_str).map(str::to_owned),
        reply,
    }
}

/// Appends a JSON string. Bytes that are not UTF-8 are taken for Latin-1, as the web has it.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    // Nearly every text is like this, and is copied as it is. All of it is looked at, for that is done many bytes at a time.
    let odd = text
        .iter()
        .filter(|&&byte| !matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=0x7f));
    if odd.count() == 0 {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    let written = match std::str::from_utf8(text) {
        Ok(text) => serde_json::to_writer(out, text),
        Err(_) => serde_json::to_writer(out, &latin1(text)),
    };
    written.expect("memory takes every text");
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Appends JSON text that arrived in good order. Line ends in it are white space, as strings have none; they would end the message.
fn put_json(out: &mut Vec<u8>, json: &[u8]) {
    let start = out.len();
    out.extend_from_slice(json);
    if memchr2(b'\n', b'\r', json).is_some() {
        let lines = out[start..].iter_mut();
        lines
            .filter(|byte| matches!(byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = b' ');
    }
}
