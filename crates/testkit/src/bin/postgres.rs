//! `make postgres` and `make postgres-stop`, with the folder whose `postgres.env` holds the address. `run` provides a server for only as
//! long as the calling process lives.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program that says what it has done"
)]

use std::{io, path::Path, process::ExitCode};

use forebay_testkit::postgres::{Error, Postgres, chain, resident};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["start", folder] => start(Path::new(folder)),
        ["stop", folder] => stop(Path::new(folder)),
        ["run"] => {
            run();
            Ok(())
        }
        _ => {
            eprintln!("usage: forebay-postgres start FOLDER | stop FOLDER | run");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn start(folder: &Path) -> Result<(), Error> {
    let server = resident::start(folder)?;
    let how = if server.ran_before { "runs already" } else { "runs" };
    println!("PostgreSQL {how} (process {}): {}", server.pid, server.url);
    println!(
        "{} sets FOREBAY_PG_URL to that; `make postgres-stop` ends it.",
        server.env_file.display()
    );
    Ok(())
}

fn stop(folder: &Path) -> Result<(), Error> {
    let stopped = resident::stop(folder)?;
    println!(
        "{}",
        if stopped {
            "PostgreSQL has ended."
        } else {
            "No PostgreSQL runs."
        }
    );
    Ok(())
}

/// Runs the server that tests share until standard input ends. Lines there are statements, run as the superuser; `done` answers each.
fn run() {
    let server = Postgres::shared();
    println!("{}\n{}", server.url(), server.socket_folder().display());
    // A read error ends the server, too.
    for statement in io::stdin().lines().map_while(Result::ok) {
        let run = server.admin().batch_execute(&statement);
        run.unwrap_or_else(|error| panic!("{statement}: {error}"));
        println!("done");
    }
}
