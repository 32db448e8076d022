//! Commands that change releases: `import`, `export`, `state`, `publish`, `rollback`, `discard`.

use std::{fs, io, path::PathBuf};

use forebay_workflow::{WorkflowFiles, percent_of};
use serde_json::{Map, Value, json};

use super::{
    WorkflowError,
    opening::Who,
    rengine,
    runs::{TestOutcome, texts_of},
    source::Source,
};
use crate::{arguments::ConfigFile, output};

/// Make a release, a draft, of a folder of workflows, or of the collections of a Rengine
///
/// A release is all files of a folder as they are now: graphs, decisions, rules and their tests. It never changes again. Nothing runs it before `publish`.
///
/// Of Rengine: the script of its database's shell, `rengine_init.js`, or one JSON object with the collections `re_sceneses`, `re_workflows`, `re_workflow_graphs`, `re_rules`, `re_rule_scripts` and `sys_uploads`, each a list of documents as `mongoexport` writes them. Scenes
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
    let share = percent_of(text.strip_suffix('%').unwrap_or(text));
    share.ok_or_else(|| "a share is 0.01% to 99.99%, such as 10%".to_owned())
}

pub(super) fn import(arguments: &Import) -> anyhow::Result<()> {
    let (source, config) = Source::open(&arguments.config, true)?;
    let from = &arguments.from;
    let (files, left_out) = if from.is_dir() {
        (WorkflowFiles::read(from)?, Vec::new())
    } else {
        rengine::read(from, arguments.files.as_deref(), &config)?
    };
    let texts: Map<String, Value> = files
        .iter()
        .map(|(path, text)| (path.to_owned(), text.into()))
        .collect();
    let draft = json!({ "files": texts, "note": arguments.note });
    let mut told = source.change("POST", "", &arguments.who.name(), Some(&draft))?;
    for (document, reason) in &left_out {
        output::complaint(&format!("left out: {document}: {reason}"));
    }
    output::warnings(&texts_of(&told["warnings"]));
    if let Some(faults) = told["faults"].as_str() {
        output::complaint(&format!("note: it cannot be published as it is:\n{faults}"));
    }
    if arguments.json {
        told["leftOut"] = left_out
            .iter()
            .map(|(document, reason)| json!({"document": document, "reason": reason}))
            .collect();
        return Ok(output::line(&told.to_string())?);
    }
    let count = files.workflows().count();
    Ok(output::line(&format!(
        "release {}: a draft of {count} {}, {} files",
        told["release"],
        if count == 1 { "workflow" } else { "workflows" },
        files.len()
    ))?)
}

pub(super) fn export(arguments: &Export) -> anyhow::Result<()> {
    let (source, _) = Source::open(&arguments.config, false)?;
    let files = source.files(arguments.release)?;
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
    let (source, _) = Source::open(&arguments.config, true)?;
    let (number, by) = (arguments.release, arguments.who.name());
    let (state, told) = match arguments.state {
        ReleaseStage::Test => (
            "test",
            format!("release {number} is for test: `?release={number}` asks for it"),
        ),
        ReleaseStage::Draft => ("draft", format!("release {number} is not for test any more")),
    };
    let body = json!({ "state": state });
    source.change("PUT", &format!("/{number}/state"), &by, Some(&body))?;
    Ok(output::line(&told)?)
}

pub(super) fn publish(arguments: &Publish) -> anyhow::Result<()> {
    let (source, _) = Source::open(&arguments.config, true)?;
    let (number, by) = (arguments.release, arguments.who.name());
    let percent = arguments.canary.map(|share| f64::from(share) / 100.0);
    let body = json!({ "percent": percent });
    let published = source.change("POST", &format!("/{number}/publish"), &by, Some(&body));
    let told = published.inspect_err(complain_of_tests)?;
    if arguments.json {
        return Ok(output::line(&told.to_string())?);
    }
    let tests = match told["tests"].as_u64() {
        Some(0) => "it has no stored tests".to_owned(),
        Some(1) => "its stored test holds".to_owned(),
        _ => format!("its {} stored tests hold", told["tests"]),
    };
    let what = match (percent, told["before"].as_u64()) {
        (Some(percent), Some(before)) => format!("has {percent}% of the runs, release {before} the others"),
        (None, Some(before)) => format!("is published, after release {before}"),
        _ => "is published".to_owned(),
    };
    Ok(output::line(&format!("release {number} {what}; {tests}"))?)
}

/// Prints the stored tests that kept a release from being published.
fn complain_of_tests(error: &anyhow::Error) {
    let Some(WorkflowError::Release { problem }) = error.downcast_ref() else {
        return;
    };
    for outcome in TestOutcome::list(&problem["tests"]) {
        output::complaint(&format!("{}: {}", outcome.file, outcome.name));
        for difference in &outcome.differences {
            output::complaint(&format!("  {difference}"));
        }
    }
}

pub(super) fn rollback(arguments: &Rollback) -> anyhow::Result<()> {
    let (source, _) = Source::open(&arguments.config, true)?;
    let told = source.change("POST", "/rollback", &arguments.who.name(), None)?;
    if arguments.json {
        return Ok(output::line(&told.to_string())?);
    }
    let text = match told["canary"].as_u64() {
        Some(release) => format!("release {release} has no share of the runs any more"),
        None => format!(
            "release {} is published again, in the place of release {}",
            told["to"], told["from"]
        ),
    };
    Ok(output::line(&text)?)
}

pub(super) fn discard(arguments: &Discard) -> anyhow::Result<()> {
    let (source, _) = Source::open(&arguments.config, true)?;
    let (number, by) = (arguments.release, arguments.who.name());
    let former = arguments.former.to_string();
    let parameters = [("by", &*by), ("former", &former)];
    source.request("DELETE", &format!("/{number}"), &parameters, None)?;
    Ok(output::line(&format!("release {number} is gone"))?)
}
