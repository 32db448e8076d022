//! One request in its parts, and the bytes they make.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::target::Url;

/// A request as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) bytes: Box<[u8]>,
    /// Whether its answer has no body whatever its head says.
    pub(crate) head_only: bool,
}

/// The version of HTTP/1 that a request says it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.1 (RFC 9112).
    #[default]
    Http11,
    /// 1.0 (RFC 1945): a connection ends with its answer unless both sides say otherwise.
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
    /// What the first line says.
    pub version: Version,
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
    /// A header without anything between its name and its value.
    #[error("`{text}` is not a header; accepted are `name: value` and `name=value`")]
    Field {
        /// What was given.
        text: String,
    },
    /// A user without a password.
    #[error("`{text}` has no colon; accepted is `user:password`, and `user:` for an empty password")]
    Credentials {
        /// What was given.
        text: String,
    },
}

impl Parts {
    /// A request for a URL without a body.
    pub fn get(url: &Url) -> Self {
        let mut parts = Self {
            method: "GET".into(),
            path_and_query: url.path_and_query.clone(),
            fields: vec![("host".into(), url.authority())],
            body: Vec::new(),
            keep_alive: true,
            version: Version::Http11,
        };
        parts.asked_by(url);
        parts
    }

    /// Proves who asks as a URL says, if it says so and nothing else does.
    pub fn asked_by(&mut self, url: &Url) {
        if let Some(user) = url.user.as_ref().filter(|_| !self.has_field("authorization")) {
            let value = format!("Basic {}", STANDARD.encode(user));
            self.fields.push(("authorization".into(), value));
        }
    }

    /// Whether there is such a field.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Gives a field this value, and this one only.
    pub fn set_field(&mut self, name: &str, value: &str) {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    /// Adds a field written as `name: value` or `name=value`. Of Host, and of the fields that say what the body is, there is only one:
    /// the last.
    pub fn add_field(&mut self, text: &str) -> Result<(), RequestError> {
        let malformed = || RequestError::Field {
            text: text.to_owned(),
        };
        let at = text.find([':', '=']).ok_or_else(malformed)?;
        let (name, value) = (text[..at].trim(), text[at + 1..].trim());
        if name.is_empty() {
            return Err(malformed());
        }
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

    /// Adds the field of Basic authentication (RFC 7617) for `user:password`.
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

    /// The bytes (RFC 9112).
    pub fn message(&self) -> Result<Message, RequestError> {
        check_token("method", &self.method)?;
        check_path(&self.path_and_query)?;
        let mut bytes = Vec::with_capacity(256 + self.body.len());
        let mut line = |parts: &[&str]| {
            for part in parts {
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        };
        line(&[&self.method, " ", &self.path_and_query, self.version.line_end()]);
        for (name, value) in &self.fields {
            check_token("header name", name)?;
            check_text(name, value)?;
            line(&[name, ": ", value]);
        }
        if self.needs_length() {
            line(&["content-length: ", &self.body.len().to_string()]);
        }
        if let Some(option) = self.connection() {
            line(&["connection: ", option]);
        }
        line(&[]);
        bytes.extend_from_slice(&self.body);
        Ok(Message {
            bytes: bytes.into(),
            head_only: self.method == "HEAD",
        })
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

    /// What a field `connection` must say: what the version does not mean by itself.
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

/// Appends what may stand in a request target, and everything else as `%XX` (RFC 3986, 2.1). A `%` stays as it is.
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
    fn fields_are_read_in_both_spellings() {
        let mut parts = parts();
        for field in [
            "X-One: 1",
            "X-Two=2",
            "X-Three:a=b",
            "X-Four=a:b",
            "X-Empty:",
            "host: other",
        ] {
            parts.add_field(field).unwrap();
        }
        let values: Vec<_> = parts
            .fields
            .iter()
            .map(|(name, value)| format!("{name}|{value}"))
            .collect();
        assert_eq!(
            values,
            [
                "X-One|1",
                "X-Two|2",
                "X-Three|a=b",
                "X-Four|a:b",
                "X-Empty|",
                "host|other"
            ]
        );
    }

    #[test]
    fn a_field_that_is_none_is_refused_with_what_is_accepted() {
        for (field, says) in [
            ("X", "accepted are `name: value` and `name=value`"),
            (": v", "accepted are `name: value` and `name=value`"),
            ("a b: v", "only letters, digits and"),
            ("a: v\r\nb: w", "control character"),
        ] {
            let error = parts().add_field(field).unwrap_err().to_string();
            assert!(error.contains(says), "{field:?}: {error}");
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
