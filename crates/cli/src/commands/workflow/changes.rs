//! Commands that change releases: `import`, `export`, `state`, `publish`, `rollback`, `discard`.

use std::{fs, io, path::PathBuf};

use forebay_server::workflow::check;
use forebay_workflow::{RolledBack, place_of_release};
use serde_json::json;

use super::{
    WorkflowError,
    opening::{Who, now, of_release, releases},
    rengine,
    runs::tested,
};
use crate::{arguments::ConfigFile, commands::strip::erase_types, output};

/// Make a release, a draft, of a folder of workflows, or of collections that a Rengine has exported
///
/// A release is all files of a folder as they are now: graphs, decisions, rules and their tests. It never changes again. Nothing runs it before `publish`.
///
/// Of Rengine: one JSON object with the collections `re_sceneses`, `re_workflows`, `re_workflow_graphs`, `re_rules`, `re_rule_scripts` and `sys_uploads`, each a list of documents as `mongoexport` writes them. Scenes
/// become workflows by their codes, rules get their ids as names, and what cannot be brought over is named on standard error.
#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// The folder, or the file of collections. Example: forebay workflow import workflows
    #[arg(value_name = "FOLDER|FILE")]
    from: PathBuf,
    /// Where the bodies of a Rengine's uploads are, as its object store has them. Example: forebay workflow import rengine.json --files bucket
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// A note on the release. Example: forebay workflow import workflows --note "twice the points in May"
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    who: Who,
    /// One JSON object for programs. Example: forebay workflow import workflows --json | jq .release
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Write the files of a release into a new folder
#[derive(Debug, clap::Args)]
pub(super) struct Export {
    /// The release. Example: forebay workflow export 7 workflows
    #[arg(value_name = "N")]
    release: u64,
    /// The folder, which is made; one that is there must be empty. Example: forebay workflow export 7 /tmp/seven
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
}

