//! The `forebay` command.

#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod control;
mod failure;
mod output;
mod overrides;
#[cfg(test)]
mod reference;

use std::{process::ExitCode, time::Instant};

use clap::Parser as _;

fn main() -> ExitCode {
    let started = Instant::now();
    let parsed = arguments::CliArgs::try_parse().map_err(|error| arguments::refuse(&error));
    match parsed.and_then(|arguments| arguments.command.run(started)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
