//! Scripts with their limits and permissions.

use std::{collections::BTreeMap, sync::Arc};

use forebay_runtimes::sdk_file;
use forebay_script::{Counts, Script};
use forebay_workflow::SourceParser;

use super::{BuildError, Services};
use crate::{
    config::{self, Config},
    sources::DatabaseRegistry,
    target::ScriptTarget,
};

/// Loads all scripts, by name.
pub(super) fn scripts(
    config: &Config,
    services: &Services,
) -> Result<BTreeMap<String, ScriptTarget>, BuildError> {
    let load = |(name, script): (&String, &config::Script)| {
        let store = store_options(config, services);
        let counts = services.scripts.of(name);
        let mut options = script_options(name, script, store, services.parser, counts);
        options.allow.sql = sources(&script.allow, config, &services.sources);
        let loaded = Script::start(options).map_err(|source| BuildError::Script {
            script: name.clone(),
            source,
        })?;
        let io_input_max = usize::try_from(script.io_input_max).unwrap_or(usize::MAX);
        let store = services.store.clone();
        let target = ScriptTarget::new(Arc::new(loaded), script.on, io_input_max, store);
        Ok((name.clone(), target))
    };
    config.scripts.iter().map(load).collect()
}

pub(super) fn store_options(config: &Config, services: &Services) -> Option<forebay_script::StoreOptions> {
    services.store.as_ref().map(|store| forebay_script::StoreOptions {
        folder: store.location().into(),
        options: *store.store().options(),
        records: config.records.settings().to_text(),
    })
}

pub(super) fn environment(parser: SourceParser) -> forebay_script::ScriptEnvironment {
    forebay_script::ScriptEnvironment {
        sdk: sdk_file,
        erase_types: parser.erase_types,
    }
}

/// Permissions of a script without its databases.
pub(super) fn allow(allow: &config::ScriptAllow) -> forebay_script::Allow {
    forebay_script::Allow {
        store: allow.store.clone(),
        fetch: allow.fetch.clone(),
        sql: Arc::default(),
        clients: Arc::default(),
        files: allow.files.clone(),
    }
}

/// The accessible databases, by name.
pub(super) fn sources(
    allow: &config::ScriptAllow,
    config: &Config,
    sources: &DatabaseRegistry,
) -> Arc<BTreeMap<String, forebay_pg::Source>> {
    let source = |name: &String| (name.clone(), sources.of(name, config));
    Arc::new(allow.sql.iter().map(source).collect())
}

pub(crate) fn script_options(
    name: &str,
    script: &config::Script,
    store: Option<forebay_script::StoreOptions>,
    parser: SourceParser,
    counts: Arc<Counts>,
) -> forebay_script::Options {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    forebay_script::Options {
        name: name.to_owned(),
        program: forebay_script::Program::Handler {
            file: script.handler.clone(),
            modules: script.modules().to_owned(),
        },
        limits: forebay_script::Limits {
            io_cpu_max: script.io_cpu_max,
            cpu_max: script.cpu_max,
            time_max: script.time_max,
            memory_max: bytes(script.memory_max),
            output_max: bytes(script.output_max),
            in_flight_max: script.in_flight_max,
            queue_bytes_max: bytes(script.queue_bytes_max),
            executors: script.executors,
            engines_max: script.engines_max,
            fetch_time_max: script.fetch.fetch_time_max,
            fetch_bytes_max: bytes(script.fetch.fetch_bytes_max),
            fetches_max: script.fetch.fetches_max,
            isolated: script.isolated,
        },
        allow: allow(&script.allow),
        blocks_rules: false,
        rules_now_ms: None,
        store,
        environment: environment(parser),
        counts,
    }
}
