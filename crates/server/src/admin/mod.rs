//! The admin listener: health, metrics and status. It only reads; what changes something goes through the control socket.
//! It is served by the thread that runs the server's signals, not by an I/O thread, so that it answers while those are saturated.

pub(crate) mod http;
mod status;

use std::sync::Arc;

use forebay_pool::Readiness;
use serde_json::{Map, Value, json};

use self::http::{Request, Response, Service};
use crate::{metrics::exposition, server::Shared};

const METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers on the admin listener.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
}

impl Admin {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Service for Admin {
    async fn answer(&self, request: Request) -> Response {
        let answer: fn(&Shared) -> Response = match request.path.as_str() {
            "/health/live" => |_| Response::json(200, &json!({ "live": true })),
            "/health/ready" => ready,
            "/metrics" => |shared| Response::text(METRICS_CONTENT_TYPE, exposition(&shared.facts())),
            "/status" => |shared| Response::json(200, &shared.status()),
            _ => {
                return Response::problem(404, "there are /health/live, /health/ready, /metrics and /status");
            }
        };
        match request.method.as_str() {
            "GET" | "HEAD" => answer(&self.shared),
            _ => Response::not_allowed("GET, HEAD"),
        }
    }
}

/// 200 when every pool and the store can do their work, else 503 with what each that cannot says.
fn ready(shared: &Shared) -> Response {
    let app = shared.front.app();
    let mut pools = Map::new();
    let mut ready = true;
    for (name, pool) in &app.pools {
        let readiness = pool.readiness();
        ready &= readiness == Readiness::Ready;
        pools.insert(
            name.clone(),
            serde_json::to_value(readiness).unwrap_or(Value::Null),
        );
    }
    let mut answer = Map::new();
    if let Some(open) = &shared.ground.store {
        let failure = open.store().flush_failure();
        ready &= failure.is_none();
        let state = match failure {
            None => json!({ "state": "ready" }),
            Some(reason) => json!({ "state": "failing", "reason": reason }),
        };
        answer.insert("store".to_owned(), state);
    }
    let stopping = *shared.stopping.borrow();
    ready &= !stopping;
    let status = if ready { 200 } else { 503 };
    answer.insert("ready".to_owned(), ready.into());
    answer.insert("stopping".to_owned(), stopping.into());
    answer.insert("pools".to_owned(), pools.into());
    Response::json(status, &Value::Object(answer))
}
