//! `forebay store`: commands on the files of a store, whether a server has them open or not.

mod copies;
mod data;
mod error;
mod index;
mod lists;
mod nodes;
mod path;
mod pretty;
mod progress;
mod query;
mod shell;
mod stats;
pub(crate) mod timestamp;
mod transfer;
mod verify;

pub(crate) use data::Data;
pub(crate) use error::StoreFailure;

/// Read and write the files of a store, whether a server has them open or not
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[command(flatten)]
    Open(Open),
    Copy(copies::Copy),
    Restore(copies::Restore),
    Compact(copies::Compact),
    Shell(shell::StoreShellArgs),
    #[command(hide = true)]
    VerifyHere(verify::StoreVerifyArgs),
}

/// Commands that also run in the shell, on a store that is already open.
#[derive(Debug, clap::Subcommand)]
enum Open {
    Get(nodes::Get),
    Set(nodes::Set),
    Kill(nodes::Kill),
    Tree(lists::Tree),
    Ls(lists::Ls),
    Query(query::StoreQueryArgs),
    Index(index::StoreIndexArgs),
    Export(transfer::Export),
    Import(transfer::Import),
    Backup(copies::Backup),
    Verify(verify::StoreVerifyArgs),
    Stats(stats::StoreStatsArgs),
}

pub(crate) fn run(arguments: StoreArgs) -> anyhow::Result<()> {
    match arguments.command {
        Command::Open(command) => command.run(),
        Command::Copy(arguments) => copies::copy(&arguments),
        Command::Restore(arguments) => copies::restore(&arguments),
        Command::Compact(arguments) => copies::compact(&arguments),
        Command::Shell(arguments) => shell::run(&arguments),
        Command::VerifyHere(arguments) => verify::here(&arguments),
    }
}

impl Open {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Get(arguments) => nodes::get(&arguments),
            Self::Set(arguments) => nodes::set(&arguments),
            Self::Kill(arguments) => nodes::kill(&arguments),
            Self::Tree(arguments) => lists::tree(&arguments),
            Self::Ls(arguments) => lists::ls(&arguments),
            Self::Query(arguments) => query::run(&arguments),
            Self::Index(arguments) => index::run(arguments),
            Self::Export(arguments) => transfer::export(&arguments),
            Self::Import(arguments) => transfer::import(&arguments),
            Self::Backup(arguments) => copies::backup(&arguments),
            Self::Verify(arguments) => verify::run(&arguments),
            Self::Stats(arguments) => stats::run(&arguments),
        }
    }
}
