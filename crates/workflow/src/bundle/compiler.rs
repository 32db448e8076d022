//! Compiles the files of workflows, and collects every error in them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{
    Bundle, BundleError, Plan, Rules, Schemas, SourceParser, StoredTest, Template, Workflow, WorkflowFiles,
    cases,
    files::{Role, role_of},
    module_of,
};
use crate::{
    BuiltinTask, Compat, CompiledRule, DEPTH_MAX, Definition, DefinitionError, Evaluator, Kind, Required,
    RuleFile, RuleSource, check,
    jdm::{self, Decision, Document},
};

/// Compiles `files`, beside which there are those that `unreadable` names; errors name them with `place` as their folder.
pub(super) fn compile<E: Evaluator>(
    files: &WorkflowFiles,
    unreadable: Vec<BundleError>,
    place: &Path,
    compat: Compat,
    parser: SourceParser,
) -> Bundle<E> {
    let faults = unreadable;
    let unreadable: Vec<String> = faults.iter().filter_map(|fault| fault.file.clone()).collect();
    let mut compiler = Compiler::<E> {
        place,
        compat,
        parser,
        faults,
        warnings: Vec::new(),
        tasks: Vec::new(),
        functions: HashMap::new(),
        builtin: HashMap::new(),
        subflows: Vec::new(),
        uses: Vec::new(),
        modules: HashMap::new(),
        nodes: HashMap::new(),
        required: Vec::new(),
    };
    let rules = compiler.rules(files);
    compiler.modules(files);
    let mut workflows = BTreeMap::new();
    let unreadable = unreadable.iter().filter_map(|path| match role_of(path) {
        Some(Role::Workflow(name)) => Some(name),
        _ => None,
    });
    let names: HashSet<&str> = files.workflows().chain(unreadable).collect();
    let mut tests = Vec::new();
    let mut templates = HashMap::new();
    let mut schemas = HashMap::new();
    for (path, text) in files.iter() {
        match role_of(path) {
            Some(Role::Workflow(name)) => {
                if let Some(workflow) = compiler.workflow(path, text, &rules, &names) {
                    workflows.insert(name.to_owned(), workflow);
                }
            }
            Some(Role::Tests) => tests.extend(compiler.tests(path, text, &names)),
            Some(Role::Template(name, extension)) => {
                let template = Template::of(extension, text);
                if template.is_some_and(|template| templates.insert(name.to_owned(), template).is_some()) {
                    compiler.fault(path, format!("the template `{name}` is there twice"));
                }
            }
            Some(Role::Schemas(name)) if !names.contains(name) => {
                compiler.fault(path, format!("there is no workflow `{name}`"));
            }
            Some(Role::Schemas(name)) => match Schemas::read(text) {
                Ok(read) => drop(schemas.insert(name.to_owned(), read)),
                Err(fault) => compiler.fault(path, fault),
            },
            Some(Role::Rule(_) | Role::Module(_) | Role::Node(_)) | None => {}
        }
    }
    compiler.warn_of_circles();
    for (path, node, workflow) in std::mem::take(&mut compiler.subflows) {
        // A workflow that exists but cannot be read has an error of its own.
        if !names.contains(&*workflow) {
            compiler.fault(&path, format!("node `{node}`: there is no workflow `{workflow}`"));
        }
    }
    compiler.check_required();
    for (name, reason) in compiler.broken() {
        let workflow = Workflow {
            plan: Err(reason.into()),
            attributes: Arc::from("{}"),
        };
        workflows.insert(name, workflow);
    }
    Bundle {
        workflows,
        rules,
        modules: compiler.modules,
        nodes: compiler.nodes,
        functions: compiler.functions,
        builtin: compiler.builtin,
        tests,
        templates,
        schemas,
        warnings: compiler.warnings,
        tasks: compiler.tasks,
        errors: compiler.faults,
    }
}

