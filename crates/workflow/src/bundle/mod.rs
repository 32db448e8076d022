//! Workflows compiled for running: the graphs, decisions and rules of a set of files, read and checked.

mod cases;
mod compiler;
mod files;
mod schemas;
mod template;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use serde_json::json;

pub use self::{
    cases::StoredTest,
    files::{WorkflowFiles, is_workflow_file},
    schemas::Schemas,
    template::{Template, escape_markup},
};
use crate::{BuiltinTask, Compat, Definition, Evaluator, Graph, RuleFile, RuleModule, check, jdm::Decision};

/// The parser of rules, scripts and handlers, which the binary provides.
#[derive(Clone, Copy, Debug)]
pub struct SourceParser {
    /// Erases the types of a TypeScript file and keeps every line and column. The error describes the construct that cannot be erased.
    pub erase_types: fn(&str, &Path) -> Result<String, String>,
    /// Finds calls of clients whose promises nothing awaits, in files that see the declarations of those before them. Each is a warning
    /// with its place.
    pub unawaited_calls: fn(&[RuleFile]) -> Vec<String>,
    /// Finds what keeps a file from being loaded as the handler of a pool, by Bun or, if the last argument is `false`, by Node.
    pub handler_problems: fn(&str, &Path, bool) -> Vec<SourceProblem>,
}

/// A problem at a place in a source file.
#[derive(Debug)]
pub struct SourceProblem {
    /// 1-based.
    pub line: usize,
    /// In characters, 1-based.
    pub column: usize,
    /// The problem, without its place.
    pub message: String,
}

type Rules<E> = HashMap<String, Arc<<E as Evaluator>::Rule>>;

/// Compiled workflows. A run keeps the bundle that it began with. Files with errors do not keep the others from being run.
#[derive(Debug)]
pub struct Bundle<E: Evaluator> {
    workflows: BTreeMap<String, Workflow>,
    rules: Rules<E>,
    /// Modules that rules require, by path.
    modules: Rules<E>,
    /// Implementations of decisions' custom nodes, by kind.
    nodes: Rules<E>,
    /// Functions of decisions, by their source text.
    functions: Rules<E>,
    /// Rules generated for built-in nodes, by the name that graphs have for them.
    builtin: Rules<E>,
    tests: Vec<StoredTest>,
    templates: HashMap<String, Template>,
    schemas: HashMap<String, Schemas>,
    warnings: Vec<String>,
    /// Tasks of built-in nodes, each with its file and node.
    tasks: Vec<(String, BuiltinTask)>,
    errors: Vec<BundleError>,
}

/// A workflow, as it was compiled.
#[derive(Debug)]
pub(crate) struct Workflow {
    /// Its graph or decision, or the errors of its files.
    pub(crate) plan: Result<Plan, Arc<str>>,
    /// The graph's attributes: a JSON object.
    pub(crate) attributes: Arc<str>,
}

/// The program of a run.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// A graph of rules.
    Graph(Arc<Graph>),
    /// A GoRules decision.
    Decision(Arc<Decision>),
}

/// Every error in a set of workflow files.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(|fault| &*fault.text).collect::<Vec<_>>().join("\n"))]
pub struct BundleErrors(pub(crate) Vec<BundleError>);

/// An error in workflow files.
#[derive(Clone, Debug)]
pub(crate) struct BundleError {
    /// Path of the file; `None`: the error concerns the files as a whole.
    pub(crate) file: Option<String>,
    pub(crate) text: String,
}

impl BundleErrors {
    /// Each error that concerns one file: the file's path and the error.
    pub fn of_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|fault| Some((fault.file.as_deref()?, &*fault.text)))
    }
}

impl<E: Evaluator> Bundle<E> {
    /// Compiles the files of a folder. Errors in files are those of [`whole`](Self::whole).
    ///
    /// # Errors
    /// If the files cannot be read.
    pub fn read(folder: &Path, compat: Compat, parser: SourceParser) -> Result<Self, BundleErrors> {
        let (files, unreadable) = WorkflowFiles::read_most(folder)?;
        Ok(compiler::compile(&files, unreadable, folder, compat, parser))
    }

    /// Compiles `files`; errors name them with `place` as their folder.
    pub fn of(files: &WorkflowFiles, place: &Path, compat: Compat, parser: SourceParser) -> Self {
        compiler::compile(files, Vec::new(), place, compat, parser)
    }

