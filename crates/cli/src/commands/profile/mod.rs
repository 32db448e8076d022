//! `forebay profile`: has the running server profile itself and the workers behind a route, and shows which functions took the time.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of commands are read on a terminal, where backticks and brackets would be in the way"
)]

mod flame;
mod functions;
mod report;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::{Value, json};

use self::report::Report;
use super::load::{self, Loading};
use crate::{
    control::{Control, Which},
    output,
};

/// Default duration of a profile.
const TIME: Duration = Duration::from_secs(10);
/// Default number of functions per process in the table.
const TOP: usize = 20;

/// Profile the server and a route's workers: which functions take the time
///
/// The server looks at its own threads 99 times for each second of CPU time, and has the Node workers of the route's pool use V8's profiler, which counts all time in which their thread is not idle. Requests must come meanwhile: others send them, or --load does. Only the control socket can ask for it.
#[derive(Debug, clap::Args)]
pub(crate) struct ProfileArgs {
    /// The route: its path as configured, or its name in `forebay status`. Example: forebay profile /users/:id
    #[arg(value_name = "ROUTE")]
    route: String,
    /// Send requests to this URL meanwhile, as many as are answered. Example: forebay profile /users/:id --load http://localhost:8080/users/1
    #[arg(long, value_name = "URL")]
    load: Option<String>,
    /// The connections of --load; 16 if not given. Example: --connections 64
    #[arg(long, value_name = "N", requires = "load", value_parser = load::values::some_size)]
    connections: Option<usize>,
    /// Permit --load to go to another machine, such as a proxy before this server. Only for servers that are yours. Example: --allow-remote
    #[arg(long, requires = "load")]
    allow_remote: bool,
    /// How long to look, at most a minute; 10 s if not given. Example: --for 30s
    #[arg(long = "for", value_name = "TIME", value_parser = load::values::some_duration)]
    time: Option<Duration>,
    /// How many functions of each process to print; 20 if not given. Example: --top 50
    #[arg(long, value_name = "N", value_parser = load::values::some_size)]
    top: Option<usize>,
    /// Write a page with a flame graph of each process; it needs no other file. Example: --html profile.html
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a line for each stack, as programs that draw flame graphs read it: functions with semicolons, then microseconds. Example: --folded profile.folded
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// One JSON object for programs, with all stacks, times in microseconds. Example: forebay profile / --json | jq .processes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    /// The route received no requests.
    #[error("no request came to {route} while it was profiled")]
    NoTraffic { route: String },
}

pub(crate) fn run(arguments: &ProfileArgs) -> anyhow::Result<()> {
    let control = Control::of(&arguments.which)?;
    load::outputs::check_files(arguments.html.iter().chain(&arguments.folded))?;
    let time = arguments.time.unwrap_or(TIME);
    let before = answered(&control)?;
    let counted_from = Instant::now();
    let loading = match &arguments.load {
        Some(url) => Some(Loading::start(
            url,
            arguments.connections,
            arguments.allow_remote,
        )?),
        None => None,
    };
    if !arguments.json {
        output::complaint(&format!("profiling {} for {time:?}", arguments.route));
    }
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let asked = json!({ "route": arguments.route, "for_ms": ms }).to_string();
    let text = control.ask("POST", "/profiles", &asked);
    let loaded = loading.map(Loading::end);
    let text = text?;
    if let Some(failed) = loaded.flatten() {
        output::complaint(&format!("note: requests of --load failed: {failed}"));
    }
    let after = answered(&control)?;
    // Longer than the profile by what the server and the load need around it.
    let counted = counted_from.elapsed();
    let mut report: Report =
        serde_json::from_str(&text).context("what the server tells is not what this version reads")?;
    report.tidy();
    let (of_route, of_all) = report.requests(&before, &after);
    if of_route == 0 {
        return Err(ProfileError::NoTraffic {
            route: report.routes.join(", "),
        }
        .into());
    }
    let heading = format!(
        "{}: {of_route} of the {of_all} requests that the server answered in {:.1} s",
        report.routes.join(", "),
        counted.as_secs_f64()
    );
    let put = |file: &PathBuf, text: String| {
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    if let Some(file) = &arguments.html {
        put(file, flame::html(&report, &heading))?;
    }
    if let Some(file) = &arguments.folded {
        put(file, flame::folded(&report))?;
    }
    if arguments.json {
        let mut json: Value = serde_json::from_str(&text).context("the server's answer is no JSON")?;
        json["requests"] = json!({ "route": of_route, "all": of_all });
        return Ok(output::line(&json.to_string())?);
    }
    let top = arguments.top.unwrap_or(TOP);
    Ok(output::whole(&functions::text(&report, &heading, top))?)
}

/// Number of requests that each route has answered so far.
fn answered(control: &Control) -> anyhow::Result<Vec<(String, u64)>> {
    let status = control.ask("GET", "/status", "")?;
    let status: Value = serde_json::from_str(&status).context("the server's answer is no JSON")?;
    let routes = status["routes"].as_array().into_iter().flatten();
    let counted = routes.map(|route| {
        let requests = route["requests"].as_object().into_iter().flatten();
        let count = requests.filter_map(|(_, count)| count.as_u64()).sum();
        (route["route"].as_str().unwrap_or_default().to_owned(), count)
    });
    Ok(counted.collect())
}
