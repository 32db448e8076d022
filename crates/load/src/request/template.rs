//! Requests with placeholders. They are parsed once, with errors that say where the mistake is and what is accepted; rendering only appends
//! to the caller's buffer, and sets Content-Length to the actual length of the body.
//!
//! Each request has a number that is unique within the run. `{{counter}}` and `{{line FILE}}` both use it, so they agree within a request;
//! `{{uuid}}` and `{{random}}` are drawn for each occurrence.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use super::{
    body::{Lines, LinesError},
    parts::{Message, Parts, RequestError, check_path, check_text, check_token, push_path},
    source::Random,
};
use crate::target::{Url, UrlError};

/// Longest text between `{{` and `}}`.
const PLACEHOLDER_BYTES_MAX: usize = 256;
/// Accepted placeholders, for error messages.
const ACCEPTED: &str = "counter, counter FIRST, uuid, random LOW HIGH, line FILE";

/// A request with placeholders, or without.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<Piece>,
    /// Empty when the body is always the same; the body is then part of the head.
    body: Vec<Piece>,
    head_only: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Vec<u8>),
    Value(Value, Part),
    /// The length of the body.
    Length,
}

#[derive(Clone, Debug)]
enum Value {
    Counter {
        first: u64,
    },
    Uuid,
    Random {
        low: i64,
        span: u64,
    },
    /// The line of the request with this number.
    Line(Arc<Lines>),
}

/// The part of a request that a value is inserted into, which decides which bytes are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Path,
    Field,
    Body,
}

/// Reads a file that a placeholder names.
pub type ReadFile<'a> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'a;

/// The placeholders that are recognised.
#[derive(Clone)]
pub struct Grammar<'a> {
    /// Reads the files of `{{line FILE}}`; `None`: placeholders are off.
    pub braces: Option<&'a ReadFile<'a>>,
    /// Lines that replace the request's own body. Placeholders in them are not recognised.
    pub bodies: Option<Arc<Lines>>,
}

impl<'a> Grammar<'a> {
    /// No placeholders: everything is sent as written.
    pub fn none() -> Self {
        Self {
            braces: None,
            bodies: None,
        }
    }

    /// Recognises `{{...}}`; `read` reads the files that placeholders name.
    pub fn braces(read: &'a ReadFile<'a>) -> Self {
        Self {
            braces: Some(read),
            ..Self::none()
        }
    }
}

impl std::fmt::Debug for Grammar<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let braces = self.braces.is_some();
        f.debug_struct("Grammar")
            .field("braces", &braces)
            .finish_non_exhaustive()
    }
}

/// Why a text with placeholders does not make a valid request.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder that does not exist, or has the wrong arguments.
    #[error("{part}, byte {at}: `{{{{{text}}}}}` is not a placeholder; accepted are {ACCEPTED}")]
    Unknown {
        /// The part of the request that contains it.
        part: String,
        /// Byte at which it begins, from 1.
        at: usize,
        /// The text between the braces.
        text: String,
    },
    /// Braces that are not closed.
    #[error(
        "{part}, byte {at}: `{{{{` is not followed by `}}}}` within {PLACEHOLDER_BYTES_MAX} bytes; write `\\{{{{` for the braces themselves"
    )]
    Open {
        /// The part of the request that contains them.
        part: String,
        /// Byte at which they begin, from 1.
        at: usize,
    },
    /// The file of a placeholder cannot be read.
    #[error("cannot read {path}, which `{{{{line {path}}}}}` names")]
    File {
        /// Path as written in the placeholder.
        path: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The lines of a placeholder's file cannot be used.
    #[error("cannot use {path}, which `{{{{line {path}}}}}` names")]
    Lines {
        /// Path as written in the placeholder.
        path: String,
        /// Why its lines cannot be used.
        #[source]
        source: LinesError,
    },
    /// A field of the request fixes the length, which varies.
    #[error("the body has placeholders, so its length changes: leave out the header `{field}`")]
    Framed {
        /// Name of the field: Content-Length or Transfer-Encoding.
        field: String,
    },
    /// The text around the placeholders is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Values for the placeholders of one request.
#[derive(Debug)]
pub(super) struct Draw<'a> {
    /// Number of the request, from 0; unique within the run.
    pub(super) number: u64,
    pub(super) random: &'a mut Random,
    /// Buffer for the body until its length is known.
    pub(super) body: &'a mut Vec<u8>,
}

