//! `list` and `log`.

use std::fmt::Write as _;

use forebay_workflow::{About, Canary, LogEntry};
use serde_json::json;

use super::source::Source;
use crate::{arguments::ConfigFile, commands::store::timestamp, output};

/// List the releases, and what each is
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// One JSON object for programs. Example: forebay workflow list --json | jq .published
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Print who has done what with the releases, the newest first
#[derive(Debug, clap::Args)]
pub(super) struct Log {
    /// Most entries. Example: forebay workflow log -n 100
    #[arg(short = 'n', long = "lines", value_name = "COUNT", default_value_t = 20)]
    count: usize,
    /// One JSON object a line for programs. Example: forebay workflow log --json | jq .by
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn list(arguments: &List) -> anyhow::Result<()> {
    let (source, _) = Source::open(&arguments.config, false)?;
    let told = source.get("")?;
    if arguments.json {
        return Ok(output::line(&told.to_string())?);
    }
    let list = told["releases"].as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        return Ok(output::line(&format!(
            "the global `{}` has no releases; `forebay workflow import FOLDER` makes one",
            told["global"].as_str().unwrap_or_default()
        ))?);
    }
    let mut rows = vec![["release", "state", "files", "made", "by", "note"].map(str::to_owned)];
    for release in list.iter().rev() {
        let about: About = serde_json::from_value(release["about"].clone())?;
        let state = match release["state"].as_str().unwrap_or_default() {
            "canary" => {
                let canary: Canary = serde_json::from_value(told["canary"].clone())?;
                format!("canary {canary}")
            }
            state => state.to_owned(),
        };
        rows.push([
            release["release"].to_string(),
            state,
            about.files.to_string(),
            timestamp::written(about.created_ms),
            shown(&about.by),
            shown(&about.note),
        ]);
    }
    Ok(output::whole(&table(&rows))?)
}

pub(super) fn log(arguments: &Log) -> anyhow::Result<()> {
    let (source, _) = Source::open(&arguments.config, false)?;
    let count = arguments.count.to_string();
    let mut told = source.request("GET", "/log", &[("count", &count)], None)?;
    let entries: Vec<LogEntry> = serde_json::from_value(told["entries"].take())?;
    if arguments.json {
        for entry in entries {
            output::line(&json!(entry).to_string())?;
        }
        return Ok(());
    }
    let mut rows = vec![["when", "by", "what", "release", "", ""].map(str::to_owned)];
    for entry in entries {
        rows.push([
            timestamp::written(entry.at_ms),
            shown(&entry.by),
            shown(&entry.what),
            entry.release.to_string(),
            shown(&entry.detail),
            String::new(),
        ]);
    }
    Ok(output::whole(&table(&rows))?)
}

/// A foreign text, safe to print within a line.
fn shown(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Formats rows; the first one holds the names of the columns.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or_default()).collect();
    let (dim, plain) = if output::in_colour() {
        ("\x1b[2m", "\x1b[0m")
    } else {
        ("", "")
    };
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let line = cells.join("  ");
        let (before, after) = if at == 0 { (dim, plain) } else { ("", "") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{before}{}{after}", line.trim_end());
    }
    text
}
