//! Builds the lanes of a plan from URLs and lists of requests.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use forebay_load::{
    Url,
    engine::URLS_MAX as NAMED_URLS_MAX,
    plan::Lane,
    request::{Bodies, Grammar, Lines, Order, Parts, RequestError, Requests, Targets, Version, split_url},
    tls::{self, Tls},
};

use super::{arguments::Options, plan::Environment};
use crate::failure::UsageError;

/// Most URLs on a command line, and most that a report names.
const URLS_MAX: usize = 1_000;

/// The lanes, and their description in a report.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) urls: Vec<String>,
    pub(crate) method: String,
    pub(crate) body_bytes: u64,
    /// Names of the requests that are measured separately, in the order of lanes.
    pub(crate) named: Vec<String>,
}

/// Reads all options on requests.
pub(crate) fn read(options: &Options, environment: &Environment<'_>) -> anyhow::Result<Sent> {
    let grammar = grammar(options, environment)?;
    let urls = urls(options)?;
    let base = base(options, environment)?;
    if options.shuffle && options.urls_file.is_none() && options.body_lines.is_none() {
        let text = "--shuffle needs --urls or --body-lines: there is nothing else to choose from";
        return Err(UsageError(text.to_owned()).into());
    }
    let longest = grammar.bodies.as_ref().map(|bodies| bodies.lines.longest());
    let mut sent = Sent {
        lanes: Vec::new(),
        urls: urls.iter().map(Url::to_string).collect(),
        method: base.method.clone(),
        body_bytes: longest.unwrap_or(base.body.len()) as u64,
        named: Vec::new(),
    };
    if let Some(file) = &options.urls_file {
        if urls.len() > 1 {
            let text = "found several URLs besides --urls; one at most says where paths go";
            return Err(UsageError(text.to_owned()).into());
        }
        list(
            file,
            options,
            &base,
            urls.first(),
            &grammar,
            &mut sent,
            environment,
        )?;
    } else if urls.is_empty() {
        return Err(UsageError("a URL is missing, such as http://localhost:8080/".to_owned()).into());
    } else {
        for url in &urls {
            let requests = Requests::one(&for_url(&base, url), &grammar).map_err(|error| usage(&error))?;
            sent.named.push(format!("{} {url}", base.method));
            sent.lanes.push(lane(options, url, requests, environment)?);
        }
    }
    sent.named.truncate(NAMED_URLS_MAX);
    if sent.named.len() < 2 {
        sent.named.clear();
    }
    Ok(sent)
}

/// An error with its causes, as a usage error.
pub(super) fn usage(error: &dyn std::error::Error) -> UsageError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    UsageError(text)
}

fn refused(file: &Path, error: &dyn std::error::Error) -> UsageError {
    UsageError(format!("{}: {}", file.display(), usage(error)))
}

fn bytes(file: &Path, environment: &Environment<'_>) -> anyhow::Result<Vec<u8>> {
    (environment.read)(file).with_context(|| UsageError(format!("cannot read {}", file.display())))
}

/// The placeholders that are recognised.
fn grammar<'a>(options: &Options, environment: &Environment<'a>) -> anyhow::Result<Grammar<'a>> {
    let mut grammar = if options.template {
        Grammar::braces(environment.read)
    } else {
        Grammar::none()
    };
    if let Some(file) = &options.body_lines {
        let lines = Lines::parse(&bytes(file, environment)?).map_err(|error| refused(file, &error))?;
        grammar.bodies = Some(Bodies {
            lines: Arc::new(lines),
            random: options.shuffle,
        });
    }
    Ok(grammar)
}

fn urls(options: &Options) -> Result<Vec<Url>, UsageError> {
    let found = options.url.len();
    if found > URLS_MAX {
        return Err(UsageError(format!(
            "found {found} URLs, expected at most {URLS_MAX}; --urls FILE takes more"
        )));
    }
    // Placeholders are not valid in a URL, and would be rejected.
    let parse = if options.template { split_url } else { Url::parse };
    let urls = options.url.iter().map(|text| parse(text));
    urls.map(|url| url.map_err(|error| usage(&error))).collect()
}

