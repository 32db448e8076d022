//! `/jobs` of the control socket: durable jobs are listed, shown, retried and removed.

use forebay_jobs::{Change, JobError, JobState, listed};
use forebay_router::decode;
use serde_json::{Value, json};

use super::Control;
use crate::{
    admin::http::{Request, Response},
    failure::Refusal,
    jobs::Jobs,
};

/// Jobs in a list without `limit`, and at most.
const LISTED: usize = 100;
const LISTED_MAX: usize = 10_000;

impl Control {
    /// `path` is what follows `/jobs`.
    pub(super) async fn jobs(&self, path: &[&str], request: &Request) -> Response {
        let Some(jobs) = &self.shared.services.jobs else {
            return Response::problem(
                404,
                "there are no jobs: the configuration has neither [store] nor cluster.job_replicas",
            );
        };
        let answer = match (path, request.method.as_str()) {
            ([], "GET") => match Query::of(request) {
                Ok(query) => query.list(jobs).await,
                Err(refusal) => Err(refusal),
            },
            ([id], "GET") => show(jobs, id).await,
            ([id], "DELETE") => {
                let remove = Change::Remove {
                    id: (*id).to_owned(),
                    even_if_over: true,
                };
                jobs.change(remove).await.map(|_| json!({ "removed": true }))
            }
            ([id, "retry"], "POST") => {
                let id = (*id).to_owned();
                jobs.change(Change::Retry { id })
                    .await
                    .map(|_| json!({ "retried": true }))
            }
            ([], _) => return Response::not_allowed("GET"),
            ([_], _) => return Response::not_allowed("DELETE, GET"),
            _ => return Response::not_allowed("POST"),
        };
        match answer {
            Ok(value) => Response::json(200, &value),
            Err(refusal) => {
                refusal.log("");
                Response::problem(refusal.status(), &refusal.to_string())
            }
        }
    }
}

fn wrong(what: impl Into<String>) -> Refusal {
    Refusal::Field { what: what.into() }
}

/// Which jobs are listed.
struct Query {
    states: Vec<JobState>,
    route: Option<String>,
    limit: usize,
}

impl Query {
    fn of(request: &Request) -> Result<Self, Refusal> {
        let states = match request.parameter("state") {
            None => JobState::ALL.to_vec(),
            Some(name) => {
                let state = JobState::ALL.into_iter().find(|state| state.name() == name);
                let names = JobState::ALL.map(JobState::name).join(", ");
                vec![state.ok_or_else(|| wrong(format!("state: expected one of {names}")))?]
            }
        };
        let limit = match request.parameter("limit").map(str::parse::<usize>) {
            None => LISTED,
            Some(Ok(limit)) if limit <= LISTED_MAX => limit,
            Some(_) => return Err(wrong(format!("limit: expected a number up to {LISTED_MAX}"))),
        };
        let route = request.parameter("route");
        let route = route.map(|name| decode(name).unwrap_or(name.into()).into_owned());
        Ok(Self { states, route, limit })
    }

    async fn list(&self, jobs: &Jobs) -> Result<Value, Refusal> {
        let found = jobs
            .storage()
            .list(&self.states, self.route.as_deref(), self.limit)
            .await?;
        let found: Vec<Value> = found.iter().map(listed).collect();
        let next_times = jobs.next_times().into_iter().map(|(route, schedule, next_ms)| {
            let (expression, zone) = (schedule.expression.to_string(), schedule.zone.to_string());
            json!({ "route": route, "schedule": expression, "timeZone": zone, "nextMs": next_ms })
        });
        Ok(json!({ "jobs": found, "schedules": next_times.collect::<Vec<_>>() }))
    }
}

async fn show(jobs: &Jobs, id: &str) -> Result<Value, Refusal> {
    let missing = || JobError::NotFound { id: id.to_owned() };
    let job = jobs.storage().find(id).await?.ok_or_else(missing)?;
    let request = jobs.storage().request(id).await?;
    Ok(forebay_jobs::shown(&job, request, jobs.response(&job).await?))
}
