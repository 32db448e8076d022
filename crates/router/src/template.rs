//! Addresses made of what a pattern has matched: `/new/:id/*`.

use std::borrow::Cow;

use super::path::{put_byte, put_encoded};
use super::pattern::{PATTERN_BYTES_MAX, Pattern, Segment};

/// An address with parameters in it. What they stand for never changes the host, and never ends the address.
///
/// `:name` and `*` stand after a `/` of the path, `:name` also after a `=` of the query. An address is a path, or starts with `http://` or
/// `https://` and a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    has_query: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Percent-encoded.
    Text(String),
    Param(String),
    /// The part of the path matched by the pattern's `*`.
    Rest,
}

/// A text is not a template for addresses of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is neither a path nor an address of HTTP.
    #[error("expected a path such as \"/new/*\", or an address such as \"https://example.org/*\"")]
    NoAddress,
    /// It is too long.
    #[error("it has {bytes} bytes, at most {PATTERN_BYTES_MAX} are accepted")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A character that addresses do not have, or that no server is sent.
    #[error("it has `{character}`, which does not belong into it")]
    Character {
        /// `#` or a control character, escaped.
        character: String,
    },
    /// It names what the pattern does not have.
    #[error("the path of the route has no `{name}`")]
    Unknown {
        /// `:name` or `*`, as written.
        name: String,
    },
    /// A `*` somewhere else than after a `/` of the path.
    #[error("`*` may stand only after a `/` of the path")]
    Star,
}

