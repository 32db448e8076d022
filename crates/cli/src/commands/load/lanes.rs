//! Builds the lanes of a plan from URLs and lists of requests.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use forebay_load::{
    Url,
    plan::Lane,
    report::Run,
    request::{Grammar, Lines, Parts, RequestError, Requests, Targets, Version, split_url},
    tls::{self, Tls},
};

use super::{arguments::Options, plan::Environment};
use crate::failure::UsageError;

/// Most URLs on a command line, and most that a report names.
const URLS_MAX: usize = 1_000;

/// Reads all options on requests: the lanes, and their description in a report.
pub(crate) fn read(options: &Options, environment: &Environment<'_>) -> anyhow::Result<(Vec<Lane>, Run)> {
    let grammar = grammar(options, environment)?;
    let urls = urls(options)?;
    let base = base(options, environment)?;
    let longest = grammar.bodies.as_ref().map(|lines| lines.longest());
    let mut lanes = Vec::new();
    let mut run = Run {
        urls: urls.iter().map(Url::to_string).collect(),
        method: base.method.clone(),
        body_bytes: longest.unwrap_or(base.body.len()) as u64,
        ..Run::default()
    };
    if let Some(file) = &options.urls_file {
        if urls.len() > 1 {
            let text = "found several URLs besides --urls; one at most says where paths go";
            return Err(UsageError(text.to_owned()).into());
        }
        let text = String::from_utf8(bytes(file, environment)?)
            .map_err(|_| UsageError(format!("{} is not UTF-8 text", file.display())))?;
        let targets = Targets::parse(&text, urls.first(), &base, &grammar);
        let Targets { url, requests, names } = targets.map_err(|error| refused(file, &error))?;
        let (methods, urls): (Vec<_>, Vec<_>) = names.iter().filter_map(|name| name.split_once(' ')).unzip();
        methods[0].clone_into(&mut run.method);
        run.urls = urls.into_iter().take(URLS_MAX).map(str::to_owned).collect();
        lanes.push(lane(options, &url, requests, environment)?);
    } else if urls.is_empty() {
        return Err(UsageError("a URL is missing, such as http://localhost:8080/".to_owned()).into());
    } else {
        for url in &urls {
            let mut parts = base.clone();
            parts.go_to(url);
            let requests = Requests::one(&parts, &grammar).map_err(|error| usage(&error))?;
            lanes.push(lane(options, url, requests, environment)?);
        }
    }
    Ok((lanes, run))
}

/// An error with its causes, as a usage error.
pub(super) fn usage(error: &dyn std::error::Error) -> UsageError {
    UsageError(forebay_workflow::with_causes(error))
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
        grammar.bodies = Some(Arc::new(lines));
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
        if options.cacert.is_some() {
            return Err(UsageError(format!("certificates need https; {url} is http")));
        }
        return Ok(None);
    }
    let files = tls::Options {
        ca: options.cacert.clone(),
        insecure: options.insecure,
        server_name: options.server_name.clone(),
    };
    let config = files.load().map_err(|error| usage(&error))?;
    let tls = config.for_host(&url.host).map_err(|error| usage(&error))?;
    Ok(Some(tls))
}