/// The common parts of all requests: everything but the target.
fn base(options: &Options, environment: &Environment<'_>) -> anyhow::Result<Parts> {
    let with_body = options.body.is_some() || options.body_file.is_some() || options.body_lines.is_some();
    let default = if with_body { "POST" } else { "GET" };
    let body = match (&options.body, &options.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) => bytes(file, environment)?,
        (None, None) => Vec::new(),
    };
    let mut parts = Parts {
        method: options.method.clone().unwrap_or_else(|| default.to_owned()),
        path_and_query: "/".to_owned(),
        fields: Vec::new(),
        body,
        keep_alive: !options.no_keepalive,
        version: if options.of_tool.http10 {
            Version::Http10
        } else {
            Version::Http11
        },
    };
    let wrong = |error: RequestError| usage(&error);
    if let Some(user) = &options.user {
        parts.basic_auth(user).map_err(wrong)?;
    }
    for (name, value) in &options.headers {
        parts.add_field(name, value).map_err(wrong)?;
    }
    Ok(parts)
}

/// The request for one URL: with its path, and its host unless a header names another.
fn for_url(base: &Parts, url: &Url) -> Parts {
    let mut parts = base.clone();
    parts.path_and_query.clone_from(&url.path_and_query);
    if !parts.has_field("host") {
        parts.fields.insert(0, ("host".to_owned(), url.authority()));
    }
    parts
}

/// Adds the lanes of a list of requests.
fn list(
    file: &Path,
    options: &Options,
    base: &Parts,
    url: Option<&Url>,
    grammar: &Grammar<'_>,
    sent: &mut Sent,
    environment: &Environment<'_>,
) -> anyhow::Result<()> {
    let text = String::from_utf8(bytes(file, environment)?)
        .map_err(|_| UsageError(format!("{} is not UTF-8 text", file.display())))?;
    let targets = Targets::parse(&text, url, base).map_err(|error| refused(file, &error))?;
    let all = targets.all();
    let named = all.iter().take(URLS_MAX);
    sent.urls = named.map(|target| target.url.to_string()).collect();
    sent.method.clone_from(&all[0].parts.method);
    let order = if options.shuffle {
        Order::Random
    } else {
        Order::InTurn
    };
    for origin in targets
        .origins(order, grammar)
        .map_err(|error| refused(file, &error))?
    {
        // Once a lane has more names than are measured separately, later lanes get none either: their indices would be wrong.
        if sent.named.len() < NAMED_URLS_MAX {
            sent.named.extend(origin.names);
        }
        sent.lanes
            .push(lane(options, &origin.url, origin.requests, environment)?);
    }
    Ok(())
}

fn lane(
    options: &Options,
    url: &Url,
    requests: Requests,
    environment: &Environment<'_>,
) -> anyhow::Result<Lane> {
    let found = (environment.resolve)(url);
    let address = found.with_context(|| format!("cannot find the address of {}", url.host))?;
    Ok(Lane {
        tls: tls(options, url)?,
        ..Lane::new(address, requests)
    })
}

/// The TLS configuration for an https URL.
fn tls(options: &Options, url: &Url) -> Result<Option<Tls>, UsageError> {
    if !url.tls {
        if options.cacert.is_some() || options.cert.is_some() {
            return Err(UsageError(format!("certificates need https; {url} is http")));
        }
        return Ok(None);
    }
    let files = tls::Options {
        ca: options.cacert.clone(),
        certificate: options.cert.clone(),
        key: options.key.clone(),
        insecure: options.insecure,
        server_name: options.server_name.clone(),
    };
    let config = files.load().map_err(|error| usage(&error))?;
    let tls = config.for_host(&url.host).map_err(|error| usage(&error))?;
    Ok(Some(tls))
}
