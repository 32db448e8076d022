//! Validates what a configuration refers to, without starting a server.

mod statements;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

pub(crate) use self::statements::ask as ask_of_statements;
pub use self::statements::{CheckedStatements, check_statements};
use forebay_acme::AcmeClient;
use forebay_script::{Checked, Fault};
use forebay_tls::CertificateError;
use forebay_workflow::{BundleErrors, SourceParser, SourceProblem};

use crate::{
    app::{BuildError, PrivilegedCertificates, certificates, compat_of, script_options, tls},
    config::{Config, PythonApplication, PythonModule, Runtime, Worker},
    policy::BodySchemas,
    target::workflow::{Bundle, access},
};

/// Scripts that failed to load.
#[derive(Debug, thiserror::Error)]
#[error("{}", fault_lines(.0))]
pub struct ScriptFaults(Vec<(String, Fault)>);

/// One script a line, as `file:line:column: script.NAME: message`.
fn fault_lines(faults: &[(String, Fault)]) -> String {
    let lines = faults.iter().map(|(name, fault)| {
        let what = &fault.what;
        format!("{}: script.{name}: {what}", fault.place())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads the certificates of a configuration and their keys. None is ordered.
pub fn check_certificates(config: &Config) -> Result<(), CertificateError> {
    let certificates = certificates(config, &AcmeClient::default(), &PrivilegedCertificates::default())?;
    tls(config, &certificates).map(drop)
}

/// Reads the JSON Schemas of bodies.
pub fn check_body_schemas(config: &Config) -> Result<(), BuildError> {
    BodySchemas::read(config).map(drop)
}

/// Reads the graphs and rules of a configuration without running any, and returns warnings. Workflows in the store are not checked.
pub fn check_workflows(config: &Config, parser: SourceParser) -> Result<Vec<String>, BundleErrors> {
    let Some((workflow, folder)) = config.workflow.as_ref().and_then(|workflow| {
        let folder = workflow.folder()?;
        Some((workflow, folder))
    }) else {
        return Ok(Vec::new());
    };
    let bundle = Bundle::read(folder, compat_of(workflow), parser)?.whole()?;
    Ok(access::warnings(&bundle, workflow))
}

/// Loads every script of a configuration within its limits and without access to anything. Returns the names of scripts that open the store
/// while loading: no store is opened, so nothing beyond that point was checked.
pub fn check_scripts(config: &Config, parser: SourceParser) -> Result<Vec<String>, ScriptFaults> {
    let mut faults = Vec::new();
    let mut until_store = Vec::new();
    for (name, script) in &config.scripts {
        match forebay_script::check(script_options(name, script, None, parser, Arc::default())) {
            Ok(Checked::Whole) => {}
            Ok(Checked::UntilStore) => until_store.push(name.clone()),
            Err(fault) => faults.push((name.clone(), fault)),
        }
    }
    if faults.is_empty() {
        Ok(until_store)
    } else {
        Err(ScriptFaults(faults))
    }
}

/// Handlers of pools that cannot be loaded: names of pools with their problems, one a line, as `file:line:column: pool.NAME: message`.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(|(_, problem)| &**problem).collect::<Vec<_>>().join("\n"))]
pub struct HandlerFaults(pub(crate) Vec<(String, String)>);

/// Parses a Python file, and prints line, column and message of a syntax error as JSON.
const PYTHON_PROBLEM: &str = r#"
import ast, json, sys
file = sys.argv[1]
problem = None
with open(file, "rb") as source:
    try:
        ast.parse(source.read(), file)
    except SyntaxError as error:
        problem = [error.lineno or 1, error.offset or 1, f"{type(error).__name__}: {error.msg}"]
    except ValueError as error:
        problem = [1, 1, str(error)]
print(json.dumps(problem))
"#;

/// The syntax error of a Python application's file. Everything else is left to the worker: names can come from anywhere, and a worker that
/// finds no application says which objects there are.
fn python_problem(program: &Path, application: &PythonApplication) -> Option<(PathBuf, SourceProblem)> {
    let PythonModule::File(file) = &application.module else {
        return None;
    };
    let output = Command::new(program)
        .args(["-I", "-S", "-c", PYTHON_PROBLEM])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let (line, column, message) = serde_json::from_slice::<Option<(_, _, String)>>(&output.stdout).ok()??;
    let problem = SourceProblem {
        line,
        column,
        message,
    };
    Some((file.clone(), problem))
}

/// Parses the handlers of pools of Node, Bun and Python, without running them and without what they import. Only pools for whose names
/// `is_checked` is true are looked at.
pub fn check_handlers(
    config: &Config,
    parser: SourceParser,
    is_checked: impl Fn(&str) -> bool,
) -> Result<(), HandlerFaults> {
    let mut faults = Vec::new();
    for (name, pool) in config.pools.iter().filter(|(name, _)| is_checked(name)) {
        let (file, problems) = match &pool.worker {
            Worker::Script { runtime, handler, .. } => {
                // The runtime, too, goes by the name of a link's target. A file that cannot be read is left to the worker.
                let read = fs::canonicalize(handler).and_then(|file| Ok((fs::read(&file)?, file)));
                let Ok((source, file)) = read else { continue };
                let source = String::from_utf8_lossy(&source);
                let problems = (parser.handler_problems)(&source, &file, *runtime == Runtime::Bun);
                (file, problems)
            }
            Worker::Python {
                program, application, ..
            } => match python_problem(program, application) {
                Some((file, problem)) => (file, vec![problem]),
                None => continue,
            },
            Worker::Command { .. } => continue,
        };
        for SourceProblem {
            line,
            column,
            message,
        } in problems
        {
            let file = file.display();
            faults.push((
                name.clone(),
                format!("{file}:{line}:{column}: pool.{name}: {message}"),
            ));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(HandlerFaults(faults))
    }
}
