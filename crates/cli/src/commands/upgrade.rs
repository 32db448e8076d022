use serde_json::Value;

use crate::{
    control::{Control, Which},
    output,
};

/// Replace the running server with the current program file, without losing a connection
///
/// The server starts a new process with its own arguments and passes it the listening sockets. Returns when the new process has taken over;
/// the old one finishes its requests and exits. If the new process fails, or is not ready within `server.upgrade_timeout`, the old one
/// continues, and the command prints the reason. To roll back, restore the previous file and upgrade again.
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
        "upgraded in {took} ms, now process {pid}"
    ))?)
}
