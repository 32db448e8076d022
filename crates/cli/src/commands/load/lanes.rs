//! What is sent where: from URLs, lists, recordings and scenarios to the lanes of a plan.

use std::{net::IpAddr, path::Path, sync::Arc};

use anyhow::Context as _;
use forebay_load::{
    Url,
    engine::URLS_MAX as URLS_TOLD_MAX,
    expect::CODINGS_ACCEPTED,
    plan::{Lane, Link, Names, Trace, Tunnel},
    request::{
        Bodies, BodyError, Csv, Grammar, Lines, Order, Parts, RequestError, Requests, Scenario, Signer,
        Targets, Version, multipart, read_access_log, read_har, split_url,
    },
    target::Address,
    tls,
};

use super::{arguments::Options, plan::Surroundings, run::family};
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
    /// When each request is due, if something says so.
    pub(crate) trace: Option<Trace>,
    /// What different requests are called, in the order of lanes.
    pub(crate) named: Vec<String>,
    /// What was left out, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Reads everything that options say about requests.
pub(crate) fn read(options: &Options, around: &Surroundings<'_>) -> anyhow::Result<Sent> {
    let grammar = grammar(options, around)?;
    let urls = urls(options)?;
    let mut base = base(options, around)?;
    let listed = options.urls_file.is_some() || options.har.is_some() || options.access_log.is_some();
    if options.replay && options.urls_file.is_none() && options.access_log.is_none() {
        let text = "--replay needs --access-log or --urls: nothing else says when requests are due";
        return Err(UsageError(text.to_owned()).into());
    }
    if options.shuffle && !listed && options.body_lines.is_none() {
        let text = "--shuffle needs --urls, --har, --access-log or --body-lines: there is nothing else to choose from";
        return Err(UsageError(text.to_owned()).into());
    }
    if let Some(file) = &options.raw_request {
        let whole = Parts::parse(&bytes(file, around)?).map_err(|error| refused(file, &error))?;
        base = over(whole, base).map_err(|error| usage(&error))?;
    }
    let mut sent = Sent {
        lanes: Vec::new(),
        urls: urls.iter().map(Url::to_string).collect(),
        method: base.method.clone(),
        body_bytes: body_bytes(&base, &grammar),
        trace: None,
        named: Vec::new(),
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
        let order = order(options);
        for origin in targets(options, &base, urls.first(), &mut sent, around)?
            .origins(order, &grammar)
            .map_err(|error| usage(&error))?
        {
            // Lanes after one with more names than are told apart have none, either: their places would be wrong.
            if sent.named.len() < URLS_TOLD_MAX {
                sent.named.extend(origin.names);
            }
            sent.lanes
                .push(lane(options, &origin.url, origin.requests, around)?);
        }
    } else {
        for url in &urls {
            let parts = for_url(&base, url, options);
            let requests = Requests::one(&parts, &grammar).map_err(|error| usage(&error))?;
            sent.named.push(format!("{} {url}", base.method));
            sent.lanes.push(lane(options, url, requests, around)?);
        }
    }
    if let (Some(scope), Some(user)) = (&options.aws_sigv4, &options.user) {
        let signer = Signer::new(scope, user);
        let signer = signer.map_err(|error| UsageError(format!("--aws-sigv4: {error}")))?;
        for lane in &mut sent.lanes {
            lane.requests = lane.requests.clone().signed(signer.clone());
        }
    }
    sent.named.truncate(URLS_TOLD_MAX);
    if sent.named.len() < 2 {
        sent.named.clear();
    }
    Ok(sent)
}

/// An error with its causes, as one that ends with the exit code of a wrong command line.
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

fn bytes(file: &Path, around: &Surroundings<'_>) -> anyhow::Result<Vec<u8>> {
    (around.read)(file).with_context(|| UsageError(format!("cannot read {}", file.display())))
}

fn text(file: &Path, around: &Surroundings<'_>) -> anyhow::Result<String> {
    String::from_utf8(bytes(file, around)?)
        .map_err(|_| UsageError(format!("{} is not UTF-8 text", file.display())).into())
}

