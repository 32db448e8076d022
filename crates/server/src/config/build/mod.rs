//! Builds the configuration from checked fields: everything that depends on more than one key, on files, or on programs.
//!
//! Each builder reports a problem and continues, so that one run finds all of them.

mod kafka;
mod mail;
mod pool;
mod proxy;
mod records;
mod redis;
mod route;
mod s3;
mod script;
pub(super) mod server;
mod sql;
mod store;
mod tls;
mod trace;
mod workflow;

pub(crate) use self::server::is_level_list;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::config::error::Noted;
use crate::config::fields::Fields;
use crate::config::places::Places;
use crate::config::read::Sections;
use crate::config::types::sql_threads;
use crate::config::{Config, Environment};
use crate::reply::is_token;

/// Builds the configuration of `file`, an absolute path.
pub(super) fn build(
    sections: &Sections,
    file: &Path,
    places: &Places,
    environment: &Environment<'_>,
) -> Result<Config, Vec<Noted>> {
    let mut builder = Builder {
        places,
        environment,
        problems: Vec::new(),
    };
    let server = builder.server(&sections.server, !sections.pools.is_empty());
    let admin = builder.admin(&sections.admin, &server);
    let log = builder.log(&sections.log);
    let trace = sections.trace.as_ref().and_then(|fields| builder.trace(fields));
    let store = sections.store.as_ref().map(|fields| builder.store(fields));
    let has_store = store.is_some();
    let records = builder.records(&sections.records, sections.has_records, has_store);
    let mut pools = BTreeMap::new();
    for (name, fields) in &sections.pools {
        pools.extend(
            builder
                .pool(name, fields, has_store, &names(&sections.sql))
                .map(|pool| (name.clone(), pool)),
        );
    }
    let mut proxies = BTreeMap::new();
    for (name, fields) in &sections.proxies {
        proxies.insert(name.clone(), builder.proxy(name, fields));
    }
    let mut scripts = BTreeMap::new();
    for (name, fields) in &sections.scripts {
        scripts.extend(
            builder
                .script(name, fields, has_store, &names(&sections.sql))
                .map(|script| (name.clone(), script)),
        );
    }
    let leads_there = sections.routes.iter().any(|route| route.written("workflow"));
    let workflow = (sections.has_workflow || leads_there)
        .then(|| {
            builder.workflow(
                &sections.workflow,
                has_store,
                &names(&sections.sql),
                &[
                    ("redis", names(&sections.redis)),
                    ("s3", names(&sections.s3)),
                    ("mail", names(&sections.mail)),
                    ("kafka", names(&sections.kafka)),
                    ("pool", names(&sections.pools)),
                ],
            )
        })
        .flatten();
    let mut tls = BTreeMap::new();
    for (name, fields) in &sections.tls {
        tls.extend(
            builder
                .tls(name, fields, &server)
                .map(|certificate| (name.clone(), certificate)),
        );
    }
    if sections.tls.is_empty()
        && let Some(listen) = server.listen.iter().find(|listen| listen.is_tls())
    {
        let message =
            format!("`{listen}` needs a certificate: add [tls.NAME] with `cert` and `key`, or with `acme`");
        builder.note(sections.server.problem("listen", message));
    }
    let mut redis = BTreeMap::new();
    for (name, fields) in &sections.redis {
        redis.extend(builder.redis(name, fields).map(|options| (name.clone(), options)));
    }
    let mut s3 = BTreeMap::new();
    for (name, fields) in &sections.s3 {
        s3.extend(builder.s3(name, fields).map(|bucket| (name.clone(), bucket)));
    }
    let mut mail = BTreeMap::new();
    for (name, fields) in &sections.mail {
        mail.extend(builder.mail(name, fields).map(|server| (name.clone(), server)));
    }
    let mut kafka = BTreeMap::new();
    for (name, fields) in &sections.kafka {
        kafka.insert(name.clone(), builder.kafka(name, fields));
    }
    let mut sql = BTreeMap::new();
    let mut sql_direct = BTreeSet::new();
    for (name, fields) in &sections.sql {
        let is_direct = fields.flag("direct");
        let threads = sql_threads(
            name,
            is_direct,
            server.threads,
            &scripts,
            workflow.as_ref(),
            &pools,
        );
        sql.extend(
            builder
                .source(name, fields, threads)
                .map(|source| (name.clone(), source)),
        );
        sql_direct.extend(is_direct.then(|| name.clone()));
    }
    let behind = route::Behind {
        pools_declared: names(&sections.pools),
        pools: &pools,
        proxies_declared: names(&sections.proxies),
        proxies: &proxies,
        scripts_declared: names(&sections.scripts),
        sources_declared: names(&sections.sql),
        has_store,
        has_releases: workflow
            .as_ref()
            .is_none_or(|workflow| workflow.source.folder().is_none()),
        has_publishers: workflow
            .as_ref()
            .is_none_or(|workflow| workflow.clients.values().any(|client| client.releases)),
    };
    let routes = builder.routes(&sections.routes, &server, &behind);
    if builder.problems.is_empty() {
        return Ok(Config {
            file: file.to_owned(),
            folder: file.parent().unwrap_or(Path::new("/")).to_owned(),
            included: Vec::new(),
            server,
            tls,
            admin,
            log,
            trace,
            store,
            records,
            pools,
            proxies,
            scripts,
            sql,
            sql_direct,
            redis,
            s3,
            mail,
            kafka,
            workflow,
            routes,
        });
    }
    Err(builder.problems)
}