/// Set the state of a release: `test`, which requests may select by number, or `draft`
#[derive(Debug, clap::Args)]
pub(super) struct SetState {
    /// The release. Example: forebay workflow state 7 test
    #[arg(value_name = "N")]
    release: u64,
    /// The new state. Example: forebay workflow state 7 draft
    #[arg(value_name = "STATE")]
    state: ReleaseStage,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ReleaseStage {
    /// Requests do not reach it
    Draft,
    /// `POST /workflow/NAME?release=N` has it, and routes that name it
    Test,
}

/// Have all runs have a release, or a share of them, once its stored tests hold
///
/// Servers have it within a second, without a reload; runs that have begun end with what they began with. It is checked first, and its stored tests are run: where one does not hold nothing changes.
#[derive(Debug, clap::Args)]
pub(super) struct Publish {
    /// The release. Example: forebay workflow publish 7
    #[arg(value_name = "N")]
    release: u64,
    /// Only for this share of the runs, 0.01% to 99.99%; which they are is told by their request ids, so that a request that is sent again meets the same. Example: forebay workflow publish 7 --canary 10%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    canary: Option<u32>,
    #[command(flatten)]
    who: Who,
    /// One JSON object for programs. Example: forebay workflow publish 7 --json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Take back what was published last: a share, or else the published release, for the one before it
#[derive(Debug, clap::Args)]
pub(super) struct Rollback {
    #[command(flatten)]
    who: Who,
    /// One JSON object for programs. Example: forebay workflow rollback --json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Remove a release that was never published
#[derive(Debug, clap::Args)]
pub(super) struct Discard {
    /// The release. Example: forebay workflow discard 7
    #[arg(value_name = "N")]
    release: u64,
    /// Also one that has been published. Example: forebay workflow discard 3 --former
    #[arg(long)]
    former: bool,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    config: ConfigFile,
}

/// Parses a share such as `10%` or `0.5%` into ten-thousandths.
fn share(text: &str) -> Result<u32, String> {
    let accepted = || "a share is 0.01% to 99.99%, such as 10%".to_owned();
    let number = text.strip_suffix('%').unwrap_or(text);
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_plain(whole) || !is_plain(part) || part.len() > 2 {
        return Err(accepted());
    }
    let whole: u32 = whole.parse().map_err(|_| accepted())?;
    let part: u32 = format!("{part:0<2}").parse().map_err(|_| accepted())?;
    let share = whole.saturating_mul(100).saturating_add(part);
    if (1..10_000).contains(&share) {
        Ok(share)
    } else {
        Err(accepted())
    }
}

pub(super) fn import(arguments: &Import) -> anyhow::Result<()> {
    let (releases, config) = releases(&arguments.config, true)?;
    let is_folder = arguments.from.is_dir();
    let (files, left_out) = if is_folder {
        (
            forebay_workflow::WorkflowFiles::read(&arguments.from)?,
            Vec::new(),
        )
    } else {
        rengine::read(&arguments.from, arguments.files.as_deref(), |files| {
            check(&config, files, "".as_ref(), erase_types).map(drop)
        })?
    };
    let by = arguments.who.name();
    let number = releases.import(&files, &arguments.note, &now(&by))?;
    let checked = check(&config, &files, &place_of_release(number), erase_types);
    let workflows: Vec<&str> = files.workflows().collect();
    for (document, reason) in &left_out {
        output::complaint(&format!("left out: {document}: {reason}"));
    }
    match &checked {
        Ok(warnings) => output::warnings(warnings),
        Err(faults) => output::complaint(&format!("note: it cannot be published as it is:\n{faults}")),
    }
    if arguments.json {
        let left_out: Vec<_> = left_out
            .iter()
            .map(|(document, reason)| json!({"document": document, "reason": reason}))
            .collect();
        let told = json!({
            "release": number, "workflows": workflows, "files": files.len(), "leftOut": left_out,
            "faults": checked.err().map(|faults| faults.to_string()),
        });
        return Ok(output::line(&told.to_string())?);
    }
    let count = workflows.len();
    Ok(output::line(&format!(
        "release {number}: a draft of {count} {}, {} files",
        if count == 1 { "workflow" } else { "workflows" },
        files.len()
    ))?)
}

pub(super) fn export(arguments: &Export) -> anyhow::Result<()> {
    let (releases, _) = releases(&arguments.config, false)?;
    let files = releases.files(arguments.release)?;
    let folder = &arguments.folder;
    let failed = |what| {
        move |source: io::Error| WorkflowError::File {
            what,
            path: folder.clone(),
            source,
        }
    };
    match fs::read_dir(folder).map(Iterator::count) {
        Ok(1..) => {
            return Err(WorkflowError::NotEmpty {
                folder: folder.clone(),
            }
            .into());
        }
        Ok(0) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read the folder")(error).into()),
    }
    files.write(folder).map_err(failed("write into"))?;
    Ok(output::line(&format!(
        "release {}: {} files in {}",
        arguments.release,
        files.len(),
        folder.display()
    ))?)
}

pub(super) fn set_state(arguments: &SetState) -> anyhow::Result<()> {
    let (releases, config) = releases(&arguments.config, true)?;
    let (number, by) = (arguments.release, arguments.who.name());
    let is_for_test = matches!(arguments.state, ReleaseStage::Test);
    if is_for_test {
        let found = of_release(&releases, number, config)?;
        found.check()?;
    }
    releases.set_test(number, is_for_test, &now(&by))?;
    let told = if is_for_test {
        format!("release {number} is for test: `?release={number}` asks for it")
    } else {
        format!("release {number} is not for test any more")
    };
    Ok(output::line(&told)?)
}

pub(super) fn publish(arguments: &Publish) -> anyhow::Result<()> {
    let (releases, config) = releases(&arguments.config, true)?;
    let (number, by) = (arguments.release, arguments.who.name());
    let found = of_release(&releases, number, config)?;
    found.check()?;
    let count = tested(&found.start(None)?, Some(number))?;
    let before = releases.standing()?.published.filter(|before| *before != number);
    match arguments.canary {
        Some(share) => releases.publish_share(number, share, &now(&by))?,
        None => releases.publish(number, &now(&by))?,
    }
    let percent = arguments.canary.map(|share| f64::from(share) / 100.0);
    if arguments.json {
        let told = json!({"release": number, "percent": percent, "before": before, "tests": count});
        return Ok(output::line(&told.to_string())?);
    }
    let tests = match count {
        0 => "it has no stored tests".to_owned(),
        1 => "its stored test holds".to_owned(),
        count => format!("its {count} stored tests hold"),
    };
    let what = match (percent, before) {
        (Some(percent), Some(before)) => format!("has {percent}% of the runs, release {before} the others"),
        (None, Some(before)) => format!("is published, after release {before}"),
        _ => "is published".to_owned(),
    };
    Ok(output::line(&format!("release {number} {what}; {tests}"))?)
}

pub(super) fn rollback(arguments: &Rollback) -> anyhow::Result<()> {
    let (releases, _) = releases(&arguments.config, true)?;
    let by = arguments.who.name();
    let done = releases.rollback(&now(&by))?;
    let (told, text) = match done {
        RolledBack::Canary { release } => (
            json!({"canary": release}),
            format!("release {release} has no share of the runs any more"),
        ),
        RolledBack::Published { from, to } => (
            json!({"from": from, "to": to}),
            format!("release {to} is published again, in the place of release {from}"),
        ),
    };
    Ok(output::line(&if arguments.json {
        told.to_string()
    } else {
        text
    })?)
}

pub(super) fn discard(arguments: &Discard) -> anyhow::Result<()> {
    let (releases, _) = releases(&arguments.config, true)?;
    let (number, by) = (arguments.release, arguments.who.name());
    releases.discard(number, arguments.former, &now(&by))?;
    Ok(output::line(&format!("release {number} is gone"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_and_bounded() {
        for (text, found) in [
            ("10%", 1000),
            ("0.5%", 50),
            ("0.01", 1),
            ("99.99%", 9999),
            ("1.20%", 120),
        ] {
            assert_eq!(share(text), Ok(found), "{text}");
        }
        for text in [
            "",
            "%",
            "0%",
            "100%",
            "-1%",
            "1.234%",
            "1.%",
            "ten",
            "99999999999%",
            "4294967295",
        ] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