impl Template {
    /// Parses the placeholders of a request.
    pub fn new(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        check_token("method", &parts.method)?;
        let mut head = Pieces::default();
        let mut body = Pieces::default();
        head.push(&[parts.method.as_bytes(), b" "]);
        head.read(parts.path_and_query.as_bytes(), Part::Path, "the path", grammar)?;
        head.push(&[parts.version.line_end().as_bytes(), b"\r\n"]);
        for (name, value) in &parts.fields {
            check_token("header name", name)?;
            head.push(&[name.as_bytes(), b": "]);
            let part = format!("header `{name}`");
            head.read(value.as_bytes(), Part::Field, &part, grammar)?;
            head.push(&[b"\r\n"]);
        }
        match &grammar.bodies {
            Some(bodies) => body.0.push(Piece::Value(Value::Line(bodies.clone()), Part::Body)),
            None => body.read(&parts.body, Part::Body, "the body", grammar)?,
        }
        let body = body.into_fixed();
        if body.is_err() {
            let framed = ["content-length", "transfer-encoding"];
            if let Some(field) = framed.iter().find(|name| parts.has_field(name)) {
                return Err(TemplateError::Framed {
                    field: (*field).to_owned(),
                });
            }
            head.push(&[b"content-length: "]);
            head.0.push(Piece::Length);
            head.push(&[b"\r\n"]);
        } else if let Ok(body) = &body
            && parts.needs_length()
        {
            head.push(&[b"content-length: ", body.len().to_string().as_bytes(), b"\r\n"]);
        }
        if let Some(option) = parts.connection() {
            head.push(&[b"connection: ", option.as_bytes(), b"\r\n"]);
        }
        head.push(&[b"\r\n"]);
        let body = match body {
            Ok(body) => {
                head.push(&[&body]);
                Vec::new()
            }
            Err(pieces) => pieces.0,
        };
        Ok(Self {
            head: head.0,
            body,
            head_only: parts.method == "HEAD",
        })
    }

    /// The bytes of the request if they are always the same, or else the template.
    pub(super) fn into_fixed(self) -> Result<Message, Self> {
        match (&self.head[..], self.body.is_empty()) {
            ([Piece::Literal(bytes)], true) => Ok(Message {
                bytes: bytes.clone().into(),
                head_only: self.head_only,
            }),
            _ => Err(self),
        }
    }

    /// Appends the request. Returns whether it is HEAD.
    pub(super) fn render(&self, draw: &mut Draw<'_>, out: &mut Vec<u8>) -> bool {
        let mut body = std::mem::take(draw.body);
        body.clear();
        for piece in &self.body {
            piece.render(draw, 0, &mut body);
        }
        for piece in &self.head {
            piece.render(draw, body.len(), out);
        }
        out.extend_from_slice(&body);
        *draw.body = body;
        self.head_only
    }
}

impl Piece {
    fn render(&self, draw: &mut Draw<'_>, length: usize, out: &mut Vec<u8>) {
        match self {
            Self::Literal(bytes) => out.extend_from_slice(bytes),
            Self::Length => push(length, out),
            Self::Value(value, part) => value.render(*part, draw, out),
        }
    }
}

