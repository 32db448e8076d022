//! Builds the configuration from checked fields: everything that depends on more than one key, on files, or on programs.
//!
//! Each section reports its problems and the others continue, so that one run finds all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_clients::RedisOptions;
use forebay_cluster::Options as Cluster;

use crate::auth::{Auth, LoginPath, check_login_paths};
use crate::clients::{KafkaCluster, MailServer, S3Bucket};
use crate::error::{Noted, nearest};
use crate::fields::{Fields, Value};
use crate::key::{Default, Key, Section as Declared, Shape, at_least};
use crate::openapi::OpenApi;
use crate::places::Places;
use crate::policy::Policy;
use crate::pool::{At, Pool, StoreMode};
use crate::print::Table;
use crate::proxy::Proxy;
use crate::read::Sections;
use crate::redirect::check_rewrites;
use crate::route::{Route, Target, refuse_conflicts};
use crate::script::Script;
use crate::section::{Entry, Section, Unused};
use crate::server::{Admin, Log, Server};
use crate::sql::Database;
use crate::store::{Records, Store};
use crate::tls::Certificate;
use crate::trace::Trace;
use crate::workflow::Workflow;
use crate::{Environment, Secret};

/// Longest name of a section, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Every section of the file, in the order of the reference and of the printed configuration.
pub(crate) static SECTIONS: &[Declared] = &[
    Declared::of::<Server>("server", Shape::Once),
    Declared::of::<Certificate>("tls", Shape::Named("certificate")),
    Declared::of::<Auth>("auth", Shape::Named("realm")),
    Declared::of::<Admin>("admin", Shape::Once),
    Declared::of::<Log>("log", Shape::Once),
    Declared::of::<Trace>("trace", Shape::Once),
    Declared::of::<Store>("store", Shape::Once),
    Declared::of::<Records>("records", Shape::Once),
    Declared::of::<Cluster>("cluster", Shape::Once),
    Declared::of::<Pool>("pool", Shape::Named("pool")),
    Declared::of::<Proxy>("proxy", Shape::Named("proxy")),
    Declared::of::<Script>("script", Shape::Named("script")),
    Declared::of::<Database>("sql", Shape::Named("database")),
    Declared::of::<RedisOptions>("redis", Shape::Named("Redis")),
    Declared::of::<S3Bucket>("s3", Shape::Named("bucket")),
    Declared::of::<MailServer>("mail", Shape::Named("mail")),
    Declared::of::<KafkaCluster>("kafka", Shape::Named("Kafka")),
    Declared::of::<Workflow>("workflow", Shape::Once),
    Declared::of::<Policy>("policy", Shape::Named("policy")),
    Declared::of::<OpenApi>("openapi", Shape::Once),
    Declared::of::<Route>("route", Shape::Repeated),
];

/// The only key outside of any section.
pub(crate) static INCLUDE: Key = Key {
    name: "include",
    kind: at_least(0),
    default: Default::Is(""),
    about: "Files whose pools, scripts, databases and routes are added to those of this one, at most 64. Relative paths in such a file start at its own folder. An empty text names no file.",
    exceeded: "",
};

/// A validated configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The main file.
    pub file: PathBuf,
    /// The folder of the main file, absolute; relative paths in that file start here.
    pub folder: PathBuf,
    /// Files added by `include`.
    pub included: Vec<PathBuf>,
    /// `[server]`
    pub server: Server,
    /// `[tls.NAME]`, by name: certificates of listeners.
    pub tls: BTreeMap<String, Certificate>,
    /// `[admin]`
    pub admin: Admin,
    /// `[log]`
    pub log: Log,
    /// `[trace]`; `None` if the file has no such section.
    pub trace: Option<Trace>,
    /// `[store]`; `None` if the file has no such section.
    pub store: Option<Store>,
    /// `[records]`
    pub records: Records,
    /// `[cluster]`; `None` if the file has no such section.
    pub cluster: Option<Cluster>,
    /// `[pool.NAME]`, by name.
    pub pools: BTreeMap<String, Pool>,
    /// `[proxy.NAME]`, by name.
    pub proxies: BTreeMap<String, Proxy>,
    /// `[script.NAME]`, by name.
    pub scripts: BTreeMap<String, Script>,
    /// `[auth.NAME]`, by name.
    pub auth: BTreeMap<String, Auth>,
    /// `[sql.NAME]`, by name.
    pub sql: BTreeMap<String, Database>,
    /// `[redis.NAME]`, by name: Redis servers for rules.
    pub redis: BTreeMap<String, RedisOptions>,
    /// `[s3.NAME]`, by name: buckets for rules.
    pub s3: BTreeMap<String, S3Bucket>,
    /// `[mail.NAME]`, by name: mail servers through which rules may send.
    pub mail: BTreeMap<String, MailServer>,
    /// `[kafka.NAME]`, by name: clusters to which rules may publish.
    pub kafka: BTreeMap<String, KafkaCluster>,
    /// `[workflow]`; `None` if the file has no such section, in which case no route refers to it.
    pub workflow: Option<Workflow>,
    /// `[policy.NAME]`, by name.
    pub policies: BTreeMap<String, Policy>,
    /// `[openapi]`
    pub openapi: OpenApi,
    /// `[[route]]`, in file order. No two have the same host, method and shape of path.
    pub routes: Vec<Route>,
}

