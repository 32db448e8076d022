//! The command line.

use std::{path::PathBuf, time::Instant};

use clap::{
    Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use forebay_server::{
    Predecessor,
    config::{Application, CONFIG_FILE, Config, ConfigError, Environment},
};

use crate::{
    commands::{
        bench, cache, check, completions, explain, guard, jobs, load, logs, new, openapi, password, pool,
        profile, reload, serve, sql, status, store, strip, top, upgrade, version, work, workflow,
    },
    failure::UsageError,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed while running; `serve`: cut short by a second signal
  2  the command line is wrong
  3  the configuration cannot be read or is not valid; `load`: an assertion did not hold; `sql doctor`: a setting is wrong; `workflow`: workflows are not valid, or a stored test does not hold
  4  the server cannot be reached through its control socket; `store`: there is no such node; `sql doctor`: a database cannot be reached; `workflow`: there is no such release or workflow
  130  `load`: Ctrl-C was pressed twice

Start with:
  forebay new app && cd app && forebay serve
Then:
  forebay COMMAND --help has an example of each option; the package's docs/README.md leads to the tutorials";

/// An application server in one binary: routes answered from memory, files, an embedded store, scripts inside the server, and supervised worker processes.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = EXIT_CODES, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct CliArgs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    New(new::NewArgs),
    Serve(serve::ServeArgs),
    Check(check::CheckArgs),
    Work(work::WorkArgs),
    #[command(name = "openapi")]
    OpenApi(openapi::OpenApiArgs),
    Load(Box<load::LoadArgs>),
    Bench(bench::BenchArgs),
    Explain(explain::ExplainArgs),
    Profile(profile::ProfileArgs),
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Store(store::StoreArgs),
    Sql(sql::SqlArgs),
    Workflow(workflow::WorkflowArgs),
    Jobs(jobs::JobsArgs),
    Pool(pool::PoolArgs),
    Password(password::PasswordArgs),
    Cache(cache::CacheArgs),
    Reload(reload::ReloadArgs),
    Upgrade(upgrade::UpgradeArgs),
    Logs(logs::LogsArgs),
    Version(version::VersionArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Strip(strip::StripArgs),
    #[command(hide = true)]
    Guard(guard::GuardArgs),
}

impl Command {
    /// Runs the command. `started`: the start of the process.
    pub(crate) fn run(self, started: Instant) -> anyhow::Result<()> {
        match self {
            Self::Serve(arguments) => serve::run(arguments, started),
            Self::Work(arguments) => work::run(arguments, started),
            Self::Check(arguments) => check::run(&arguments),
            Self::OpenApi(arguments) => openapi::run(&arguments),
            Self::New(arguments) => new::run(&arguments),
            Self::Load(arguments) => load::run(*arguments),
            Self::Bench(arguments) => bench::run(arguments),
            Self::Explain(arguments) => explain::run(&arguments),
            Self::Profile(arguments) => profile::run(&arguments),
            Self::Status(arguments) => status::run(&arguments),
            Self::Top(arguments) => top::run(&arguments),
            Self::Sql(arguments) => sql::run(&arguments),
            Self::Workflow(arguments) => workflow::run(arguments),
            Self::Store(arguments) => store::run(arguments),
            Self::Jobs(arguments) => jobs::run(&arguments),
            Self::Pool(arguments) => pool::run(&arguments),
            Self::Password(arguments) => password::run(&arguments),
            Self::Cache(arguments) => cache::run(&arguments),
            Self::Reload(arguments) => reload::run(&arguments),
            Self::Upgrade(arguments) => upgrade::run(&arguments),
            Self::Logs(arguments) => logs::run(&arguments),
            Self::Version(arguments) => version::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Strip(arguments) => strip::run(&arguments),
            Self::Guard(arguments) => guard::run(&arguments),
        }
    }
}

/// Ends the process as clap does for a wrong command line or for help; a removed option of `load` gives an error that says what to use
/// instead.
pub(crate) fn refuse(error: &clap::Error) -> anyhow::Error {
    let of_load = std::env::args_os()
        .nth(1)
        .is_some_and(|command| command == "load");
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if of_load && error.kind() == ErrorKind::UnknownArgument => {
            match load::removed::advice(option) {
                Some(advice) => UsageError(format!("`{option}` is no longer there: {advice}")).into(),
                None => error.exit(),
            }
        }
        _ => error.exit(),
    }
}

/// An application that needs no configuration, or a configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Served {
    /// An application to serve at all paths, without a configuration: a file for Node, Bun or Python, or a Python module and the object in
    /// it. Example: forebay serve app.mjs
    #[arg(value_name = "APPLICATION", conflicts_with = "config")]
    application: Option<String>,
    /// The runtime of the application. Example: --runtime bun
    #[arg(long, requires = "application", default_value = "auto", value_parser = ["auto", "node", "bun", "python"])]
    runtime: String,
    #[command(flatten)]
    config: ConfigFile,
}

impl Served {
    /// The configuration that says how.
    pub(crate) fn load_in(&self, environment: &Environment<'_>) -> Result<Config, ConfigError> {
        match &self.application {
            Some(handler) => {
                let application = Application {
                    handler: handler.clone(),
                    runtime: self.runtime.clone(),
                    env_pass: std::env::vars_os()
                        .filter_map(|(name, _)| name.into_string().ok())
                        // It concerns this process only.
                        .filter(|name| name != Predecessor::VARIABLE)
                        .collect(),
                };
                Config::of_application(&application, environment)
            }
            None => Config::load_in(&self.config.config, environment),
        }
    }
}

/// Which configuration is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigFile {
    /// The configuration. Example: -c shop/forebay.toml
    #[arg(
        short = 'c',
        long = "config",
        value_name = "FILE",
        default_value = CONFIG_FILE
    )]
    pub(crate) config: PathBuf,
}
