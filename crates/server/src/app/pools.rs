//! The settings of a pool as `crates/pool` takes them: limits, the program of its workers with its environment, and the handler of their calls.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc, time::Duration};

use forebay_pool::{CallHandler, Confinement, HOSTS_MAX, Options, Program, Protocol, Recycle, Statuses};
use forebay_records::Settings;
use forebay_runtimes::{ENV_PASSED, Sdk};
use forebay_store::Durability;

use super::Services;
use crate::{
    calls::Tql,
    config::{self, Config},
    store::OpenStore,
};

/// Limit for the start of a worker.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Jobs that a worker may run at a time where the configuration does not say how many and its handler is an application that waits instead
/// of blocking.
const APPLICATION_CONCURRENCY: u32 = 100;

/// The handler for calls from a pool's workers; `None` if there is nothing that they may call.
pub(super) fn calls(
    pool: &config::Pool,
    services: &Services,
    records: &Settings,
    config: &Config,
) -> std::io::Result<Option<Arc<dyn CallHandler>>> {
    if pool.protocol != config::Protocol::Framed {
        let Some(store) = &services.store else {
            return Ok(None);
        };
        let tql = Tql {
            store: Arc::clone(store),
            mode: pool.store_mode(),
            settings: Arc::new(records.clone()),
            answer_bytes_max: pool.message_bytes_max as usize,
            admission: Arc::clone(&services.tql_admission),
        };
        return services.tql.handler(tql).map(Some);
    }
    let source = |name: &String| (name.clone(), services.sources.of(name, config));
    let names = pool.sql.iter().filter(|name| !config.sql[*name].direct);
    let sources: BTreeMap<_, _> = names.map(source).collect();
    if sources.is_empty() {
        return Ok(None);
    }
    services.sql.handler(Arc::new(sources)).map(Some)
}

pub(super) fn options(
    name: &str,
    pool: &config::Pool,
    sdk: Option<&Sdk>,
    store: Option<&OpenStore>,
    config: &Config,
    confinement: Option<Confinement>,
) -> Options {
    Options {
        name: name.to_owned(),
        program: program(pool, sdk, store, config, confinement.as_ref()),
        workers_min: pool.workers.min,
        workers_max: pool.workers.max,
        concurrency: pool.concurrency.unwrap_or(1) as usize,
        concurrency_max: pool.concurrency.unwrap_or(APPLICATION_CONCURRENCY) as usize,
        connections_max: pool.connections_max as usize,
        queue_max: pool.queue_max,
        queue_bytes_max: usize::try_from(pool.queue_bytes_max).unwrap_or(usize::MAX),
        start_timeout: START_TIMEOUT,
        kill_grace: pool.kill_grace,
        idle_retire: if pool.idle_retire.is_zero() {
            Duration::MAX
        } else {
            pool.idle_retire
        },
        recycle: Recycle {
            jobs: pool.recycle.jobs,
            age: pool.recycle.age,
            rss_bytes: pool.recycle.rss,
        },
        message_bytes_max: pool.message_bytes_max as usize,
        call_timeout: pool.run_timeout,
        confinement: confinement.map(Arc::new),
        calls: None,
        remote: false,
        files: true,
    }
}

/// The settings of a pool whose workers are hosts: they start and limit the processes.
pub(super) fn of_hosts(options: Options) -> Options {
    Options {
        workers_min: 0,
        workers_max: HOSTS_MAX,
        idle_retire: Duration::MAX,
        recycle: Recycle::default(),
        remote: true,
        files: false,
        ..options
    }
}

/// Environment variables about databases for a worker: the names of those used through the server, and the URLs of those to which the
/// worker connects itself.
fn sql_env(pool: &config::Pool, config: &Config) -> Vec<(OsString, OsString)> {
    let (direct, shared): (Vec<_>, Vec<_>) = pool
        .sql
        .iter()
        .map(String::as_str)
        .partition(|name| config.sql[*name].direct);
    let mut env = Vec::new();
    if !shared.is_empty() {
        env.push(("FOREBAY_SQL".into(), shared.join(",").into()));
    }
    if !direct.is_empty() {
        let url = |name| (name, config.sql[name].url.with_password());
        let urls: BTreeMap<&str, String> = direct.into_iter().map(url).collect();
        let urls = serde_json::to_string(&urls).expect("text becomes JSON");
        env.push(("FOREBAY_SQL_DIRECT".into(), urls.into()));
    }
    env
}

