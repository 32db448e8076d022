//! `check`, `run`, `trace` and `test`: workflows without a server.

use std::{fmt::Write as _, fs, os::unix::process::CommandExt as _, path::PathBuf, time::Instant};

use forebay_workflow::{Tested, arguments_of};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{
    WorkflowError,
    opening::{Selection, Which, configuration, of_folder, wait},
    source::Source,
    tree,
};
use crate::{
    failure::UsageError,
    output::{self, OutputError},
};

/// The variable of the environment that expressions take their time from.
const TIME_OF_EXPRESSIONS: &str = "__ZEN_MOCK_UTC_TIME";
/// Longest file of arguments, in bytes.
const ARGS_BYTES_MAX: u64 = 64 << 20;

/// Check workflows, and name everything that is wrong with them
///
/// Exit code 0: nothing is. 3: something is.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    /// A folder that is not that of the configuration. Example: forebay workflow check workflows
    #[arg(value_name = "FOLDER", conflicts_with = "release")]
    folder: Option<PathBuf>,
    /// One JSON object for programs. Example: forebay workflow check --json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// A workflow and its arguments.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The workflow. Example: forebay workflow run order --args '{"amount":40}'
    #[arg(value_name = "NAME")]
    name: String,
    /// Its arguments: an object in JSON, or @FILE. Example: forebay workflow run order --args @order.json
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
    args: String,
    #[command(flatten)]
    which: Which,
}

/// Run a workflow without a server, and print its result as JSON
///
/// Rules have the limits and permissions of the configuration.
#[derive(Debug, clap::Args)]
pub(super) struct Run {
    #[command(flatten)]
    asked: RunArgs,
}

/// Run a workflow, and show each node's result and time, and the log of its rules
#[derive(Debug, clap::Args)]
pub(super) struct Trace {
    /// The trace as one JSON object. Example: forebay workflow trace order --json | jq .trace
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: RunArgs,
}

/// Run the tests that are stored with workflows: those of tests/NAME.json
///
/// Exit code 0: all hold. 3: one does not.
#[derive(Debug, clap::Args)]
pub(super) struct Test {
    /// One JSON object a test for programs. Example: forebay workflow test --json | jq 'select(.differences != [])'
    #[arg(long)]
    json: bool,
    /// The time that rules and expressions find instead of the current one. Example: --now 2026-11-22T01:57:07Z
    #[arg(long, value_name = "TIME")]
    now: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// The time of `--now` in milliseconds since 1970. Expressions take theirs from the environment of the process, so the program starts itself
/// anew with it.
fn fixed_time(now: Option<&str>) -> anyhow::Result<Option<u64>> {
    let Some(now) = now else { return Ok(None) };
    let read = now.parse::<Timestamp>().ok();
    let Some((time, now_ms)) =
        read.and_then(|time| Some((time.to_string(), u64::try_from(time.as_millisecond()).ok()?)))
    else {
        let accepted = "date, time and zone, since 1970, such as 2026-11-22T01:57:07Z";
        return Err(UsageError(format!("--now {now}: expected {accepted}")).into());
    };
    if std::env::var(TIME_OF_EXPRESSIONS).is_ok_and(|known| known == time) {
        return Ok(Some(now_ms));
    }
    let program = std::env::current_exe()?;
    let error = std::process::Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(TIME_OF_EXPRESSIONS, time)
        .exec();
    Err(error.into())
}

pub(super) fn check(arguments: &Check) -> anyhow::Result<()> {
    let (selection, config) = match &arguments.folder {
        Some(folder) => (
            Selection::Folder(folder.clone()),
            configuration(&arguments.which.config)?,
        ),
        None => arguments.which.select()?,
    };
    let (what, told) = match selection {
        Selection::Folder(folder) => {
            let found = of_folder(&folder, config)?;
            let warnings = found.check()?;
            let names: Vec<&str> = found.files.workflows().collect();
            let told = json!({"release": null, "workflows": names, "files": found.files.len(), "faults": null, "warnings": warnings});
            (folder.display().to_string(), told)
        }
        Selection::Release(source, number) => {
            let told = source.get(&format!("/{number}/check"))?;
            if let Some(faults) = told["faults"].as_str() {
                let faults = faults.to_owned();
                return Err(WorkflowError::Faults { faults }.into());
            }
            (format!("release {number}"), told)
        }
    };
    output::warnings(&texts_of(&told["warnings"]));
    if arguments.json {
        return Ok(output::line(&told.to_string())?);
    }
    let names = texts_of(&told["workflows"]).join(", ");
    Ok(output::line(&format!("{what}: nothing is wrong with {names}"))?)
}

/// The texts of a list.
pub(super) fn texts_of(list: &Value) -> Vec<String> {
    Vec::deserialize(list).unwrap_or_default()
}

impl RunArgs {
    fn args(&self) -> anyhow::Result<Box<RawValue>> {
        let text = match self.args.strip_prefix('@') {
            Some(file) => {
                let path = PathBuf::from(file);
                let failed = |source| WorkflowError::File {
                    what: "read the arguments in",
                    path: path.clone(),
                    source,
                };
                let bytes = fs::metadata(&path).map_err(failed)?.len();
                if bytes > ARGS_BYTES_MAX {
                    let reason = format!("it has {bytes} bytes, at most {ARGS_BYTES_MAX}");
                    return Err(failed(std::io::Error::other(reason)).into());
                }
                fs::read_to_string(&path).map_err(failed)?
            }
            None => self.args.clone(),
        };
        let read = arguments_of(&text);
        Ok(read
            .map_err(|reason| UsageError(format!("--args are not a JSON object of arguments: {reason}")))?)
    }

