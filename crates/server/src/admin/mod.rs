//! The admin listener: health, metrics, status, and the web console. All but the console only reads; changes go through the control socket.
//! It runs on the thread that handles the server's signals, not on an I/O thread, so it answers even while those are saturated.

mod console;
pub(crate) mod http;
mod status;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use forebay_pool::Readiness;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, task::JoinSet, time::MissedTickBehavior};

use self::{
    console::Console,
    http::{Request, Response, Service},
};
pub(crate) use self::{console::History, http::Hosts};
use crate::{front::Head, metrics::exposition, server::Shared};

pub(crate) const METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const PATHS: [&str; 6] = [
    "/health/live",
    "/health/ready",
    "/health/started",
    "/metrics",
    "/openapi.json",
    "/status",
];

/// Time limit for a database's health probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The service behind the admin listener.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
    console: Console,
}

impl Admin {
    pub(crate) fn new(shared: Arc<Shared>, history: Arc<History>) -> Self {
        let console = Console::new(&shared, history);
        Self { shared, console }
    }
}

/// Keeps the history of the console until another process takes over.
pub(crate) async fn keep_history(
    shared: Arc<Shared>,
    history: Arc<History>,
    mut is_handed_over: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(console::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => history.add(&shared.facts()),
            _ = is_handed_over.wait_for(|over| *over) => return,
        }
    }
}

impl Service for Admin {
    fn body_bytes_max(&self, head: &Head) -> u64 {
        self.console.body_bytes_max(head)
    }

    fn ends_with_client(&self, request: &Request) -> bool {
        Console::ends_with_client(request)
    }

    async fn answer(&self, request: Request) -> Response {
        let shared = &self.shared;
        if Console::has(&request.path) {
            return self.console.answer(request).await;
        }
        let path = request.path.as_str();
        if !PATHS.contains(&path) {
            return Response::problem(404, &format!("there are {}, {}", console::PAGE, PATHS.join(", ")));
        }
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            return Response::not_allowed("GET, HEAD");
        }
        match path {
            "/health/live" => Response::json(200, &json!({ "live": true })),
            "/health/ready" => ready(shared).await,
            "/health/started" => started(shared).await,
            "/openapi.json" => Response::openapi(&shared.front.app().openapi()),
            "/metrics" => Response::text(METRICS_CONTENT_TYPE, exposition(&shared.facts())),
            _ => Response::json(200, &shared.status()),
        }
    }
}

/// 200 when every pool, every database, the store and the connection to the cluster can do their work; otherwise 503, with a reason for each one that cannot.
async fn ready(shared: &Shared) -> Response {
    let databases = databases(shared).await;
    let app = shared.front.app();
    let mut pools = Map::new();
    let mut ready = databases.values().all(|database| database["state"] == "ready");
    for (name, pool) in &app.pools {
        let readiness = pool.readiness();
        ready &= readiness == Readiness::Ready;
        pools.insert(
            name.clone(),
            serde_json::to_value(readiness).unwrap_or(Value::Null),
        );
    }
    let mut answer = Map::new();
    if let Some(open) = &shared.services.store {
        let failure = open.store().write_failure();
        ready &= failure.is_none();
        let state = match failure {
            None => json!({ "state": "ready" }),
            Some(reason) => json!({ "state": "failing", "reason": reason }),
        };
        answer.insert("store".to_owned(), state);
    }
    if let Some(cluster) = &shared.services.cluster {
        let absence = cluster.absence();
        ready &= absence.is_none();
        let state = match absence {
            None => json!({ "state": "ready" }),
            Some(reason) => json!({ "state": "failing", "reason": reason }),
        };
        answer.insert("cluster".to_owned(), state);
    }
    let stopping = *shared.stopping.borrow();
    ready &= !stopping;
    if ready {
        shared.has_been_ready.store(true, Ordering::Relaxed);
    }
    let status = if ready { 200 } else { 503 };
    answer.insert("ready".to_owned(), ready.into());
    answer.insert("stopping".to_owned(), stopping.into());
    answer.insert("pools".to_owned(), pools.into());
    answer.insert("databases".to_owned(), databases.into());
    Response::json(status, &Value::Object(answer))
}

/// 200 once the server has been ready, whatever its state is now; until then the same as `/health/ready`.
async fn started(shared: &Shared) -> Response {
    if !shared.has_been_ready.load(Ordering::Relaxed) {
        let now = ready(shared).await;
        if now.status != 200 {
            return now;
        }
    }
    Response::json(200, &json!({ "started": true }))
}

/// Probes all databases concurrently.
async fn databases(shared: &Shared) -> Map<String, Value> {
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let mut probes = JoinSet::new();
    for (name, source) in shared.services.sources.all() {
        probes.spawn(async move { (name, source.probe(deadline).await) });
    }
    let mut databases = Map::new();
    while let Some(probed) = probes.join_next().await {
        let Ok((name, outcome)) = probed else { continue };
        let state = match outcome {
            Ok(()) => json!({ "state": "ready" }),
            Err(error) => json!({ "state": "failing", "reason": error.to_string() }),
        };
        databases.insert(name, state);
    }
    databases
}
