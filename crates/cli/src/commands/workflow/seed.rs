//! Documents of a script for the shell of `MongoDB`, such as the one with which a Rengine is set up.
//!
//! The script runs as a rule that may reach nothing, within limits of time and memory.

use std::{path::Path, time::Duration};

use forebay_server::{
    config::{Config, WorkflowAllow},
    workflow::{check, start_offline},
};
use forebay_workflow::{WorkflowFiles, arguments_of};
use serde_json::Value;

use super::opening::wait;
use crate::commands::strip::PARSER;

/// Longest time of a script.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Most memory of a script, in bytes.
const MEMORY_MAX: u64 = 256 << 20;
/// Most bytes of the documents as JSON.
const DOCUMENTS_BYTES_MAX: u64 = 128 << 20;

const GRAPH: &str = r#"{"nodes":[{"@type":"BOOT","id":"0"},{"@type":"PROCESS","id":"1","ruleId":"seed"}],"edges":[{"from":"0","to":"1"}]}"#;
const SHELL: &str = include_str!("seed.js");
const RESULT: &str = "function process() {\n  return new ScriptResult(true, { collections });\n}\n";
/// The script among the files of the rule, which are in the order of their names.
const SCRIPT: &str = "rules/seed/script.js";

/// Runs a script; returns the documents that it has inserted, by their collections. The error names the line.
pub(super) fn collections(
    file: &Path,
    text: String,
    config: &Config,
) -> anyhow::Result<Result<Value, String>> {
    let mut files = WorkflowFiles::default();
    for (path, text) in [
        ("seed.json", GRAPH.to_owned()),
        ("rules/seed/0-shell.js", SHELL.to_owned()),
        (SCRIPT, text),
        ("rules/seed/index.js", RESULT.to_owned()),
    ] {
        if let Err(reason) = files.add(path, text) {
            return Ok(Err(reason));
        }
    }
    let place = Path::new("seed");
    let named = |text: &str| text.replace(&*place.join(SCRIPT).to_string_lossy(), &file.to_string_lossy());
    let config = confined(config);
    if let Err(faults) = check(&config, &files, place, PARSER) {
        return Ok(Err(named(&faults.to_string())));
    }
    let offline = start_offline(&config, &files, place, PARSER, None)?;
    let none = arguments_of("{}").expect("this is an object");
    let mut outcome = wait(offline.run("seed", &none, false))??;
    Ok(match outcome["error"].as_str() {
        Some(error) => Err(of_script(&named(error), &file.to_string_lossy())),
        None => Ok(outcome["valueMap"]["collections"].take()),
    })
}

/// An error without the part of its stack that is not of the script.
fn of_script(error: &str, file: &str) -> String {
    let is_of_script = |line: &&str| !line.trim_start().starts_with("at ") || line.contains(file);
    error.lines().filter(is_of_script).collect::<Vec<_>>().join("\n")
}

/// The configuration with a rule's permissions taken away, and its limits as a script needs them.
fn confined(config: &Config) -> Config {
    let mut config = config.clone();
    if let Some(workflow) = &mut config.workflow {
        workflow.timeout = TIME_MAX;
        workflow.memory_max = MEMORY_MAX;
        workflow.output_max = DOCUMENTS_BYTES_MAX;
        workflow.allow = WorkflowAllow::default();
        workflow.logs = None;
        workflow.scenes.clear();
    }
    config
}
