use std::time::Instant;

use forebay_server::{
    Role,
    config::{Config, Environment},
};

use super::serve::run_as;
use crate::{arguments::ConfigFile, failure::UsageError};

/// Run pools for the front ends of the cluster until SIGINT or SIGTERM
///
/// The pools are those with `at = "cluster"` in the same configuration with which front ends run `forebay serve`. There is no HTTP listener but the
/// admin listener. SIGINT or SIGTERM ends it: front ends send no more jobs, and those it has are finished, within `server.drain_max`. A second one
/// ends it at once. SIGHUP is `forebay reload`, SIGUSR2 `forebay upgrade`, and
/// SIGUSR1 reopens log files.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// A pool to run; may be repeated. Example: forebay work --pool api
    #[arg(long = "pool", value_name = "NAME", required = true)]
    pools: Vec<String>,
    #[command(flatten)]
    config: ConfigFile,
}

pub(crate) fn run(arguments: WorkArgs, started: Instant) -> anyhow::Result<()> {
    let load = move || -> anyhow::Result<Config> {
        let mut config = Config::load_in(&arguments.config.config, &Environment::current())?;
        config.work_on(&arguments.pools).map_err(UsageError)?;
        Ok(config)
    };
    run_as(Role::WorkerHost, load, false, started)
}
