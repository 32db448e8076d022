//! The command `verify`.
//!
//! Damage within a record is found by the store. Damage to the pages that hold the records can end the process that reads them: the engine
//! maps the file and trusts its content. So a child process reads, and this one reports its result.

use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
};

use forebay_store::verify::{Report, verify};
use serde_json::{Value, json};

use crate::output::{self, OutputError};

use super::{
    StoreFailure,
    data::Data,
    progress::{Bar, megabytes, thousands},
};

/// Read everything that is stored and check it; damage is named, and the command fails
#[derive(Debug, clap::Args)]
pub(super) struct StoreVerifyArgs {
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(arguments: &StoreVerifyArgs) -> anyhow::Result<()> {
    // Errors that show when the store is opened are reported by this process.
    drop(arguments.data.read()?.snapshot()?);
    let reader = || -> std::io::Result<(Vec<u8>, bool)> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["store", "verify-here", "--data"])
            .arg(&arguments.data.folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut report = Vec::new();
        if let Some(mut out) = child.stdout.take() {
            out.read_to_end(&mut report)?;
        }
        Ok((report, child.wait()?.success()))
    };
    let (report, whole) = reader().map_err(|source| StoreFailure::File {
        what: "run a reader for",
        path: arguments.data.folder.clone(),
        source,
    })?;
    if !whole {
        return Err(StoreFailure::Unreadable.into());
    }
    tell(&serde_json::from_slice(&report)?)
}

/// Reads everything in this process, and prints the findings as JSON.
pub(super) fn here(arguments: &StoreVerifyArgs) -> anyhow::Result<()> {
    let store = arguments.data.read()?;
    let file_bytes = store.stats()?.file_bytes;
    let mut snapshot = store.snapshot()?;
    let mut bar = Bar::new("verify", "entries", Some(file_bytes));
    let Report {
        records,
        bytes,
        globals,
        problem_count,
        problems,
    } = verify(&mut snapshot, &mut |report| bar.at(report.records, report.bytes))?;
    bar.end(records, bytes);
    let report = json!({
        "records": records,
        "bytes": bytes,
        "globals": globals,
        "problem_count": problem_count,
        "problems": problems,
    });
    Ok(output::line(&report.to_string())?)
}

fn tell(report: &Value) -> anyhow::Result<()> {
    let number = |name: &str| report[name].as_u64().unwrap_or_default();
    let mut out = output::stream();
    let mut put = |line: &str| writeln!(out, "{line}").map_err(OutputError::from);
    let problems = report["problems"].as_array().map_or(&[][..], Vec::as_slice);
    for problem in problems {
        put(problem.as_str().unwrap_or_default())?;
    }
    let count = number("problem_count");
    if count == 0 {
        put(&format!(
            "sound: {} in {}, {}",
            counted(number("records"), "entry", "entries"),
            counted(number("globals"), "global", "globals"),
            megabytes(number("bytes"))
        ))?;
    } else if count > problems.len() as u64 {
        put(&format!("and {} more", count - problems.len() as u64))?;
    }
    out.flush().map_err(OutputError::from)?;
    if count > 0 {
        return Err(StoreFailure::Damaged { count }.into());
    }
    Ok(())
}

fn counted(number: u64, one: &str, several: &str) -> String {
    format!(
        "{} {}",
        thousands(number),
        if number == 1 { one } else { several }
    )
}
