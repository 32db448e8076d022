use forebay_server::guard;

/// End what the workers of a killed server have started
///
/// The server starts this with its first worker and speaks to it through standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Stay, as a child of nobody
    #[arg(long)]
    stay: bool,
}

/// Registers this command as the one that the server starts.
pub(crate) fn enable() {
    guard::enable(["guard"]);
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.stay {
        Ok(guard::run()?)
    } else {
        Ok(guard::detach(&["guard", "--stay"])?)
    }
}