impl Value {
    fn render(&self, part: Part, draw: &mut Draw<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Counter { first } => push(first.wrapping_add(draw.number), out),
            Self::Uuid => push_uuid(draw.random, out),
            Self::Random { low, span } => {
                // Two's complement: the sum is right whatever the sign.
                push(low.wrapping_add(draw.random.up_to(*span).cast_signed()), out);
            }
            Self::Line(lines) => {
                let text = lines.get((draw.number % lines.len() as u64) as usize);
                match part {
                    Part::Path => push_path(text, out),
                    // A line end would begin another field.
                    Part::Field => out.extend(text.iter().filter(|byte| !byte.is_ascii_control())),
                    Part::Body => out.extend_from_slice(text),
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, parts: &[&[u8]]) {
        if !matches!(self.0.last(), Some(Piece::Literal(_))) {
            self.0.push(Piece::Literal(Vec::new()));
        }
        if let Some(Piece::Literal(bytes)) = self.0.last_mut() {
            for part in parts {
                bytes.extend_from_slice(part);
            }
        }
    }

    fn into_fixed(mut self) -> Result<Vec<u8>, Self> {
        match &mut self.0[..] {
            [] => Ok(Vec::new()),
            [Piece::Literal(bytes)] => Ok(std::mem::take(bytes)),
            _ => Err(self),
        }
    }

    /// Parses a part of a request.
    fn read(
        &mut self,
        text: &[u8],
        part: Part,
        name: &str,
        grammar: &Grammar<'_>,
    ) -> Result<(), TemplateError> {
        let Some(read) = grammar.braces else {
            return Ok(self.literal(text, part, name)?);
        };
        let (mut at, mut literal) = (0, 0);
        while let Some(found) = next_marker(&text[at..]) {
            at += found;
            self.literal(&text[literal..at], part, name)?;
            let rest = &text[at..];
            if rest.starts_with(b"\\{{") {
                self.push(&[b"{{"]);
                at += 3;
            } else {
                let open = || TemplateError::Open {
                    part: name.to_owned(),
                    at: at + 1,
                };
                let inside = &rest[2..rest.len().min(4 + PLACEHOLDER_BYTES_MAX)];
                let end = memchr::memmem::find(inside, b"}}").ok_or_else(open)?;
                let text = std::str::from_utf8(&inside[..end]).map_err(|_| open())?;
                let value = value(text, read)?.ok_or_else(|| TemplateError::Unknown {
                    part: name.to_owned(),
                    at: at + 1,
                    text: text.to_owned(),
                })?;
                self.0.push(Piece::Value(value, part));
                at += end + 4;
            }
            literal = at;
        }
        Ok(self.literal(&text[literal..], part, name)?)
    }

    /// Adds the text between placeholders, if it is allowed there.
    fn literal(&mut self, bytes: &[u8], part: Part, name: &str) -> Result<(), RequestError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(bytes);
        match part {
            Part::Path => check_path(&text)?,
            Part::Field => check_text(name, &text)?,
            Part::Body => {}
        }
        self.push(&[bytes]);
        Ok(())
    }
}

/// The placeholder between braces; `None`: there is no such placeholder.
fn value(text: &str, read: &ReadFile<'_>) -> Result<Option<Value>, TemplateError> {
    let words: Vec<_> = text.split_whitespace().collect();
    Ok(match words[..] {
        ["counter"] => Some(Value::Counter { first: 1 }),
        ["counter", first] => first.parse().ok().map(|first| Value::Counter { first }),
        ["uuid"] => Some(Value::Uuid),
        ["random", low, high] => random(low, high),
        ["line", path] => {
            let bytes = read(Path::new(path)).map_err(|source| TemplateError::File {
                path: path.to_owned(),
                source,
            })?;
            let lines = Lines::parse(&bytes).map_err(|source| TemplateError::Lines {
                path: path.to_owned(),
                source,
            })?;
            Some(Value::Line(Arc::new(lines)))
        }
        _ => None,
    })
}

fn random(low: &str, high: &str) -> Option<Value> {
    let (low, high) = (low.parse::<i64>().ok()?, high.parse::<i64>().ok()?);
    (low <= high).then(|| Value::Random {
        low,
        span: high.wrapping_sub(low) as u64,
    })
}

/// Start of the next placeholder or escape. Of three braces in a row the first is literal, as in `{"a":{{{counter}}:1}}`.
fn next_marker(text: &[u8]) -> Option<usize> {
    (0..text.len()).find(|&at| {
        let rest = &text[at..];
        rest.starts_with(b"\\{{") || (rest.starts_with(b"{{") && !rest.starts_with(b"{{{"))
    })
}

fn push(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}

/// A random UUID (RFC 9562, version 4).
fn push_uuid(random: &mut Random, out: &mut Vec<u8>) {
    let (high, low) = (random.next(), random.next());
    let (first, second, third) = (high >> 32, high >> 16 & 0xffff, high & 0xfff | 0x4000);
    let (fourth, fifth) = (low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        "{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{fifth:012x}"
    );
}

/// Parses a URL whose path may have placeholders: the path and query stay as they were typed.
pub fn split_url(text: &str) -> Result<Url, UrlError> {
    let authority = text.find("://").map_or(0, |at| at + 3);
    let path = text[authority..]
        .find(['/', '?', '#'])
        .map_or(text.len(), |at| authority + at);
    let mut url = Url::parse(&text[..path])?;
    let rest = text[path..].split('#').next().unwrap_or_default();
    url.path_and_query = if rest.starts_with('/') {
        rest.to_owned()
    } else {
        format!("/{rest}")
    };
    Ok(url)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("names") => Ok(b"Ann B\nZo\xc3\xab\n".to_vec()),
            Some("empty") => Ok(Vec::new()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn template(path: &str, field: &str, body: &str) -> Result<Template, TemplateError> {
        let parts = Parts {
            method: "POST".into(),
            path_and_query: path.into(),
            fields: vec![("host".into(), "h".into()), ("x".into(), field.into())],
            body: body.into(),
            keep_alive: true,
            version: crate::request::Version::Http11,
        };
        Template::new(&parts, &Grammar::braces(&read))
    }

    fn render(template: &Template, numbers: std::ops::Range<u64>, seed: u64) -> Vec<String> {
        let (mut random, mut body) = (Random::new(seed), Vec::new());
        let each = |number| {
            let mut draw = Draw {
                number,
                random: &mut random,
                body: &mut body,
            };
            let mut out = Vec::new();
            template.render(&mut draw, &mut out);
            String::from_utf8(out).unwrap()
        };
        numbers.map(each).collect()
    }

    fn bodies(body: &str, count: u64) -> Vec<String> {
        let rendered = render(&template("/", "v", body).unwrap(), 0..count, 7);
        let body = |request: &String| request.split_once("\r\n\r\n").unwrap().1.to_owned();
        rendered.iter().map(body).collect()
    }

    #[test]
    fn every_part_is_filled_and_the_length_is_that_of_the_body() {
        let template = template(
            "/u/{{counter}}?n={{line names}}",
            "{{ line names }}/{{counter 5}}",
            "{\"id\":{{counter 9}},\"name\":\"{{line names}}\"}",
        )
        .unwrap();
        assert_eq!(
            render(&template, 0..2, 7),
            [
                "POST /u/1?n=Ann%20B HTTP/1.1\r\nhost: h\r\nx: Ann B/5\r\ncontent-length: 23\r\n\r\n{\"id\":9,\"name\":\"Ann B\"}",
                "POST /u/2?n=Zo%C3%AB HTTP/1.1\r\nhost: h\r\nx: Zoë/6\r\ncontent-length: 23\r\n\r\n{\"id\":10,\"name\":\"Zoë\"}",
            ]
        );
    }

    #[test]
    fn a_request_without_placeholders_becomes_one_message() {
        let fixed = template("/x", "v", "\\{{counter}}")
            .unwrap()
            .into_fixed()
            .unwrap();
        assert!(fixed.bytes.ends_with(b"content-length: 11\r\n\r\n{{counter}}"));
        assert!(template("/{{counter}}", "v", "").unwrap().into_fixed().is_err());
    }

    #[test]
    fn random_values_have_their_form_and_change() {
        let uuids = bodies("{{uuid}}", 3);
        for uuid in &uuids {
            let groups: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(groups, [8, 4, 4, 4, 12]);
            assert!(uuid[14..].starts_with('4') && uuid[19..].starts_with(['8', '9', 'a', 'b']));
        }
        assert_ne!(uuids[0], uuids[1]);
        let mut numbers: Vec<i64> = bodies("{{random -2 2}}", 500)
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers, [-2, -1, 0, 1, 2]);
        assert_eq!(bodies("{{{counter}}}", 1), ["{1}"], "the outer braces stay");
    }

    #[test]
    fn what_is_no_placeholder_is_refused_with_where_and_what_is_accepted() {
        for (body, says) in [
            (
                "ab{{nope}}",
                "the body, byte 3: `{{nope}}` is not a placeholder; accepted are counter,",
            ),
            ("{{random 2 1}}", "`{{random 2 1}}` is not a placeholder"),
            ("{{counter x}}", "`{{counter x}}` is not a placeholder"),
            (
                "{{counter",
                "byte 1: `{{` is not followed by `}}` within 256 bytes",
            ),
            (
                "{{line nowhere}}",
                "cannot read nowhere, which `{{line nowhere}}` names",
            ),
            ("{{line empty}}", "cannot use empty, which `{{line empty}}` names"),
        ] {
            let error = template("/", "v", body).unwrap_err().to_string();
            assert!(error.contains(says), "{body}: {error}");
        }
        let space = template("/a b", "v", "").unwrap_err().to_string();
        assert!(space.contains("has a space"), "{space}");
    }

    #[test]
    fn bodies_of_a_file_are_taken_in_turn() {
        let lines = Lines::parse(b"a\nbb\n{{counter}}").unwrap();
        let grammar = Grammar {
            bodies: Some(Arc::new(lines)),
            ..Grammar::braces(&read)
        };
        let parts = Parts::get(&Url::parse("http://h/").unwrap());
        let sent = render(&Template::new(&parts, &grammar).unwrap(), 0..4, 7);
        assert!(sent[1].ends_with("content-length: 2\r\n\r\nbb") && sent[2].ends_with("{{counter}}"));
        assert!(sent[3].ends_with("\r\n\r\na"), "{}", sent[3]);
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_sent_as_it_is(text in "[\\\\{}a-z \\t]{0,40}") {
            if let Ok(template) = template("/", "v", &text)
                && let Ok(fixed) = template.into_fixed()
            {
                let sent = String::from_utf8(fixed.bytes.into()).unwrap();
                prop_assert_eq!(sent.split_once("\r\n\r\n").unwrap().1, text.replace("\\{{", "{{"));
            }
        }
    }
}
