//! `forebay sql`: commands on the databases of a configuration.

use std::fmt::Write as _;

use forebay_server::{
    config::Config,
    doctor::{Level, Survey, survey},
};
use serde_json::json;

use crate::{arguments::ConfigFile, output};

/// Look after the databases of a configuration
#[derive(Debug, clap::Args)]
pub(crate) struct SqlArgs {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, clap::Subcommand)]
enum Order {
    /// Ask each `[sql.NAME]` for its settings, and say what does not fit, why, and what to change
    ///
    /// Exit code 0: nothing is wrong, though there may be advice. 3: something is wrong. 4: a database cannot be reached.
    Doctor {
        /// Servers that run with this configuration: each has its own connections. Example: --servers 4
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
        servers: u16,
        /// One JSON object for programs. Example: forebay sql doctor --json | jq .databases
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigFile,
    },
}

/// Why `doctor` ends with an error; its findings have been printed by then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    /// A database does not respond.
    #[error("{count} of the databases cannot be reached")]
    Unreachable { count: usize },
    /// There is a finding of the worst level.
    #[error("{count} settings are wrong")]
    Wrong { count: usize },
}

pub(crate) fn run(arguments: &SqlArgs) -> anyhow::Result<()> {
    let Order::Doctor {
        servers,
        json,
        config,
    } = &arguments.order;
    let config = Config::load(&config.config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let surveys = local.block_on(&runtime, survey(&config, usize::from(*servers)));
    if *json {
        output::line(&json!({ "databases": surveys }).to_string())?;
    } else {
        output::whole(&text(&surveys))?;
    }
    let unreachable = surveys.iter().filter(|survey| survey.facts.is_none()).count();
    if unreachable > 0 {
        return Err(DoctorError::Unreachable { count: unreachable }.into());
    }
    let findings = surveys.iter().flat_map(|survey| &survey.findings);
    match findings.filter(|finding| finding.level == Level::Wrong).count() {
        0 => Ok(()),
        count => Err(DoctorError::Wrong { count }.into()),
    }
}

fn text(surveys: &[Survey]) -> String {
    if surveys.is_empty() {
        return "the configuration has no [sql.NAME]\n".to_owned();
    }
    let mut text = String::new();
    for survey in surveys {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {}", survey.name, survey.server);
        for finding in &survey.findings {
            let level = match finding.level {
                Level::Fine => "fine  ",
                Level::Advice => "advice",
                Level::Wrong => "WRONG ",
            };
            let _ = writeln!(text, "  {level}  {}: {}", finding.what, finding.found);
            if finding.level != Level::Fine {
                let _ = writeln!(
                    text,
                    "          why: {}\n          change: {}",
                    finding.why, finding.change
                );
            }
        }
    }
    text
}
