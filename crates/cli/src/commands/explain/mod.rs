//! `forebay explain`: has the running server trace requests, and shows where their time goes.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of commands are read on a terminal, where backticks and brackets would be in the way"
)]

mod page;
mod phases;
mod report;
mod table;
mod timeline;

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::{Value, json};

use self::{
    phases::Summary,
    report::{Report, Sampled},
};
use super::load::{self, Options};
use crate::{
    control::{Control, Which},
    failure::UsageError,
    output,
};

/// Default duration of sampling.
const TIME: Duration = Duration::from_secs(10);
/// Longest wait for the report on a request after its response: the server makes it once the response is written.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the report is polled.
const PAUSE: Duration = Duration::from_millis(2);
/// Stands for the routes of the whole server.
const ALL: &str = "all";

/// Print where the time of a request goes: front, queue, handler, each statement, the response
///
/// With a URL it sends that request to the running server and prints its timeline. With --route it watches the requests of clients for a while and prints how much time each phase takes. Only the
/// control socket can ask for this, not clients. Other requests are not timed.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The request, at the server whose control socket is asked. Example: forebay explain http://localhost:8080/users/1
    #[arg(value_name = "URL", required_unless_present = "route")]
    url: Option<String>,
    /// The method; GET, or POST with a body. Example: -m PUT
    #[arg(short = 'm', long, value_name = "METHOD")]
    method: Option<String>,
    /// A header; may be repeated. Example: -H 'Accept: application/json'
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = load::values::header)]
    headers: Vec<(String, String)>,
    /// The body. Example: -b '{"id":1}'
    #[arg(short = 'b', long, visible_alias = "data", value_name = "TEXT")]
    body: Option<String>,
    /// A file with the body; `-` is standard input. Example: --body-file order.json
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,
    /// How long the answer may take; 10 s if not given. Example: --timeout 1m
    #[arg(long, value_name = "TIME", value_parser = load::values::some_duration)]
    timeout: Option<Duration>,
    /// Sample the requests of a route while others send them: its path as configured, its name in `forebay status`, or `all`. Example: forebay explain --route /users/:id --for 10s
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["url", "method", "headers", "body", "body_file", "timeout"])]
    route: Option<String>,
    /// How long to sample, at most 10 minutes; 10 s if not given. Example: --for 30s
    #[arg(long = "for", value_name = "TIME", requires = "route", value_parser = load::values::some_duration)]
    time: Option<Duration>,
    /// Write a page with a flame graph of the phases and with two requests, the median and a slow one; it needs no other file. Example: --html explain.html
    #[arg(long, value_name = "FILE", requires = "route")]
    html: Option<PathBuf>,
    /// One JSON object for programs, times in microseconds. Example: forebay explain --json http://localhost:8080/ | jq .spans
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &ExplainArgs) -> anyhow::Result<()> {
    let control = Control::of(&arguments.which)?;
    match (&arguments.url, &arguments.route) {
        (Some(url), _) => one(arguments, url, &control),
        (None, Some(route)) => sample(arguments, route, &control),
        (None, None) => Err(UsageError("a URL or --route is missing".to_owned()).into()),
    }
}

/// Sends one request, and prints its timeline.
fn one(arguments: &ExplainArgs, url: &str, control: &Control) -> anyhow::Result<()> {
    let admitted = control.ask("POST", "/traces", "")?;
    let admitted: Value = serde_json::from_str(&admitted).context("the server's answer is no JSON")?;
    let member = |name: &str| admitted[name].as_str().unwrap_or_default().to_owned();
    let (header, token) = (member("header"), member("token"));
    let mut headers = arguments.headers.clone();
    headers.push((header, token.clone()));
    load::once(Options {
        url: vec![url.to_owned()],
        method: arguments.method.clone(),
        headers,
        body: arguments.body.clone(),
        body_file: arguments.body_file.clone(),
        timeout: arguments.timeout,
        ..Options::default()
    })?;
    let text = told_of(control, &token).with_context(|| {
        format!("the server does not tell of {url}: perhaps another server, a route that does not exist, or a refused request has answered")
    })?;
    if arguments.json {
        return Ok(output::line(text.trim_end())?);
    }
    let report: Report =
        serde_json::from_str(&text).context("what the server tells is not what this version reads")?;
    Ok(output::whole(&timeline::text(&report))?)
}

/// Waits for the server's report on a request.
fn told_of(control: &Control, token: &str) -> anyhow::Result<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = control.ask("GET", &format!("/traces/{token}"), "")?;
        let is_over = serde_json::from_str(&text).is_ok_and(|value: Value| value.get("spans").is_some());
        if is_over {
            return Ok(text);
        }
        if Instant::now() > until {
            anyhow::bail!("nothing came within {} s", PATIENCE.as_secs());
        }
        thread::sleep(PAUSE);
    }
}

/// Samples requests for a while, and prints a summary.
fn sample(arguments: &ExplainArgs, route: &str, control: &Control) -> anyhow::Result<()> {
    if let Some(file) = &arguments.html {
        load::outputs::check_files(std::iter::once(file))?;
    }
    let time = arguments.time.unwrap_or(TIME);
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let wanted = match route {
        ALL => Value::Null,
        route => json!(route),
    };
    let run = control.ask(
        "POST",
        "/samples",
        &json!({ "route": wanted, "for_ms": ms }).to_string(),
    )?;
    let run: Value = serde_json::from_str(&run).context("the server's answer is no JSON")?;
    if !arguments.json {
        output::complaint(&format!("sampling requests for {time:?}"));
    }
    thread::sleep(time);
    let text = control.ask("GET", &format!("/samples/{}", run["run"]), "")?;
    let sampled: Sampled =
        serde_json::from_str(&text).context("what the server tells is not what this version reads")?;
    let summary = Summary::of(&sampled);
    if let Some(file) = &arguments.html {
        fs::write(file, page::html(&summary, time))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        return Ok(output::line(&table::json(&summary).to_string())?);
    }
    Ok(output::whole(&table::text(&summary))?)
}
