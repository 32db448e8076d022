mod report;
pub(crate) mod table;

use std::{thread, time::Duration};

use anyhow::Context as _;
use serde_json::Value;

pub(super) use self::report::{memory, micros, uptime};
use crate::{
    control::{Control, Which},
    output,
};

/// Interval between two reports of `--follow`.
const PAUSE: Duration = Duration::from_secs(1);
/// Moves the cursor to the upper left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Print what the running server does: pools, queues, workers, databases, routes, with percentiles
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// One JSON object for programs. Example: forebay status --json | jq .pools
    #[arg(long)]
    json: bool,
    /// A report each second, until Ctrl-C. Example: forebay status --follow
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &StatusArgs) -> anyhow::Result<()> {
    let control = Control::of(&arguments.which)?;
    loop {
        let answer = control.ask("GET", "/status", "")?;
        if arguments.json {
            output::line(answer.trim_end())?;
        } else {
            let status: Value = serde_json::from_str(&answer).context("the server's status is no JSON")?;
            let (before, after) = match (arguments.follow, output::is_terminal()) {
                (true, true) => (CLEAR, ""),
                (true, false) => ("", "\n"),
                (false, _) => ("", ""),
            };
            output::whole(&format!("{before}{}{after}", report::of(&status)))?;
        }
        if !arguments.follow {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}
