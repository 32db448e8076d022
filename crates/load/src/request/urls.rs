//! Lists of requests: URLs one per line, and the two target formats of vegeta. Each line says by itself what it is, so the formats
//! need not be named:
//!
//! ```text
//! # a comment
//! http://localhost:8080/one
//! /two weight=3
//! POST http://localhost:8080/three
//! Content-Type: application/json
//! @body.json
//!
//! {"method": "GET", "url": "http://localhost:8080/four", "header": {"X-Id": ["7"]}, "body": "aGVsbG8="}
//! ```
//!
//! A number of milliseconds and a tab before a request say when it is due, for whoever wants to send it then.

mod line;

use std::{collections::HashMap, path::Path};

use self::line::{is_field, json_target, offset, request_line};
use super::{
    Flaw, Grammar, Order, Requests, Template, TemplateError,
    body::BodyError,
    parts::{Parts, RequestError},
};
use crate::{engine::URLS_MAX, plan::Trace, target::Url};

/// Most requests of a list.
pub(super) const TARGETS_MAX: usize = 200_000;
/// Latest moment, in milliseconds: ten years.
const OFFSET_MS_MAX: f64 = 3.2e11;
/// Largest weight.
pub(super) const WEIGHT_MAX: u32 = 1_000_000;

/// A request and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it goes.
    pub url: Url,
    /// What it is.
    pub parts: Parts,
    /// How often it is sent, relative to the others, in [`Order::Weighted`].
    pub weight: u32,
    /// When it was sent, or is to be, in nanoseconds since some moment that all of a list have in common.
    pub due_ns: Option<u64>,
    /// Where it stands in its file: a line, or an entry.
    pub place: String,
}

/// Requests, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

/// What is sent to one server.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The first URL of it.
    pub url: Url,
    /// What is sent.
    pub requests: Requests,
    /// What its requests are called, in their order.
    pub names: Vec<String>,
}

/// Why a text is no list of requests.
#[derive(Debug, thiserror::Error)]
pub enum TargetsError {
    /// Without a request there is nothing to send.
    #[error(
        "there is no request in it; accepted are lines such as `http://localhost:8080/`, `POST /path weight=3`, and vegeta's targets"
    )]
    Empty,
    /// More than are kept.
    #[error("there are more than {TARGETS_MAX} requests, the most that are kept")]
    TooMany,
    /// A path without a server.
    #[error("{place}: `{path}` names no host; write http://HOST{path}, or give a URL besides the list")]
    Host {
        /// Where it stands.
        place: String,
        /// The path.
        path: String,
    },
    /// A request that nothing says the time of.
    #[error(
        "{place}: nothing says when this is due; accepted are lines such as `1500<TAB>http://localhost:8080/`, in milliseconds"
    )]
    NoTime {
        /// Where it stands.
        place: String,
    },
    /// Requests of one trace to several servers.
    #[error("{place}: it goes to {second}, others to {first}; what is replayed goes to one server")]
    Several {
        /// Where it stands.
        place: String,
        /// Where the first goes.
        first: String,
        /// Where this one does.
        second: String,
    },
    /// A weight that is none.
    #[error("{place}: `{text}` is not a weight; accepted are 1 to {WEIGHT_MAX}")]
    Weight {
        /// Where it stands.
        place: String,
        /// What is given.
        text: String,
    },
    /// A header or body before any request.
    #[error(
        "{place}: `{text}` belongs to no request; a request line such as `GET http://localhost/` comes first"
    )]
    Stray {
        /// Where it stands.
        place: String,
        /// What is given.
        text: String,
    },
    /// A JSON target that is none.
    #[error(
        "{place}: {what}; accepted is {{\"method\": \"GET\", \"url\": \"http://...\", \"header\": {{\"NAME\": [\"VALUE\"]}}, \"body\": \"BASE64\"}}"
    )]
    Json {
        /// Where it stands.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// One of its requests is wrong.
    #[error("{place}")]
    At {
        /// Where it stands.
        place: String,
        /// What is wrong.
        #[source]
        source: Flaw,
    },
}

