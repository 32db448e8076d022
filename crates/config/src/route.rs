//! `[[route]]`

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_jobs::{CronExpression, TimeZone};
use forebay_router::{Pattern, Router, RouterError, Rule};
use forebay_workflow::{Priority, WorkflowApi, WorkflowRoute};

use crate::build::Context;
use crate::fields::{Fields, Value};
use crate::headers::is_header_value;
use crate::key::{HOUR, KIB, Key, Kind, SECOND, TIB, YEAR};
use crate::openapi::RouteDoc;
use crate::pool::Retry;
use crate::print::Table;
use crate::proxy::check_request_path;
use crate::redirect::{Redirect, check_template};
use crate::section::{Entry, Section, Setting, Unused, by_keys, section, unless};
use crate::server::Compress;
use crate::setting::parsed;
use crate::sql::SqlRoute;
use crate::workflow::WorkflowRouteKeys;
use crate::{content_type_of, is_token};

/// Largest file for `respond.file`, in bytes; its content stays in memory.
const RESPOND_FILE_BYTES_MAX: u64 = 16 << 20;

/// Keys valid only for routes with `files`.
const FILES_KEYS: [&str; 2] = ["cache_control", "precompressed"];
/// Key valid only for routes with `proxy`.
const UPSTREAM_PATH: &str = "upstream_path";

section! {
    /// Which requests are answered from where. A route has exactly one target: `respond`, `redirect`, `rewrite`, `files`, `store`, `records`,
    /// `tql`, `sql`, `pool`, `proxy`, `script`, `workflow` or `openapi`.
    #[rules(Route::rules)]
    #[check(Route::check)]
    #[unused(Route::unused)]
    pub struct Route {
        /// The pattern: `/users/:id`, `/static/*`. See routing.md.
        path: String,
        /// Methods this route answers; without the key, all but TRACE. GET answers HEAD too.
        methods: Option<Vec<String>> as at_least(1) => "405 with `Allow`",
        /// `example.com` or `*.example.com`; without the key, every host.
        host: Option<String>,
        /// NAMEs of `[policy.NAME]` that hold for this route: who may ask, how often, and what responses have in common. All of them hold.
        policy: Vec<String> as names("policy") = "",
        /// The documentation of this route in the OpenAPI document.
        doc: Option<RouteDoc>,
        /// Headers added to every answer of this route.
        headers: Vec<(String, String)>,
        /// For `store`, `records` and `tql`: origins of web pages, beside the server's own, that may have browsers change something, or
        /// open a WebSocket of the store's changes, such as `https://example.org`; `*`: all. A browser says where a page comes from
        /// (`Sec-Fetch-Site`, `Origin`); other programs need no entry.
        origins: Option<Vec<String>> = "" => "403",
        /// Pages of other origins whose scripts may read the answers. The server then answers preflight requests itself, so handlers must
        /// not send such headers.
        cors: Option<Cors>,
        /// Accepted ways of authentication, each the NAME of an `[auth.NAME]`; a client needs one of them. If the route's policies have
        /// the key, too, only the ways that are in all of these lists are accepted. Without the key here and there, everybody is answered.
        auth: Vec<String> as names("auth") = "" => "401 with `WWW-Authenticate`",
        /// Scopes that the client must have: all of these, and all of the `scopes` of the route's policies.
        scopes: Vec<String> = "" => "403",
        /// Replaces `server.compress` here.
        compress: Compress | "server.compress",
        /// The target that answers requests.
        target: Target as group(Target::KEYS),
        /// Narrows `server.deadline`.
        deadline: Duration as TIMEOUT | "server.deadline" => "504",
        /// Replaces `server.body_bytes_max` here, upwards or downwards.
        body_bytes_max: u64 as size(0, TIB) | "server.body_bytes_max" => "413",
        /// A file with the JSON Schema (draft 2020-12, unless it says another) of the bodies of requests, which are checked before the target
        /// gets them. They have at most 1 MiB and 128 levels. The schema refers to no other files and addresses, its patterns take linear
        /// time, and it is read when the configuration is.
        body_schema: Option<PathBuf> as FILE => "422; 400 if it is not JSON, 415 if it is said to be something else",
        /// Narrows the pool's; only with `pool`.
        queue_timeout: Option<Duration> as TIMEOUT | "pool.NAME.queue_timeout" => "503",
        /// Narrows the pool's; only with `pool`.
        run_timeout: Option<Duration> as TIMEOUT | "pool.NAME.run_timeout" => "504",
        /// Replaces the pool's; only with `pool`.
        retry: Option<Retry> | "pool.NAME.retry" => "502",
        /// Requests become jobs: each is stored and answered 202 with the address of its job, and a worker does it later; written
        /// `durable = {}`. Only with `pool`, and only with a [store] or `cluster.job_replicas`. Such a route answers POST unless `methods` says otherwise, and its jobs
        /// are at its path and `/jobs/ID`.
        durable: Option<Durable>,
    }
}

