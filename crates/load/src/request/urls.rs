//! Lists of requests, one per line:
//!
//! ```text
//! # a comment
//! http://localhost:8080/one
//! /two
//! POST http://localhost:8080/three
//! ```

use super::{
    Grammar, Requests, Template, TemplateError,
    parts::{Parts, is_token},
    template::split_url,
};
use crate::target::{Url, UrlError};

/// Most requests of a list.
const TARGETS_MAX: usize = 200_000;

/// A list of requests to one server, not empty.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The URL of the first.
    pub url: Url,
    /// All of them, in their order.
    pub requests: Requests,
    /// Method and URL of each.
    pub names: Vec<String>,
}

/// Why a text is not a list of requests.
#[derive(Debug, thiserror::Error)]
pub enum TargetsError {
    /// The list is empty.
    #[error(
        "there is no request in it; accepted are lines such as `http://localhost:8080/` and `POST /path`"
    )]
    Empty,
    /// More requests than are accepted.
    #[error("there are more than {TARGETS_MAX} requests, the most that are kept")]
    TooMany,
    /// A path without a server.
    #[error("line {line}: `{path}` names no host; write http://HOST{path}, or give a URL besides the list")]
    Host {
        /// Line number, from 1.
        line: usize,
        /// Path as written.
        path: String,
    },
    /// A request to another server than the first one's.
    #[error("line {line}: `{server}` is another server than that of the first request; a list is for one")]
    Server {
        /// Line number, from 1.
        line: usize,
        /// Scheme, host and port of the request.
        server: String,
    },
    /// A weight, which lines had once.
    #[error("line {line}: weights are no longer there; repeat a line to send it more often")]
    Weight {
        /// Line number, from 1.
        line: usize,
    },
    /// An invalid URL.
    #[error("line {line}")]
    Url {
        /// Line number, from 1.
        line: usize,
        /// The error in the URL.
        #[source]
        source: UrlError,
    },
    /// An invalid request.
    #[error("line {line}")]
    Request {
        /// Line number, from 1.
        line: usize,
        /// The error in the request.
        #[source]
        source: TemplateError,
    },
}

impl Targets {
    /// Parses a list. A path without a host goes to `base`; `defaults` supplies everything that a line does not say.
    pub fn parse(
        text: &str,
        base: Option<&Url>,
        defaults: &Parts,
        grammar: &Grammar<'_>,
    ) -> Result<Self, TargetsError> {
        let mut first: Option<Url> = None;
        let (mut names, mut templates) = (Vec::new(), Vec::new());
        for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let (line, text) = (at + 1, line.trim());
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if names.len() == TARGETS_MAX {
                return Err(TargetsError::TooMany);
            }
            let (url, parts) = target(text, line, base, defaults)?;
            let first = first.get_or_insert_with(|| url.clone());
            if (url.tls, &url.host, url.port) != (first.tls, &first.host, first.port) {
                let scheme = if url.tls { "https" } else { "http" };
                let server = format!("{scheme}://{}", url.authority());
                return Err(TargetsError::Server { line, server });
            }
            names.push(format!("{} {url}", parts.method));
            let template = Template::new(&parts, grammar);
            templates.push(template.map_err(|source| TargetsError::Request { line, source })?);
        }
        let url = first.ok_or(TargetsError::Empty)?;
        Ok(Self {
            url,
            requests: Requests::Several(templates.into()),
            names,
        })
    }
}

/// Reads `[METHOD] URL`.
fn target(
    text: &str,
    line: usize,
    base: Option<&Url>,
    defaults: &Parts,
) -> Result<(Url, Parts), TargetsError> {
    let is_method =
        |word: &str| is_token(word) && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let (method, url) = match text.split_once(char::is_whitespace) {
        Some((word, rest)) if is_method(word) => (Some(word), rest.trim_start()),
        _ => (None, text),
    };
    if url
        .split_whitespace()
        .nth(1)
        .is_some_and(|word| word.starts_with("weight="))
    {
        return Err(TargetsError::Weight { line });
    }
    let url = match base {
        _ if !url.starts_with('/') => split_url(url).map_err(|source| TargetsError::Url { line, source })?,
        Some(base) => Url {
            path_and_query: url.to_owned(),
            ..base.clone()
        },
        None => {
            let path = url.to_owned();
            return Err(TargetsError::Host { line, path });
        }
    };
    let mut parts = defaults.clone();
    if let Some(method) = method {
        method.clone_into(&mut parts.method);
    }
    parts.go_to(&url);
    Ok((url, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("http://localhost:8080/").unwrap()
    }

    fn parse(text: &str, base: Option<&Url>) -> Result<Targets, TargetsError> {
        let mut defaults = Parts::get(&self::base());
        defaults.fields.clear();
        Targets::parse(text, base, &defaults, &Grammar::none())
    }

    /// An error with its causes.
    fn chain(error: &dyn std::error::Error) -> String {
        let cause = error.source().map(|cause| format!(": {}", chain(cause)));
        format!("{error}{}", cause.unwrap_or_default())
    }

    #[test]
    fn lines_name_methods_and_urls() {
        let text = "\u{feff}# list\nhttp://localhost:8080/one\r\n/two\n\nPOST localhost:8080/three\n";
        let targets = parse(text, Some(&base())).unwrap();
        assert_eq!(
            targets.names,
            [
                "GET http://localhost:8080/one",
                "GET http://localhost:8080/two",
                "POST http://localhost:8080/three"
            ]
        );
        assert_eq!(targets.url.to_string(), "http://localhost:8080/one");
    }

    #[test]
    fn what_is_no_target_is_refused_with_its_line() {
        for (text, says) in [
            ("# nothing\n\n", "there is no request in it"),
            (
                "\nftp://h/\n",
                "line 2: `ftp://h` has the scheme `ftp`; accepted are http and https",
            ),
            ("/a weight=2", "line 1: weights are no longer there"),
            ("/a\nhttp://other/", "line 2: `http://other` is another server"),
            (
                "http://h/\nhttp://h:1234/",
                "line 2: `http://h:1234` is another server",
            ),
            ("/a b", "line 1: the path `/a b` has a space"),
        ] {
            let error = chain(&parse(text, Some(&base())).unwrap_err());
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let none = parse("/a", None).unwrap_err().to_string();
        assert!(
            none.contains("line 1: `/a` names no host; write http://HOST/a"),
            "{none}"
        );
    }
}