/// Builds the configuration of `file`, an absolute path.
pub(crate) fn build(
    sections: &Sections,
    file: &Path,
    places: &Places,
    environment: &Environment<'_>,
) -> Result<Config, Vec<Noted>> {
    let mut context = Context {
        places,
        environment,
        sections,
        problems: Vec::new(),
    };
    let config = context.config(file);
    config
        .filter(|_| context.problems.is_empty())
        .ok_or(context.problems)
}

/// The surroundings in which sections are read.
pub(crate) struct Context<'a> {
    pub(crate) places: &'a Places,
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) sections: &'a Sections,
    problems: Vec<Noted>,
}

impl<'a> Context<'a> {
    /// `None` after a problem was noted.
    fn config(&mut self, file: &Path) -> Option<Config> {
        let server: Option<Server> = self.once("server");
        let admin: Option<Admin> = self.once("admin");
        if let (Some(server), Some(admin), Some(fields)) = (&server, &admin, self.sections.find("admin", ""))
        {
            admin.check_beside(server, fields, self);
        }
        let is_routed = |(_, route): &(String, Fields)| route.has("workflow");
        let has_workflow = self.sections.has("workflow") || self.sections.of("route").iter().any(is_routed);
        let (log, records, openapi) = (self.once("log"), self.once("records"), self.once("openapi"));
        let mut routes = Vec::new();
        for (_, fields) in self.sections.of("route") {
            routes.extend(self.read::<Route>(fields).map(|route| (route, fields)));
        }
        let mut config = Config {
            file: file.to_owned(),
            folder: file.parent().unwrap_or(Path::new("/")).to_owned(),
            included: Vec::new(),
            tls: self.named("tls"),
            auth: self.named("auth"),
            trace: self.once("trace"),
            store: self.has_store().then(|| self.once("store")).flatten(),
            cluster: self
                .sections
                .has("cluster")
                .then(|| self.once("cluster"))
                .flatten(),
            pools: self.named("pool"),
            proxies: self.named("proxy"),
            scripts: self.named("script"),
            sql: self.named("sql"),
            redis: self.named("redis"),
            s3: self.named("s3"),
            mail: self.named("mail"),
            kafka: self.named("kafka"),
            workflow: has_workflow.then(|| self.once("workflow")).flatten(),
            policies: self.named("policy"),
            routes: Vec::new(),
            // Everything has been read by now, so that all problems are found.
            server: server?,
            admin: admin?,
            log: log?,
            records: records?,
            openapi: openapi?,
        };
        for (name, fields) in self.sections.of("auth") {
            let needs_certificates = config
                .auth
                .get(name)
                .is_some_and(|auth| auth.certificate.is_some());
            if needs_certificates && config.server.client_ca.is_none() {
                let message = "clients are asked for no certificates: `server.client_ca` names the authorities that sign them";
                self.note(fields.problem("certificate", message));
            }
        }
        for (name, fields) in self.sections.of("sql") {
            let threads = config.sql_threads(name);
            if let Some(database) = config.sql.get_mut(name) {
                database.check(threads, fields, self);
            }
        }
        for (route, fields) in &routes {
            if let (Target::Workflow(target), Some(workflow), Some(Value::Table(written))) =
                (&route.target, &config.workflow, fields.value("workflow"))
            {
                workflow.check_route(*target, written, self);
            }
        }
        refuse_conflicts(&routes, self);
        check_rewrites(&routes, self);
        config.check_auth(&routes, self);
        config.routes = routes.into_iter().map(|(route, _)| route).collect();
        check_login_paths(&config, self.sections.of("auth"), self);
        Some(config)
    }

