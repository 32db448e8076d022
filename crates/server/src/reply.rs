//! A target's response, before the connection adds its own headers: date, lengths, request id.

use std::{borrow::Cow, fs::File, io::Write, sync::Arc};

use bytes::Bytes;

use crate::{compression::EncodedBodies, target::BodyStream};

/// A response from a target.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    pub(crate) headers: Cow<'a, HeaderLines>,
    pub(crate) body: Body<'a>,
    /// The length to announce if it differs from that of `body`, as for HEAD.
    pub(crate) length: Option<u64>,
    /// Where the body in other codings is kept for later responses, if there will be any with the same body.
    pub(crate) encoded: Option<Arc<EncodedBodies>>,
}

/// A response body.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    Empty,
    Bytes(Bytes),
    Borrowed(&'a [u8]),
    File {
        file: File,
        offset: u64,
        length: u64,
    },
    /// Whatever arrives piece by piece.
    Stream(Box<dyn BodyStream + 'a>),
}

impl Reply<'_> {
    pub(crate) fn new(status: u16) -> Self {
        Self {
            status,
            headers: Cow::Owned(HeaderLines::default()),
            body: Body::Empty,
            length: None,
            encoded: None,
        }
    }

    /// The length of the body to announce, or `None` if it is unknown or there can be no body. Only a response to HEAD may announce a longer
    /// body than it sends.
    pub(crate) fn announced(&self, is_head: bool) -> Option<u64> {
        let length = match &self.body {
            _ if matches!(self.status, 101 | 204 | 304) => return None,
            // The length that GET would have is unknown.
            Body::Empty if is_head => None,
            Body::Bytes(bytes) if is_head && bytes.is_empty() => None,
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Borrowed(bytes) => Some(bytes.len() as u64),
            Body::File { length, .. } => Some(*length),
            Body::Stream(stream) => stream.announced(),
        };
        if is_head { self.length.or(length) } else { length }
    }
}

/// Header fields in HTTP/1.1 format: `name: value`, each terminated by CR LF.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderLines {
    lines: Vec<u8>,
}

impl HeaderLines {
    /// Starts with fields written by this program, each with its CR LF, and reserves room for `bytes` in total.
    pub(crate) fn of_known(bytes: usize, known: &'static str) -> Self {
        let mut lines = Vec::with_capacity(bytes.max(known.len()));
        lines.extend_from_slice(known.as_bytes());
        Self { lines }
    }

    /// A copy with room for further fields of `bytes`.
    pub(crate) fn clone_with_room(&self, bytes: usize) -> Self {
        let mut lines = Vec::with_capacity(self.lines.len() + bytes);
        lines.extend_from_slice(&self.lines);
        Self { lines }
    }

    /// Adds a field written by this program, which needs no validation.
    pub(crate) fn push_known(&mut self, name: &str, value: &str) {
        debug_assert!(
            is_token(name.as_bytes()) && is_value(value.as_bytes()),
            "{name}: {value}"
        );
        self.put(name.as_bytes(), value.as_bytes());
    }

    /// Adds a field from outside after validating it. The error says what is wrong with it.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if !is_token(name) {
            return Err("a header name has a byte that is not allowed");
        }
        if !is_value(value) {
            return Err("a header value has a byte that is not allowed");
        }
        self.put(name, value);
        Ok(())
    }

    /// Adds a field that has been validated: another response has it, or the HTTP library has read it.
    pub(crate) fn put(&mut self, name: &[u8], value: &[u8]) {
        self.lines.reserve(name.len() + value.len() + 4);
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// Keeps the fields with these names.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        let mut kept = Self::default();
        for (name, value) in self.fields().filter(|(name, _)| is_kept(name)) {
            kept.put(name, value);
        }
        *self = kept;
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Names and values in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        fields_of(&self.lines)
    }
}

/// A token (RFC 9110, 5.6.2): header names and methods.
pub(crate) fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Field content (RFC 9110, 5.5): anything but control characters, tab excepted.
fn is_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|&byte| (byte >= 0x20 && byte != 0x7f) || byte == b'\t')
}

/// The fields that are added to those of a response, whatever the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) date: &'a [u8],
    pub(crate) request_id: &'a [u8],
    pub(crate) transport_headers: &'a [u8],
    pub(crate) route_headers: &'a [u8],
    pub(crate) cors_headers: &'a [u8],
    pub(crate) delimiting: Delimiting,
}

