//! `jobs`: durable jobs of the running server, or of a store that programs use.

use std::path::PathBuf;

use anyhow::Context as _;
use forebay_jobs::{Change, JobError, JobState, find, listed, request, response, shown};
use forebay_store::{Store, now_ms};
use serde_json::{Value, json};

use super::{
    status::table::Table,
    store::{Data, timestamp},
};
use crate::{
    control::{Control, Which, put_encoded},
    failure::UsageError,
    output,
};

/// Most jobs that one command retries.
const RETRIED_MAX: usize = 10_000;

/// Whose jobs.
#[derive(Debug, clap::Args)]
struct Place {
    #[command(flatten)]
    which: Which,
    /// Those of the store in this folder, or of the database with this URL, whether or not a server or a program runs them. Example: --data shop/data
    #[arg(long, value_name = "DIR", conflicts_with = "socket")]
    data: Option<PathBuf>,
}

/// List, show, retry and remove durable jobs: those of the running server, or with `--data` those of a store
#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List jobs: those that are next first, then running ones, then those that are over, the latest first; and the next times of schedules
    List {
        /// Only those of a state: waiting, running, retrying, done or failed. Example: forebay jobs list --state failed
        #[arg(long, value_parser = ["waiting", "running", "retrying", "done", "failed"])]
        state: Option<String>,
        /// Only those of a route, by its name in `forebay status`, or of the queue of a program. Example: --route 'POST /mails'
        #[arg(long)]
        route: Option<String>,
        /// Most jobs. Example: --limit 1000
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// One JSON object for programs. Example: forebay jobs list --json | jq '.jobs[].id'
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Show a job with its request and its response, as JSON
    Show {
        /// The id of the job. Example: forebay jobs show 0193a1b2c3d4000000000000000000aa
        id: String,
        #[command(flatten)]
        place: Place,
    },
    /// Have jobs begin now that have failed, or that wait for their time, with all their attempts before them
    Retry {
        /// Ids of jobs. Example: forebay jobs retry 0193a1b2c3d4000000000000000000aa
        #[arg(value_name = "ID", required_unless_present = "failed")]
        ids: Vec<String>,
        /// All that have failed. Example: forebay jobs retry --failed
        #[arg(long, conflicts_with = "ids")]
        failed: bool,
        /// With `--failed`, only those of a route. Example: --route 'POST /mails'
        #[arg(long, requires = "failed")]
        route: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Remove jobs that are not running, with their results
    Drop {
        /// Ids of jobs. Example: forebay jobs drop 0193a1b2c3d4000000000000000000aa
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
}

pub(crate) fn run(arguments: &JobsArgs) -> anyhow::Result<()> {
    match &arguments.command {
        Command::List {
            state,
            route,
            limit,
            json,
            place,
        } => {
            let found = Jobs::of(place)?.list(state.as_deref(), route.as_deref(), *limit)?;
            if *json {
                return Ok(output::line(&found.to_string())?);
            }
            Ok(output::whole(&(table(&found) + &schedules(&found)))?)
        }
        Command::Show { id, place } => {
            let job = Jobs::of(place)?.show(id)?;
            Ok(output::line(&serde_json::to_string_pretty(&job)?)?)
        }
        Command::Retry {
            ids,
            failed,
            route,
            place,
        } => {
            let jobs = Jobs::of(place)?;
            let ids = if *failed {
                let found = jobs.list(Some("failed"), route.as_deref(), RETRIED_MAX)?;
                of(&found).map(|job| text(&job["id"])).collect()
            } else {
                ids.clone()
            };
            for id in &ids {
                jobs.retry(id)?;
            }
            Ok(output::line(&format!("jobs that begin again: {}", ids.len()))?)
        }
        Command::Drop { ids, place } => {
            let jobs = Jobs::of(place)?;
            for id in ids {
                jobs.remove(id)?;
            }
            Ok(output::line(&format!("jobs removed: {}", ids.len()))?)
        }
    }
}

/// Where jobs are.
enum Jobs {
    Server(Control),
    Store(Store),
}

impl Jobs {
    fn of(place: &Place) -> anyhow::Result<Self> {
        Ok(match &place.data {
            Some(data) => Self::Store(Data::of(data.clone()).write()?),
            None => Self::Server(Control::of(&place.which)?),
        })
    }

    fn list(&self, state: Option<&str>, route: Option<&str>, limit: usize) -> anyhow::Result<Value> {
        if limit > RETRIED_MAX {
            return Err(UsageError(format!("--limit {limit}: at most {RETRIED_MAX}")).into());
        }
        match self {
            Self::Server(control) => {
                let mut target = format!("/jobs?limit={limit}");
                for (name, value) in [("state", state), ("route", route)] {
                    if let Some(value) = value {
                        target.extend(["&", name, "="]);
                        put_encoded(value, &mut target);
                    }
                }
                ask(control, "GET", &target)
            }
            Self::Store(store) => {
                let states = JobState::ALL.into_iter();
                let states: Vec<_> = states
                    .filter(|one| state.is_none_or(|name| one.name() == name))
                    .collect();
                let jobs = forebay_jobs::list(&store.snapshot()?, &states, route, limit, now_ms())?;
                Ok(json!({ "jobs": jobs.iter().map(listed).collect::<Vec<_>>() }))
            }
        }
    }

    fn show(&self, id: &str) -> anyhow::Result<Value> {
        match self {
            Self::Server(control) => ask(control, "GET", &target(id, "")),
            Self::Store(store) => {
                let state = store.snapshot()?;
                let missing = || JobError::NotFound { id: id.to_owned() };
                let job = find(&state, id, now_ms())?.ok_or_else(missing)?;
                Ok(shown(&job, request(&state, id)?, response(&state, id)?))
            }
        }
    }

    fn retry(&self, id: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(control) => ask(control, "POST", &target(id, "/retry")).map(drop),
            Self::Store(store) => change(store, &Change::Retry { id: id.to_owned() }),
        }
    }

    fn remove(&self, id: &str) -> anyhow::Result<()> {
        let (id, even_if_over) = (id.to_owned(), true);
        match self {
            Self::Server(control) => ask(control, "DELETE", &target(&id, "")).map(drop),
            Self::Store(store) => change(store, &Change::Remove { id, even_if_over }),
        }
    }
}

fn change(store: &Store, change: &Change) -> anyhow::Result<()> {
    store.transact(|transaction| change.perform(transaction, now_ms()))?;
    Ok(())
}

fn target(id: &str, action: &str) -> String {
    let mut target = "/jobs/".to_owned();
    put_encoded(id, &mut target);
    target + action
}

fn ask(control: &Control, method: &str, target: &str) -> anyhow::Result<Value> {
    let answer = control.ask(method, target, "")?;
    serde_json::from_str(&answer).context("the server's answer is not JSON")
}

fn of(found: &Value) -> impl Iterator<Item = &Value> {
    found["jobs"].as_array().into_iter().flatten()
}

fn table(found: &Value) -> String {
    let mut table = Table::new([
        "ID",
        "STATE",
        "ROUTE",
        "ATTEMPTS",
        "ACCEPTED",
        "NEXT OR END",
        "ERROR",
    ]);
    for job in of(found) {
        let state = text(&job["state"]);
        let moment = match &*state {
            "waiting" | "retrying" => &job["dueMs"],
            "running" => &Value::Null,
            _ => &job["endedMs"],
        };
        table.add([
            text(&job["id"]),
            state,
            text(&job["route"]),
            text(&job["attempts"]),
            time(&job["acceptedMs"]),
            time(moment),
            text(&job["error"]),
        ]);
    }
    let lines = table.lines();
    if lines.is_empty() {
        return "there are no such jobs\n".to_owned();
    }
    lines
}

/// The next times of routes with a schedule.
fn schedules(found: &Value) -> String {
    let mut table = Table::new(["SCHEDULE OF", "TIMES", "ZONE", "NEXT"]);
    for schedule in found["schedules"].as_array().into_iter().flatten() {
        let [route, times, zone] = ["route", "schedule", "timeZone"].map(|key| text(&schedule[key]));
        table.add([route, times, zone, time(&schedule["nextMs"])]);
    }
    let lines = table.lines();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

fn time(ms: &Value) -> String {
    ms.as_u64().map_or("-".to_owned(), timestamp::written)
}

/// A value, safe to print within a line.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.replace(char::is_control, " "),
        other => other.to_string(),
    }
}
