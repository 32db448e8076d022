use serde_json::json;

use crate::{
    control::{Control, Which},
    output,
};

/// Change a pool of the running server
#[derive(Debug, clap::Args)]
pub(crate) struct PoolArgs {
    #[command(subcommand)]
    change: Change,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Set how many workers a pool has, until the next reload or restart
    Resize {
        /// The NAME of `[pool.NAME]`. Example: forebay pool resize api 8
        name: String,
        /// Workers, 1 to 1024. Example: forebay pool resize api 8
        #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        workers: u16,
        #[command(flatten)]
        which: Which,
    },
}

pub(crate) fn run(arguments: &PoolArgs) -> anyhow::Result<()> {
    let Change::Resize { name, workers, which } = &arguments.change;
    let body = json!({ "workers": workers }).to_string();
    Control::of(which)?.ask("POST", &format!("/pools/{name}/resize"), &body)?;
    Ok(output::line(&format!(
        "pool {name} resized to {workers} workers"
    ))?)
}
