//! What is sent: requests as bytes, made before the run wherever they can be.

mod source;

pub(crate) use self::source::{Random, Source};

use std::sync::Arc;

use crate::target::Url;

/// A request as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) bytes: Box<[u8]>,
    /// Whether its answer has no body whatever its head says.
    pub(crate) head_only: bool,
}

/// A request in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path_and_query: String,
    /// Fields in order. Host and Content-Length are added unless they are there.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the connection shall serve further requests.
    pub keep_alive: bool,
}

/// Why parts make no request.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// Not a token (RFC 9110, 5.6.2).
    #[error("`{text}` is not a {what}: only letters, digits and !#$%&'*+-.^_`|~ may be in it")]
    Token {
        /// `method` or `header name`.
        what: &'static str,
        /// What was given.
        text: String,
    },
    /// A line end, or another control character.
    #[error("the {what} has a control character")]
    Control {
        /// Which part.
        what: String,
    },
    /// A space in the request target.
    #[error("the path `{path}` has a space; write it as %20")]
    Space {
        /// The path.
        path: String,
    },
}

impl Parts {
    /// A request for a URL without a body.
    pub fn get(url: &Url) -> Self {
        Self {
            method: "GET".into(),
            path_and_query: url.path_and_query.clone(),
            fields: vec![("host".into(), url.authority())],
            body: Vec::new(),
            keep_alive: true,
        }
    }

    /// The bytes (RFC 9112).
    pub fn message(&self) -> Result<Message, RequestError> {
        check_token("method", &self.method)?;
        check_text("path", &self.path_and_query)?;
        if self.path_and_query.contains(' ') {
            return Err(RequestError::Space {
                path: self.path_and_query.clone(),
            });
        }
        let mut bytes = Vec::with_capacity(256 + self.body.len());
        let mut line = |parts: &[&str]| {
            for part in parts {
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        };
        line(&[&self.method, " ", &self.path_and_query, " HTTP/1.1"]);
        for (name, value) in &self.fields {
            check_token("header name", name)?;
            check_text(name, value)?;
            line(&[name, ": ", value]);
        }
        let has = |name: &str| {
            self.fields
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        let may_have_body = !matches!(
            self.method.as_str(),
            "GET" | "HEAD" | "DELETE" | "OPTIONS" | "TRACE"
        );
        if (!self.body.is_empty() || may_have_body) && !has("content-length") && !has("transfer-encoding") {
            line(&["content-length: ", &self.body.len().to_string()]);
        }
        if !self.keep_alive && !has("connection") {
            line(&["connection: close"]);
        }
        line(&[]);
        bytes.extend_from_slice(&self.body);
        Ok(Message {
            bytes: bytes.into(),
            head_only: self.method == "HEAD",
        })
    }
}

fn check_token(what: &'static str, text: &str) -> Result<(), RequestError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err(RequestError::Token {
            what,
            text: text.to_owned(),
        });
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<(), RequestError> {
    if text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(RequestError::Control {
            what: what.to_owned(),
        });
    }
    Ok(())
}

/// What a lane carries.
#[derive(Clone, Debug)]
pub enum Requests {
    /// The same again and again.
    Same(Message),
    /// Several, each with its weight.
    Several {
        /// The requests.
        messages: Arc<[Message]>,
        /// In which order they are sent.
        order: Order,
    },
}

/// The order in which several requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// One after the other, from the start again at the end.
    #[default]
    InTurn,
    /// Any, at random.
    Random,
}
