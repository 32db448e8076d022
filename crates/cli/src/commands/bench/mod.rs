//! `forebay bench`: measurements of parts of the server, made by `forebay_bench`. This module has the arguments, files and the terminal.

mod pool;
mod progress;

/// Measure parts of Forebay by themselves, beside others
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Pool(Box<pool::BenchPoolArgs>),
}

pub(crate) fn run(arguments: BenchArgs) -> anyhow::Result<()> {
    let What::Pool(arguments) = arguments.what;
    pool::run(&arguments)
}