    /// A section that may appear once; with its defaults if it does not, unless it requires keys.
    fn once<T: Section>(&mut self, section: &str) -> Option<T> {
        self.read(self.sections.find(section, "")?)
    }

    /// `None` after a problem was noted.
    pub(crate) fn read<T: Section>(&mut self, fields: &'a Fields) -> Option<T> {
        let section = T::read(fields, self);
        let is_explained = section.is_some() || !self.problems.is_empty();
        assert!(is_explained, "{} is missing without a problem", fields.path);
        section
    }

    fn named<T: Section>(&mut self, section: &str) -> BTreeMap<String, T> {
        let declared = SECTIONS.iter().find(|declared| declared.name == section);
        let Some(Shape::Named(what)) = declared.map(|declared| declared.shape) else {
            unreachable!("[{section}] has names");
        };
        let mut all = BTreeMap::new();
        for (name, fields) in self.sections.of(section) {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
                let message = format!("a {what}'s name has 1 to 64 letters, digits, `-` and `_`");
                self.note(fields.whole_problem(message));
            }
            all.extend(self.read(fields).map(|section| (name.clone(), section)));
        }
        all
    }

    pub(crate) fn note(&mut self, problem: Noted) {
        self.problems.push(problem);
    }

    /// Reports those of these keys that are written although they have no effect.
    pub(crate) fn refuse(&mut self, fields: &Fields, unused: &Unused) {
        for (key, why) in unused {
            if !why.is_empty() && fields.has(key) {
                self.note(fields.problem(key, why));
            }
        }
    }

    pub(crate) fn has_store(&self) -> bool {
        self.sections.has("store")
    }

    /// Whether there is a store that other machines can open.
    pub(crate) fn has_store_url(&self) -> bool {
        let store = self.sections.find("store", "");
        store.is_some_and(|store| store.has("url"))
    }

    /// Whether durable jobs are in JetStream.
    pub(crate) fn has_job_replicas(&self) -> bool {
        let cluster = self.sections.find("cluster", "");
        cluster.is_some_and(|cluster| cluster.has("job_replicas"))
    }

    /// The folder to which a table's relative paths refer: that of its file.
    pub(crate) fn folder(&self, fields: &Fields) -> &'a Path {
        self.places.folder(fields.line)
    }

    /// Makes a path of a table absolute.
    pub(crate) fn resolve(&self, fields: &Fields, path: impl AsRef<Path>) -> PathBuf {
        self.folder(fields).join(path).components().collect()
    }

    /// A message about a reference to a missing section.
    pub(crate) fn none_such(&self, section: &str, name: &str) -> Option<String> {
        let declared: Vec<&str> = self
            .sections
            .of(section)
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        if declared.contains(&name) {
            return None;
        }
        if declared.is_empty() {
            return Some(format!(
                "there is no {section} `{name}`: the file has no [{section}.{name}]"
            ));
        }
        let proposal = nearest(name, declared.iter().copied());
        let proposal = proposal
            .map(|near| format!(" (did you mean `{near}`?)"))
            .unwrap_or_default();
        let declared = declared.join(", ");
        Some(format!(
            "there is no {section} `{name}`{proposal}; the file has {declared}"
        ))
    }

    /// The value of another section that a key has as its default.
    pub(crate) fn inherited(&self, entry: &Entry<'a>) -> Option<&'a Value> {
        let Default::From(outer) = entry.key.default else {
            return None;
        };
        let outer = entry.outer_name(outer);
        let (table, key) = outer.rsplit_once('.')?;
        let (section, name) = table.split_once('.').unwrap_or((table, ""));
        self.sections.find(section, name)?.value(key)
    }

    /// The secret in an environment variable. `None` after a problem was noted.
    pub(crate) fn secret(&mut self, variable: &str, entry: Entry<'a>) -> Option<Secret> {
        let value = (self.environment.env)(variable).unwrap_or_default();
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            let what = if entry.key.name.ends_with("secret") {
                "secret"
            } else {
                "token"
            };
            let message = format!(
                "the environment variable `{variable}` must hold the {what}: at least one printable ASCII character, no spaces"
            );
            entry.note(self, entry.line(), message);
            return None;
        }
        Some(Secret::of_variable(variable, &value))
    }
}

