//! The command `stats`.

use serde_json::json;

use crate::output;

use super::{
    data::Data,
    progress::{megabytes, thousands},
};

/// Print figures about a store as a whole
#[derive(Debug, clap::Args)]
pub(super) struct StoreStatsArgs {
    /// One JSON object for programs. Example: forebay store stats --json | jq .readers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(arguments: &StoreStatsArgs) -> anyhow::Result<()> {
    let store = arguments.data.read()?;
    let stats = store.stats()?;
    if arguments.json {
        let stats = json!({
            "folder": store.path().to_string_lossy(),
            "file_bytes": stats.file_bytes,
            "map_max": stats.map_max,
            "page_bytes": stats.page_bytes,
            "last_commit": stats.last_commit,
            "readers": stats.readers,
            "not_checkpointed_bytes": stats.not_checkpointed_bytes,
        });
        return Ok(output::line(&stats.to_string())?);
    }
    Ok(output::whole(&format!(
        "folder            {}\nfile              {} of at most {}\npages             {} bytes each\nlast commit       {}\nreaders           {}\nnot checkpointed  {}\n",
        store.path().display(),
        megabytes(stats.file_bytes),
        megabytes(stats.map_max),
        stats.page_bytes,
        thousands(stats.last_commit),
        stats.readers,
        megabytes(stats.not_checkpointed_bytes),
    ))?)
}
