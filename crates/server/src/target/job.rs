//! Durable routes: a request is stored as a job and answered 202; the job's address tells its state and its result.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_jobs::{Change, Changed, Content, Job, JobError, NewJob, QueueLimits, report};
use forebay_pool::{Pool, latin1};
use serde_json::json;

use super::{
    End, Request,
    idempotency_key::idempotency_key,
    parameters::parameters,
    pending::wait_for,
    pool::{fields, first_bytes_max},
    store::{body, json as json_reply},
};
use crate::{
    auth::User,
    config::{self, PathKind, parse_duration},
    failure::Refusal,
    front::{Client, Head},
    jobs::{Jobs, RequestHead, new_id},
    reply::Reply,
};

/// Fields with what a client proves by who it is. They are not stored: the handler has the identity.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];
/// The request field that says how much later a job begins.
const DELAY: &str = "forebay-delay";
/// Longest delay: a year.
const DELAY_MAX: Duration = Duration::from_hours(365 * 24);
/// A job that somebody waits for is looked at this often, because another process may have done it.
const LOOK: Duration = Duration::from_secs(1);

/// A durable route, or the jobs of one.
#[derive(Debug)]
pub(crate) struct JobTarget {
    jobs: Arc<Jobs>,
    queue: String,
    kind: PathKind,
    limits: QueueLimits,
    pool: Pool,
    message_bytes_max: usize,
    /// Fields of requests that are not stored, in lower case.
    omitted: Vec<String>,
}