section! {
    /// How the jobs of a route are done.
    pub struct Durable {
        /// Attempts that may fail before the job does. One fails by a status of 500 or more, if its worker ends, or by `timeout`. An answer
        /// with a status of 400 to 499 is final.
        attempts: u32 as integer(1, 1_000) = "12" => "the job is a dead letter, kept for 30 days at least",
        /// The pause after the first failed attempt. It doubles with each, up to an hour, and varies by a quarter.
        backoff: Duration as duration(100, HOUR) = "10s",
        /// How long an attempt may run.
        timeout: Duration as TIMEOUT = "10m" => "the attempt has failed",
        /// How long a job that is done, its answer and its `Idempotency-Key` are kept.
        kept: Duration as duration(SECOND, YEAR) = "24h" => "404; the key names a new job",
        /// Jobs of this route that run at a time. All routes of a pool together have no more than its workers can run.
        at_a_time: usize as integer(1, 4096) = "16" => "the next waits",
        /// Times at which a job is made without a client: a cron expression of minute, hour, day, month and day of the week, with the second
        /// before them if wanted, such as `"30 3 * * MON-FRI"`. Times that pass while no server runs have one job together, at the start.
        schedule: Option<CronExpression>,
        /// The time zone of `schedule`, such as `"Europe/Zurich"`.
        time_zone: TimeZone = "UTC",
        /// Which routes' jobs begin first where several wait for the same pool.
        priority: Priority = "normal",
        /// Jobs of this route that are not over.
        open_max: u64 as integer(1, 10_000_000) = "100000" => "503 with `Retry-After`",
        /// Bytes of the requests of these jobs. A lone request may exceed it; `body_bytes_max` bounds that.
        bytes_max: u64 as size(64 * KIB, TIB) = "1GiB" => "503 with `Retry-After`",
    }
}

section! {
    /// The keys of a route's target.
    #[unused(TargetKeys::unused)]
    #[derive(Default)]
    pub(crate) struct TargetKeys {
        /// Target: an answer from memory. At most one of `json`, `text` and `file`.
        respond: Option<Respond>,
        /// Target: a redirect to another address.
        redirect: Option<Redirect>,
        /// Target: the route that answers another path of this server, such as `/internal/:id`; see `redirect.to` for what stands for what.
        /// The request goes on inside the server, once: that route may not be a `rewrite`. The policies and headers of both hold.
        rewrite: Option<String>,
        /// Target: a static folder. The path must end with `*`, which names the file below it.
        files: Option<PathBuf> as FOLDER,
        /// For `files`: the `Cache-Control` of files, such as `public, max-age=3600`. Errors do not have it.
        cache_control: Option<String>,
        /// For `files`: where `a.js.br`, `a.js.zst` or `a.js.gz` is beside `a.js`, clients that accept it get that, with
        /// `Content-Encoding`.
        precompressed: bool = "false",
        /// Target: the store, by the rules of `[store.access]`; written `store = {}`. The path must end with `*`, which names the node.
        store: Option<()>,
        /// Target: records of the store by their references, by the rules of `[store.access]`; written `records = {}`. The path must end
        /// with `*`, which is the reference.
        records: Option<()>,
        /// Target: statements of TQL about records of the store, by the rules of `[store.access]`; written `tql = {}`.
        tql: Option<()>,
        /// Target: a statement on a database. Such a route says which `methods` it answers.
        sql: Option<SqlRoute>,
        /// Target: the NAME of a `[pool.NAME]`.
        pool: Option<String> as name("pool"),
        /// Target: the NAME of a `[proxy.NAME]`.
        proxy: Option<String> as name("proxy"),
        /// For `proxy`, if the path ends with `*`: what the servers get in the place of everything before the `*`. With `/` a route for
        /// `/old/*` asks for `/a` where the client asks for `/old/a`. Without the key, they get the path as it is.
        upstream_path: Option<String>,
        /// Target: the NAME of a `[script.NAME]`.
        script: Option<String> as name("script"),
        /// Target: workflows, as `[workflow]` says; written `workflow = {}`.
        workflow: Option<WorkflowRouteKeys>,
        /// Target: the OpenAPI document of all routes, for browsers a page that shows it; written `openapi = {}`.
        openapi: Option<()>,
    }
}