    /// The workflows, if none of their files has an error.
    ///
    /// # Errors
    /// Every error in the files.
    pub fn whole(self) -> Result<Self, BundleErrors> {
        if self.errors.is_empty() {
            return Ok(self);
        }
        Err(BundleErrors(self.errors))
    }

    /// Checks that the files with errors had some in `before`, too.
    pub(crate) fn check_against(&self, before: &Self) -> Result<(), BundleErrors> {
        let had_errors = |file: &BundleError| before.errors.iter().any(|error| error.file == file.file);
        if self.errors.iter().all(had_errors) {
            return Ok(());
        }
        Err(BundleErrors(self.errors.clone()))
    }

    /// Warnings of parts that work otherwise than their author may expect, each with its file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The tasks of built-in nodes, each with its file and node.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, &BuiltinTask)> {
        self.tasks.iter().map(|(place, task)| (&**place, task))
    }

    /// Logs the errors and warnings.
    pub(crate) fn log(&self) {
        for error in &self.errors {
            tracing::error!(target: "forebay::workflow", "{}", error.text);
        }
        for warning in &self.warnings {
            tracing::warn!(target: "forebay::workflow", "{warning}");
        }
    }

    /// Tests stored among the files.
    pub fn tests(&self) -> &[StoredTest] {
        &self.tests
    }

    /// A response template, by name.
    pub fn template(&self, name: &str) -> Option<&Template> {
        self.templates.get(name)
    }

    /// The schemas of a workflow's arguments and results, if it has any.
    pub fn schemas(&self, name: &str) -> Option<&Schemas> {
        self.schemas.get(name)
    }

    /// Names of all workflows, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workflows.keys().map(String::as_str)
    }

    /// Whether a workflow is a GoRules decision.
    pub fn is_decision(&self, name: &str) -> bool {
        let plan = self.workflows.get(name).map(|workflow| &workflow.plan);
        matches!(plan, Some(Ok(Plan::Decision(_))))
    }

    /// Whether there is a workflow of this name.
    pub fn has(&self, name: &str) -> bool {
        self.workflows.contains_key(name)
    }

    pub(crate) fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows.get(name)
    }

    /// A decision's function, by its source text.
    pub(crate) fn function(&self, source: &str) -> Option<&Arc<E::Rule>> {
        self.functions.get(source)
    }

    /// The implementation of custom nodes of this kind.
    pub(crate) fn node(&self, kind: &str) -> Option<&Arc<E::Rule>> {
        self.nodes.get(kind)
    }

    /// The module that `from` requires as `name`. `from` is the path of a module, or empty for a rule.
    pub(crate) fn module(&self, from: &str, name: &str) -> Result<RuleModule<E::Rule>, String> {
        module_of(&self.modules, from, name)
    }

    /// A graph whose only node runs this rule.
    pub(crate) fn plan_of_rule(&self, rule: &str) -> Option<Plan> {
        let nodes = json!([{"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": rule}]);
        let definition =
            Definition::of(&json!({"nodes": nodes, "edges": [{"from": "0", "to": "1"}]})).ok()?;
        let graph = check(&definition, Compat::None, |rule| self.rules.contains_key(rule)).ok()?;
        Some(Plan::Graph(Arc::new(graph)))
    }

    /// A rule, by its name in graphs.
    pub(crate) fn rule(&self, name: &str) -> Option<&Arc<E::Rule>> {
        self.rules.get(name).or_else(|| self.builtin.get(name))
    }
}

/// Resolves a module name: a path from the modules folder, or, starting with `./` or `../`, relative to the module at `from`.
fn module_of<R>(modules: &HashMap<String, Arc<R>>, from: &str, name: &str) -> Result<RuleModule<R>, String> {
    let mut parts: Vec<&str> = Vec::new();
    if name.starts_with("./") || name.starts_with("../") {
        parts.extend(from.split('/'));
        parts.pop();
    }
    let mut is_within = true;
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => is_within &= parts.pop().is_some(),
            _ => parts.push(part),
        }
    }
    let whole = parts.join("/");
    let plain = whole.strip_suffix(".js").or_else(|| whole.strip_suffix(".ts"));
    let index = format!("{whole}/index");
    let paths = [plain.unwrap_or(&whole), &whole, &index];
    let found = paths.into_iter().find_map(|path| modules.get_key_value(path));
    match found.filter(|_| is_within) {
        Some((path, rule)) => Ok(RuleModule {
            path: path.clone(),
            rule: Arc::clone(rule),
        }),
        None => Err(format!(
            "there is no module `{name}`: modules are files of the folder `modules`, such as `modules/NAME.js`"
        )),
    }
}
