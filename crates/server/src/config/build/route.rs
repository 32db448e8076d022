//! `[[route]]`

use std::collections::BTreeMap;
use std::path::Path;

use super::server::compress;
use super::{Builder, is_header_value, pool};
use crate::config::error::{Noted, nearest};
use crate::config::fields::{Fields, Spot};
use crate::config::units::print_duration;
use crate::config::{Cors, Files, Pool, PoolRoute, Proxy, Respond, Route, Server, Target};
use crate::reply::is_token;
use crate::router::{Pattern, Router, RouterError, Rule};
use crate::target::files::content_type_of;

/// Largest file for `respond.file`, in bytes; its content stays in memory.
const RESPOND_FILE_BYTES_MAX: u64 = 16 << 20;

const TARGETS: [&str; 10] = [
    "respond", "files", "store", "records", "tql", "sql", "pool", "proxy", "script", "workflow",
];
/// The same, as part of a sentence.
const TARGETS_LISTED: &str = "respond, files, store, records, tql, sql, pool, proxy, script or workflow";

/// Keys valid only for routes with `files`.
const FILES_KEYS: [&str; 2] = ["cache_control", "precompressed"];
/// Keys valid only for routes with `pool`.
const POOL_KEYS: [&str; 3] = ["queue_timeout", "run_timeout", "retry"];

/// The sections that routes may refer to.
pub(super) struct Behind<'a> {
    /// Names of all pools in the file, including invalid ones.
    pub(super) pools_declared: Vec<&'a str>,
    /// Valid pools.
    pub(super) pools: &'a BTreeMap<String, Pool>,
    /// Names of all proxies, including invalid ones.
    pub(super) proxies_declared: Vec<&'a str>,
    /// Valid proxies.
    pub(super) proxies: &'a BTreeMap<String, Proxy>,
    /// Names of all scripts, including invalid ones.
    pub(super) scripts_declared: Vec<&'a str>,
    /// Names of all databases, including invalid ones.
    pub(super) sources_declared: Vec<&'a str>,
    pub(super) has_store: bool,
    /// Whether workflows are kept in the store.
    pub(super) has_releases: bool,
    /// Whether a client of the workflows may change releases.
    pub(super) has_publishers: bool,
}

