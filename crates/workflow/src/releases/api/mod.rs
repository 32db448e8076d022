//! Releases as resources, with methods, paths and JSON bodies. A control socket, routes and commands without a server all use this one
//! implementation; it blocks on the storage and on tests, so a server gives each request a thread of its own ([`ReleaseThreads`]).

mod error;
mod service;
mod threads;

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::{error::ReleaseApiError, service::Abandoned};
pub use self::{
    service::{ReleaseEnvironment, ReleaseService, percent_of},
    threads::ReleaseThreads,
};
use crate::{Actor, runner::now_ms};

/// Entries of the log in a response, unless the request says how many.
const LOG_COUNT: usize = 20;

/// A request about releases.
#[derive(Debug)]
pub struct ReleaseRequest {
    /// The method; HEAD counts as GET.
    pub method: String,
    /// The path of the resource `/` as clients see it, without a slash at its end.
    pub root: String,
    /// The path below `root`: empty, or beginning with a slash.
    pub path: String,
    /// The decoded parameters of the query, or why they cannot be decoded.
    pub parameters: Result<Vec<(String, String)>, String>,
    /// JSON, or empty.
    pub body: Vec<u8>,
    /// The authenticated client, who is the author of what it changes. `None`: the parameter `by` names the author.
    pub client: Option<String>,
}

/// The response to a request about releases.
#[derive(Debug)]
pub struct ReleaseResponse {
    /// The status code of HTTP.
    pub status: u16,
    /// The methods of the resource, if the response is about them.
    pub allow: Option<&'static str>,
    /// The path of a new release.
    pub location: Option<String>,
    /// The body; `None`: there is none. That of an error has members of problem details (RFC 9457): `status`, `detail`, and `code` for
    /// programs.
    pub body: Option<Value>,
}

impl ReleaseResponse {
    fn of(status: u16, body: Option<Value>) -> Self {
        Self {
            status,
            allow: None,
            location: None,
            body,
        }
    }
}

impl<C: ReleaseEnvironment> ReleaseService<C> {
    /// Answers a request. When `abandoned` completes, running tests end, and then nothing is published.
    pub fn answer(&self, request: &ReleaseRequest, abandoned: impl Future<Output = ()>) -> ReleaseResponse {
        let answer = self.dispatch(request, Box::pin(abandoned));
        answer.unwrap_or_else(ReleaseApiError::response)
    }

    fn dispatch(
        &self,
        request: &ReleaseRequest,
        abandoned: Abandoned<'_>,
    ) -> Result<ReleaseResponse, ReleaseApiError> {
        let segments: Vec<&str> = request.path.split('/').skip(1).collect();
        let segments: &[&str] = if segments == [""] { &[] } else { &segments };
        let number = |text: &str| number_of(text).ok_or(ReleaseApiError::NoResource);
        let method = if request.method == "HEAD" {
            "GET"
        } else {
            &*request.method
        };
        let allow = match segments {
            [] => "GET, HEAD, OPTIONS, POST",
            ["log"] | [_, "files" | "check"] => "GET, HEAD, OPTIONS",
            ["rollback"] | [_, "test" | "publish"] => "OPTIONS, POST",
            [_, "state"] => "OPTIONS, PUT",
            [_] => "DELETE, GET, HEAD, OPTIONS",
            _ => return Err(ReleaseApiError::NoResource),
        };
        if method == "OPTIONS" {
            return Ok(ReleaseResponse {
                allow: Some(allow),
                ..ReleaseResponse::of(204, None)
            });
        }
        if !allow.split(", ").any(|allowed| allowed == method) {
            return Err(ReleaseApiError::Method { allow });
        }
        let names: &[&str] = match (segments, method) {
            (["log"], _) => &["count"],
            ([_], "DELETE") => &["by", "former"],
            (_, "GET") | ([_, "test"], _) => &[],
            _ => &["by"],
        };
        let query = Query::read(request, names)?;
        let by = match (&request.client, query.by) {
            (Some(client), None) => client.as_str(),
            (None, Some(by)) => by,
            (None, None) => "the control socket",
            (Some(_), Some(_)) => {
                return Err(wrong("by", "the author is the client that has sent the token"));
            }
        };
        let actor = Actor { by, at_ms: now_ms() };
        match (segments, method) {
            ([], "GET") => self.list(),
            ([], _) => {
                let (release, body) = self.import(body(request)?, &actor)?;
                return Ok(ReleaseResponse {
                    location: Some(format!("{}/{release}", request.root)),
                    ..ReleaseResponse::of(201, Some(body))
                });
            }
            (["log"], _) => self.log(query.count),
            (["rollback"], _) => self.rollback(&actor),
            ([release], "GET") => self.describe(number(release)?),
            ([release], _) => {
                self.discard(number(release)?, query.former, &actor)?;
                return Ok(ReleaseResponse::of(204, None));
            }
            ([release, "files"], _) => self.files(number(release)?),
            ([release, "check"], _) => self.check(number(release)?),
            ([release, "test"], _) => self.test(number(release)?, abandoned),
            ([release, "publish"], _) => self.publish(number(release)?, &body(request)?, &actor, abandoned),
            ([release, _], _) => self.set_state(number(release)?, body(request)?, &actor),
            _ => Err(ReleaseApiError::NoResource),
        }
        .map(|body| ReleaseResponse::of(200, Some(body)))
    }
}

/// Parameters of the query.
struct Query<'r> {
    by: Option<&'r str>,
    former: bool,
    count: usize,
}

impl<'r> Query<'r> {
    /// Reads parameters with these names.
    fn read(request: &'r ReleaseRequest, names: &[&str]) -> Result<Self, ReleaseApiError> {
        let mut query = Self {
            by: None,
            former: false,
            count: LOG_COUNT,
        };
        let parameters = request.parameters.as_ref();
        let parameters = parameters.map_err(|what| ReleaseApiError::Malformed { what: what.clone() })?;
        for (name, value) in parameters {
            match &**name {
                name if !names.contains(&name) => {
                    return Err(wrong(name, "this resource has no such parameter"));
                }
                "former" => {
                    query.former = match &**value {
                        "" | "true" => true,
                        "false" => false,
                        _ => return Err(wrong(name, "it is `true`, `false` or without a value")),
                    }
                }
                "count" => {
                    let count = number_of(value);
                    query.count = count.ok_or_else(|| wrong(name, "it is a number of entries"))?;
                }
                _ => query.by = Some(value),
            }
        }
        Ok(query)
    }
}

/// The error for an invalid parameter.
fn wrong(name: &str, what: &str) -> ReleaseApiError {
    let what = format!("query parameter {name:?}: {what}");
    ReleaseApiError::Malformed { what }
}

/// A whole number; digits only.
fn number_of<N: FromStr>(text: &str) -> Option<N> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// The body as JSON of a known form; without a body, an empty object.
fn body<T: DeserializeOwned>(request: &ReleaseRequest) -> Result<T, ReleaseApiError> {
    let text: &[u8] = if request.body.is_empty() {
        b"{}"
    } else {
        &request.body
    };
    serde_json::from_slice(text).map_err(|error| ReleaseApiError::Malformed {
        what: format!("body: {error}"),
    })
}
