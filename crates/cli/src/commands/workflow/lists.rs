//! `list` and `log`.

use forebay_workflow::{About, Canary, LogEntry};
use serde_json::json;

use super::source::Source;
use crate::{
    arguments::ConfigFile,
    commands::{status::table::Table, store::timestamp},
    output,
};

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
    let mut table = Table::new(["RELEASE", "STATE", "FILES", "MADE", "BY", "NOTE"]);
    for release in list.iter().rev() {
        let about: About = serde_json::from_value(release["about"].clone())?;
        let state = match release["state"].as_str().unwrap_or_default() {
            "canary" => {
                let canary: Canary = serde_json::from_value(told["canary"].clone())?;
                format!("canary {canary}")
            }
            state => state.to_owned(),
        };
        table.add([
            release["release"].to_string(),
            state,
            about.files.to_string(),
            timestamp::written(about.created_ms),
            shown(&about.by),
            shown(&about.note),
        ]);
    }
    Ok(output::whole(&table.lines())?)
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
    let mut table = Table::new(["WHEN", "BY", "WHAT", "RELEASE", ""]);
    for entry in entries {
        table.add([
            timestamp::written(entry.at_ms),
            shown(&entry.by),
            shown(&entry.what),
            entry.release.to_string(),
            shown(&entry.detail),
        ]);
    }
    Ok(output::whole(&table.lines())?)
}

/// A foreign text, safe to print within a line.
fn shown(text: &str) -> String {
    text.replace(char::is_control, " ")
}