impl Template {
    /// Parses a template for what `pattern` matches.
    pub fn parse(text: &str, pattern: &Pattern) -> Result<Self, TemplateError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(TemplateError::TooLong { bytes: text.len() });
        }
        if let Some(character) = text.chars().find(|c| matches!(c, '#' | '\\') || c.is_control()) {
            return Err(TemplateError::Character {
                character: character.escape_debug().to_string(),
            });
        }
        let path_at = path_start(text).ok_or(TemplateError::NoAddress)?;
        let (address, query) = match text.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (text, None),
        };
        if address.len() < path_at {
            return Err(TemplateError::NoAddress);
        }
        let mut template = Self {
            parts: vec![Part::Text(address[..path_at].to_owned())],
            has_query: query.is_some(),
        };
        for segment in address[path_at..].split_inclusive('/') {
            template.put(segment, true, pattern)?;
        }
        if let Some(query) = query {
            template.parts.push(Part::Text("?".to_owned()));
            for value in query.split_inclusive('=') {
                template.put(value, false, pattern)?;
            }
        }
        Ok(template)
    }

    /// Adds a segment of the path, or what follows a `=` of the query.
    fn put(&mut self, text: &str, is_path: bool, pattern: &Pattern) -> Result<(), TemplateError> {
        let length = |text: &str| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            text.find(|c| !is_name(c)).unwrap_or(text.len())
        };
        let unknown = |name: &str| TemplateError::Unknown {
            name: name.to_owned(),
        };
        let has = |wanted: &Segment| pattern.segments().contains(wanted);
        let literal = match text.as_bytes().first() {
            Some(b':') if length(&text[1..]) > 0 => {
                let (name, literal) = text[1..].split_at(length(&text[1..]));
                if !has(&Segment::Param(name.to_owned())) {
                    return Err(unknown(&format!(":{name}")));
                }
                self.parts.push(Part::Param(name.to_owned()));
                literal
            }
            Some(b'*') if is_path => {
                let (name, literal) = text[1..].split_at(length(&text[1..]));
                let is_there = if name.is_empty() {
                    pattern.ends_with_rest()
                } else {
                    has(&Segment::Rest(name.to_owned()))
                };
                if !is_there {
                    return Err(unknown(&format!("*{name}")));
                }
                self.parts.push(Part::Rest);
                literal
            }
            _ => text,
        };
        if is_path && literal.contains('*') {
            return Err(TemplateError::Star);
        }
        let mut encoded = String::with_capacity(literal.len());
        put_address(literal.as_bytes(), &mut encoded);
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(&encoded),
            _ => self.parts.push(Part::Text(encoded)),
        }
        Ok(())
    }

    /// Whether it is a path, not the address of a host.
    pub fn is_path(&self) -> bool {
        matches!(&self.parts[0], Part::Text(text) if text.starts_with('/'))
    }

    /// Whether it always gives the same address.
    pub fn is_constant(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The address, with the request's query behind its own. `params` and `rest` are those of [`Found`](crate::Found). It is printable
    /// ASCII. A path starts with one slash: two would name a host.
    pub fn expand(&self, params: &[(&str, Cow<'_, str>)], rest: Option<&str>, query: &[u8]) -> String {
        let mut address = String::with_capacity(64 + rest.map_or(0, str::len) + query.len());
        for part in &self.parts {
            match part {
                Part::Text(text) => address.push_str(text),
                Part::Param(name) => {
                    let value = params.iter().find(|(known, _)| known == name);
                    put_encoded(value.map_or("", |(_, value)| value), &mut address);
                }
                Part::Rest => put_address(rest.unwrap_or_default().as_bytes(), &mut address),
            }
        }
        if self.is_path() {
            let slashes = address.bytes().take_while(|&byte| byte == b'/').count();
            address.drain(..slashes - 1);
        }
        if !query.is_empty() {
            address.push(if self.has_query { '&' } else { '?' });
            put_address(query, &mut address);
        }
        address
    }
}

/// Where the path of an address starts.
fn path_start(text: &str) -> Option<usize> {
    if text.starts_with('/') && !text.starts_with("//") {
        return Some(1);
    }
    let host_at = ["http://", "https://"]
        .iter()
        .find(|scheme| text.starts_with(**scheme))?
        .len();
    let length = text[host_at..].find(['/', '?']).unwrap_or(text.len() - host_at);
    let host = &text[host_at..host_at + length];
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let has_path = text[host_at + length..].starts_with('/');
    let has_name = !host.is_empty() && !host.starts_with(':');
    (has_name && host.bytes().all(is_host) && has_path).then_some(host_at + length + 1)
}

/// Adds a part of an address as it is, and encodes what no address may hold, such as what is not ASCII.
fn put_address(text: &[u8], out: &mut String) {
    for &byte in text {
        if byte.is_ascii_graphic() && !b"\"#<>\\".contains(&byte) {
            out.push(char::from(byte));
        } else {
            put_byte(byte, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Router, Rule};

    /// The address of a template for a request of `pattern`.
    fn expanded(pattern: &str, template: &str, path: &str, query: &str) -> String {
        let template = Template::parse(template, &Pattern::parse(pattern).unwrap()).unwrap();
        let rule = Rule {
            methods: Vec::new(),
            host: None,
            path: pattern.to_owned(),
            target: (),
        };
        let router = Router::compile(vec![rule]).unwrap();
        let Outcome::Found(found) = router.find("GET", "", path) else {
            panic!("{pattern} does not match {path}")
        };
        template.expand(&found.params, found.rest, query.as_bytes())
    }

    #[test]
    fn parameters_and_the_rest_stand_where_the_template_names_them() {
        for (pattern, template, path, query, address) in [
            ("/old/*", "/new/*", "/old/a/b", "", "/new/a/b"),
            ("/old/*", "/new/*", "/old/", "x=1", "/new/?x=1"),
            ("/old/*rest", "/new/*rest/x", "/old/a", "", "/new/a/x"),
            (
                "/old/*rest",
                "https://example.org/*",
                "/old/a",
                "",
                "https://example.org/a",
            ),
            (
                "/u/:id/*",
                "/v/*?user=:id&a=:id.",
                "/u/7/p",
                "q=2",
                "/v/p?user=7&a=7.&q=2",
            ),
            ("/a/:x/:y", "/:y-:x/:x.html", "/a/1/2", "", "/2-:x/1.html"),
            ("/a", "http://[::1]:8080/b:c", "/a", "", "http://[::1]:8080/b:c"),
            ("/", "/café", "/", "", "/caf%C3%A9"),
        ] {
            assert_eq!(expanded(pattern, template, path, query), address, "{template}");
        }
    }

    #[test]
    fn no_value_leaves_its_place_in_the_address() {
        for (pattern, template, path, query, address) in [
            // Another host.
            ("/old/*", "/*", "/old//evil.example", "", "/evil.example"),
            ("/old/*", "/*", "/old////evil.example", "", "/evil.example"),
            ("/old/*", "/*", "/old/\\evil.example", "", "/%5Cevil.example"),
            ("/old/*", "/*/x", "/old//", "", "/x"),
            ("/o/:h", "/:h", "/o/%2Fevil.example", "", "/%2Fevil.example"),
            (
                "/o/:h",
                "/:h",
                "/o/https:%2F%2Fevil.example",
                "",
                "/https%3A%2F%2Fevil.example",
            ),
            (
                "/o/:h",
                "https://a.example/:h",
                "/o/@evil.example",
                "",
                "https://a.example/%40evil.example",
            ),
            // Another segment, another parameter, the end of the path, another line.
            ("/o/:a", "/n/:a/x", "/o/b%2Fc%3Fd%23e", "", "/n/b%2Fc%3Fd%23e/x"),
            ("/o/:a", "/n?a=:a", "/o/1&b=2", "", "/n?a=1%26b%3D2"),
            (
                "/o/:a",
                "/n/:a",
                "/o/b%0D%0Aset-cookie:%20c",
                "",
                "/n/b%0D%0Aset-cookie%3A%20c",
            ),
            (
                "/o/*",
                "/n/*",
                "/o/b%0D%0A\u{e9}",
                "a=\u{e9}\"",
                "/n/b%0D%0A%C3%A9?a=%C3%A9%22",
            ),
        ] {
            assert_eq!(
                expanded(pattern, template, path, query),
                address,
                "{template} {path}"
            );
        }
    }

    #[test]
    fn a_template_that_could_not_be_expanded_is_refused() {
        let pattern = Pattern::parse("/a/:id/*").unwrap();
        let no_address =
            "expected a path such as \"/new/*\", or an address such as \"https://example.org/*\"";
        let long = "/".to_owned() + &"a".repeat(1024);
        for (text, message) in [
            ("", no_address),
            ("new", no_address),
            ("//evil.example/*", no_address),
            ("ftp://example.org/", no_address),
            ("https://:id/", no_address),
            ("https://example.org", no_address),
            ("https://example.org?a", no_address),
            ("https://a@example.org/", no_address),
            ("/new/:name", "the path of the route has no `:name`"),
            ("/new/*rest", "the path of the route has no `*rest`"),
            ("/new*", "`*` may stand only after a `/` of the path"),
            ("/new#a", "it has `#`, which does not belong into it"),
            ("/new\n", "it has `\\n`, which does not belong into it"),
            (&long, "it has 1025 bytes, at most 1024 are accepted"),
        ] {
            let error = Template::parse(text, &pattern).unwrap_err();
            assert_eq!(error.to_string(), message, "{text}");
        }
    }
}
