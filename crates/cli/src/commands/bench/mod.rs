//! `forebay bench`: measurements of parts of the server, made by `forebay_bench`. This module has the arguments, files and the terminal.

mod ladder;
mod pool;
mod progress;

use forebay_bench::ladder::Suite;

/// The file name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";
/// Folder of this repository with the packages of others.
const PEERS: &str = "bench/peers";

/// Measure what each way of answering costs, beside others
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Ladder(Box<ladder::BenchLadderArgs>),
    Sql(Box<ladder::BenchSqlArgs>),
    Scaling(Box<ladder::BenchScalingArgs>),
    Seed(Box<ladder::BenchSeedArgs>),
    Pool(Box<pool::BenchPoolArgs>),
}

pub(crate) fn run(arguments: BenchArgs) -> anyhow::Result<()> {
    match arguments.what {
        What::Ladder(arguments) => ladder::run(&Suite::ladder(), &arguments.run),
        What::Sql(arguments) => ladder::run(&Suite::sql(), &arguments.run),
        What::Scaling(arguments) => ladder::run(&Suite::scaling(), &arguments.run),
        What::Seed(arguments) => ladder::run(&arguments.suite, &arguments.run),
        What::Pool(arguments) => pool::run(&arguments),
    }
}