/// Which placeholders are filled in.
fn grammar<'a>(options: &Options, around: &Surroundings<'a>) -> anyhow::Result<Grammar<'a>> {
    let mut grammar = if options.template {
        Grammar::braces()
    } else {
        Grammar::none()
    };
    grammar.env = around.env;
    grammar.id = options.old.ids;
    if let Some(file) = &options.body_lines {
        let lines = Lines::parse(&bytes(file, around)?).map_err(|error| refused(file, &error))?;
        grammar.bodies = Some(Bodies {
            lines: Arc::new(lines),
            random: options.shuffle,
        });
    }
    grammar.sequence = options.old.sequence;
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

/// Bytes of a body; of the longest if there are several.
fn body_bytes(base: &Parts, grammar: &Grammar<'_>) -> u64 {
    let longest = grammar.bodies.as_ref().map(|bodies| bodies.lines.longest());
    longest.unwrap_or(base.body.len()) as u64
}

/// A scenario is written with placeholders.
fn scenario_grammar<'a>(grammar: &Grammar<'a>) -> Grammar<'a> {
    let mut whole = Grammar::braces();
    whole.env = grammar.env;
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
    let with_body = options.body.is_some()
        || options.body_file.is_some()
        || options.body_lines.is_some()
        || !options.form.is_empty();
    let default = if with_body { "POST" } else { "GET" };
    let mut parts = Parts {
        method: options.method.clone().unwrap_or_else(|| default.to_owned()),
        path_and_query: "/".to_owned(),
        fields: Vec::new(),
        body,
        keep_alive: !options.no_keepalive,
        version: if options.http10 {
            Version::Http10
        } else {
            Version::Http11
        },
    };
    let add = |error: RequestError| usage(&error);
    if let Some(content_type) = content_type {
        parts.set_field("content-type", &content_type);
    }
    if let Some(user) = options.user.as_ref().filter(|_| options.aws_sigv4.is_none()) {
        parts.basic_auth(user).map_err(add)?;
    }
    for cookie in &options.cookies {
        parts.add_cookie(cookie).map_err(add)?;
    }
    for (name, value) in &options.headers {
        parts.add_field(&format!("{name}: {value}")).map_err(add)?;
    }
    if options.compressed && !parts.has_field("accept-encoding") {
        parts.set_field("accept-encoding", CODINGS_ACCEPTED);
    }
    if options.chunked {
        if !with_body || options.template || options.old.ids {
            let text = "--chunked needs a body that is always the same";
            return Err(UsageError(text.to_owned()).into());
        }
        parts.chunk_body();
    }
    Ok(parts)
}

/// A request with what further options say on top of it.
fn over(whole: Parts, base: Parts) -> Result<Parts, RequestError> {
    let mut parts = Parts {
        keep_alive: base.keep_alive,
        version: base.version,
        ..whole
    };
    for (name, value) in base.fields {
        parts.add_field(&format!("{name}: {value}"))?;
    }
    Ok(parts)
}

