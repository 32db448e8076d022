//! Checks what a configuration leads to, without a server.

mod statements;

use std::sync::Arc;

pub(crate) use self::statements::ask as ask_of_statements;
pub use self::statements::{CheckedStatements, check_statements};
use forebay_script::{Checked, Fault};

use crate::{
    app::{EraseTypes, compat_of, script_options},
    config::Config,
    target::workflow::{Book, BookFaults},
};

/// The scripts that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{}", fault_lines(.0))]
pub struct ScriptFaults(Vec<(String, Fault)>);

/// A script a line, in the form `file:line:column: script.NAME: what`.
fn fault_lines(faults: &[(String, Fault)]) -> String {
    let lines = faults.iter().map(|(name, fault)| {
        let what = &fault.what;
        format!("{}: script.{name}: {what}", fault.place())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads the graphs and rules of a configuration, and runs none of them. Those in the store are not looked at.
pub fn check_workflows(config: &Config, erase_types: EraseTypes) -> Result<(), BookFaults> {
    let Some((workflow, folder)) = config.workflow.as_ref().and_then(|workflow| {
        let folder = workflow.source.folder()?;
        Some((workflow, folder))
    }) else {
        return Ok(());
    };
    Book::read(folder, compat_of(workflow), erase_types).map(drop)
}

/// Loads every script of a configuration, each within its limits, with nothing around it. Gives the names of those that ask for the store while they are
/// loaded, so that nothing is known of what they do from there on: no store is opened.
pub fn check_scripts(config: &Config, erase_types: EraseTypes) -> Result<Vec<String>, ScriptFaults> {
    let mut faults = Vec::new();
    let mut until_store = Vec::new();
    for script in config.scripts.values() {
        match forebay_script::check(script_options(script, None, erase_types, Arc::default())) {
            Ok(Checked::Whole) => {}
            Ok(Checked::UntilStore) => until_store.push(script.name.clone()),
            Err(fault) => faults.push((script.name.clone(), fault)),
        }
    }
    if faults.is_empty() {
        Ok(until_store)
    } else {
        Err(ScriptFaults(faults))
    }
}