impl Builder<'_> {
    pub(super) fn routes(&mut self, all: &[Fields], server: &Server, behind: &Behind<'_>) -> Vec<Route> {
        let mut routes = Vec::new();
        let mut fields_of = Vec::new();
        for fields in all {
            if let Some(route) = self.route(fields, server, behind) {
                routes.push(route);
                fields_of.push(fields);
            }
        }
        self.refuse_conflicts(&routes, &fields_of);
        routes
    }

    fn route(&mut self, fields: &Fields, server: &Server, behind: &Behind<'_>) -> Option<Route> {
        let deadline = self.narrowed_duration(fields, "deadline", server.deadline, "server.deadline");
        let body_bytes_max = fields
            .opt_integer("body_bytes_max")
            .unwrap_or(server.body_bytes_max);
        let methods = self.methods(fields);
        let headers = self.headers(fields, "headers");
        let target = self.target(fields, behind);
        let path = fields.text("path").to_owned();
        let host = fields.opt_text("host").map(str::to_ascii_lowercase);
        self.check_rule(fields, &path, host.as_deref())?;
        Some(Route {
            path,
            methods,
            host,
            origins: self.origins(fields, target.as_ref()?),
            cors: fields.opt_table("cors").map(|cors| self.cors(cors)),
            headers,
            compress: fields.opt_text("compress").map_or(server.compress, compress),
            deadline,
            body_bytes_max,
            target: target?,
        })
    }

    fn origins(&mut self, fields: &Fields, target: &Target) -> Vec<String> {
        let origins = fields.texts("origins");
        let stores = matches!(target, Target::Store | Target::Records | Target::Tql);
        if let (Some(first), false) = (origins.first(), stores) {
            let message = "only routes with store, records or tql have origins";
            self.note(fields.problem_at(first.line, "origins", message));
        }
        self.checked_origins(fields)
    }

    fn cors(&mut self, fields: &Fields) -> Cors {
        let cors = Cors {
            origins: self.checked_origins(fields),
            headers: fields
                .texts("headers")
                .iter()
                .map(|name| name.text.clone())
                .collect(),
            credentials: fields.flag("credentials"),
        };
        let is_name = |name: &&Spot| is_token(name.text.as_bytes());
        if let Some(name) = fields.texts("headers").iter().find(|name| !is_name(name)) {
            let message = format!("found {:?}, expected names of headers", name.text);
            self.note(fields.problem_at(name.line, "headers", message));
        }
        if cors.credentials && cors.origins.iter().any(|origin| origin == "*") {
            let message = "pages of all origins (`*`) get no credentials: name the origins";
            self.note(fields.problem("credentials", message));
        }
        cors
    }

    /// The origins in the table's key `origins`.
    fn checked_origins(&mut self, fields: &Fields) -> Vec<String> {
        let origins = fields.texts("origins");
        for origin in origins {
            let authority = origin
                .text
                .strip_prefix("https://")
                .or_else(|| origin.text.strip_prefix("http://"));
            let is_origin = authority.is_some_and(|authority| {
                !authority.is_empty() && !authority.contains(['/', ' ', '?', '#', '@'])
            });
            if !is_origin && origin.text != "*" {
                let message = format!(
                    "found {:?}, expected an origin such as \"https://example.org\", or \"*\"",
                    origin.text
                );
                self.note(fields.problem_at(origin.line, "origins", message));
            }
        }
        origins.iter().map(|origin| origin.text.clone()).collect()
    }

    /// Checks path and host by compiling the route on its own.
    fn check_rule(&mut self, fields: &Fields, path: &str, host: Option<&str>) -> Option<()> {
        let rule = Rule {
            methods: Vec::new(),
            host: host.map(str::to_owned),
            path: path.to_owned(),
            target: (),
        };
        let problem = match Router::compile(vec![rule]) {
            Ok(_) => return Some(()),
            Err(RouterError::Pattern { path, source, .. }) => {
                fields.problem("path", format!("found {path:?}: {source}"))
            }
            Err(error) => fields.problem("host", error.to_string()),
        };
        self.note(problem);
        None
    }

    fn refuse_conflicts(&mut self, routes: &[Route], fields: &[&Fields]) {
        let mut rules = Vec::new();
        let mut route_of = Vec::new();
        for (at, route) in routes.iter().enumerate() {
            for (path, _) in route.paths() {
                route_of.push(at);
                rules.push(Rule {
                    methods: route.methods.clone(),
                    host: route.host.clone(),
                    path,
                    target: (),
                });
            }
        }
        if let Err(RouterError::Conflict {
            first,
            second,
            path,
            method,
        }) = Router::compile(rules)
        {
            let (first, second) = (&fields[route_of[first]], &fields[route_of[second]]);
            let by = self.places.said(first.line_of("path"), second.line);
            let message = format!("`{path}` answers {method} already, by the route on {by}");
            self.note(second.problem("path", message));
        }
    }

    fn methods(&mut self, fields: &Fields) -> Vec<String> {
        let mut methods: Vec<String> = Vec::new();
        for method in fields.texts("methods") {
            let is_method =
                is_token(method.text.as_bytes()) && !method.text.bytes().any(|b| b.is_ascii_lowercase());
            if !is_method {
                let message = format!(
                    "found {:?}, expected a method in capitals, such as \"GET\"",
                    method.text
                );
                self.note(fields.problem_at(method.line, "methods", message));
            } else if methods.contains(&method.text) {
                let message = format!("`{}` is listed twice", method.text);
                self.note(fields.problem_at(method.line, "methods", message));
            }
            methods.push(method.text.clone());
        }
        methods
    }

    fn target(&mut self, fields: &Fields, behind: &Behind<'_>) -> Option<Target> {
        let written: Vec<&str> = TARGETS.into_iter().filter(|name| fields.written(name)).collect();
        let [target] = written[..] else {
            let found = if written.is_empty() {
                "none".to_owned()
            } else {
                written.join(" and ")
            };
            let message = format!("found {found}; a route has exactly one target: {TARGETS_LISTED}");
            self.note(Noted {
                line: fields.line,
                key: fields.path.clone(),
                message,
            });
            return None;
        };
        if target != "files" {
            for name in FILES_KEYS.into_iter().filter(|name| fields.written(name)) {
                self.note(fields.problem(name, "only a route with `files` has it"));
            }
        }
        if target != "pool" {
            for name in POOL_KEYS.into_iter().filter(|name| fields.written(name)) {
                self.note(fields.problem(name, "only a route with `pool` has it"));
            }
        }
        if target != "proxy" && fields.written("upstream_path") {
            self.note(fields.problem("upstream_path", "only a route with `proxy` has it"));
        }
        match target {
            "proxy" => self
                .proxy_route(fields, behind.proxies, &behind.proxies_declared)
                .map(Target::Proxy),
            "respond" => self.respond(fields.table("respond")).map(Target::Respond),
            "files" => self.files(fields).map(Target::Files),
            "store" => self.store_route(fields, behind.has_store),
            "records" => self.records_route(fields, behind.has_store),
            "tql" => {
                self.check_store(fields, "tql", behind.has_store);
                behind.has_store.then_some(Target::Tql)
            }
            "script" => self.script_route(fields, behind).map(Target::Script),
            "sql" => self.sql_route(fields, behind).map(Target::Sql),
            "workflow" => self
                .workflow_route(fields, behind.has_releases, behind.has_publishers)
                .map(Target::Workflow),
            _ => self.pool_route(fields, behind).map(Target::Pool),
        }
    }

    fn files(&mut self, fields: &Fields) -> Option<Files> {
        let path = fields.text("path");
        if Pattern::parse(path).is_ok_and(|pattern| !pattern.ends_with_rest()) {
            let message =
                format!("found {path:?}; a route with `files` ends with `/*`, which names the file");
            self.note(fields.problem("path", message));
        }
        let cache_control = fields.opt_text("cache_control").map(str::to_owned);
        if let Some(value) = cache_control.as_ref().filter(|value| !is_header_value(value)) {
            let message = format!("found {value:?}, expected the value of a header");
            self.note(fields.problem("cache_control", message));
        }
        let folder = self.existing_folder(fields, "files")?;
        Some(Files {
            folder,
            cache_control,
            precompressed: fields.flag("precompressed"),
        })
    }

    fn store_route(&mut self, fields: &Fields, has_store: bool) -> Option<Target> {
        let path = fields.text("path");
        let pattern = Pattern::parse(path);
        if pattern.is_ok_and(|pattern| !pattern.ends_with_rest() || pattern.segments().len() < 2) {
            let message = format!(
                "found {path:?}; a route with `store` is a name and `/*`, which names the node: \"/store/*\""
            );
            self.note(fields.problem("path", message));
        }
        self.check_store(fields, "store", has_store);
        has_store.then_some(Target::Store)
    }

    fn records_route(&mut self, fields: &Fields, has_store: bool) -> Option<Target> {
        let path = fields.text("path");
        if Pattern::parse(path).is_ok_and(|pattern| !pattern.ends_with_rest()) {
            let message = format!(
                "found {path:?}; a route with `records` ends with `/*`, which is the reference: \"/json/*\""
            );
            self.note(fields.problem("path", message));
        }
        self.check_store(fields, "records", has_store);
        has_store.then_some(Target::Records)
    }

    fn check_store(&mut self, fields: &Fields, target: &str, has_store: bool) {
        if !has_store {
            self.note(fields.problem(target, "there is no store: the file has no [store]"));
        }
    }

    fn script_route(&mut self, fields: &Fields, behind: &Behind<'_>) -> Option<String> {
        let name = fields.text("script");
        if !behind.scripts_declared.contains(&name) {
            self.note(fields.problem("script", none_such("script", name, &behind.scripts_declared)));
            return None;
        }
        Some(name.to_owned())
    }

    fn pool_route(&mut self, fields: &Fields, behind: &Behind<'_>) -> Option<PoolRoute> {
        let name = fields.text("pool");
        if !behind.pools_declared.contains(&name) {
            self.note(fields.problem("pool", none_such("pool", name, &behind.pools_declared)));
        }
        let pool = behind.pools.get(name)?;
        let of_pool = |key: &str| format!("pool.{name}.{key}");
        Some(PoolRoute {
            pool: name.to_owned(),
            queue_timeout: self.narrowed_duration(
                fields,
                "queue_timeout",
                pool.queue_timeout,
                &of_pool("queue_timeout"),
            ),
            run_timeout: self.narrowed_duration(
                fields,
                "run_timeout",
                pool.run_timeout,
                &of_pool("run_timeout"),
            ),
            retry: fields.opt_text("retry").map_or(pool.retry, pool::retry),
        })
    }

    fn respond(&mut self, fields: &Fields) -> Option<Respond> {
        let problems = self.problems.len();
        let written: Vec<&str> = ["json", "text", "file"]
            .into_iter()
            .filter(|name| fields.written(name))
            .collect();
        if written.len() > 1 {
            let message = format!(
                "found {}; a body comes from at most one of them",
                written.join(" and ")
            );
            self.note(fields.problem(written[1], message));
        }
        let status = fields.integer("status") as u16;
        if let (204 | 205 | 304, [name, ..]) = (status, &written[..]) {
            self.note(fields.problem(name, format!("an answer with status {status} has no body")));
        }
        let (body, default_type, file) = self.respond_body(fields)?;
        let respond = Respond {
            status,
            content_type: self.content_type(fields, default_type),
            headers: self.headers(fields, "headers"),
            body,
            file,
        };
        (self.problems.len() == problems).then_some(respond)
    }

    /// The body, its content type, and the file it comes from.
    #[allow(
        clippy::type_complexity,
        reason = "three parts of one answer, taken apart by the only caller"
    )]
    fn respond_body(
        &mut self,
        fields: &Fields,
    ) -> Option<(Vec<u8>, Option<&'static str>, Option<std::path::PathBuf>)> {
        if let Some(json) = fields.opt_json("json") {
            return Some((json.as_bytes().to_vec(), Some("application/json"), None));
        }
        if let Some(text) = fields.opt_text("text") {
            return Some((text.as_bytes().to_vec(), Some("text/plain; charset=utf-8"), None));
        }
        if !fields.written("file") {
            return Some((Vec::new(), None, None));
        }
        let file = self.existing_file(fields, "file")?;
        match read_bounded(&file) {
            Ok(body) => Some((body, Some(content_type_of(&file)), Some(file))),
            Err(error) => {
                self.note(fields.problem("file", format!("cannot read `{}`: {error}", file.display())));
                None
            }
        }
    }

    fn content_type(&mut self, fields: &Fields, default: Option<&str>) -> Option<String> {
        let written = fields.opt_text("content_type");
        match (written, default) {
            (Some(_), None) => {
                self.note(fields.problem("content_type", "this answer has no body"));
            }
            (Some(value), _) if value.is_empty() || !is_header_value(value) => {
                let message = format!("found {value:?}, expected a media type such as \"text/html\"");
                self.note(fields.problem("content_type", message));
            }
            _ => {}
        }
        written.or(default).map(str::to_owned)
    }

    fn narrowed_duration(
        &mut self,
        fields: &Fields,
        name: &str,
        outer: std::time::Duration,
        outer_name: &str,
    ) -> std::time::Duration {
        let Some(own) = fields.opt_duration(name) else {
            return outer;
        };
        if own > outer {
            let (found, most) = (print_duration(own), print_duration(outer));
            let message = format!(
                "found {found}, which is more than {outer_name} ({most}); a route may only narrow it"
            );
            self.note(fields.problem(name, message));
        }
        own
    }
}

/// A message about a reference to a missing section; `what` is the kind of section.
pub(super) fn none_such(what: &str, name: &str, declared: &[&str]) -> String {
    if declared.is_empty() {
        return format!("there is no {what} `{name}`: the file has no [{what}.{name}]");
    }
    let proposal = nearest(name, declared.iter().copied());
    let proposal = proposal
        .map(|near| format!(" (did you mean `{near}`?)"))
        .unwrap_or_default();
    format!(
        "there is no {what} `{name}`{proposal}; the file has {}",
        declared.join(", ")
    )
}

fn read_bounded(file: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = std::fs::metadata(file)?.len();
    if bytes > RESPOND_FILE_BYTES_MAX {
        let message = format!("it has {bytes} bytes, at most {RESPOND_FILE_BYTES_MAX} are accepted");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    std::fs::read(file)
}