section! {
    /// Permissions of scripts of other origins (the CORS protocol of the Fetch standard).
    #[check(Cors::check)]
    pub struct Cors {
        /// Their origins, such as `https://example.org`; `*`: all.
        origins: Vec<String> as at_least(1),
        /// Request headers that they may send beyond the few that need no permission, such as `authorization` or `content-type`.
        headers: Vec<String> = "",
        /// Whether they may send cookies and credentials; not with the origin `*`.
        credentials: bool = "false",
    }
}

section! {
    /// The keys of a fixed response.
    #[rules(RespondKeys::rules)]
    struct RespondKeys {
        /// The status.
        status: u16 as integer(200, 599) = "200",
        /// The body as JSON, members in the order written.
        json: Option<Json>,
        /// The body as text.
        text: Option<String>,
        /// A file whose bytes, at most 16 MiB, are the body. It is read when the configuration is.
        file: Option<PathBuf> as FILE,
        /// Without the key: `application/json` for `json`, `text/plain; charset=utf-8` for `text`, by its extension for `file`.
        content_type: Option<String>,
        /// Further headers.
        headers: Vec<(String, String)>,
    }
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A fixed response from memory.
    Respond(Respond),
    /// A redirect.
    Redirect(Redirect),
    /// The route that answers another path; a text that [`Template`](forebay_router::Template) parses.
    Rewrite(String),
    /// Static files.
    Files(Files),
    /// The tree of the store.
    Store,
    /// Records in the store.
    Records,
    /// TQL statements on records.
    Tql,
    /// SQL statements on a database.
    Sql(SqlRoute),
    /// A pool of worker processes: a key of [`Config::pools`](crate::Config::pools).
    Pool(String),
    /// Other HTTP servers.
    Proxy(ProxyRoute),
    /// A script: a key of [`Config::scripts`](crate::Config::scripts).
    Script(String),
    /// Workflows: graphs of rules.
    Workflow(WorkflowRoute),
    /// The OpenAPI document of all routes.
    OpenApi,
}
by_keys!(Target, TargetKeys);

/// A fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// `None` only for a response without a body.
    pub content_type: Option<String>,
    /// Additional headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// The absolute path of the file the body was read from, if it was.
    pub file: Option<PathBuf>,
}
by_keys!(Respond, RespondKeys);

/// A folder of static files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Absolute; it existed when the configuration was checked.
    pub folder: PathBuf,
    /// The `Cache-Control` of files.
    pub cache_control: Option<String>,
    /// Whether compressed files beside the others are sent.
    pub precompressed: bool,
}

/// A route to other HTTP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRoute {
    /// A key of [`Config::proxies`](crate::Config::proxies).
    pub proxy: String,
    /// Replaces the path before the pattern's `*` in requests to the servers.
    pub upstream_path: Option<String>,
}

/// The role of one of a route's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// The route's own path.
    Own,
    /// Batches of a store route.
    Batch,
    /// The change feed of a store route.
    Changes,
    /// A job of a durable route.
    Job,
}

