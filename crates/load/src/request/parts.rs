//! The parts of one request, and its serialization.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::template::{Grammar, Template, TemplateError};
use crate::target::Url;

/// A request as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) bytes: Box<[u8]>,
    /// Whether the response has no body whatever its head says.
    pub(crate) head_only: bool,
}

/// The HTTP/1 version of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.1 (RFC 9112).
    #[default]
    Http11,
    /// 1.0 (RFC 1945): a connection ends with its response unless both sides say otherwise.
    Http10,
}

impl Version {
    /// The end of a request's first line.
    pub(super) const fn line_end(self) -> &'static str {
        match self {
            Self::Http11 => " HTTP/1.1",
            Self::Http10 => " HTTP/1.0",
        }
    }
}

/// A request in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Method, such as `GET`.
    pub method: String,
    /// Path and query.
    pub path_and_query: String,
    /// Fields in order. Host and Content-Length are added if they are missing.
    pub fields: Vec<(String, String)>,
    /// Bytes of the body; empty for none.
    pub body: Vec<u8>,
    /// Whether to keep the connection open for further requests.
    pub keep_alive: bool,
    /// HTTP version in the first line.
    pub version: Version,
}

/// Why parts do not make a valid request.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// Not a token (RFC 9110, 5.6.2).
    #[error("`{text}` is not a {what}: only letters, digits and !#$%&'*+-.^_`|~ may be in it")]
    Token {
        /// `method` or `header name`.
        what: &'static str,
        /// The text as given.
        text: String,
    },
    /// A line end, or another control character.
    #[error("the {what} has a control character")]
    Control {
        /// The part that contains it.
        what: String,
    },
    /// A space in the request target.
    #[error("the path `{path}` has a space; write it as %20")]
    Space {
        /// Path and query as given.
        path: String,
    },
    /// Credentials without a colon.
    #[error("`{text}` has no colon; accepted is `user:password`, and `user:` for an empty password")]
    Credentials {
        /// The text as given.
        text: String,
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
            version: Version::Http11,
        }
    }

    /// Directs it to a URL: to its path, and to its host unless a field names another.
    pub fn go_to(&mut self, url: &Url) {
        self.path_and_query.clone_from(&url.path_and_query);
        if !self.has_field("host") {
            self.fields.insert(0, ("host".to_owned(), url.authority()));
        }
    }

    /// Whether a field with this name is set.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Sets a field to this value, replacing all others of its name.
    pub fn set_field(&mut self, name: &str, value: &str) {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    /// Adds a field. Host and the fields that describe the body occur once: the last one counts.
    pub fn add_field(&mut self, name: &str, value: &str) -> Result<(), RequestError> {
        check_token("header name", name)?;
        check_text(name, value)?;
        let single = [
            "host",
            "content-type",
            "content-length",
            "user-agent",
            "authorization",
        ];
        if single.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.set_field(name, value);
        } else {
            self.fields.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    /// Sets the field of Basic authentication (RFC 7617) for `user:password`.
    pub fn basic_auth(&mut self, text: &str) -> Result<(), RequestError> {
        if !text.contains(':') {
            return Err(RequestError::Credentials {
                text: text.to_owned(),
            });
        }
        check_text("user and password", text)?;
        self.set_field("authorization", &format!("Basic {}", STANDARD.encode(text)));
        Ok(())
    }

    /// Serializes the request (RFC 9112).
    pub fn message(&self) -> Result<Message, TemplateError> {
        let fixed = Template::new(self, &Grammar::none())?.into_fixed();
        Ok(fixed.expect("a request without placeholders is always the same"))
    }

    /// Whether a Content-Length must be added (RFC 9110, 8.6).
    pub(super) fn needs_length(&self) -> bool {
        let may_have_body = !matches!(
            self.method.as_str(),
            "GET" | "HEAD" | "DELETE" | "OPTIONS" | "TRACE"
        );
        let framed = self.has_field("content-length") || self.has_field("transfer-encoding");
        (!self.body.is_empty() || may_have_body) && !framed
    }

    /// The value of the Connection field, where it differs from the version's default.
    pub(super) fn connection(&self) -> Option<&'static str> {
        match (self.version, self.keep_alive) {
            _ if self.has_field("connection") => None,
            (Version::Http11, false) => Some("close"),
            (Version::Http10, true) => Some("keep-alive"),
            (Version::Http11, true) | (Version::Http10, false) => None,
        }
    }
}