/// The same for a URL: with its path, and its host unless a header says another one.
fn for_url(base: &Parts, url: &Url, options: &Options) -> Parts {
    let mut parts = base.clone();
    if options.raw_request.is_none() {
        parts.path_and_query.clone_from(&url.path_and_query);
    }
    if !parts.has_field("host") {
        parts.fields.insert(0, ("host".to_owned(), url.authority()));
    }
    parts.asked_by(url);
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
    let mut targets = if let Some(file) = &options.access_log {
        let url = url.ok_or_else(|| {
            UsageError(
                "a URL is missing, such as http://localhost:8080/: an access log names no server".to_owned(),
            )
        })?;
        let log = read_access_log(&bytes(file, around)?, url, base).map_err(|error| refused(file, &error))?;
        if log.left_out > 0 {
            sent.notes.push(format!(
                "{} lines of {} are left out: they are no requests",
                log.left_out,
                file.display()
            ));
        }
        log.targets
    } else if let Some(file) = &options.har {
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
    if options.replay {
        let trace = targets.replay(options.replay_speed.unwrap_or(1.0));
        sent.trace = Some(trace.map_err(|error| usage(&error))?);
    }
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
    if options.replay {
        Order::Replay
    } else if options.shuffle {
        Order::Weighted
    } else {
        Order::InTurn
    }
}

fn lane(options: &Options, url: &Url, requests: Requests, around: &Surroundings<'_>) -> anyhow::Result<Lane> {
    let resolve = |url: &Url| {
        let found = (around.resolve)(url);
        found.with_context(|| format!("cannot find the address of {}", url.host))
    };
    let (mut link, mut requests) = (link(options, url)?, requests);
    let address = match (&options.unix_socket, &options.proxy) {
        (Some(file), _) => Address::Unix(file.clone()),
        (None, Some(proxy)) => {
            let (proxy, tunnel) = tunnel(proxy, url)?;
            if tunnels(options, url) {
                link.tunnel = Some(tunnel);
            } else {
                let origin = format!("http://{}", url.authority());
                requests = requests.through_proxy(&origin, tunnel.authorization.as_deref());
                link.through_proxy = Some(tunnel.authority);
            }
            Address::Tcp(resolve(&proxy)?)
        }
        (None, None) => Address::Tcp(resolve(&redirected(options, url))?),
    };
    if options.dns_each {
        link.names = Some(names(options, url)?);
    }
    Ok(Lane {
        address,
        link,
        requests,
    })
}

/// Asks the system for the address of a URL's host, each time anew.
fn names(options: &Options, url: &Url) -> Result<Names, UsageError> {
    if url.host.parse::<IpAddr>().is_ok() {
        return Err(UsageError(format!(
            "--dns-each needs a host name; {} is an address, and no resolver is asked for it",
            url.host
        )));
    }
    let (url, family) = (url.clone(), family(options));
    Ok(Names::new(move || url.resolve(family)))
}

/// Where connections for a URL go, as --connect-to says.
fn redirected(options: &Options, url: &Url) -> Url {
    let fits = options
        .connect_to
        .iter()
        .find(|known| known.is_for(&url.host, url.port));
    let mut to = url.clone();
    if let Some(known) = fits {
        to.host = known.to_host.clone().unwrap_or(to.host);
        to.port = known.to_port.unwrap_or(to.port);
    }
    to
}

/// Whether a proxy is asked for a connection to the server, as curl does: always for what it shall not or cannot read.
fn tunnels(options: &Options, url: &Url) -> bool {
    url.tls || options.http2 || options.proxytunnel
}

/// A proxy, and what it is asked for.
fn tunnel(text: &str, url: &Url) -> Result<(Url, Tunnel), UsageError> {
    let text = text.strip_prefix("http://").unwrap_or(text);
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, text),
    };
    let proxy = Url::parse(host).map_err(|error| UsageError(format!("--proxy: {}", usage(&error))))?;
    if proxy.tls {
        return Err(UsageError(format!(
            "--proxy: found {text:?}, expected HOST:PORT of a proxy without TLS"
        )));
    }
    let mut parts = Parts::get(&proxy);
    parts.fields.clear();
    if let Some(user) = user {
        let added = parts.proxy_auth(user);
        added.map_err(|error| UsageError(format!("--proxy: {}", usage(&error))))?;
    }
    let host = if url.host.contains(':') {
        format!("[{}]", url.host)
    } else {
        url.host.clone()
    };
    let tunnel = Tunnel {
        authority: format!("{host}:{}", url.port),
        authorization: parts.fields.pop().map(|(_, value)| value),
    };
    Ok((proxy, tunnel))
}

/// TLS and HTTP/2, where they are asked for.
fn link(options: &Options, url: &Url) -> Result<Link, UsageError> {
    let tls = if url.tls {
        let files = tls::Options {
            ca: options.cacert.clone(),
            certificate: options.cert.clone(),
            key: options.key.clone(),
            insecure: options.insecure,
            server_name: options.server_name.clone(),
            tells_name: !options.old.nameless,
            min: options.tls_min.unwrap_or(tls::Version::Tls12),
            max: options.tls_max.unwrap_or(tls::Version::Tls13),
            ciphers: options.tls_ciphers.clone(),
            resumption: !options.no_tls_resumption,
        };
        let config = files.load(options.http2).map_err(|error| usage(&error))?;
        Some(config.for_host(&url.host).map_err(|error| usage(&error))?)
    } else if options.cacert.is_some() || options.cert.is_some() {
        return Err(UsageError(format!("certificates need https; {url} is http")));
    } else if !options.tls_ciphers.is_empty() {
        return Err(UsageError(format!("--tls-ciphers needs https; {url} is http")));
    } else {
        None
    };
    Ok(Link {
        tls,
        http2: options.http2,
        bind: options.bind.clone(),
        ..Link::default()
    })
}
