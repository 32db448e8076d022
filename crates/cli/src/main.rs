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
    match arguments::Arguments::parse().command.run(started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
