//! `forebay load`: from a command line to a [`plan::Job`], and from that to a report. Engine, statistics and reports are in `forebay_load`;
//! this module has what belongs to a command: arguments, files, signals, the terminal, other processes.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of commands are read on a terminal, where backticks and brackets would be in the way"
)]

mod arguments;
mod error;
mod interrupt;
mod lanes;
pub(crate) mod outputs;
mod plan;
#[cfg(test)]
mod reference;
pub(crate) mod removed;
mod run;
mod searches;
mod spawn;
mod stages;
mod tools;
pub(crate) mod values;

use std::ffi::OsString;

pub(super) use self::interrupt::Interrupt;
use self::tools::TABLES;
pub(crate) use self::{
    arguments::Options,
    error::LoadError,
    run::{Loading, once},
};
use crate::{failure::UsageError, output};

/// Load a server, and say what its figures are worth
///
/// Requests go over connections that stay open, as fast as answers come or at a given rate. The result goes to standard output,
/// everything else to standard error. Only this machine is loaded, unless --allow-remote is given. Ctrl-C ends the run and prints what was
/// measured so far. Exit code 3: an assertion did not hold. docs/reference/load.md says more.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    disable_help_flag = true
)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    instead: Option<Instead>,
    #[command(flatten)]
    options: Options,
    /// Print help
    #[arg(short = 'h', long, action = clap::ArgAction::HelpShort)]
    help: Option<bool>,
}

/// Saved runs, and command lines of other tools.
#[derive(Debug, clap::Subcommand)]
enum Instead {
    Report(outputs::ReportArguments),
    /// Read a command line of autocannon
    Autocannon(Words),
    /// Read a command line of ab (ApacheBench)
    Ab(Words),
    /// Read a command line of hose
    Hose(Words),
    /// Read a command line of go-wrk
    GoWrk(Words),
    /// Load with so many users as a thread group of JMeter does
    Jmeter(Words),
}

/// The words of another tool's command line.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct Words {
    /// The tool's own flags and operands; --help lists them. Example: -c 10 http://localhost:8080/
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(arguments: LoadArgs) -> anyhow::Result<()> {
    let Some(line) = arguments.instead else {
        removed::check(&arguments.options)?;
        return run::run(&arguments.options);
    };
    let (name, words) = match line {
        Instead::Report(arguments) => return outputs::report(&arguments),
        Instead::Autocannon(words) => ("autocannon", words),
        Instead::Ab(words) => ("ab", words),
        Instead::Hose(words) => ("hose", words),
        Instead::GoWrk(words) => ("go-wrk", words),
        Instead::Jmeter(words) => ("jmeter", words),
    };
    let tool = TABLES.iter().find(|table| table.name == name);
    let tool = tool.expect("each of these sub-commands has a table");
    match tool.read(&words.words) {
        Ok(tools::Line::Run(options)) => run::run(&options),
        Ok(tools::Line::Help(text)) => Ok(output::whole(&text)?),
        Err(wrong) => Err(UsageError(format!("{name}: {wrong}")).into()),
    }
}
