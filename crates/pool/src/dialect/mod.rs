//! Dialects for workers without frames: one JSON object per message, on standard input and output (PROTOCOL.md, sections 7 and 8). A job is
//! still the payload of a REQUEST frame and an answer that of a RESPONSE; this module translates.

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
    scan::MessageTooLong,
};
use crate::{Protocol, worker_log::Level};

/// A message or a line of output from a worker.
#[derive(Debug)]
pub(crate) enum Said {
    /// The answer to a job.
    Answer(Answered),
    /// A call to the server.
    Call {
        /// The worker's id for it: JSON text, returned unchanged.
        id: String,
        /// Its content as JSON text, or an error message if it is invalid.
        body: Result<String, String>,
    },
    /// A log entry.
    Log {
        level: Level,
        message: String,
        fields: Option<String>,
        /// The id of the request that it belongs to, if the worker says so.
        request: Option<String>,
        /// The message to send back to the worker.
        reply: Option<Vec<u8>>,
    },
    /// A line of output that is not a message.
    Printed(String),
}

/// An answer that is not matched with a job yet.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The job's number. `None` refers to the worker's only job.
    pub(crate) to: Option<u32>,
    /// The payload of its RESPONSE, without the handler's run time; or the reason why it is invalid.
    pub(crate) payload: Result<Vec<u8>, String>,
    pub(crate) faulted: bool,
    /// Details of a failure that are logged but not sent to the client: the error and its location.
    pub(crate) note: Option<(String, String)>,
    /// The message itself, if it may be plain output in case no such job is running.
    pub(crate) text: Option<String>,
}

/// Translates a job before it is queued, because the pool's locks must not be held for long work. The payload must contain the whole body.
/// Returns another REQUEST payload that keeps the request's id: its path and body are the parts of the message before and after the
/// remaining time.
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
    let mut translated =
        Vec::with_capacity(REQUEST_TABLE_BYTES + request.id.len() + before.len() + behind.len() + 32);
    RequestParts {
        remaining_ms: request.remaining_ms,
        method: b"",
        path: &before,
        query: b"",
        route: b"",
        params: std::iter::empty(),
        headers: std::iter::empty(),
        peer: b"",
        id: request.id,
        identity: b"",
        body: &behind,
    }
    .put(&mut translated);
    translated
}

/// Writes a translated job in the form that its worker reads.
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

/// Writes the answer to a call: JSON text on one line.
pub(crate) fn put_return(protocol: Protocol, out: &mut Vec<u8>, id: &str, body: &[u8]) {
    match protocol {
        Protocol::Jsonl => jsonl::put_return(out, id, body),
        Protocol::Wabur { .. } => wabur::put_return(out, id, body),
        Protocol::Framed | Protocol::FramedStdio => unreachable!("frames are not translated"),
    }
}

/// Writes the message that precedes a stop signal; nothing in a dialect that has none.
pub(crate) fn put_stop(protocol: Protocol, out: &mut Vec<u8>, signal: i32) {
    if let Protocol::Wabur { .. } = protocol {
        wabur::put_stop(out, signal);
    }
}

/// The answer to a call that failed.
pub(crate) fn call_error(error: &str) -> Vec<u8> {
    serde_json::json!({ "code": -1, "error": error })
        .to_string()
        .into_bytes()
}

/// Checks whether a body can be represented in this protocol. The error is the reason why not.
pub(crate) fn check_body(protocol: Protocol, body: &[u8]) -> Result<(), String> {
    match protocol {
        // `IgnoredAny` checks strings for UTF-8 only if the input is text.
        Protocol::Wabur { .. } if !body.is_empty() => std::str::from_utf8(body)
            .map_err(|error| format!("body is not UTF-8: {error}"))
            .and_then(|text| {
                let read = serde_json::from_str::<serde::de::IgnoredAny>(text);
                read.map(drop)
                    .map_err(|error| format!("body is not JSON: {error}"))
            }),
        _ => Ok(()),
    }
}

/// Finds messages in the output of a worker.
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

    /// Consumes everything that is complete from the front of `bytes`. Messages before an error are valid.
    pub(crate) fn take(&mut self, bytes: &mut BytesMut, said: &mut Vec<Said>) -> Result<(), MessageTooLong> {
        let protocol = self.protocol;
        self.scanner.take(bytes, said, |object| read(protocol, object))
    }

    /// Ends the input: what is left is plain output, or half a message.
    pub(crate) fn end(&mut self, bytes: &mut BytesMut, said: &mut Vec<Said>) {
        self.scanner.end(bytes, said);
    }
}

/// Interprets a JSON object. `None` if it is not a message.
fn read(protocol: Protocol, object: &str) -> Option<Said> {
    let members: Members<'_> = serde_json::from_str(object).ok()?;
    match protocol {
        Protocol::Jsonl => jsonl::read(&members, object),
        Protocol::Wabur { statuses } => wabur::read(&members, statuses),
        Protocol::Framed | Protocol::FramedStdio => unreachable!("frames are not translated"),
    }
}

/// A log entry: text, or an object with a level, a message, and perhaps fields and the request's id.
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

/// Appends a JSON string. Bytes that are not UTF-8 are read as Latin-1, as on the web.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    // Nearly every text needs no escapes and is copied unchanged. The whole text is scanned first, because that handles many bytes at a
    // time.
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

/// Each byte as one character.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Appends valid JSON text. Line ends are replaced: they can only be white space, and would end the message.
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
