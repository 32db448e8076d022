//! `forebay bench`: measurements of what is inside the server, by `forebay_bench`. Here are words, files and the terminal.

mod pool;
mod progress;

/// Measure parts of Forebay by themselves, beside others
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Pool(Box<pool::Arguments>),
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let What::Pool(arguments) = arguments.what;
    pool::run(&arguments)
}