pub(super) fn check_token(what: &'static str, text: &str) -> Result<(), RequestError> {
    if !is_token(text) {
        return Err(RequestError::Token {
            what,
            text: text.to_owned(),
        });
    }
    Ok(())
}

/// Whether a text is a token (RFC 9110, 5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(may_be)
}

pub(super) fn check_path(path: &str) -> Result<(), RequestError> {
    check_text("path", path)?;
    if path.contains([' ', '\t']) {
        return Err(RequestError::Space {
            path: path.to_owned(),
        });
    }
    Ok(())
}

pub(super) fn check_text(what: &str, text: &str) -> Result<(), RequestError> {
    if text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(RequestError::Control {
            what: what.to_owned(),
        });
    }
    Ok(())
}

/// Appends bytes to a request target, percent-encoding those that may not stand there (RFC 3986, 2.1). A `%` stays as it is.
pub(super) fn push_path(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts::get(&Url::parse("http://h:8080/a?b=1").unwrap())
    }

    fn text(parts: &Parts) -> String {
        String::from_utf8(parts.message().unwrap().bytes.into()).unwrap()
    }

    #[test]
    fn a_plain_request_is_a_line_and_a_host() {
        assert_eq!(text(&parts()), "GET /a?b=1 HTTP/1.1\r\nhost: h:8080\r\n\r\n");
    }

    #[test]
    fn a_field_that_is_none_is_refused_and_some_occur_once() {
        let mut parts = parts();
        parts.add_field("X-Empty", "").unwrap();
        parts.add_field("host", "other").unwrap();
        assert_eq!(parts.fields.len(), 2);
        for (name, value, says) in [
            ("a b", "v", "only letters, digits and"),
            ("a", "v\r\nb: w", "control character"),
        ] {
            let error = parts.add_field(name, value).unwrap_err().to_string();
            assert!(error.contains(says), "{name:?}: {error}");
        }
    }

    #[test]
    fn user_and_password_become_basic_authentication() {
        let mut parts = parts();
        parts.basic_auth("Aladdin:open sesame").unwrap();
        assert_eq!(parts.fields[1].1, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let error = parts.basic_auth("aladdin").unwrap_err().to_string();
        assert!(error.contains("accepted is `user:password`"), "{error}");
    }

    #[test]
    fn a_version_says_of_a_connection_what_it_does_not_mean_by_itself() {
        for (version, keep_alive, line, field) in [
            (Version::Http11, true, "HTTP/1.1", None),
            (Version::Http11, false, "HTTP/1.1", Some("connection: close")),
            (Version::Http10, true, "HTTP/1.0", Some("connection: keep-alive")),
            (Version::Http10, false, "HTTP/1.0", None),
        ] {
            let mut parts = parts();
            (parts.version, parts.keep_alive) = (version, keep_alive);
            let text = text(&parts);
            assert!(text.starts_with(&format!("GET /a?b=1 {line}\r\n")), "{text}");
            let found = text.lines().find(|line| line.starts_with("connection"));
            assert_eq!(found, field);
            parts.set_field("Connection", "upgrade");
            assert_eq!(parts.connection(), None);
        }
    }

    #[test]
    fn a_body_has_its_length_and_post_has_one_even_without() {
        let mut parts = parts();
        parts.body = b"hello".to_vec();
        assert!(text(&parts).contains("content-length: 5\r\n\r\nhello"));
        parts.body.clear();
        parts.method = "POST".into();
        assert!(text(&parts).contains("content-length: 0\r\n\r\n"));
    }

    #[test]
    fn what_cannot_stand_in_a_path_is_escaped() {
        let mut out = Vec::new();
        push_path("/a b/ü?x=1%20&y=<z>".as_bytes(), &mut out);
        assert_eq!(out, b"/a%20b/%C3%BC?x=1%20&y=%3Cz%3E");
    }
}
