//! The control socket: commands to a running server, as HTTP with JSON bodies over a Unix socket that only the server's user can open.

mod jobs;

use std::{borrow::Cow, collections::BTreeSet, str::FromStr, sync::Arc, time::Duration};

use forebay_pool::Pool;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tracing::Level;

use crate::{
    admin::{
        METRICS_CONTENT_TYPE,
        http::{BODY_BYTES_MAX, Events, Follow, Request, Response, Service},
    },
    config::{At, Route, Target},
    failure,
    front::Head,
    metrics::{exposition, name_of},
    profiles::{NoProfile, PROFILE_MAX},
    reload::ReloadError,
    server::Shared,
    target::workflow::ReleaseRequest,
    traces::{self, RUN_MAX, TICKET_AGE_MAX, TraceUnavailable},
    upgrade::{UpgradeError, Upgraded},
};
use forebay_router::decode;

/// Most workers that a pool may have, as in the configuration.
const WORKERS_MAX: u64 = 1024;
/// Most clients following the log at once. Fewer than the connections served, so that commands always get through.
const FOLLOWERS_MAX: usize = 16;

/// The path of the releases of workflows.
const RELEASES: &str = "/releases";
/// Most bytes of a new release as JSON.
const DRAFT_BYTES_MAX: u64 = 128 << 20;

/// Handles requests on the control socket.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    shared: Arc<Shared>,
    followers: Arc<Semaphore>,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
        }
    }
}

impl Service for Control {
    fn body_bytes_max(&self, head: &Head) -> u64 {
        match (head.method(), head.path()) {
            ("POST", "/releases" | "/releases/") => DRAFT_BYTES_MAX,
            _ => BODY_BYTES_MAX,
        }
    }

    fn ends_with_client(&self, request: &Request) -> bool {
        request.path == "/profiles" || request.path.starts_with("/releases/")
    }

    async fn answer(&self, request: Request) -> Response {
        let segments: Vec<&str> = request.path.split('/').skip(1).collect();
        match (segments.as_slice(), request.method.as_str()) {
            (["status"], "GET") => Response::json(200, &self.shared.status()),
            (["metrics"], "GET") => Response::text(METRICS_CONTENT_TYPE, exposition(&self.shared.facts())),
            (["logs"], "GET") => self.logs(&request),
            (["reload"], "POST") => self.reload().await,
            (["upgrade"], "POST") => self.upgrade().await,
            (["stop"], "POST") => self.stop(),
            (["log", "level"], "PUT") => either(self.set_level(&request)),
            (["pools", pool, "resize"], "POST") => either(self.resize(pool, &request)),
            (["cache", "purge"], "POST") => either(self.purge(&request)),
            (["traces"], "POST") => self.admit(),
            (["traces", token], "GET") => self.trace(token),
            (["samples"], "POST") => either(self.sample(&request)),
            (["samples", run], "GET") => self.sampled(run),
            (["profiles"], "POST") => either(self.profile(&request).await),
            (["releases", ..], _) => self.releases(request).await,
            (["jobs", path @ ..], _) => self.jobs(path, &request).await,
            (["status" | "metrics" | "logs"] | ["traces" | "samples", _], _) => Response::not_allowed("GET"),
            (
                ["reload" | "upgrade" | "stop" | "traces" | "samples" | "profiles"]
                | ["pools", _, "resize"]
                | ["cache", "purge"],
                _,
            ) => Response::not_allowed("POST"),
            (["log", "level"], _) => Response::not_allowed("PUT"),
            _ => Response::problem(
                404,
                "there are GET /status, GET /metrics, GET /logs, POST /reload, POST /upgrade, POST /stop, PUT /log/level, POST /pools/NAME/resize, POST /cache/purge, POST /traces, GET /traces/TOKEN, POST /samples, GET /samples/RUN, POST /profiles and what is below /jobs and /releases",
            ),
        }
    }
}

impl Control {
    async fn reload(&self) -> Response {
        match self.shared.reload("the control socket").await {
            Ok(reloaded) => Response::json(
                200,
                &json!({ "generation": reloaded.generation, "took_ms": reloaded.took.as_millis() as u64 }),
            ),
            Err(error) => {
                let status = match error {
                    ReloadError::Stopping => 409,
                    ReloadError::Load(_)
                    | ReloadError::Fixed { .. }
                    | ReloadError::Build(_)
                    | ReloadError::Pools(_) => 422,
                };
                Response::problem(status, &error.with_causes())
            }
        }
    }