fn names(sections: &[(String, Fields)]) -> Vec<&str> {
    sections.iter().map(|(name, _)| name.as_str()).collect()
}

/// Longest name of a pool or script, in bytes.
const NAME_BYTES_MAX: usize = 64;

struct Builder<'a> {
    places: &'a Places,
    environment: &'a Environment<'a>,
    problems: Vec<Noted>,
}

impl Builder<'_> {
    fn note(&mut self, problem: Noted) {
        self.problems.push(problem);
    }

    /// Reports a NAME, as in `[pool.NAME]`, that could not be part of a metric or a path.
    fn check_name(&mut self, name: &str, what: &str, fields: &Fields) {
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !is_name {
            let message = format!("a {what}'s name has 1 to 64 letters, digits, `-` and `_`");
            self.note(Noted {
                line: fields.line,
                key: fields.path.clone(),
                message,
            });
        }
    }

    /// The folder to which a table's relative paths refer: that of its file.
    fn folder(&self, fields: &Fields) -> &Path {
        self.places.folder(fields.line)
    }

    /// Makes a path of a table absolute.
    fn resolve(&self, fields: &Fields, path: impl AsRef<Path>) -> PathBuf {
        self.folder(fields).join(path).components().collect()
    }

    /// The absolute path of a file that must exist. `None` if the key is absent or a problem was reported.
    fn existing_file(&mut self, fields: &Fields, name: &str) -> Option<PathBuf> {
        let path = self.resolve(fields, fields.opt_text(name)?);
        if path.is_file() {
            return Some(path);
        }
        self.note(fields.problem(name, format!("there is no file `{}`", path.display())));
        None
    }

    /// The absolute path of a folder that must exist. `None` if the key is absent or a problem was reported.
    fn existing_folder(&mut self, fields: &Fields, name: &str) -> Option<PathBuf> {
        let path = self.resolve(fields, fields.opt_text(name)?);
        if path.is_dir() {
            return Some(path);
        }
        self.note(fields.problem(name, format!("there is no folder `{}`", path.display())));
        None
    }

    /// The absolute path of a file that will be created; its folder must exist.
    fn file_to_make(&mut self, fields: &Fields, name: &str) -> Option<PathBuf> {
        let path = self.resolve(fields, fields.opt_text(name)?);
        let parent = path.parent().unwrap_or(Path::new("/"));
        if !parent.is_dir() {
            self.note(fields.problem(name, format!("there is no folder `{}`", parent.display())));
        }
        Some(path)
    }

    /// The headers in a table of texts, names in lower case.
    fn headers(&mut self, fields: &Fields, name: &str) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        for (header, value) in fields.text_map(name) {
            let lower = header.to_ascii_lowercase();
            match header_problem(&lower, &value.text) {
                None => headers.push((lower, value.text.clone())),
                Some(message) => {
                    self.note(fields.problem_at(value.line, &format!("{name}.{header}"), message));
                }
            }
        }
        headers
    }
}

/// Headers that describe a connection or a body's length, or that the server adds to every response.
const SERVER_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "server",
    "upgrade",
    "x-request-id",
];

/// Why the configuration may not add this header, if so; `name` is in lower case.
fn header_problem(name: &str, value: &str) -> Option<String> {
    if !is_token(name.as_bytes()) {
        return Some("this is not a header's name (RFC 9110, 5.1)".to_owned());
    }
    if name == "content-type" {
        return Some("the target sets it; use `respond.content_type`".to_owned());
    }
    if SERVER_HEADERS.contains(&name) {
        return Some("the server sets this header itself".to_owned());
    }
    (!is_header_value(value))
        .then(|| format!("found {value:?}, expected printable ASCII without a space at either end"))
}

fn is_header_value(value: &str) -> bool {
    value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) && value.trim_ascii() == value
}