impl Config {
    /// The paths that the server answers itself for logins, for each host that has routes with such a login.
    pub fn login_paths(&self) -> Vec<LoginPath> {
        LoginPath::all(self)
    }

    /// Number of threads that run statements on a database: I/O threads for routes, the executors of scripts and rules that may use it, and
    /// one thread for handlers in pools, unless these connect themselves.
    pub fn sql_threads(&self, database: &str) -> usize {
        let is_allowed = |allowed: &[String]| allowed.iter().any(|allowed| allowed == database);
        let scripts = self
            .scripts
            .values()
            .filter(|script| is_allowed(&script.allow.sql));
        let workflow = self.workflow.as_ref();
        let rules = workflow.filter(|workflow| is_allowed(&workflow.allow.common.sql));
        let is_direct = self.sql.get(database).is_some_and(|database| database.direct);
        let has_pool = !is_direct && self.pools.values().any(|pool| is_allowed(&pool.sql));
        self.server.threads
            + scripts.map(|script| script.executors).sum::<usize>()
            + rules.map_or(0, |workflow| workflow.executors)
            + usize::from(has_pool)
    }

    /// Makes it the configuration of a worker host: it runs some of the pools, and has neither listeners nor what is only for them. It has a
    /// store if one of these pools uses it, which is in a database then. The error says why it has no such pool.
    pub fn work_on(&mut self, pools: &[String]) -> Result<(), String> {
        if self.cluster.is_none() {
            return Err(
                "the configuration has no [cluster], over which front ends could reach the pool".into(),
            );
        }
        for name in pools {
            let Some(pool) = self.pools.get_mut(name) else {
                return Err(format!("the configuration has no [pool.{name}]"));
            };
            if pool.at != At::Cluster {
                return Err(format!(
                    "[pool.{name}] has no `at = \"cluster\"`, so no front end would use it"
                ));
            }
            pool.at = At::Here;
        }
        self.pools.retain(|name, _| pools.contains(name));
        self.server.listen.clear();
        // Jobs go through the thread of the cluster.
        self.server.threads = 1;
        self.server.policy.clear();
        self.tls.clear();
        self.auth.clear();
        let is_used = self
            .pools
            .values()
            .any(|pool| pool.store_mode() != StoreMode::None);
        self.store = self.store.take().filter(|_| is_used);
        self.proxies.clear();
        self.scripts.clear();
        self.workflow = None;
        self.policies.clear();
        self.routes.clear();
        Ok(())
    }

    /// The effective configuration: every key with its value, with absolute paths. Reading it on the same machine gives an equal
    /// configuration, except that literal secrets are `***`; hashes of secrets are, too, and have to be put in again. Substituted environment variables appear as their values.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        once(&mut out, "server", Some(&self.server));
        named(&mut out, "tls", &self.tls);
        named(&mut out, "auth", &self.auth);
        once(&mut out, "admin", Some(&self.admin));
        once(&mut out, "log", Some(&self.log));
        once(&mut out, "trace", self.trace.as_ref());
        once(&mut out, "store", self.store.as_ref());
        once(&mut out, "records", self.store.as_ref().map(|_| &self.records));
        once(&mut out, "cluster", self.cluster.as_ref());
        named(&mut out, "pool", &self.pools);
        named(&mut out, "proxy", &self.proxies);
        named(&mut out, "script", &self.scripts);
        named(&mut out, "sql", &self.sql);
        named(&mut out, "redis", &self.redis);
        named(&mut out, "s3", &self.s3);
        named(&mut out, "mail", &self.mail);
        named(&mut out, "kafka", &self.kafka);
        once(&mut out, "workflow", self.workflow.as_ref());
        named(&mut out, "policy", &self.policies);
        once(&mut out, "openapi", Some(&self.openapi));
        for route in &self.routes {
            out += &lines("route", "[[route]]", route);
        }
        out.trim_start().to_owned()
    }
}

fn lines<T: Section>(path: &str, heading: &str, section: &T) -> String {
    Table::of(path.to_owned(), section).lines(heading)
}

fn once<T: Section>(out: &mut String, name: &str, section: Option<&T>) {
    if let Some(section) = section {
        *out += &lines(name, &format!("[{name}]"), section);
    }
}

fn named<T: Section>(out: &mut String, section: &str, all: &BTreeMap<String, T>) {
    for (name, value) in all {
        let path = format!("{section}.{name}");
        *out += &lines(&path, &format!("[{path}]"), value);
    }
}
