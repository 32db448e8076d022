//! Releases as resources of HTTP. The control socket, routes with `api = "releases"` and commands without a server all use this one
//! implementation; it blocks on the store and on tests, so a server gives each request a thread of its own.

mod error;

use std::{sync::Arc, thread};

use forebay_workflow::{Abandoned, Actor, ReleaseService, Releases};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

use self::error::ReleaseApiError;
use super::{ActiveReleases, offline::OfflineEnvironment};
use crate::{failure::Refusal, store::now_ms, target::parameters::parameters};

/// Most requests about releases at a time; further ones get 503.
const REQUESTS_MAX: usize = 4;
/// Entries of the log in a response, unless the request says how many.
const LOG_COUNT: usize = 20;

/// A request about releases.
#[derive(Debug, Default)]
pub struct ReleaseRequest {
    /// The method; HEAD counts as GET.
    pub method: String,
    /// The path of the resource `/` as clients see it, without a slash at its end.
    pub root: String,
    /// The path below `root`: empty, or beginning with a slash.
    pub path: String,
    /// The query, as sent.
    pub query: String,
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
    /// The value of the Allow field.
    pub allow: Option<&'static str>,
    /// The path of a new release.
    pub location: Option<String>,
    /// The body; `None`: there is none.
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

/// The releases of a configuration whose workflows are in the store, as resources.
#[derive(Debug)]
pub struct ReleaseApi(ReleaseService<OfflineEnvironment>);

/// Serves releases on threads, of which there are few. What a request changes is in force when it is answered.
#[derive(Debug)]
pub(crate) struct ReleaseThreads {
    api: Arc<ReleaseApi>,
    active: Arc<ActiveReleases>,
    places: Arc<Semaphore>,
}

impl ReleaseThreads {
    pub(crate) fn new(api: ReleaseApi, active: Arc<ActiveReleases>) -> Self {
        Self {
            api: Arc::new(api),
            active,
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
        }
    }

    /// Answers a request on a thread. Dropping the future ends running tests, and then nothing is published.
    pub(crate) async fn answer(&self, request: ReleaseRequest) -> ReleaseResponse {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return ReleaseApiError::Busy { max: REQUESTS_MAX }.response();
        };
        let (api, active) = (Arc::clone(&self.api), Arc::clone(&self.active));
        let (mut sender, receiver) = oneshot::channel();
        let work = move || {
            let response = api.answer(&request, sender.closed());
            active.look();
            drop(place);
            // The client may have left.
            let _ = sender.send(response);
        };
        let thread = thread::Builder::new().name("releases".into()).spawn(work);
        let response = match thread {
            Ok(_) => receiver.await.map_err(|_| ReleaseApiError::Lost),
            Err(error) => Err(ReleaseApiError::Thread(error)),
        };
        let response = response.unwrap_or_else(ReleaseApiError::response);
        if let (500, Some(problem)) = (response.status, &response.body) {
            tracing::error!(target: "forebay::workflow", "a request about releases failed: {}", problem["detail"]);
        }
        response
    }
}

impl ReleaseApi {
    /// These releases, checked and tested with `environment`.
    pub fn new(releases: Releases, environment: OfflineEnvironment) -> Self {
        Self(ReleaseService::new(releases, environment))
    }

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
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = is_plain.then(|| text.parse().ok()).flatten();
            number.ok_or(ReleaseApiError::NoResource)
        };
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
        let by = match (&request.client, &query.by) {
            (Some(client), None) => client,
            (None, Some(by)) => by,
            (None, None) => "the control socket",
            (Some(_), Some(_)) => {
                return Err(ReleaseApiError::Malformed {
                    what: "query parameter \"by\": the author is the client that has sent the token".into(),
                });
            }
        };
        let actor = Actor { by, at_ms: now_ms() };
        match (segments, method) {
            ([], "GET") => self.0.list(),
            ([], _) => {
                let (release, body) = self.0.import(body(request)?, &actor)?;
                return Ok(ReleaseResponse {
                    location: Some(format!("{}/{release}", request.root)),
                    ..ReleaseResponse::of(201, Some(body))
                });
            }
            (["log"], _) => self.0.log(query.count),
            (["rollback"], _) => self.0.rollback(&actor),
            ([release], "GET") => self.0.describe(number(release)?),
            ([release], _) => {
                self.0.discard(number(release)?, query.former, &actor)?;
                return Ok(ReleaseResponse::of(204, None));
            }
            ([release, "files"], _) => self.0.files(number(release)?),
            ([release, "check"], _) => self.0.check(number(release)?),
            ([release, "test"], _) => self.0.test(number(release)?, abandoned),
            ([release, "publish"], _) => self
                .0
                .publish(number(release)?, &body(request)?, &actor, abandoned),
            ([release, _], _) => self.0.set_state(number(release)?, body(request)?, &actor),
            _ => return Err(ReleaseApiError::NoResource),
        }
        .map(|body| ReleaseResponse::of(200, Some(body)))
        .map_err(ReleaseApiError::from)
    }
}

/// Parameters of the query.
struct Query {
    by: Option<String>,
    former: bool,
    count: usize,
}

impl Query {
    /// Reads parameters with these names.
    fn read(request: &ReleaseRequest, names: &[&str]) -> Result<Self, ReleaseApiError> {
        let mut query = Self {
            by: None,
            former: false,
            count: LOG_COUNT,
        };
        for parameter in parameters(request.query.as_bytes(), "") {
            let parameter = parameter?;
            match &*parameter.name {
                name if !names.contains(&name) => {
                    return Err(parameter.wrong("this resource has no such parameter").into());
                }
                "former" => query.former = parameter.flag()?,
                "count" => {
                    let count = parameter.number();
                    query.count = count.ok_or_else(|| parameter.wrong("it is a number of entries"))?;
                }
                _ => query.by = Some(parameter.value.into_owned()),
            }
        }
        Ok(query)
    }
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

impl From<Refusal> for ReleaseApiError {
    /// A parameter that cannot be read.
    fn from(refusal: Refusal) -> Self {
        Self::Malformed {
            what: refusal.to_string(),
        }
    }
}
