use anyhow::Context as _;
use serde_json::{Value, json};

use crate::{
    control::{Control, Which},
    output,
};

/// Change the response caches of the running server
#[derive(Debug, clap::Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    change: Change,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Drop stored responses, so that the next requests reach their targets
    Purge {
        /// A path, whatever its host and its query, or, with `*` at its end, all paths that begin so. Without it, everything is
        /// dropped. Example: forebay cache purge '/products/*'
        path: Option<String>,
        /// Only from the cache of this `[policy.NAME]`. Example: --policy catalogue
        #[arg(long, value_name = "NAME")]
        policy: Option<String>,
        #[command(flatten)]
        which: Which,
    },
}

pub(crate) fn run(arguments: &CacheArgs) -> anyhow::Result<()> {
    let Change::Purge { path, policy, which } = &arguments.change;
    let body = json!({ "policy": policy, "path": path }).to_string();
    let answer = Control::of(which)?.ask("POST", "/cache/purge", &body)?;
    let answer: Value = serde_json::from_str(&answer).context("the server's answer is not JSON")?;
    let purged = &answer["purged"];
    Ok(output::line(&format!("responses purged: {purged}"))?)
}
