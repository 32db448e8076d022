//! Lists of requests, one per line:
//!
//! ```text
//! # a comment
//! http://localhost:8080/one
//! /two
//! POST http://localhost:8080/three
//! ```

use std::collections::HashMap;

use super::{
    Grammar, Order, Requests, Template, TemplateError,
    parts::{Parts, is_token},
    template::split_url,
};
use crate::{
    engine::URLS_MAX,
    target::{Url, UrlError},
};

/// Most requests of a list.
const TARGETS_MAX: usize = 200_000;

/// A request and its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// URL of the request.
    pub url: Url,
    /// Method, fields and body.
    pub parts: Parts,
    /// Its line in the file, from 1.
    pub line: usize,
}

/// A list of requests, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

/// The requests for one server.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The first URL of the server.
    pub url: Url,
    /// Requests sent to it.
    pub requests: Requests,
    /// Names of its requests, in their order.
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
    pub fn parse(text: &str, base: Option<&Url>, defaults: &Parts) -> Result<Self, TargetsError> {
        let mut targets = Vec::new();
        for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if targets.len() == TARGETS_MAX {
                return Err(TargetsError::TooMany);
            }
            targets.push(target(line, at + 1, base, defaults)?);
        }
        if targets.is_empty() {
            return Err(TargetsError::Empty);
        }
        Ok(Self(targets))
    }

    /// All of them, in their order.
    pub fn all(&self) -> &[Target] {
        &self.0
    }

    /// The requests for each server, in the order in which servers first occur. Connections take the servers in turn, so each server gets
    /// as many connections as any other; the order of requests holds within a server.
    pub fn origins(&self, order: Order, grammar: &Grammar<'_>) -> Result<Vec<Origin>, TargetsError> {
        let mut groups: Vec<Vec<&Target>> = Vec::new();
        let mut known = HashMap::new();
        for target in &self.0 {
            let origin = (target.url.tls, target.url.host.as_str(), target.url.port);
            let at = *known.entry(origin).or_insert(groups.len());
            if at == groups.len() {
                groups.push(Vec::new());
            }
            groups[at].push(target);
        }
        let failed = |target: &Target, source| TargetsError::Request {
            line: target.line,
            source,
        };
        let origin = |group: Vec<&Target>| {
            let requests = match group[..] {
                [only] => Requests::one(&only.parts, grammar).map_err(|error| failed(only, error))?,
                _ => {
                    let template = |target: &&Target| {
                        Template::new(&target.parts, grammar).map_err(|error| failed(target, error))
                    };
                    let templates = group.iter().map(template).collect::<Result<_, _>>()?;
                    Requests::several(templates, order).ok_or(TargetsError::Empty)?
                }
            };
            let name = |target: &&Target| format!("{} {}", target.parts.method, target.url);
            Ok(Origin {
                url: group[0].url.clone(),
                requests,
                names: group.iter().take(URLS_MAX).map(name).collect(),
            })
        };
        groups.into_iter().map(origin).collect()
    }
}

/// Reads `[METHOD] URL`.
fn target(text: &str, line: usize, base: Option<&Url>, defaults: &Parts) -> Result<Target, TargetsError> {
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
    // A Host field that was asked for stays; the one derived from the base URL does not.
    let is_asked_for = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("host") && base.is_none_or(|base| base.authority() != *value)
    };
    if !parts.fields.iter().any(is_asked_for) {
        parts
            .fields
            .retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
        parts.fields.insert(0, ("host".into(), url.authority()));
    }
    parts.path_and_query.clone_from(&url.path_and_query);
    Ok(Target { url, parts, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("http://localhost:8080/").unwrap()
    }

    fn parse(text: &str) -> Result<Targets, TargetsError> {
        Targets::parse(text, Some(&base()), &Parts::get(&base()))
    }

    /// An error with its causes.
    fn chain(error: &dyn std::error::Error) -> String {
        let cause = error.source().map(|cause| format!(": {}", chain(cause)));
        format!("{error}{}", cause.unwrap_or_default())
    }

    #[test]
    fn lines_name_methods_and_urls() {
        let targets = parse(
            "\u{feff}# list\nhttp://localhost:8080/one\r\n/two\n\nPOST http://other/three\nother:81/{{random 1 9}}\n",
        )
        .unwrap();
        let shown = |target: &Target| {
            let Target { url, parts, line } = target;
            format!("{line}: {} {url} {:?}", parts.method, parts.fields)
        };
        assert_eq!(
            targets.all().iter().map(shown).collect::<Vec<_>>(),
            [
                "2: GET http://localhost:8080/one [(\"host\", \"localhost:8080\")]",
                "3: GET http://localhost:8080/two [(\"host\", \"localhost:8080\")]",
                "5: POST http://other/three [(\"host\", \"other\")]",
                "6: GET http://other:81/{{random 1 9}} [(\"host\", \"other:81\")]",
            ]
        );
    }

    #[test]
    fn a_host_that_was_asked_for_stays() {
        let mut defaults = Parts::get(&base());
        defaults.set_field("Host", "asked.for");
        let targets = Targets::parse("http://other/", Some(&base()), &defaults).unwrap();
        assert_eq!(
            targets.all()[0].parts.fields,
            [("Host".to_owned(), "asked.for".to_owned())]
        );
    }

    #[test]
    fn each_server_gets_its_own_requests() {
        let targets = parse("/a\nhttp://other/b\n/c\nhttps://localhost:8080/d\n").unwrap();
        let origins = targets.origins(Order::InTurn, &Grammar::none()).unwrap();
        let urls: Vec<_> = origins.iter().map(|origin| origin.url.to_string()).collect();
        assert_eq!(
            urls,
            [
                "http://localhost:8080/a",
                "http://other/b",
                "https://localhost:8080/d"
            ]
        );
        assert!(matches!(origins[0].requests, Requests::Several(_)));
        assert!(
            matches!(origins[1].requests, Requests::Same(_)),
            "one request that never changes stays cheap"
        );
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
        ] {
            let error = chain(&parse(text).unwrap_err());
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let none = Targets::parse("/a", None, &Parts::get(&base())).unwrap_err();
        assert!(
            none.to_string()
                .contains("line 1: `/a` names no host; write http://HOST/a")
        );
        let space = parse("/a b").unwrap().origins(Order::InTurn, &Grammar::none());
        let space = chain(&space.unwrap_err());
        assert!(space.contains("line 1: the path `/a b` has a space"), "{space}");
    }
}
