//! What is sent where: from URLs, lists, recordings and scenarios to the lanes of a plan.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use forebay_load::{
    Url,
    plan::{Lane, Link},
    request::{
        BodyError, Csv, Grammar, Order, Parts, RequestError, Requests, Scenario, Targets, multipart,
        read_har, split_url,
    },
    target::Address,
    tls,
};

use super::{arguments::Options, plan::Surroundings};
use crate::failure::UsageError;

/// Most URLs of a command line.
const URLS_MAX: usize = 1_000;
/// Most URLs that a report names.
const NAMED_MAX: usize = 1_000;

/// What is sent, and what a report says about it.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) urls: Vec<String>,
    pub(crate) method: String,
    pub(crate) body_bytes: u64,
    /// What was left out, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Reads everything that options say about requests.
pub(crate) fn read(options: &Options, around: &Surroundings<'_>) -> anyhow::Result<Sent> {
    let grammar = grammar(options, around)?;
    let urls = urls(options)?;
    let mut base = base(options, around)?;
    let listed = options.urls_file.is_some() || options.har.is_some();
    if options.shuffle && !listed {
        let text = "--shuffle needs --urls or --har: there is nothing else to choose from";
        return Err(UsageError(text.to_owned()).into());
    }
    if let Some(file) = &options.old.raw_request {
        base = raw(&text(file, around)?, base).map_err(|why| refused(file, &why))?;
    }
    let mut sent = Sent {
        lanes: Vec::new(),
        urls: urls.iter().map(Url::to_string).collect(),
        method: base.method.clone(),
        body_bytes: base.body.len() as u64,
        notes: Vec::new(),
    };
    if !listed && urls.is_empty() {
        return Err(UsageError("a URL is missing, such as http://localhost:8080/".to_owned()).into());
    }
    if (listed || options.requests.is_some()) && urls.len() > 1 {
        let text = "found several URLs; a list, recording or scenario goes to one server";
        return Err(UsageError(text.to_owned()).into());
    }
    if let Some(file) = &options.requests {
        let url = &urls[0];
        let mut defaults = for_url(&base, url, options);
        // Each step says whether it has a body.
        defaults.body.clear();
        defaults.method = options.method.clone().unwrap_or_else(|| "GET".to_owned());
        let scenario = Scenario::parse(&text(file, around)?, url, &defaults, &scenario_grammar(&grammar));
        let scenario = scenario.map_err(|error| refused(file, &error))?;
        sent.lanes
            .push(lane(options, url, Requests::scenario(scenario), around)?);
    } else if listed {
        for origin in targets(options, &base, urls.first(), &mut sent, around)?
            .origins(order(options), &grammar)
            .map_err(|error| usage(&error))?
        {
            sent.lanes
                .push(lane(options, &origin.url, origin.requests, around)?);
        }
    } else {
        for url in &urls {
            let parts = for_url(&base, url, options);
            let requests = Requests::one(&parts, &grammar).map_err(|error| usage(&error))?;
            sent.lanes.push(lane(options, url, requests, around)?);
        }
    }
    Ok(sent)
}