impl Route {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        check_rule(fields, context);
        let has_any = |targets: &[&str]| targets.iter().any(|target| fields.has(target));
        if let Some(first) = fields.texts("origins").first()
            && targets().any(|target| fields.has(target))
            && !has_any(&["store", "records", "tql"])
        {
            let message = "only routes with store, records or tql have origins";
            context.note(fields.problem_at(first.line, "origins", message));
        }
        check_origins(fields, context);
        if fields.has("durable") && !context.has_store() && !context.has_job_replicas() {
            let message =
                "there is nowhere to keep jobs: the file has neither [store] nor `cluster.job_replicas`";
            context.note(fields.problem("durable", message));
        }
        if fields.has("durable") && !context.has_job_replicas() && context.has_store_url() {
            let message = "jobs are kept in a store that one server has to itself (store.path), or in JetStream (cluster.job_replicas), and not in a database (store.url)";
            context.note(fields.problem("durable", message));
        }
        let methods = fields.texts("methods");
        for (at, method) in methods.iter().enumerate() {
            let text = &method.text;
            let message = if !is_token(text.as_bytes()) || text.bytes().any(|b| b.is_ascii_lowercase()) {
                format!("found {text:?}, expected a method in capitals, such as \"GET\"")
            } else if methods[..at].iter().any(|other| other.text == *text) {
                format!("`{text}` is listed twice")
            } else if fields.has("durable") && matches!(&**text, "GET" | "HEAD" | "OPTIONS" | "TRACE") {
                format!("`{text}` asks for nothing to be done: a route with `durable` cannot answer it")
            } else {
                continue;
            };
            context.note(fields.problem_at(method.line, "methods", message));
        }
    }

    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        self.host = self.host.take().map(|host| host.to_ascii_lowercase());
        self.origins.take_if(|origins| origins.is_empty());
        if self.durable.is_some() {
            self.methods.get_or_insert_with(|| vec!["POST".to_owned()]);
            if self
                .durable
                .as_ref()
                .is_some_and(|durable| durable.schedule.is_some())
                && self.path.contains([':', '*'])
            {
                let message = "a route with `durable.schedule` has a path without parameters, because its schedule gives none";
                context.note(fields.problem("path", message));
            }
            let jobs = self.jobs_path();
            if let (Ok(_), Err(error)) = (Pattern::parse(&self.path), Pattern::parse(&jobs)) {
                let message = format!("its jobs would be at {jobs:?}: {error}");
                context.note(fields.problem("path", message));
            }
        }
    }

    fn unused(&self) -> Unused {
        let is_answered_here = !matches!(self.target, Target::Rewrite(_));
        let has_pool = matches!(self.target, Target::Pool(_));
        [
            unless(
                has_pool,
                &["queue_timeout", "run_timeout", "retry", "durable"],
                "only a route with `pool` has it",
            ),
            unless(
                !has_pool || self.durable.is_none(),
                &["queue_timeout", "run_timeout", "retry"],
                "a route with `durable` has `durable.timeout` and `durable.attempts` instead",
            ),
            unless(
                is_answered_here,
                &["cors", "compress", "deadline", "body_bytes_max", "body_schema"],
                "a route with `rewrite` has those of the route that answers",
            ),
        ]
        .concat()
    }

    /// Upper case, without duplicates; empty: every method.
    pub fn methods(&self) -> &[String] {
        self.methods.as_deref().unwrap_or_default()
    }

    /// The methods that it answers at one of its paths; empty: every method.
    pub fn methods_at(&self, kind: PathKind) -> Vec<String> {
        match kind {
            PathKind::Job => vec!["DELETE".to_owned(), "GET".to_owned()],
            PathKind::Own | PathKind::Batch | PathKind::Changes => self.methods().to_vec(),
        }
    }

    /// Where the jobs of a durable route are.
    pub fn jobs_path(&self) -> String {
        let (before, last) = self.path.rsplit_once('/').unwrap_or_default();
        let is_rest = last.is_empty() || last.starts_with('*');
        format!("{}/jobs/:job", if is_rest { before } else { &self.path })
    }

    /// The paths it answers: its own and, for the store, those of batches and changes (`/store:batch` and `/store:changes` next to
    /// `/store/*`); for releases, that of all of them (`/releases` next to `/releases/*`); for durable routes, those of their jobs
    /// (`/mails/jobs/:job` next to `/mails`).
    pub fn paths(&self) -> impl Iterator<Item = (String, PathKind)> {
        let prefix = self.path.rsplit_once('/').map(|(prefix, _)| prefix.to_owned());
        let beside = match (&self.target, prefix) {
            (Target::Store, Some(prefix)) => vec![
                (format!("{prefix}:batch"), PathKind::Batch),
                (format!("{prefix}:changes"), PathKind::Changes),
            ],
            (Target::Workflow(route), Some(prefix)) if route.api == WorkflowApi::Releases => {
                vec![(prefix, PathKind::Own)]
            }
            _ if self.durable.is_some() => vec![(self.jobs_path(), PathKind::Job)],
            _ => Vec::new(),
        };
        std::iter::once((self.path.clone(), PathKind::Own)).chain(beside)
    }
}