impl Target {
    /// A request that begins as `defaults`. Its Host is that of its URL unless `defaults` have one that is not `base`'s.
    pub(super) fn new(url: Url, base: Option<&Url>, defaults: &Parts, place: String) -> Self {
        let mut parts = defaults.clone();
        let own = |value: &str| base.is_none_or(|base| base.authority() != value);
        let is_host = |name: &str| name.eq_ignore_ascii_case("host");
        if !parts
            .fields
            .iter()
            .any(|(name, value)| is_host(name) && own(value))
        {
            parts.fields.retain(|(name, _)| !is_host(name));
            parts.fields.insert(0, ("host".into(), url.authority()));
        }
        parts.path_and_query.clone_from(&url.path_and_query);
        parts.asked_by(&url);
        Self {
            url,
            parts,
            weight: 1,
            due_ns: None,
            place,
        }
    }
}

impl Targets {
    /// Reads a list. A path without a host goes to `base`; what a line does not say is as in `defaults`; `read` reads files of bodies.
    pub fn parse(
        text: &str,
        base: Option<&Url>,
        defaults: &Parts,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, BodyError>,
    ) -> Result<Self, TargetsError> {
        let mut targets: Vec<Target> = Vec::new();
        // Whether what follows may belong to the last target.
        let mut goes_on = false;
        for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
            let (line, place) = (line.trim(), format!("line {}", at + 1));
            if line.starts_with('#') {
                continue;
            }
            if line.is_empty() {
                goes_on = false;
                continue;
            }
            if let Some(path) = line.strip_prefix('@') {
                let target = targets.last_mut().filter(|_| goes_on);
                let target = target.ok_or_else(|| TargetsError::Stray {
                    place: place.clone(),
                    text: line.into(),
                })?;
                target.parts.body = read(Path::new(path)).map_err(|source| TargetsError::At {
                    place,
                    source: source.into(),
                })?;
                continue;
            }
            if is_field(line) {
                let target = targets.last_mut().filter(|_| goes_on);
                let target = target.ok_or_else(|| TargetsError::Stray {
                    place: place.clone(),
                    text: line.into(),
                })?;
                target
                    .parts
                    .add_field(line)
                    .map_err(|error| in_request(place, error))?;
                continue;
            }
            if targets.len() == TARGETS_MAX {
                return Err(TargetsError::TooMany);
            }
            let (due_ns, line) = offset(line);
            goes_on = !line.starts_with('{');
            let target = if goes_on {
                request_line(line, base, defaults, place)?
            } else {
                json_target(line, base, defaults, &place)?
            };
            targets.push(Target { due_ns, ..target });
        }
        Self::new(targets)
    }

    /// Of requests that come from elsewhere.
    pub fn new(targets: Vec<Target>) -> Result<Self, TargetsError> {
        match targets.len() {
            0 => Err(TargetsError::Empty),
            count if count > TARGETS_MAX => Err(TargetsError::TooMany),
            _ => Ok(Self(targets)),
        }
    }

    /// All of them, in their order.
    pub fn all(&self) -> &[Target] {
        &self.0
    }

    /// Whether any weight was given.
    pub fn has_weights(&self) -> bool {
        self.0.iter().any(|target| target.weight != 1)
    }

    /// Puts them into the order of their times. What it returns says when each is due, as fast as `speed` times as they were.
    pub fn replay(&mut self, speed: f64) -> Result<Trace, TargetsError> {
        let first = &self.0[0].url;
        for target in &self.0 {
            if target.due_ns.is_none() {
                let place = target.place.clone();
                return Err(TargetsError::NoTime { place });
            }
            if !first.shares_server(&target.url) {
                return Err(TargetsError::Several {
                    place: target.place.clone(),
                    first: first.authority(),
                    second: target.url.authority(),
                });
            }
        }
        self.0.sort_by_key(|target| target.due_ns);
        let times: Vec<u64> = self.0.iter().filter_map(|target| target.due_ns).collect();
        Ok(Trace::new(&times, speed))
    }

    /// What is sent to each server, in the order in which servers first occur. Connections take the servers in turn, so each server gets
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
        let origin = |group: Vec<&Target>| {
            let failed = |target: &Target, source| TargetsError::At {
                place: target.place.clone(),
                source: TemplateError::into(source),
            };
            let requests = match group[..] {
                [only] => Requests::one(&only.parts, grammar).map_err(|error| failed(only, error))?,
                _ => {
                    let template = |target: &&Target| match Template::new(&target.parts, grammar) {
                        Ok(template) => Ok((template, target.weight)),
                        Err(error) => Err(failed(target, error)),
                    };
                    let templates = group.iter().map(template).collect::<Result<_, _>>()?;
                    Requests::several(templates, order).ok_or(TargetsError::Empty)?
                }
            };
            Ok(Origin {
                url: group[0].url.clone(),
                requests,
                names: group
                    .iter()
                    .take(URLS_MAX)
                    .map(|target| format!("{} {}", target.parts.method, target.url))
                    .collect(),
            })
        };
        groups.into_iter().map(origin).collect()
    }
}