impl JobTarget {
    pub(crate) fn new(
        jobs: &Arc<Jobs>,
        queue: String,
        kind: PathKind,
        durable: &config::Durable,
        pool: Pool,
        config: &config::Config,
    ) -> Self {
        let of = &config.pools[pool.name()];
        let keys = config.auth.values().map(|auth| auth.header.clone());
        Self {
            jobs: Arc::clone(jobs),
            queue,
            kind,
            limits: QueueLimits {
                open_max: durable.open_max,
                bytes_max: durable.bytes_max,
            },
            message_bytes_max: first_bytes_max(&pool, of.message_bytes_max as usize),
            pool,
            omitted: keys.chain(CREDENTIALS.map(str::to_owned)).collect(),
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let mut reply = match (self.kind, request.head.method()) {
            (PathKind::Job, "DELETE") => self.cancel(request, client).await,
            (PathKind::Job, _) => self.tell(request, client).await,
            _ => self.accept(request, client).await,
        }?;
        // Its next state may come at any time.
        reply.headers.to_mut().push_known("cache-control", "no-store");
        Ok(reply)
    }

    /// Stores the request, and answers once it is on disk.
    async fn accept(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<Reply<'static>, End> {
        let key = idempotency_key(request.head).map_err(|what| Refusal::Field { what })?;
        let delay = delay(request.head)?;
        let body = body::read(request, client).await?;
        if self.pool.protocol().takes_whole_bodies() {
            if body.len() > self.message_bytes_max {
                let message_bytes_max = self.message_bytes_max;
                return Err(Refusal::MessageTooLarge { message_bytes_max }.into());
            }
            let checked = self.pool.check_body(&body);
            checked.map_err(|what| Refusal::Untellable { what })?;
        }
        let new = NewJob {
            id: new_id()?,
            queue: self.queue.clone(),
            subject: subject(request),
            key,
            digest: digest(request.head, &body),
            delay_ms: delay.as_millis() as u64,
            request: Content {
                head: serde_json::to_string(&self.head(request)).expect("texts become JSON"),
                body,
            },
        };
        let change = Change::Accept {
            new: Box::new(new),
            limits: self.limits,
        };
        client.before_waiting().await?;
        let changed = wait_for(self.jobs.change(change), request.deadline, client).await??;
        let Changed::Accepted(job) = changed else {
            unreachable!("a job is accepted or not")
        };
        let accepted = json!({ "id": job.id, "state": job.state });
        let mut reply = json_reply(202, accepted.to_string().into_bytes());
        let path = request.head.path();
        let path = match request.rest {
            // The path of the jobs has what stands before the rest.
            Some(rest) => path.strip_suffix(rest).unwrap_or(path),
            None => path,
        };
        let address = format!("{}/jobs/{}", path.trim_end_matches('/'), job.id);
        reply.headers.to_mut().push_known("location", &address);
        Ok(reply)
    }

    /// Responds with the state of a job; with `?wait=20s`, once it is over or that time has passed.
    async fn tell(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<Reply<'static>, End> {
        let mut wait = Duration::ZERO;
        for parameter in parameters(request.head.query(), "") {
            let parameter = parameter?;
            let duration = parse_duration(&parameter.value);
            wait = match (&*parameter.name, duration) {
                ("wait", Some(duration)) => duration,
                ("wait", None) => return Err(parameter.wrong("expected a time such as 20s").into()),
                _ => return Err(parameter.wrong("there is `wait`, a time such as 20s").into()),
            };
        }
        // Leaves time to answer before the deadline.
        let room = request.deadline.saturating_duration_since(request.arrived);
        let until = request.arrived + wait.min(room * 9 / 10);
        let id = id_of(request);
        client.before_waiting().await?;
        loop {
            let mut end = self.jobs.end_of_attempt(&id);
            let job = self.find(request, &id).await?;
            let now = Instant::now();
            if job.state.is_over() || now >= until {
                let report = report(&job, self.jobs.response(&job).await?);
                return Ok(json_reply(200, report.to_string().into_bytes()));
            }
            let next = until.min(now + LOOK);
            let ended = tokio::time::timeout_at(next.into(), end.wait());
            // The timeout ends this, and the job is looked at again.
            let _ = wait_for(ended, request.deadline, client).await?;
        }
    }

    /// Removes a job that has not begun.
    async fn cancel(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<Reply<'static>, End> {
        let id = id_of(request);
        self.find(request, &id).await?;
        let change = Change::Remove {
            id,
            even_if_over: false,
        };
        client.before_waiting().await?;
        wait_for(self.jobs.change(change), request.deadline, client).await??;
        Ok(Reply::new(204))
    }

    /// The request without its body and its credentials.
    fn head(&self, request: &Request<'_>) -> RequestHead {
        let head = request.head;
        let trace = forebay_trace::current();
        let traceparent = trace.as_ref().and_then(forebay_trace::Trace::traceparent);
        let named_hops = super::hop::named_hops(head);
        let fields = fields(
            head,
            &named_hops,
            request.id.as_bytes(),
            traceparent.map(str::as_bytes),
        );
        let identity = request.identity.get();
        RequestHead {
            method: head.method().to_owned(),
            path: latin1(head.path_bytes()),
            query: latin1(head.query()),
            pattern: request.pattern.to_owned(),
            params: request
                .params
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone().into_owned()))
                .collect(),
            headers: fields
                .filter(|(name, _)| !self.omitted.iter().any(|omitted| omitted.as_bytes() == *name))
                .map(|(name, value)| (latin1(name), latin1(value)))
                .collect(),
            peer: request.peer.to_owned(),
            id: request.id.to_owned(),
            identity: identity.map_or_else(String::new, |identity| identity.json().to_owned()),
        }
    }

    /// The job of this id, if it is of this route and this client may know of it.
    async fn find(&self, request: &Request<'_>, id: &str) -> Result<Job, Refusal> {
        let job = self.jobs.storage().find(id).await?;
        let is_its = |job: &Job| job.queue == self.queue && job.subject == subject(request);
        let id = id.to_owned();
        Ok(job.filter(is_its).ok_or(JobError::NotFound { id })?)
    }
}

/// The id in the path.
fn id_of(request: &Request<'_>) -> String {
    let last = request.params.last();
    last.map(|(_, id)| id.clone().into_owned()).unwrap_or_default()
}

/// The client, in a form that no two clients share; `None`: the route answers everybody.
fn subject(request: &Request<'_>) -> Option<String> {
    request.identity.get().map(User::key)
}

/// How much later the job is to begin.
fn delay(head: &Head) -> Result<Duration, Refusal> {
    let Some(written) = head.field(DELAY) else {
        return Ok(Duration::ZERO);
    };
    let delay = std::str::from_utf8(written).ok().and_then(parse_duration);
    delay
        .filter(|delay| *delay <= DELAY_MAX)
        .ok_or_else(|| Refusal::Field {
            what: format!(
                "`{DELAY}` is {:?}: expected a time such as 90s, 10m or 24h, at most 8760h",
                String::from_utf8_lossy(written)
            ),
        })
}

/// A digest of what a request asks for.
fn digest(head: &Head, body: &[u8]) -> String {
    let line = [head.method().as_bytes(), head.path_bytes(), head.query()].join(&b' ');
    let asked = [&*line, body].join(&b'\n');
    format!("{:032x}", forebay_store::digest(&asked))
}
