use serde_json::json;

use crate::output;

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct VersionArgs {
    /// One JSON object for programs. Example: forebay version --json
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &VersionArgs) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let text = if arguments.json {
        let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        json!({ "name": "forebay", "version": version, "protocol": 1, "platform": platform }).to_string()
    } else {
        format!("forebay {version}")
    };
    Ok(output::line(&text)?)
}