/// Checks path and host by compiling the route on its own.
fn check_rule(fields: &Fields, context: &mut Context<'_>) {
    let rule = Rule {
        methods: Vec::new(),
        host: fields.text("host").map(str::to_ascii_lowercase),
        path: fields.text("path").unwrap_or_default().to_owned(),
        target: (),
    };
    context.note(match Router::compile(vec![rule]) {
        Ok(_) => return,
        Err(RouterError::Pattern { path, source, .. }) => {
            fields.problem("path", format!("found {path:?}: {source}"))
        }
        Err(error) => fields.problem("host", error.to_string()),
    });
}

/// Reports routes that answer the same requests.
pub(crate) fn refuse_conflicts(routes: &[(Route, &Fields)], context: &mut Context<'_>) {
    let mut rules = Vec::new();
    let mut route_of = Vec::new();
    for (route, fields) in routes {
        for (path, kind) in route.paths() {
            route_of.push(fields);
            rules.push(Rule {
                methods: route.methods_at(kind),
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
        let (first, second) = (&route_of[first], &route_of[second]);
        let by = context.places.said(first.line_of("path"), second.line);
        let message = format!("`{path}` answers {method} already, by the route on {by}");
        context.note(second.problem("path", message));
    }
}

/// Checks the key `origins`.
fn check_origins(fields: &Fields, context: &mut Context<'_>) {
    for origin in fields.texts("origins") {
        let text = &origin.text;
        let authority = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let is_origin = authority
            .is_some_and(|authority| !authority.is_empty() && !authority.contains(['/', ' ', '?', '#', '@']));
        if !is_origin && text != "*" {
            let message =
                format!("found {text:?}, expected an origin such as \"https://example.org\", or \"*\"");
            context.note(fields.problem_at(origin.line, "origins", message));
        }
    }
}

impl Cors {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        check_origins(fields, context);
        let mut headers = fields.texts("headers").iter();
        if let Some(name) = headers.find(|name| !is_token(name.text.as_bytes())) {
            let message = format!("found {:?}, expected names of headers", name.text);
            context.note(fields.problem_at(name.line, "headers", message));
        }
        if self.credentials && self.origins.iter().any(|origin| origin == "*") {
            let message = "pages of all origins (`*`) get no credentials: name the origins";
            context.note(fields.problem("credentials", message));
        }
    }
}

impl TargetKeys {
    fn unused(&self) -> Unused {
        let (no_files, no_proxy) = (
            "only a route with `files` has it",
            "only a route with `proxy` has it",
        );
        [
            unless(self.files.is_some(), &FILES_KEYS, no_files),
            unless(self.proxy.is_some(), &[UPSTREAM_PATH], no_proxy),
        ]
        .concat()
    }
}

/// The keys that are targets.
fn targets() -> impl Iterator<Item = &'static str> {
    let names = TargetKeys::KEYS.iter().map(|key| key.name);
    names.filter(|name| !FILES_KEYS.contains(name) && *name != UPSTREAM_PATH)
}

/// The targets as part of a sentence.
fn targets_listed() -> String {
    let targets: Vec<&str> = targets().collect();
    let listed = targets.join(", ");
    let (others, last) = listed.rsplit_once(", ").unwrap_or_default();
    format!("{others} or {last}")
}

impl Target {
    fn of(keys: TargetKeys, fields: &Fields, context: &mut Context<'_>) -> Option<Self> {
        let written: Vec<&str> = targets().filter(|name| fields.has(name)).collect();
        let [target] = written[..] else {
            let found = if written.is_empty() {
                "none".to_owned()
            } else {
                written.join(" and ")
            };
            let message = format!(
                "found {found}; a route has exactly one target: {}",
                targets_listed()
            );
            context.note(fields.whole_problem(message));
            return None;
        };
        if let "store" | "records" | "tql" = target
            && !context.has_store()
        {
            context.note(fields.problem(target, "there is no store: the file has no [store]"));
        }
        let is_sql = target == "sql";
        if is_sql && !fields.has("methods") {
            let message = "a route with `sql` says which methods it answers, such as [\"GET\"]: one that changes something is not for GET";
            context.note(fields.problem("sql", message));
        }
        check_path(target, keys.workflow.as_ref(), fields, context);
        check_template(&keys, fields, context);
        if target == "proxy" {
            check_request_path(UPSTREAM_PATH, fields, context);
            if fields.has(UPSTREAM_PATH) && !pattern(fields).is_some_and(|pattern| pattern.ends_with_rest()) {
                let message =
                    "only a route whose path ends with `/*` has it: it stands for what comes before the `*`";
                context.note(fields.problem(UPSTREAM_PATH, message));
            }
        }
        if let Some(value) = keys
            .cache_control
            .as_ref()
            .filter(|value| !is_header_value(value))
        {
            let message = format!("found {value:?}, expected the value of a header");
            context.note(fields.problem("cache_control", message));
        }
        match target {
            "respond" => keys.respond.map(Self::Respond),
            "redirect" => keys.redirect.map(Self::Redirect),
            "rewrite" => keys.rewrite.map(Self::Rewrite),
            "files" => Some(Self::Files(Files {
                folder: keys.files?,
                cache_control: keys.cache_control,
                precompressed: keys.precompressed,
            })),
            "store" => Some(Self::Store),
            "records" => Some(Self::Records),
            "tql" => Some(Self::Tql),
            "sql" => keys.sql.map(Self::Sql),
            "pool" => keys.pool.map(Self::Pool),
            "proxy" => Some(Self::Proxy(ProxyRoute {
                proxy: keys.proxy?,
                upstream_path: keys.upstream_path,
            })),
            "script" => keys.script.map(Self::Script),
            "openapi" => Some(Self::OpenApi),
            _ => {
                let has_rest = pattern(fields).is_some_and(|pattern| pattern.ends_with_rest());
                Some(Self::Workflow(keys.workflow?.of_path(has_rest)))
            }
        }
    }

    /// As a file says it.
    fn keys(&self) -> TargetKeys {
        let mut keys = TargetKeys::default();
        match self.clone() {
            Self::Respond(respond) => keys.respond = Some(respond),
            Self::Redirect(redirect) => keys.redirect = Some(redirect),
            Self::Rewrite(path) => keys.rewrite = Some(path),
            Self::Files(files) => {
                keys.files = Some(files.folder);
                keys.cache_control = files.cache_control;
                keys.precompressed = files.precompressed;
            }
            Self::Store => keys.store = Some(()),
            Self::Records => keys.records = Some(()),
            Self::Tql => keys.tql = Some(()),
            Self::Sql(sql) => keys.sql = Some(sql),
            Self::Pool(name) => keys.pool = Some(name),
            Self::Proxy(route) => {
                keys.proxy = Some(route.proxy);
                keys.upstream_path = route.upstream_path;
            }
            Self::Script(name) => keys.script = Some(name),
            Self::OpenApi => keys.openapi = Some(()),
            Self::Workflow(WorkflowRoute { api, release }) => {
                keys.workflow = Some(WorkflowRouteKeys {
                    api: Some(api),
                    release,
                });
            }
        }
        keys
    }
}

/// The pattern of a route, if its path is valid.
pub(crate) fn pattern(fields: &Fields) -> Option<Pattern> {
    Pattern::parse(fields.text("path")?).ok()
}

/// Reports a path that does not name what the target needs.
fn check_path(
    target: &str,
    workflow: Option<&WorkflowRouteKeys>,
    fields: &Fields,
    context: &mut Context<'_>,
) {
    let pattern = pattern(fields);
    let is_valid = pattern.is_some();
    let has_rest = pattern.as_ref().is_some_and(Pattern::ends_with_rest);
    let is_named = pattern.is_some_and(|pattern| pattern.segments().len() > 1);
    let expected = match (target, workflow.and_then(|workflow| workflow.api)) {
        ("files", _) if is_valid && !has_rest => "a route with `files` ends with `/*`, which names the file",
        ("store", _) if is_valid && !(has_rest && is_named) => {
            "a route with `store` is a name and `/*`, which names the node: \"/store/*\""
        }
        ("records", _) if is_valid && !has_rest => {
            "a route with `records` ends with `/*`, which is the reference: \"/json/*\""
        }
        (_, Some(WorkflowApi::Named)) if !has_rest => {
            "a route with `workflow = { api = \"named\" }` ends with `/*`, which names the workflow"
        }
        (_, Some(WorkflowApi::Releases)) if !(has_rest && is_named) => {
            "a route with `workflow = { api = \"releases\" }` is a name and `/*`, which names the release: \"/releases/*\""
        }
        _ => return,
    };
    let path = fields.text("path").unwrap_or_default();
    context.note(fields.problem("path", format!("found {path:?}; {expected}")));
}

impl WorkflowRouteKeys {
    /// `has_rest`: the path ends with `*`.
    fn of_path(self, has_rest: bool) -> WorkflowRoute {
        let usual = if has_rest {
            WorkflowApi::Named
        } else {
            WorkflowApi::Scenes
        };
        WorkflowRoute {
            api: self.api.unwrap_or(usual),
            release: self.release,
        }
    }
}

/// Any JSON value, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Json(String);

impl Setting for Json {
    const KIND: Kind = Kind::Json;

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        entry.text(context).map(|json| Self(json.to_owned()))
    }

    /// A body is printed as text.
    fn print(&self, _: &Key, _: &mut Table) {}
}