    async fn upgrade(&self) -> Response {
        match self.shared.upgrade("the control socket").await {
            Ok(Upgraded { pid, took }) => {
                Response::json(200, &json!({ "pid": pid, "took_ms": took.as_millis() as u64 }))
            }
            Err(error) => {
                let status = match error {
                    UpgradeError::Busy { .. } | UpgradeError::Stopping | UpgradeError::FirstProcess => 409,
                    UpgradeError::Start { .. }
                    | UpgradeError::Pass { .. }
                    | UpgradeError::Refused { .. }
                    | UpgradeError::Ended { .. }
                    | UpgradeError::Late { .. } => 422,
                };
                Response::problem(status, &failure::with_causes(&error))
            }
        }
    }

    async fn releases(&self, request: Request) -> Response {
        // Do not keep the app itself: a reload waits until it is released.
        let app = self.shared.front.app();
        let releases = app
            .workflow
            .as_ref()
            .and_then(|workflow| workflow.releases_api().cloned());
        drop(app);
        let Some(releases) = releases else {
            return Response::problem(
                404,
                "there are no releases: `store` under [workflow] names the global for them",
            );
        };
        let path = request.path.strip_prefix(RELEASES).unwrap_or_default().to_owned();
        let request = ReleaseRequest {
            method: request.method,
            root: RELEASES.to_owned(),
            path,
            query: request.query,
            body: request.body,
            client: None,
        };
        Response::of_releases(releases.answer(request).await)
    }

    fn stop(&self) -> Response {
        tracing::info!(target: "forebay::server", "the control socket asks the server to stop");
        self.shared.stopping.send_replace(true);
        Response::json(202, &json!({ "stopping": true }))
    }

    fn set_level(&self, request: &Request) -> Result<Response, Response> {
        let [Some(Value::String(level))] = members(request, &["level"])? else {
            return Err(Response::problem(400, "expected {\"level\": \"info\"}"));
        };
        let set = self.shared.services.log.set_level(&level);
        set.map_err(|error| Response::problem(400, &format!("level: {error}")))?;
        Ok(Response::json(200, &json!({ "level": level })))
    }

    fn resize(&self, name: &str, request: &Request) -> Result<Response, Response> {
        let app = self.shared.front.app();
        let Some(pool) = app.pools.get(name) else {
            let names: Vec<&str> = app.pools.keys().map(String::as_str).collect();
            let problem = format!("there is no pool `{name}`; there are: {}", names.join(", "));
            return Err(Response::problem(404, &problem));
        };
        if app.config.pools[name].at == At::Cluster {
            let problem =
                format!("the workers of pool `{name}` are hosts of the cluster: resize it on each of them");
            return Err(Response::problem(409, &problem));
        }
        let size = size(&members(request, &["workers", "min", "max"])?);
        let (min, max) = size.map_err(|problem| Response::problem(400, &problem))?;
        pool.resize(min, max);
        tracing::info!(target: "forebay::pool", pool = name, min, max, "pool resized");
        Ok(Response::json(
            200,
            &json!({ "pool": name, "workers_min": min, "workers_max": max }),
        ))
    }

    fn purge(&self, request: &Request) -> Result<Response, Response> {
        let wrong = || {
            let expected = "expected {\"policy\": \"NAME\", \"path\": \"/path\"}, both optional; a path that ends in `*` is all that begin so";
            Response::problem(400, expected)
        };
        let [
            policy @ (None | Some(Value::Null | Value::String(_))),
            path @ (None | Some(Value::Null | Value::String(_))),
        ] = members(request, &["policy", "path"])?
        else {
            return Err(wrong());
        };
        let path = path.as_ref().and_then(Value::as_str);
        if path.is_some_and(|path| !path.starts_with('/')) {
            return Err(wrong());
        }
        let app = self.shared.front.app();
        let wanted = policy.as_ref().and_then(Value::as_str);
        let of_policy = app
            .caches
            .iter()
            .filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
        let of_policy: Vec<_> = of_policy.map(|(_, cache)| cache).collect();
        if of_policy.is_empty() {
            let names: Vec<&str> = app.caches.keys().map(String::as_str).collect();
            let problem = match (wanted, names.join(", ")) {
                (Some(wanted), names) if !names.is_empty() => {
                    format!("policy `{wanted}` has no cache; these have one: {names}")
                }
                _ => "no policy has a cache (`cache` in [policy.NAME])".to_owned(),
            };
            return Err(Response::problem(404, &problem));
        }
        let purged: usize = of_policy.iter().map(|cache| cache.purge(path)).sum();
        tracing::info!(target: "forebay::server", policy = wanted, path, purged, "cache purged");
        Ok(Response::json(200, &json!({ "purged": purged })))
    }