struct Compiler<'r, E: Evaluator> {
    /// The folder of the files, as errors name it.
    place: &'r Path,
    compat: Compat,
    parser: SourceParser,
    faults: Vec<BundleError>,
    warnings: Vec<String>,
    tasks: Vec<(String, BuiltinTask)>,
    functions: Rules<E>,
    builtin: Rules<E>,
    modules: Rules<E>,
    nodes: Rules<E>,
    /// Modules that rules require, with the path of the requiring module, which is empty for others.
    required: Vec<(String, Required)>,
    /// Workflows that graphs run as subflows: the file, its node, and the workflow's name.
    subflows: Vec<(String, String, String)>,
    /// Rules that graphs run: the graph's file, and the rule's name.
    uses: Vec<(String, String)>,
}

impl<E: Evaluator> Compiler<'_, E> {
    /// Warns of workflows that reach themselves through SUBFLOW nodes.
    fn warn_of_circles(&mut self) {
        let name_of = |path: &str| path.strip_suffix(".json").unwrap_or(path).to_owned();
        let mut after: HashMap<String, Vec<&str>> = HashMap::new();
        for (path, _, workflow) in &self.subflows {
            after.entry(name_of(path)).or_default().push(workflow);
        }
        let mut circles = Vec::new();
        for (path, node, workflow) in &self.subflows {
            let start = name_of(path);
            let mut seen = HashSet::new();
            let mut open = vec![&**workflow];
            while let Some(name) = open.pop() {
                if seen.insert(name) {
                    open.extend(after.get(name).into_iter().flatten());
                }
            }
            if seen.contains(&*start) {
                let shown = self.shown(path);
                circles.push(format!(
                    "{shown}: node `{node}` runs `{workflow}`, which leads to `{start}` again: a run fails where more than {DEPTH_MAX} \
                     workflows are within each other"
                ));
            }
        }
        self.warnings.extend(circles);
    }

    /// A file's path as errors show it.
    fn shown(&self, path: &str) -> String {
        self.place.join(path).display().to_string()
    }

    fn fault(&mut self, path: &str, what: impl std::fmt::Display) {
        let shown = self.shown(path);
        self.placed_fault(path, format!("{shown}: {what}"));
    }

    /// Reports a file that is no definition, with the position if it is not even JSON.
    fn unreadable(&mut self, path: &str, error: DefinitionError) {
        match error {
            DefinitionError::Json { line, column, reason } => {
                let text = format!("{}:{line}:{column}: {reason}", self.shown(path));
                self.placed_fault(path, text);
            }
            other => self.fault(path, other),
        }
    }

    /// Adds an error whose text already says where it is.
    fn placed_fault(&mut self, path: &str, text: String) {
        let file = Some(path.to_owned());
        self.faults.push(BundleError { file, text });
    }

    /// Workflows that cannot be run because a file of theirs has errors, with the errors.
    fn broken(&self) -> BTreeMap<String, String> {
        let mut broken: BTreeMap<String, String> = BTreeMap::new();
        let mut add = |name: &str, text: &str| {
            let reason = broken.entry(name.to_owned()).or_default();
            let newline = if reason.is_empty() { "" } else { "\n" };
            reason.extend([newline, text]);
        };
        for BundleError { file, text } in &self.faults {
            match file.as_deref().and_then(role_of) {
                Some(Role::Workflow(name) | Role::Schemas(name)) => add(name, text),
                Some(Role::Rule(rule)) => {
                    for (path, _) in self.uses.iter().filter(|(_, used)| used == rule) {
                        if let Some(Role::Workflow(name)) = role_of(path) {
                            add(name, text);
                        }
                    }
                }
                _ => {}
            }
        }
        broken
    }

    fn tests(&mut self, path: &str, text: &str, names: &HashSet<&str>) -> Vec<StoredTest> {
        let mut faults = Vec::new();
        let tests = cases::read(path, text, &mut faults);
        for test in &tests {
            if !names.contains(&*test.workflow) {
                faults.push(format!(
                    "test `{}`: there is no workflow `{}`",
                    test.name, test.workflow
                ));
            }
        }
        for fault in faults {
            self.fault(path, fault);
        }
        tests
    }

    fn workflow(
        &mut self,
        path: &str,
        text: &str,
        rules: &Rules<E>,
        names: &HashSet<&str>,
    ) -> Option<Workflow> {
        if is_decision(text) {
            let decision = Arc::new(self.decision(path, text, names)?);
            return Some(Workflow {
                plan: Ok(Plan::Decision(decision)),
                attributes: Arc::from("{}"),
            });
        }
        let definition = match Definition::parse(text.as_bytes()) {
            Ok(definition) => definition,
            Err(error) => {
                self.unreadable(path, error);
                return None;
            }
        };
        let shown = self.shown(path);
        let warnings = definition.warnings.iter();
        self.warnings
            .extend(warnings.map(|warning| format!("{shown}: {warning}")));
        let mut is_whole = true;
        for node in &definition.nodes {
            if let Some(rule) = node.kind.rule() {
                self.uses.push((path.to_owned(), rule.to_owned()));
            }
            match &node.kind {
                Kind::Subflow { workflow } => {
                    self.subflows
                        .push((path.to_owned(), node.id.clone(), workflow.clone()));
                }
                Kind::BuiltinTask { rule, task } => match E::builtin(task) {
                    Ok(made) => {
                        let place = format!("{shown}: node `{}`", node.id);
                        self.tasks.push((place, task.clone()));
                        self.builtin.insert(rule.clone(), Arc::new(made));
                    }
                    Err(what) => {
                        self.fault(path, format!("node `{}`: {what}", node.id));
                        is_whole = false;
                    }
                },
                _ => {}
            }
        }
        if !is_whole {
            return None;
        }
        let knows = |rule: &str| rules.contains_key(rule) || self.builtin.contains_key(rule);
        match check(&definition, self.compat, knows) {
            Ok(graph) => Some(Workflow {
                plan: Ok(Plan::Graph(Arc::new(graph))),
                attributes: Value::Object(definition.attributes).to_string().into(),
            }),
            Err(problems) => {
                for problem in problems {
                    self.fault(path, problem);
                }
                None
            }
        }
    }

    fn decision(&mut self, path: &str, text: &str, names: &HashSet<&str>) -> Option<Decision> {
        let document = match Document::parse(text.as_bytes()) {
            Ok(document) => document,
            Err(error) => {
                self.unreadable(path, error);
                return None;
            }
        };
        for node in &document.nodes {
            let source = match &node.kind {
                jdm::Kind::Function { source, .. } => source,
                jdm::Kind::Custom { kind, .. } => {
                    if !self.nodes.contains_key(kind) {
                        let id = &node.id;
                        self.fault(
                            path,
                            format!("node `{id}`: there is no `nodes/{kind}.js` for its kind"),
                        );
                    }
                    continue;
                }
                _ => continue,
            };
            if self.functions.contains_key(source) {
                continue;
            }
            let place = format!("{path}: node `{}`", node.id);
            let erased = (self.parser.erase_types)(source, Path::new("function.ts"));
            let text = match erased {
                Ok(text) => text,
                Err(what) => {
                    self.fault(path, format!("node `{}`: {what}", node.id));
                    continue;
                }
            };
            let file = RuleFile {
                name: self.shown(&place),
                text,
            };
            let (name, file) = (&*node.name, &file);
            let rule = self.compiled(path, RuleSource::Function { name, file });
            self.functions.insert(source.clone(), rule);
        }
        match jdm::check(&document, |key| {
            names.contains(key.strip_suffix(".json").unwrap_or(key))
        }) {
            Ok(decision) => {
                let shown = self.shown(path);
                let warnings = decision.warnings().iter();
                self.warnings
                    .extend(warnings.map(|warning| format!("{shown}: {warning}")));
                Some(decision)
            }
            Err(problems) => {
                for problem in problems {
                    self.fault(path, problem);
                }
                None
            }
        }
    }

    fn rules(&mut self, files: &WorkflowFiles) -> Rules<E> {
        // The files of one rule are adjacent, unless a file has the same name as a folder.
        let mut parts: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (path, text) in files.iter() {
            if let Some(Role::Rule(name)) = role_of(path) {
                parts.entry(name).or_default().push((path, text));
            }
        }
        let mut rules = HashMap::with_capacity(parts.len());
        for (name, mut parts) in parts {
            let stands_alone = |path: &str| path.matches('/').count() == 1;
            if parts.len() > 1
                && let Some((path, _)) = parts.iter().rev().find(|(path, _)| stands_alone(path))
            {
                self.fault(path, format!("the rule `{name}` is there twice"));
            }
            // The sort is stable, so the files before `index` keep their order.
            parts.sort_by_key(|(path, _)| Path::new(path).file_stem().is_some_and(|stem| stem == "index"));
            let first = parts[0].0;
            let parts: Vec<_> = parts
                .into_iter()
                .filter_map(|(path, text)| self.rule_file(path, text))
                .collect();
            let files = &parts;
            let rule = self.compiled(first, RuleSource::Process { name, files });
            rules.insert(name.to_owned(), rule);
        }
        rules
    }

    /// Compiles modules and custom nodes.
    fn modules(&mut self, files: &WorkflowFiles) {
        for (path, text) in files.iter() {
            let (name, is_module) = match role_of(path) {
                Some(Role::Module(name)) => (name, true),
                Some(Role::Node(kind)) => (kind, false),
                _ => continue,
            };
            let Some(file) = self.rule_file(path, text) else {
                continue;
            };
            let file = &file;
            let before = if is_module {
                let rule = self.compiled(path, RuleSource::Module { path: name, file });
                self.modules.insert(name.to_owned(), rule)
            } else {
                let rule = self.compiled(path, RuleSource::Function { name, file });
                self.nodes.insert(name.to_owned(), rule)
            };
            if before.is_some() {
                self.fault(path, format!("`{name}` is there twice"));
            }
        }
    }

    /// Compiles the rule of a file, and notes what is wrong with it, which calls it does not await, and what it requires.
    fn compiled(&mut self, path: &str, source: RuleSource<'_>) -> Arc<E::Rule> {
        let CompiledRule {
            rule,
            error,
            required,
        } = E::compile(source);
        let (files, from) = match source {
            RuleSource::Process { files, .. } => (files, ""),
            RuleSource::Module { path, file } => (std::slice::from_ref(file), path),
            RuleSource::Function { file, .. } => (std::slice::from_ref(file), ""),
        };
        if let Some(error) = error {
            self.placed_fault(path, error);
        } else if self.compat == Compat::None {
            self.warnings.extend((self.parser.unawaited_calls)(files));
        }
        let required = required.into_iter().map(|required| (from.to_owned(), required));
        self.required.extend(required);
        Arc::new(rule)
    }

    /// Reports modules that are required but missing.
    fn check_required(&mut self) {
        let mut faults = Vec::new();
        for (from, Required { file, line, name }) in std::mem::take(&mut self.required) {
            if let Err(what) = module_of(&self.modules, &from, &name)
                && !E::MODULES.contains(&&*name)
            {
                let text = format!("{file}:{line}: {what}");
                faults.push((file, text));
            }
        }
        faults.sort();
        faults.dedup();
        for (file, text) in faults {
            let within = Path::new(&file).strip_prefix(self.place);
            let within = within.unwrap_or(Path::new(&file)).to_string_lossy().into_owned();
            // The file name of a function includes its node.
            let path = within.split(": node `").next().unwrap_or(&within);
            self.placed_fault(path, text);
        }
    }

    fn rule_file(&mut self, path: &str, text: &str) -> Option<RuleFile> {
        let name = self.shown(path);
        if path.strip_suffix(".ts").is_none() {
            let text = text.to_owned();
            return Some(RuleFile { name, text });
        }
        match (self.parser.erase_types)(text, &PathBuf::from(&name)) {
            Ok(text) => Some(RuleFile { name, text }),
            Err(what) => {
                self.placed_fault(path, what);
                None
            }
        }
    }
}

/// Whether a file is a GoRules decision, whose nodes have a `type` instead of an `@type`. An unreadable file is not.
fn is_decision(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    let first = value.get("nodes").and_then(|nodes| nodes.get(0));
    first.is_some_and(|node| node.get("type").is_some() && node.get("@type").is_none())
}
