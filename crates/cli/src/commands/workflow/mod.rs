//! `forebay workflow`: releases of workflows in a store, and runs of workflows without a server.

mod changes;
mod diff;
mod error;
mod lists;
mod opening;
mod rengine;
mod runs;
mod seed;
mod source;
mod tree;

use error::WorkflowError;
pub(crate) use error::{ExitKind, exit_kind, next_step};

/// Make, test and publish releases of workflows, and run workflows without a server
#[derive(Debug, clap::Args)]
pub(crate) struct WorkflowArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Import(changes::Import),
    Export(changes::Export),
    List(lists::List),
    Log(lists::Log),
    Check(runs::Check),
    Run(runs::Run),
    Trace(runs::Trace),
    Test(runs::Test),
    Diff(diff::WorkflowDiffArgs),
    State(changes::SetState),
    Publish(changes::Publish),
    Rollback(changes::Rollback),
    Discard(changes::Discard),
}

pub(crate) fn run(arguments: WorkflowArgs) -> anyhow::Result<()> {
    match arguments.command {
        Command::Import(arguments) => changes::import(&arguments),
        Command::Export(arguments) => changes::export(&arguments),
        Command::List(arguments) => lists::list(&arguments),
        Command::Log(arguments) => lists::log(&arguments),
        Command::Check(arguments) => runs::check(&arguments),
        Command::Run(arguments) => runs::run(&arguments),
        Command::Trace(arguments) => runs::trace(&arguments),
        Command::Test(arguments) => runs::test(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::State(arguments) => changes::set_state(&arguments),
        Command::Publish(arguments) => changes::publish(&arguments),
        Command::Rollback(arguments) => changes::rollback(&arguments),
        Command::Discard(arguments) => changes::discard(&arguments),
    }
}