impl Fields<'_> {
    fn put(&self, out: &mut Vec<u8>, headers: &HeaderLines) {
        out.extend_from_slice(b"x-request-id: ");
        out.extend_from_slice(self.request_id);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(headers.as_bytes());
        out.extend_from_slice(self.transport_headers);
        out.extend_from_slice(self.route_headers);
        out.extend_from_slice(self.cors_headers);
    }

    /// Writes all fields with those of a response, in HTTP/1.1 format.
    pub(crate) fn put_all(&self, text: &mut Vec<u8>, headers: &HeaderLines) {
        text.extend_from_slice(b"date: ");
        text.extend_from_slice(self.date);
        text.extend_from_slice(b"\r\nserver: forebay\r\n");
        self.put(text, headers);
        put_length(text, self.delimiting);
    }
}

/// The names and values of fields in HTTP/1.1 format.
pub(crate) fn fields_of(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = lines.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let at = memchr::memchr(b':', line)?;
        Some((&line[..at], line[at + 1..].trim_ascii()))
    })
}

/// How the end of the body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimiting {
    /// No body and no length, as for 204 and 304.
    Nothing,
    /// `Content-Length`.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// By closing the connection: HTTP/1.0 without a length.
    Close,
    /// None: the connection goes over to another protocol.
    Upgrade,
}

/// Writes a head of HTTP/1.1: the status line and all fields, including the final empty line.
pub(crate) fn put_head(
    out: &mut Vec<u8>,
    status: u16,
    headers: &HeaderLines,
    fields: &Fields<'_>,
    close: bool,
    http10: bool,
) {
    put_start(out, status, fields.date);
    fields.put(out, headers);
    put_end(out, fields.delimiting, close, http10);
}

/// Writes the start of every head: status line, date, server name.
#[inline]
pub(crate) fn put_start(out: &mut Vec<u8>, status: u16, date: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[
        b'0' + (status / 100) as u8,
        b'0' + (status / 10 % 10) as u8,
        b'0' + (status % 10) as u8,
    ]);
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\ndate: ");
    out.extend_from_slice(date);
    out.extend_from_slice(b"\r\nserver: forebay\r\n");
}

/// Writes the end of every head: how the body is delimited, whether the connection closes, and the empty line.
#[inline]
pub(crate) fn put_end(out: &mut Vec<u8>, delimiting: Delimiting, close: bool, http10: bool) {
    if delimiting == Delimiting::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    put_length(out, delimiting);
    if delimiting == Delimiting::Upgrade {
        out.extend_from_slice(b"connection: upgrade\r\n");
    } else if close {
        out.extend_from_slice(b"connection: close\r\n");
    } else if http10 {
        out.extend_from_slice(b"connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the field with the body's length, if that is known.
fn put_length(out: &mut Vec<u8>, delimiting: Delimiting) {
    if let Delimiting::Length(length) = delimiting {
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b"content-length: ");
        out.extend_from_slice(digits.format(length).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes one chunk of a chunked body.
pub(crate) fn put_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        write!(out, "{:x}\r\n", bytes.len()).expect("a Vec takes everything");
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// The last chunk of a chunked body, without fields behind it.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the last chunk of a chunked body, and the fields behind it.
pub(crate) fn put_last_chunk(out: &mut Vec<u8>, trailers: &HeaderLines) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Whether a field may stand behind a body: none that delimits a message, routes it, tells who sends it, or says what to do with it or how to read
/// its content (RFC 9110, 6.5.1). `name` is in lower case.
pub(crate) fn may_be_trailer(name: &[u8]) -> bool {
    !matches!(
        name,
        b"connection"
            | b"keep-alive"
            | b"proxy-connection"
            | b"transfer-encoding"
            | b"upgrade"
            | b"te"
            | b"trailer"
            | b"host"
            | b"authorization"
            | b"proxy-authorization"
            | b"www-authenticate"
            | b"proxy-authenticate"
            | b"cookie"
            | b"set-cookie"
            | b"age"
            | b"cache-control"
            | b"expires"
            | b"date"
            | b"location"
            | b"retry-after"
            | b"vary"
            | b"pragma"
            | b"expect"
            | b"max-forwards"
            | b"range"
            | b"server"
            | b"x-request-id"
    ) && !name.starts_with(b"content-")
        && !name.starts_with(b"if-")
}

/// Tells the client to send the body announced with `Expect: 100-continue` (RFC 9110, 10.1.1).
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The reason phrase of a status (RFC 9110, 15).
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        // As RFC 9110 has renamed them.
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        _ => {
            let status = http::StatusCode::from_u16(status).ok();
            status
                .and_then(|status| status.canonical_reason())
                .unwrap_or_default()
        }
    }
}