    /// Runs the workflow. Returns the result and the time in milliseconds.
    fn run(&self, wants_trace: bool) -> anyhow::Result<(Value, f64)> {
        let args = self.args()?;
        let offline = self.which.find()?.start(None)?;
        let began = Instant::now();
        let outcome = wait(offline.run(&self.name, &args, wants_trace))??;
        Ok((outcome, began.elapsed().as_secs_f64() * 1000.0))
    }
}

/// The error of a failed outcome.
fn failure_of(outcome: &Value) -> Option<WorkflowError> {
    let reason = outcome
        .get("error")?
        .as_str()
        .unwrap_or_default()
        .trim_end()
        .to_owned();
    Some(match outcome.get("node").and_then(Value::as_str) {
        Some(node) => WorkflowError::Run {
            node: node.to_owned(),
            reason,
        },
        None => WorkflowError::Stopped { reason },
    })
}

pub(super) fn run(arguments: &Run) -> anyhow::Result<()> {
    let (outcome, _) = arguments.asked.run(false)?;
    match failure_of(&outcome) {
        Some(failure) => Err(failure.into()),
        None => Ok(output::line(&outcome.to_string())?),
    }
}

pub(super) fn trace(arguments: &Trace) -> anyhow::Result<()> {
    let (outcome, took_ms) = arguments.asked.run(true)?;
    if arguments.json {
        output::line(&outcome.to_string())?;
    } else {
        output::whole(&tree::of(&arguments.asked.name, &outcome, took_ms))?;
    }
    failure_of(&outcome).map_or(Ok(()), |failure| Err(failure.into()))
}

pub(super) fn test(arguments: &Test) -> anyhow::Result<()> {
    let now_ms = fixed_time(arguments.now.as_deref())?;
    let (mut count, mut failed) = (0, 0);
    let mut told = Ok(());
    let mut tell = |outcome: &TestOutcome| {
        count += 1;
        failed += usize::from(!outcome.differences.is_empty());
        if told.is_ok() {
            told = outcome.print(arguments.json);
        }
    };
    match arguments.which.select()? {
        (Selection::Release(source @ Source::Server(_), number), _) if now_ms.is_none() => {
            let report = source.request("POST", &format!("/{number}/test"), &[], None)?;
            TestOutcome::list(&report["tests"]).iter().for_each(tell);
        }
        (selection, config) => {
            let found = selection.read(config)?;
            found.check()?;
            let offline = found.start(now_ms)?;
            wait(offline.test(|Tested { test, differences }| {
                tell(&TestOutcome {
                    file: test.file.clone(),
                    name: test.name.clone(),
                    workflow: test.workflow.clone(),
                    differences,
                });
            }))??;
        }
    }
    told?;
    if failed > 0 {
        return Err(WorkflowError::Tests { failed, count }.into());
    }
    if !arguments.json {
        output::line(&match count {
            0 => "there are no stored tests: tests/NAME.json has some".to_owned(),
            count => format!("{count} of {count} hold"),
        })?;
    }
    Ok(())
}

/// The outcome of a stored test.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct TestOutcome {
    pub(super) file: String,
    pub(super) name: String,
    workflow: String,
    /// Empty: the test holds.
    pub(super) differences: Vec<String>,
}

impl TestOutcome {
    /// Those in a response about releases.
    pub(super) fn list(tests: &Value) -> Vec<Self> {
        Vec::deserialize(tests).unwrap_or_default()
    }

    fn print(&self, as_json: bool) -> Result<(), OutputError> {
        if as_json {
            return output::line(&json!(self).to_string());
        }
        let (good, bad, plain) = if output::in_colour() {
            ("\x1b[32m", "\x1b[31m", "\x1b[0m")
        } else {
            ("", "", "")
        };
        let mark = if self.differences.is_empty() {
            format!("{good}holds{plain}")
        } else {
            format!("{bad}FAILS{plain}")
        };
        let mut text = format!("{mark}  {}: {} ({})", self.file, self.name, self.workflow);
        for difference in &self.differences {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n         {difference}");
        }
        output::line(&text)
    }
}