/// Environment variables about the store for a worker, so that handlers follow the same configuration as HTTP.
fn store_env(store: &OpenStore, records: &Settings) -> [(OsString, OsString); 5] {
    let options = store.store().options();
    let durability = match options.durability {
        Durability::Sync => "sync",
        Durability::Group => "group",
        Durability::Relaxed => "relaxed",
    };
    [
        ("FOREBAY_STORE".into(), store.location().into()),
        ("FOREBAY_STORE_DURABILITY".into(), durability.into()),
        (
            "FOREBAY_STORE_VALUE_BYTES_MAX".into(),
            options.value_bytes_max.to_string().into(),
        ),
        ("FOREBAY_RECORDS".into(), records.to_text().into()),
        (
            "FOREBAY_STORE_READER_AGE_MAX_MS".into(),
            options.reader_age_max.as_millis().to_string().into(),
        ),
    ]
}

fn protocol(pool: &config::Pool) -> Protocol {
    match pool.protocol {
        config::Protocol::Framed if pool.link == Some(config::Link::Stdio) => Protocol::FramedStdio,
        config::Protocol::Framed => Protocol::Framed,
        config::Protocol::Jsonl => Protocol::Jsonl,
        config::Protocol::Wabur => Protocol::Wabur {
            statuses: match pool.compat {
                config::Compat::None => Statuses::Truthful,
                config::Compat::Wabur => Statuses::Wabur,
            },
        },
    }
}

fn program(
    pool: &config::Pool,
    sdk: Option<&Sdk>,
    store: Option<&OpenStore>,
    config: &Config,
    confinement: Option<&Confinement>,
) -> Program {
    let mut env: Vec<(OsString, OsString)> = ENV_PASSED
        .into_iter()
        .chain(pool.env_pass.iter().map(String::as_str))
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect();
    let home = confinement.and_then(|confinement| confinement.account.as_ref()?.home.as_ref());
    env.extend(home.map(|home| ("HOME".into(), home.into())));
    env.extend(pool.env.iter().map(|(name, value)| (name.into(), value.into())));
    env.push(("FOREBAY_STORE_MODE".into(), pool.store_mode().name().into()));
    env.extend(sql_env(pool, config));
    if let Some(store) = store.filter(|_| pool.store_mode() != config::StoreMode::None) {
        env.extend(store_env(store, &config.records.settings()));
    }
    let protocol = protocol(pool);
    match &pool.worker {
        config::Worker::Script {
            runtime,
            program,
            handler,
            start,
            runtime_flags,
        } => {
            let sdk = sdk.expect("the SDK is unpacked when there are pools");
            let launch = sdk.launch(*runtime, program, runtime_flags, protocol);
            // Code that one pool's workers put into the cache would run in those of others.
            let has_cache = confinement.is_none();
            let launched = launch.env.into_iter();
            env.extend(launched.filter(|(name, _)| has_cache || name != "FOREBAY_CACHE_DIR"));
            Program {
                argv: launch.argv,
                env,
                protocol,
                cwd: pool.cwd.clone(),
                page: protocol == Protocol::Framed,
                handler: Some(handler.clone()),
                start: start.clone(),
            }
        }
        config::Worker::Python {
            program,
            application,
            start,
        } => {
            let sdk = sdk.expect("the SDK is unpacked when there are pools");
            let handler = match &application.module {
                config::PythonModule::File(file) => Some(file.clone()),
                config::PythonModule::Named(_) => None,
            };
            Program {
                argv: sdk.launch_python(program, python_options(application)),
                env,
                protocol,
                cwd: pool.cwd.clone(),
                page: true,
                handler,
                start: start.clone(),
            }
        }
        config::Worker::Command { program, command } => {
            let mut argv: Vec<OsString> = command.iter().map(OsString::from).collect();
            argv[0] = program.into();
            Program {
                argv,
                env,
                protocol,
                cwd: pool.cwd.clone(),
                page: false,
                handler: None,
                start: None,
            }
        }
    }
}

/// Command-line options of the Python worker for settings that `INIT` does not carry.
fn python_options(application: &config::PythonApplication) -> Vec<OsString> {
    let module = match &application.module {
        config::PythonModule::File(_) => None,
        config::PythonModule::Named(name) => Some(name.as_str()),
    };
    let decodes_slashes = application.encoded_slashes == config::EncodedSlashes::Decode;
    [
        ("module", module),
        ("object", application.object.as_deref()),
        ("interface", Some(application.interface.name())),
        ("mount", application.mount.as_deref()),
        ("encoded-slashes", decodes_slashes.then_some("decode")),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(format!("--{name}={}", value?).into()))
    .collect()
}