/// An error with its causes, as one that ends with the exit code of a wrong command line.
fn usage(error: &dyn std::error::Error) -> UsageError {
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

fn bytes(file: &Path, around: &Surroundings<'_>) -> anyhow::Result<Vec<u8>> {
    (around.read)(file).with_context(|| UsageError(format!("cannot read {}", file.display())))
}

fn text(file: &Path, around: &Surroundings<'_>) -> anyhow::Result<String> {
    String::from_utf8(bytes(file, around)?)
        .map_err(|_| UsageError(format!("{} is not UTF-8 text", file.display())).into())
}

/// Which placeholders are filled in.
fn grammar(options: &Options, around: &Surroundings<'_>) -> anyhow::Result<Grammar<'static>> {
    let mut grammar = if options.template {
        Grammar::braces()
    } else {
        Grammar::none()
    };
    grammar.id = options.old.ids;
    grammar.sequence = options.old.raw_request.is_some();
    if let Some(file) = &options.csv_data {
        if !options.template && options.requests.is_none() {
            let text = "--csv-data needs --template or --requests: nothing else has placeholders";
            return Err(UsageError(text.to_owned()).into());
        }
        let table = Csv::parse(&text(file, around)?).map_err(|error| refused(file, &error))?;
        grammar.csv = Some(Arc::new(table));
    }
    Ok(grammar)
}

/// A scenario is written with placeholders.
fn scenario_grammar(grammar: &Grammar<'static>) -> Grammar<'static> {
    let mut whole = Grammar::braces();
    whole.csv.clone_from(&grammar.csv);
    whole
}

fn urls(options: &Options) -> Result<Vec<Url>, UsageError> {
    if options.url.len() > URLS_MAX {
        let found = options.url.len();
        return Err(UsageError(format!(
            "found {found} URLs, expected at most {URLS_MAX}; --urls FILE takes more"
        )));
    }
    // Placeholders are no part of any URL, and would be refused.
    let url = |text: &String| {
        if options.template || options.old.ids {
            split_url(text)
        } else {
            Url::parse(text)
        }
    };
    options
        .url
        .iter()
        .map(|text| url(text).map_err(|error| usage(&error)))
        .collect()
}

/// What every request begins as: all but where it goes.
fn base(options: &Options, around: &Surroundings<'_>) -> anyhow::Result<Parts> {
    let (body, content_type) = body(options, around)?;
    let with_body = options.body.is_some() || options.body_file.is_some() || !options.form.is_empty();
    let default = if with_body { "POST" } else { "GET" };
    let mut parts = Parts {
        method: options.method.clone().unwrap_or_else(|| default.to_owned()),
        path_and_query: "/".to_owned(),
        fields: Vec::new(),
        body,
        keep_alive: !options.no_keepalive,
    };
    let add = |error: RequestError| usage(&error);
    if let Some(content_type) = content_type {
        parts.set_field("content-type", &content_type);
    }
    if let Some(user) = &options.old.user {
        parts.basic_auth(user).map_err(add)?;
    }
    for (name, value) in &options.headers {
        parts.add_field(&format!("{name}: {value}")).map_err(add)?;
    }
    Ok(parts)
}

/// The same for a URL: with its path, and its host unless a header says another one.
fn for_url(base: &Parts, url: &Url, options: &Options) -> Parts {
    let mut parts = base.clone();
    if options.old.raw_request.is_none() {
        parts.path_and_query.clone_from(&url.path_and_query);
    }
    if !parts.has_field("host") {
        parts.fields.insert(0, ("host".to_owned(), url.authority()));
    }
    parts
}

/// The body, and its type if it has one of its own.
fn body(options: &Options, around: &Surroundings<'_>) -> anyhow::Result<(Vec<u8>, Option<String>)> {
    if let Some(text) = &options.body {
        return Ok((text.clone().into_bytes(), None));
    }
    if let Some(file) = &options.body_file {
        return Ok((bytes(file, around)?, None));
    }
    if options.form.is_empty() {
        return Ok((Vec::new(), None));
    }
    let failed = |error: BodyError| usage(&error);
    let mut fields = Vec::new();
    for text in &options.form {
        fields.extend(multipart::read(text).map_err(failed)?);
    }
    let form = multipart::encode(&fields, options.seed.unwrap_or(1)).map_err(failed)?;
    Ok((form.body, Some(form.content_type)))
}

/// The requests of a list or a recording.
fn targets(
    options: &Options,
    base: &Parts,
    url: Option<&Url>,
    sent: &mut Sent,
    around: &Surroundings<'_>,
) -> anyhow::Result<Targets> {
    let targets = if let Some(file) = &options.har {
        let har = read_har(&text(file, around)?, url, base).map_err(|error| refused(file, &error))?;
        for (count, what) in [
            (har.elsewhere, "go to other servers"),
            (har.not_http, "are not HTTP"),
        ] {
            if count > 0 {
                sent.notes.push(format!(
                    "{count} requests of {} are left out: they {what}",
                    file.display()
                ));
            }
        }
        har.targets
    } else {
        let file = options.urls_file.as_deref().unwrap_or(Path::new("-"));
        let read = |file: &Path| {
            (around.read)(file).map_err(|source| BodyError::File {
                path: file.display().to_string(),
                source,
            })
        };
        Targets::parse(&text(file, around)?, url, base, &read).map_err(|error| refused(file, &error))?
    };
    let all = targets.all();
    sent.urls = all
        .iter()
        .take(NAMED_MAX)
        .map(|target| target.url.to_string())
        .collect();
    sent.method.clone_from(&all[0].parts.method);
    sent.body_bytes = all
        .iter()
        .map(|target| target.parts.body.len() as u64)
        .max()
        .unwrap_or(0);
    if !options.shuffle && targets.has_weights() {
        let note = "requests are sent in turn; their weights count with --shuffle";
        sent.notes.push(note.to_owned());
    }
    Ok(targets)
}

/// At random by weight where there are weights.
fn order(options: &Options) -> Order {
    if options.shuffle {
        Order::Weighted
    } else {
        Order::InTurn
    }
}

/// A request as it goes over the wire: its first line, fields, an empty line, and the body.
fn raw(text: &str, base: Parts) -> Result<Parts, RequestError> {
    let (head, body) = text
        .split_once("\r\n\r\n")
        .or_else(|| text.split_once("\n\n"))
        .unwrap_or((text, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut words = first.split_whitespace();
    let mut parts = Parts {
        method: words.next().unwrap_or_default().to_owned(),
        path_and_query: words.next().unwrap_or("/").to_owned(),
        body: body.as_bytes().to_vec(),
        ..base
    };
    for line in lines.filter(|line| !line.trim().is_empty()) {
        parts.add_field(line)?;
    }
    // Its length is stated anew: the file's own may count other line ends.
    parts
        .fields
        .retain(|(name, _)| !name.eq_ignore_ascii_case("content-length"));
    Ok(parts)
}

fn lane(options: &Options, url: &Url, requests: Requests, around: &Surroundings<'_>) -> anyhow::Result<Lane> {
    let address = match &options.unix_socket {
        Some(file) => Address::Unix(file.clone()),
        None => {
            let found = (around.resolve)(url);
            Address::Tcp(found.with_context(|| format!("cannot find the address of {}", url.host))?)
        }
    };
    Ok(Lane {
        address,
        link: link(options, url)?,
        requests,
    })
}

/// TLS and HTTP/2, where they are asked for.
fn link(options: &Options, url: &Url) -> Result<Link, UsageError> {
    let tls = if url.tls {
        let files = tls::Options {
            ca: options.cacert.clone(),
            certificate: options.cert.clone(),
            key: options.key.clone(),
            insecure: options.insecure,
            server_name: options.old.server_name.clone(),
            ..tls::Options::default()
        };
        let config = files.load(options.http2).map_err(|error| usage(&error))?;
        Some(config.for_host(&url.host).map_err(|error| usage(&error))?)
    } else if options.cacert.is_some() || options.cert.is_some() {
        return Err(UsageError(format!("certificates need https; {url} is http")));
    } else {
        None
    };
    Ok(Link {
        tls,
        http2: options.http2,
        ..Link::default()
    })
}