pub(super) fn in_request(place: String, error: RequestError) -> TargetsError {
    TargetsError::At {
        place,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("http://localhost:8080/").unwrap()
    }

    fn read(path: &Path) -> Result<Vec<u8>, BodyError> {
        if path == Path::new("/there") {
            return Ok(b"from the file".to_vec());
        }
        super::super::body::from_file(path)
    }

    fn parse(text: &str) -> Result<Targets, TargetsError> {
        Targets::parse(text, Some(&base()), &Parts::get(&base()), &read)
    }

    /// All of an error, with its causes.
    fn chain(error: &dyn std::error::Error) -> String {
        let cause = error
            .source()
            .map(|cause| format!(": {}", chain(cause)))
            .unwrap_or_default();
        format!("{error}{cause}")
    }

    #[test]
    fn vegetas_targets_mean_what_they_mean_there() {
        let text = "GET http://ann:secret@localhost:8080/a\nX-Account-ID: 8675309\n\nDELETE http://localhost:8080/b\nConfirm:yes\n\n\
            POST http://localhost:8080/c\n@/there\n";
        // Vegeta takes a header without a space too; here a URL could look like that.
        let text = text.replace("Confirm:yes", "Confirm: yes");
        let http = parse(&text).unwrap();
        let json = parse(concat!(
            r#"{"method":"GET","url":"http://ann:secret@localhost:8080/a","header":{"X-Account-ID":["8675309"]}}"#, "\n",
            r#"{"method":"DELETE","url":"http://localhost:8080/b","header":{"Confirm":["yes"]}}"#, "\n",
            r#"{"method":"POST","url":"http://localhost:8080/c","body":"ZnJvbSB0aGUgZmlsZQ=="}"#, "\n",
        ))
        .unwrap();
        let messages = |targets: &Targets| {
            let message =
                |target: &Target| String::from_utf8(target.parts.message().unwrap().bytes.into()).unwrap();
            targets.all().iter().map(message).collect::<Vec<_>>()
        };
        assert_eq!(messages(&http), messages(&json));
        let first = "GET /a HTTP/1.1\r\nhost: localhost:8080\r\nauthorization: Basic YW5uOnNlY3JldA==\r\nX-Account-ID: 8675309\r\n\r\n";
        assert_eq!(messages(&http)[0], first);
    }

    #[test]
    fn a_trace_is_in_the_order_of_its_times() {
        let mut targets = parse("2000\t/b\n500.5\tPOST /a\nX: 1\n3000\t/c weight=2\n2000\t/d\n").unwrap();
        let trace = targets.replay(2.0).unwrap();
        let paths: Vec<_> = targets
            .all()
            .iter()
            .map(|target| target.parts.path_and_query.as_str())
            .collect();
        assert_eq!(paths, ["/a", "/b", "/d", "/c"]);
        assert_eq!(trace.due_ns(), [0, 749_750_000, 749_750_000, 1_249_750_000]);
        for (text, says) in [
            ("1\t/a\n/b", "line 2: nothing says when this is due"),
            (
                "1\t/a\n2\thttp://other/",
                "line 2: it goes to other, others to localhost:8080",
            ),
        ] {
            let error = parse(text).unwrap().replay(1.0).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn lines_name_urls_methods_weights_headers_and_bodies() {
        let targets = parse(
            "\u{feff}# list\nhttp://localhost:8080/one\r\n/two weight=3\n\nPOST http://other/three\nX-Id: 7\nHost: elsewhere\n@/there\n\n\
             other:81/{{random 1 9}} weight=2\n{\"url\": \"/four\", \"method\": \"PUT\", \"body\": \"aGk=\", \"header\": {\"A\": [\"1\", \"2\"]}}\n",
        )
        .unwrap();
        let shown: Vec<_> = targets
            .all()
            .iter()
            .map(|target| {
                let Target {
                    url,
                    parts,
                    weight,
                    due_ns: _,
                    place,
                } = target;
                let fields: Vec<_> = parts
                    .fields
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                let body = String::from_utf8_lossy(&parts.body);
                format!(
                    "{place}: {} {url} {weight} {} [{body}]",
                    parts.method,
                    fields.join(",")
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "line 2: GET http://localhost:8080/one 1 host=localhost:8080 []",
                "line 3: GET http://localhost:8080/two 3 host=localhost:8080 []",
                "line 5: POST http://other/three 1 X-Id=7,Host=elsewhere [from the file]",
                "line 10: GET http://other:81/{{random 1 9}} 2 host=other:81 []",
                "line 11: PUT http://localhost:8080/four 1 host=localhost:8080,A=1,A=2 [hi]",
            ]
        );
        assert!(targets.has_weights());
    }

    #[test]
    fn a_host_that_was_asked_for_stays() {
        let mut defaults = Parts::get(&base());
        defaults.set_field("Host", "asked.for");
        let targets = Targets::parse("http://other/", Some(&base()), &defaults, &read).unwrap();
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
            (
                "/a weight=0",
                "line 1: `0` is not a weight; accepted are 1 to 1000000",
            ),
            ("/a weight=x", "line 1: `x` is not a weight"),
            ("X-Id: 7\n", "line 1: `X-Id: 7` belongs to no request"),
            ("/a\n\n@/there", "line 3: `@/there` belongs to no request"),
            ("/a\n@/nowhere/x", "line 2: cannot read /nowhere/x"),
            (
                "/a\n{\"url\": 7}",
                "line 2: `url` is 7, not text; accepted is {\"method\"",
            ),
            ("{\"method\": \"GET\"}", "line 1: `url` is missing"),
            ("{\"url\": \"/\", \"uri\": 1}", "line 1: `uri` is not known"),
            (
                "{\"url\": \"/\", \"body\": \"!\"}",
                "line 1: `body` is not base64",
            ),
            (
                "{\"url\": \"/\", \"header\": {\"a b\": \"c\"}}",
                "line 1: `a b` is not a header name",
            ),
            ("{\"url\"", "line 1: it is not a JSON object"),
        ] {
            let error = chain(&parse(text).unwrap_err());
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let none = Targets::parse("/a", None, &Parts::get(&base()), &read)
            .unwrap_err()
            .to_string();
        assert!(
            none.contains("line 1: `/a` names no host; write http://HOST/a"),
            "{none}"
        );
        let space = parse("/a b")
            .unwrap()
            .origins(Order::InTurn, &Grammar::none())
            .unwrap_err();
        assert!(
            chain(&space).contains("line 1: the path `/a b` has a space"),
            "{}",
            chain(&space)
        );
    }
}
