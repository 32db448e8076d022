use serde_json::Value;

use crate::{
    control::{Control, Which},
    output,
};

/// Replace the running server by the program's present file, without losing a connection
///
/// The server starts the program anew with its own arguments and passes it the listening sockets. Returns when the new process serves; the
/// old one answers what it has read, and ends. When the new one does not start, or is not ready within `server.upgrade_timeout`, the old
/// one goes on, and this says why. Put an earlier file in place and upgrade again to go back.
#[derive(Debug, clap::Args)]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &UpgradeArgs) -> anyhow::Result<()> {
    let answer = Control::of(&arguments.which)?.ask("POST", "/upgrade", "")?;
    let answer: Value = serde_json::from_str(&answer)?;
    let (pid, took) = (&answer["pid"], &answer["took_ms"]);
    Ok(output::line(&format!(
        "upgraded in {took} ms: process {pid} serves now"
    ))?)
}
