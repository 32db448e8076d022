//! Requests with placeholders. They are read once, with errors that say where and what is accepted; each rendering then only appends to
//! the caller's buffer, and states the length that the body really has.
//!
//! A request has one number, given to no other request of the run. `{{counter}}`, `[<id>]`, `${sequence}` and the row of a table all
//! come from it, so that they agree within a request. `{{uuid}}` and what is random are drawn anew wherever they stand.

mod grammar;
mod pattern;
mod value;

pub use self::grammar::{Grammar, TemplateError};
use self::{
    grammar::Pieces,
    value::{Value, push_decimal},
};
use super::{
    parts::{Message, Parts, check_token},
    proxied,
    scenario::Jar,
    source::{Put, Random},
};
use crate::target::{Url, UrlError};

/// A request with placeholders, or without.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<Piece>,
    /// Empty when the body is always the same; it then ends the head.
    body: Vec<Piece>,
    head_only: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Vec<u8>),
    Value(Value, Place),
    /// The length of the body.
    Length,
    /// The Cookie field, if there is any cookie.
    Cookies,
}

/// Where a value stands, which decides what may be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Path,
    Field,
    Body,
}

/// What placeholders are filled from.
#[derive(Debug)]
pub(in crate::request) struct Draw<'a> {
    /// From 0; no other request has it.
    pub(super) number: u64,
    pub(super) seed: u64,
    pub(super) random: &'a mut Random,
    pub(super) variables: &'a [Vec<u8>],
    pub(super) jar: Option<&'a Jar>,
    /// Room for the body while its length is not known.
    pub(super) body: &'a mut Vec<u8>,
}

impl Template {
    /// Reads the placeholders of a request.
    pub fn new(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        Self::build(parts, grammar, false)
    }

    /// The same, with the cookies of the user who sends it, unless the request has its own.
    pub(super) fn of_step(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        Self::build(parts, grammar, !parts.has_field("cookie"))
    }

    fn build(parts: &Parts, grammar: &Grammar<'_>, cookies: bool) -> Result<Self, TemplateError> {
        check_token("method", &parts.method)?;
        let mut head = Pieces::default();
        let mut body = Pieces::default();
        head.push(&[parts.method.as_bytes(), b" "]);
        head.read(parts.path_and_query.as_bytes(), Place::Path, "the path", grammar)?;
        head.push(&[parts.version.line_end().as_bytes(), b"\r\n"]);
        for (name, value) in &parts.fields {
            check_token("header name", name)?;
            head.push(&[name.as_bytes(), b": "]);
            head.read(
                value.as_bytes(),
                Place::Field,
                &format!("header `{name}`"),
                grammar,
            )?;
            head.push(&[b"\r\n"]);
        }
        if cookies {
            head.0.push(Piece::Cookies);
        }
        match &grammar.bodies {
            Some(bodies) => body
                .0
                .push(Piece::Value(Value::Line(bodies.clone()), Place::Body)),
            None => body.read(&parts.body, Place::Body, "the body", grammar)?,
        }
        let body = body.into_fixed();
        if body.is_err() {
            let framed = |(name, _): &&(String, String)| {
                ["content-length", "transfer-encoding"]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known))
            };
            if let Some((field, _)) = parts.fields.iter().find(framed) {
                return Err(TemplateError::Framed { field: field.clone() });
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

    /// For a proxy: with the whole URL, and with a further field or an empty text.
    pub(super) fn through_proxy(&mut self, origin: &str, field: &str) {
        let mut literals = self.head.iter_mut().filter_map(|piece| match piece {
            Piece::Literal(bytes) => Some(bytes),
            _ => None,
        });
        // The method is always one.
        let Some(first) = literals.next() else {
            return;
        };
        proxied::name_origin(first, origin);
        if !proxied::insert_field(first, field) {
            literals.any(|bytes| proxied::insert_field(bytes, field));
        }
    }

    /// Whether the cookies of the user who sends it are in it.
    pub(super) fn has_cookies(&self) -> bool {
        self.head.iter().any(|piece| matches!(piece, Piece::Cookies))
    }

    /// The bytes, when they are always the same.
    pub(super) fn into_fixed(self) -> Result<Message, Self> {
        match (&self.head[..], self.body.is_empty()) {
            ([Piece::Literal(bytes)], true) => Ok(Message {
                bytes: bytes.clone().into(),
                head_only: self.head_only,
            }),
            _ => Err(self),
        }
    }

    /// A request as it could be sent.
    pub(in crate::request) fn sample(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut draw = Draw {
            number: 0,
            seed: 0,
            random: &mut Random::new(0),
            variables: &[],
            jar: None,
            body: &mut Vec::new(),
        };
        self.render(&mut draw, &mut out);
        out
    }

    /// Appends the request.
    pub(super) fn render(&self, draw: &mut Draw<'_>, out: &mut Vec<u8>) -> Put {
        let start = out.len();
        let mut body = std::mem::take(draw.body);
        body.clear();
        for piece in &self.body {
            piece.render(draw, 0, &mut body, 0);
        }
        for piece in &self.head {
            piece.render(draw, body.len(), out, start);
        }
        out.extend_from_slice(&body);
        *draw.body = body;
        Put {
            head_only: self.head_only,
        }
    }
}

impl From<Message> for Template {
    fn from(message: Message) -> Self {
        Self {
            head: vec![Piece::Literal(message.bytes.into())],
            body: Vec::new(),
            head_only: message.head_only,
        }
    }
}

impl Piece {
    fn render(&self, draw: &mut Draw<'_>, length: usize, out: &mut Vec<u8>, start: usize) {
        match self {
            Self::Literal(bytes) => out.extend_from_slice(bytes),
            Self::Length => push_decimal(length as u64, out),
            Self::Cookies => {
                if let Some(jar) = draw.jar {
                    jar.render(out, start);
                }
            }
            Self::Value(value, place) => value.render(*place, draw, out),
        }
    }
}

/// Reads a URL whose path may have placeholders: the path and query stay as they were typed.
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
mod tests;
