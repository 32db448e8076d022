use forebay_server::guard;

/// Kill the processes that workers leave behind when the server is killed
///
/// The server starts it with its first worker and writes to its standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// Run as the guard itself, detached from the server
    #[arg(long)]
    stay: bool,
}

/// Registers this command as the one that the server starts.
pub(crate) fn enable() {
    guard::enable(["guard"]);
}

pub(crate) fn run(arguments: &GuardArgs) -> anyhow::Result<()> {
    if arguments.stay {
        Ok(guard::run()?)
    } else {
        Ok(guard::detach(&["guard", "--stay"])?)
    }
}