impl RespondKeys {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let bodies = ["json", "text", "file"].into_iter();
        let written: Vec<&str> = bodies.filter(|name| fields.has(name)).collect();
        if written.len() > 1 {
            let found = written.join(" and ");
            let message = format!("found {found}; a body comes from at most one of them");
            context.note(fields.problem(written[1], message));
        }
        if let (Some(Value::Integer(status @ (204 | 205 | 304))), [name, ..]) =
            (fields.value("status"), &written[..])
        {
            context.note(fields.problem(name, format!("an answer with status {status} has no body")));
        }
    }
}

impl Respond {
    fn of(keys: RespondKeys, fields: &Fields, context: &mut Context<'_>) -> Option<Self> {
        let (body, usual) = match (keys.json, keys.text, &keys.file) {
            (Some(Json(json)), ..) => (json.into_bytes(), Some("application/json")),
            (None, Some(text), _) => (text.into_bytes(), Some("text/plain; charset=utf-8")),
            // It was reported.
            (None, None, Some(file)) if !file.is_file() => return None,
            (None, None, Some(file)) => match read_bounded(file) {
                Ok(body) => (body, Some(content_type_of(file))),
                Err(error) => {
                    let message = format!("cannot read `{}`: {error}", file.display());
                    context.note(fields.problem("file", message));
                    return None;
                }
            },
            (None, None, None) => (Vec::new(), None),
        };
        match (&keys.content_type, usual) {
            (Some(_), None) => context.note(fields.problem("content_type", "this answer has no body")),
            (Some(value), _) if value.is_empty() || !is_header_value(value) => {
                let message = format!("found {value:?}, expected a media type such as \"text/html\"");
                context.note(fields.problem("content_type", message));
            }
            _ => {}
        }
        Some(Self {
            status: keys.status,
            content_type: keys.content_type.or(usual.map(str::to_owned)),
            headers: keys.headers,
            body,
            file: keys.file,
        })
    }

    /// As a file says it. A body that is not from a file was written in the configuration, so it is text.
    fn keys(&self) -> RespondKeys {
        let is_text = self.content_type.is_some() && self.file.is_none();
        RespondKeys {
            status: self.status,
            json: None,
            text: is_text.then(|| String::from_utf8_lossy(&self.body).into_owned()),
            file: self.file.clone(),
            content_type: self.content_type.clone(),
            headers: self.headers.clone(),
        }
    }
}

fn read_bounded(file: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = std::fs::metadata(file)?.len();
    if bytes > RESPOND_FILE_BYTES_MAX {
        let message = format!("it has {bytes} bytes, at most {RESPOND_FILE_BYTES_MAX} are accepted");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    std::fs::read(file)
}

parsed!("": CronExpression, TimeZone);