    fn admit(&self) -> Response {
        match self.shared.services.traces.admit() {
            Ok(token) => Response::json(
                200,
                &json!({ "token": token, "header": traces::HEADER, "valid_ms": TICKET_AGE_MAX.as_millis() as u64 }),
            ),
            Err(error) => Response::problem(500, &format!("the system has no random bytes: {error}")),
        }
    }

    fn trace(&self, token: &str) -> Response {
        match self.shared.services.traces.take(token) {
            Ok(told) => Response::written(&told),
            Err(TraceUnavailable::NotYet) => Response::json(202, &json!({ "over": false })),
            Err(TraceUnavailable::Unknown) => {
                Response::problem(404, "no such token: each is told of once, within a minute")
            }
        }
    }

    fn sample(&self, request: &Request) -> Result<Response, Response> {
        let wrong = || {
            let expected = "expected {\"for_ms\": N, \"route\": \"/path\"}, 1 <= N <=";
            Response::problem(
                400,
                &format!("{expected} {}, route optional", RUN_MAX.as_millis()),
            )
        };
        let (route, ms) = match members(request, &["route", "for_ms"])? {
            [None | Some(Value::Null), Some(ms)] => (None, ms),
            [Some(Value::String(route)), Some(ms)] => (Some(route), ms),
            _ => return Err(wrong()),
        };
        let time = time_of(&ms, RUN_MAX).ok_or_else(wrong)?;
        if let Some(route) = &route {
            self.routes(route)?;
        }
        Ok(match self.shared.services.traces.sample(route, time) {
            Some(run) => Response::json(200, &json!({ "run": run })),
            None => Response::problem(409, "requests are already being sampled for another client"),
        })
    }

    /// The routes with this name or path, with their names in metrics; never empty.
    fn routes(&self, wanted: &str) -> Result<Vec<(String, Target)>, Response> {
        let app = self.shared.front.app();
        let named: Vec<(String, &Route)> = app
            .config
            .routes
            .iter()
            .map(|route| (name_of(route), route))
            .collect();
        let found: Vec<(String, Target)> = named
            .iter()
            .filter(|(name, route)| name == wanted || route.path == wanted)
            .map(|(name, route)| (name.clone(), route.target.clone()))
            .collect();
        if found.is_empty() {
            let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
            let problem = format!("there is no route `{wanted}`; there are: {}", names.join(", "));
            return Err(Response::problem(404, &problem));
        }
        Ok(found)
    }

