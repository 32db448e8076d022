//! `forebay load`: from a command line to a [`plan::Job`], from that to a report. The engine, the statistics and the reports are
//! `forebay_load`'s; here is what belongs to a command: words, files, signals, the terminal, other processes.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of commands are read on a terminal, where backticks and brackets would be in the way"
)]

mod agents;
mod announcement;
mod arguments;
mod debug;
mod error;
mod forms;
mod gates;
mod interrupt;
mod keys;
mod ladder;
mod lanes;
mod live;
mod loading;
pub(crate) mod outputs;
mod plan;
mod records;
#[cfg(test)]
mod reference;
mod report;
mod run;
mod searches;
mod serve;
mod spawn;
mod stages;
mod tools;
mod tried;
pub(crate) mod values;

use std::ffi::OsString;

use self::{arguments::Options, tools::Tool};
pub(crate) use self::{
    error::LoadError,
    loading::Loading,
    run::{Once, once},
};
use crate::{failure::UsageError, output};

/// Load a server, and say what came of it
///
/// Requests go over connections that stay open, as fast as answers come or at a given rate. The result goes to standard output,
/// everything else to standard error. Only this machine is loaded, unless --allow-remote is given. Ctrl-C ends the run and prints what was
/// measured so far. Exit code 3: an assertion did not hold.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    instead: Option<Instead>,
    #[command(flatten)]
    options: Options,
}

/// A server to aim at, saved runs, and command lines of other tools.
#[derive(Debug, clap::Subcommand)]
enum Instead {
    Serve(serve::Arguments),
    Agent(agents::agent::Arguments),
    Report(report::Arguments),
    /// Read a command line of autocannon, and print what it would
    Autocannon(Words),
    /// Read a command line of ab (ApacheBench), and print what it would
    Ab(Words),
    /// Read a command line of hose, and print what it would
    Hose(Words),
    /// Read a command line of go-wrk, and print what it would
    GoWrk(Words),
    /// Read a command line of wrk, and print what it would
    Wrk(Words),
    /// Read a command line of wrk2, and print what it would
    Wrk2(Words),
    /// Load with so many users as a thread group of JMeter does, and print its Summary Report
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

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Some(line) = arguments.instead else {
        if !arguments.options.agents.is_empty() {
            // Behind `forebay load`: agents are told words, and take the same ones as this command line.
            let words = std::env::args_os().skip(2).collect();
            return agents::controller::run(&arguments.options, words);
        }
        return run::run(arguments.options);
    };
    let (tool, words) = match line {
        Instead::Serve(arguments) => return serve::run(&arguments),
        Instead::Agent(arguments) => return agents::agent::run(arguments),
        Instead::Report(arguments) => return report::run(arguments),
        Instead::Autocannon(words) => (Tool::Autocannon, words),
        Instead::Ab(words) => (Tool::Ab, words),
        Instead::Hose(words) => (Tool::Hose, words),
        Instead::GoWrk(words) => (Tool::GoWrk, words),
        Instead::Wrk(words) => (Tool::Wrk, words),
        Instead::Wrk2(words) => (Tool::Wrk2, words),
        Instead::Jmeter(words) => (Tool::Jmeter, words),
    };
    match tool.read(&words.words) {
        Ok(tools::Line::Run(options)) => run::run(*options),
        Ok(tools::Line::Help(text)) => Ok(output::whole(&text)?),
        Err(wrong) => Err(UsageError(format!("{}: {wrong}", tool.name())).into()),
    }
}