    async fn profile(&self, request: &Request) -> Result<Response, Response> {
        let wrong = || {
            let expected = "expected {\"for_ms\": N, \"route\": \"/path\"}, 1 <= N <=";
            Response::problem(400, &format!("{expected} {}", PROFILE_MAX.as_millis()))
        };
        let [Some(Value::String(route)), Some(ms)] = members(request, &["route", "for_ms"])? else {
            return Err(wrong());
        };
        let time = time_of(&ms, PROFILE_MAX).ok_or_else(wrong)?;
        let routes = self.routes(&route)?;
        let pools: BTreeSet<&str> = routes
            .iter()
            .filter_map(|(_, target)| match target {
                Target::Pool(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        // Do not keep the app itself: a reload waits until it is released.
        let app = self.shared.front.app();
        let pools: Vec<Pool> = pools
            .iter()
            .filter_map(|name| app.pools.get(*name).cloned())
            .collect();
        drop(app);
        let names: Vec<&str> = routes.iter().map(|(name, _)| name.as_str()).collect();
        match self.shared.services.profiles.take(time, pools).await {
            Ok(mut told) => {
                told["routes"] = json!(names);
                Ok(Response::json(200, &told))
            }
            Err(busy @ NoProfile::Busy) => Err(Response::problem(409, &busy.to_string())),
            Err(failed) => Err(Response::problem(500, &failed.to_string())),
        }
    }

    fn sampled(&self, run: &str) -> Response {
        let sampled = run.parse().map_err(|_| TraceUnavailable::Unknown);
        match sampled.and_then(|run| self.shared.services.traces.sampled(run)) {
            Ok(sampled) => Response::written(&sampled),
            Err(_) => Response::problem(
                404,
                "no such run: each is told of once, and the next one takes its place",
            ),
        }
    }

    fn logs(&self, request: &Request) -> Response {
        let level = match request.parameter("level").map(Level::from_str) {
            None => Level::TRACE,
            Some(Ok(level)) => level,
            Some(Err(_)) => {
                return Response::problem(400, "level: expected one of error, warn, info, debug, trace");
            }
        };
        let follow = match request.parameter("follow") {
            None | Some("false" | "0") => false,
            Some("" | "true" | "1") => true,
            Some(_) => return Response::problem(400, "follow: expected true or false"),
        };
        let Ok(place) = follow
            .then(|| self.followers.clone().try_acquire_owned())
            .transpose()
        else {
            return Response::problem(
                503,
                &format!("too many clients follow the log (at most {FOLLOWERS_MAX})"),
            );
        };
        let workflow = request
            .parameter("workflow")
            .map(|name| decode(name).map_or_else(|| name.to_owned(), Cow::into_owned));
        let logs = self.shared.services.workflow_logs.lock().clone();
        let (past, feed) = match (&workflow, logs) {
            (None, _) => self.shared.services.log.recent().look(),
            (Some(workflow), Some(logs)) => logs.recent(workflow).look(),
            (Some(_), None) => {
                return Response::problem(
                    409,
                    "workflows keep no log: `workflow.logs` names the folder for it",
                );
            }
        };
        Response::events(Events {
            level,
            past,
            follow: place.map(|place| Follow { feed, _place: place }),
        })
    }
}

/// The response, or that to a request that was wrong.
fn either(response: Result<Response, Response>) -> Response {
    response.unwrap_or_else(|problem| problem)
}

/// The members of a JSON object that may have no others.
fn members<const N: usize>(request: &Request, names: &[&str; N]) -> Result<[Option<Value>; N], Response> {
    let expected = format!("expected a JSON object with {}", names.join(", "));
    let Ok(Value::Object(mut object)) = serde_json::from_slice(&request.body) else {
        return Err(Response::problem(400, &expected));
    };
    let found = names.map(|name| object.remove(name));
    match object.keys().next() {
        Some(other) => Err(Response::problem(400, &format!("{expected}; found `{other}`"))),
        None => Ok(found),
    }
}

/// A time in milliseconds, more than none and at most `max`.
fn time_of(ms: &Value, max: Duration) -> Option<Duration> {
    let time = ms.as_u64().map(Duration::from_millis);
    time.filter(|time| !time.is_zero() && *time <= max)
}

/// The range of workers in a request.
fn size(numbers: &[Option<Value>; 3]) -> Result<(usize, usize), String> {
    let (min, max) = match numbers {
        [Some(workers), None, None] => (workers, workers),
        [None, Some(min), Some(max)] => (min, max),
        _ => return Err("expected either {\"workers\": N} or {\"min\": N, \"max\": N}".into()),
    };
    match (min.as_u64(), max.as_u64()) {
        (Some(min), Some(max)) if min <= max && (1..=WORKERS_MAX).contains(&max) => {
            Ok((min as usize, max as usize))
        }
        _ => Err(format!(
            "found min {min} and max {max}, expected 0 <= min <= max and 1 <= max <= {WORKERS_MAX}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str) -> Request {
        Request {
            method: "POST".into(),
            path: "/".into(),
            query: String::new(),
            body: body.into(),
            ..Request::default()
        }
    }

    fn sized(body: &str) -> Result<(usize, usize), String> {
        let numbers = members(&request(body), &["workers", "min", "max"]);
        size(&numbers.expect("an object with these members"))
    }

    #[test]
    fn the_number_of_followers_is_the_documented_one() {
        let document = include_str!("../../../docs/reference/admin.md");
        let bound = format!("{FOLLOWERS_MAX} clients at a time follow the log, a further one gets 503");
        assert!(document.contains(&bound));
    }

    #[test]
    fn a_size_is_one_number_or_a_range() {
        assert_eq!(sized("{\"workers\": 3}"), Ok((3, 3)));
        assert_eq!(sized("{\"min\": 0, \"max\": 1024}"), Ok((0, 1024)));
        for (body, found) in [
            ("{\"workers\": 0}", "found min 0 and max 0"),
            ("{\"min\": 3, \"max\": 2}", "found min 3 and max 2"),
            ("{\"workers\": 1025}", "found min 1025 and max 1025"),
            ("{\"workers\": \"3\"}", "found min \"3\" and max \"3\""),
        ] {
            let expected = format!("{found}, expected 0 <= min <= max and 1 <= max <= 1024");
            assert_eq!(sized(body), Err(expected), "{body}");
        }
        let which = "expected either {\"workers\": N} or {\"min\": N, \"max\": N}";
        assert_eq!(sized("{\"workers\": 1, \"max\": 2}"), Err(which.into()));
        assert_eq!(sized("{}"), Err(which.into()));
    }
}
