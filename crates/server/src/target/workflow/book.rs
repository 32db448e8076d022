//! Graphs and rules that were read and checked, so that they can be run.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_script::{Rule, RuleFile, RuleModule};
use forebay_workflow::{
    Compat, Definition, Graph, Kind, check,
    jdm::{self, Decision, Document},
};
use serde_json::{Value, json};

use super::{
    releases::{
        cases::{self, StoredTest},
        files::{Role, WorkflowFiles, role_of},
    },
    requests::template::Template,
    runs::errands,
    schemas::Schemas,
};
use crate::app::EraseTypes;

/// Graphs and rules as they are in force. Runs hold the book that they began with.
#[derive(Debug)]
pub(crate) struct Book {
    workflows: BTreeMap<String, Workflow>,
    rules: HashMap<String, Arc<Rule>>,
    /// Modules that rules require, by their paths.
    modules: HashMap<String, Arc<Rule>>,
    /// What custom nodes of decisions do, by their kinds.
    nodes: HashMap<String, Arc<Rule>>,
    /// Functions of decisions, by their text.
    functions: HashMap<String, Arc<Rule>>,
    /// Of nodes that need no rule of their own, by what stands for them in graphs.
    errands: HashMap<String, Arc<Rule>>,
    tests: Vec<StoredTest>,
    templates: HashMap<String, Template>,
    schemas: HashMap<String, Schemas>,
}

/// A workflow that can be run.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(super) plan: Plan,
    /// Those of the graph: JSON, an object.
    pub(super) attributes: String,
}

/// What a run goes through.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// A graph of rules.
    Graph(Arc<Graph>),
    /// A decision of GoRules.
    Decision(Arc<Decision>),
}

/// All that is wrong with the files of workflows.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(|fault| &*fault.text).collect::<Vec<_>>().join("\n"))]
pub struct BookFaults(pub(super) Vec<BookFault>);

/// Something that is wrong, with the file where it is.
#[derive(Debug)]
pub(super) struct BookFault {
    /// Its path; `None`: it is wrong with the files as a whole.
    pub(super) file: Option<String>,
    pub(super) text: String,
}

impl BookFaults {
    /// The files that something is wrong with, and what.
    pub fn of_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|fault| Some((fault.file.as_deref()?, &*fault.text)))
    }
}

impl Book {
    /// Reads a folder.
    pub(crate) fn read(folder: &Path, compat: Compat, erase_types: EraseTypes) -> Result<Self, BookFaults> {
        Self::of(&WorkflowFiles::read(folder)?, folder, compat, erase_types)
    }

    /// Of files; errors say where these are.
    pub(crate) fn of(
        files: &WorkflowFiles,
        place: &Path,
        compat: Compat,
        erase_types: EraseTypes,
    ) -> Result<Self, BookFaults> {
        let mut reader = Reader {
            place,
            erase_types,
            faults: Vec::new(),
            functions: HashMap::new(),
            errands: HashMap::new(),
            subflows: Vec::new(),
            modules: HashMap::new(),
            nodes: HashMap::new(),
        };
        let rules = reader.rules(files);
        reader.modules(files);
        let mut workflows = BTreeMap::new();
        let names: HashSet<&str> = files.workflows().collect();
        let mut tests = Vec::new();
        let mut templates = HashMap::new();
        let mut schemas = HashMap::new();
        for (path, text) in files.iter() {
            match role_of(path) {
                Some(Role::Workflow(name)) => {
                    if let Some(workflow) = reader.workflow(path, text, compat, &rules, &names) {
                        workflows.insert(name.to_owned(), workflow);
                    }
                }
                Some(Role::Tests) => tests.extend(reader.tests(path, text, &names)),
                Some(Role::Template(name, extension)) => {
                    let template = Template::of(extension, text);
                    if template.is_some_and(|template| templates.insert(name.to_owned(), template).is_some())
                    {
                        reader.fault(path, format!("the template `{name}` is there twice"));
                    }
                }
                Some(Role::Schemas(name)) if !names.contains(name) => {
                    reader.fault(path, format!("there is no workflow `{name}`"));
                }
                Some(Role::Schemas(name)) => match Schemas::read(text) {
                    Ok(read) => drop(schemas.insert(name.to_owned(), read)),
                    Err(fault) => reader.fault(path, fault),
                },
                Some(Role::Rule(_) | Role::Module(_) | Role::Node(_)) | None => {}
            }
        }
        for (path, node, workflow) in std::mem::take(&mut reader.subflows) {
            // One that cannot be read has its own fault.
            if !names.contains(&*workflow) {
                reader.fault(&path, format!("node `{node}`: there is no workflow `{workflow}`"));
            }
        }
        reader.check_required(&rules);
        if reader.faults.is_empty() {
            Ok(Self {
                workflows,
                rules,
                modules: reader.modules,
                nodes: reader.nodes,
                functions: reader.functions,
                errands: reader.errands,
                tests,
                templates,
                schemas,
            })
        } else {
            Err(BookFaults(reader.faults))
        }
    }

    /// The tests that are stored with them.
    pub(super) fn tests(&self) -> &[StoredTest] {
        &self.tests
    }

    /// A template of answers, by its name.
    pub(super) fn template(&self, name: &str) -> Option<&Template> {
        self.templates.get(name)
    }

    /// What the arguments and results of a workflow have to be, where that is said.
    pub(super) fn schemas(&self, name: &str) -> Option<&Schemas> {
        self.schemas.get(name)
    }

    /// All workflows, in the order of their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.workflows.keys().map(String::as_str)
    }

    pub(super) fn is_decision(&self, name: &str) -> bool {
        let plan = self.workflows.get(name).map(|workflow| &workflow.plan);
        matches!(plan, Some(Plan::Decision(_)))
    }

    pub(crate) fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows.get(name)
    }

    /// A function of a decision, by its text.
    pub(super) fn function(&self, source: &str) -> Option<&Arc<Rule>> {
        self.functions.get(source)
    }

    /// What custom nodes of a kind do.
    pub(super) fn node(&self, kind: &str) -> Option<&Arc<Rule>> {
        self.nodes.get(kind)
    }

    /// The module that a rule requires by this name, or the module at the path `from`, which is empty for rules.
    pub(super) fn module(&self, from: &str, name: &str) -> Result<RuleModule, String> {
        module_of(&self.modules, from, name)
    }

    /// A graph that has one node, which runs this rule.
    pub(super) fn plan_of_rule(&self, rule: &str) -> Option<Plan> {
        let nodes = json!([{"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": rule}]);
        let definition =
            Definition::of(&json!({"nodes": nodes, "edges": [{"from": "0", "to": "1"}]})).ok()?;
        let graph = check(&definition, Compat::None, |rule| self.rules.contains_key(rule)).ok()?;
        Some(Plan::Graph(Arc::new(graph)))
    }

    /// A rule as graphs name it.
    pub(super) fn rule(&self, name: &str) -> Option<&Arc<Rule>> {
        self.rules.get(name).or_else(|| self.errands.get(name))
    }
}

struct Reader<'r> {
    /// Where the files are.
    place: &'r Path,
    erase_types: EraseTypes,
    faults: Vec<BookFault>,
    functions: HashMap<String, Arc<Rule>>,
    errands: HashMap<String, Arc<Rule>>,
    modules: HashMap<String, Arc<Rule>>,
    nodes: HashMap<String, Arc<Rule>>,
    /// Graphs that graphs run: the file, its node, and which.
    subflows: Vec<(String, String, String)>,
}

impl Reader<'_> {
    /// A file as errors name it.
    fn shown(&self, path: &str) -> String {
        self.place.join(path).display().to_string()
    }

    fn fault(&mut self, path: &str, what: impl std::fmt::Display) {
        let shown = self.shown(path);
        self.placed_fault(path, format!("{shown}: {what}"));
    }

    /// What says where it is.
    fn placed_fault(&mut self, path: &str, text: String) {
        let file = Some(path.to_owned());
        self.faults.push(BookFault { file, text });
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
        compat: Compat,
        rules: &HashMap<String, Arc<Rule>>,
        names: &HashSet<&str>,
    ) -> Option<Workflow> {
        if is_decision(text) {
            let decision = Arc::new(self.decision(path, text, names)?);
            return Some(Workflow {
                plan: Plan::Decision(decision),
                attributes: "{}".to_owned(),
            });
        }
        let definition = match Definition::parse(text.as_bytes()) {
            Ok(definition) => definition,
            Err(error) => {
                self.fault(path, error);
                return None;
            }
        };
        let mut is_whole = true;
        for node in &definition.nodes {
            match &node.kind {
                Kind::Subflow { workflow } => {
                    self.subflows
                        .push((path.to_owned(), node.id.clone(), workflow.clone()));
                }
                Kind::Errand { rule, errand } => match errands::rule_of(errand) {
                    Ok(made) => drop(self.errands.insert(rule.clone(), Arc::new(made))),
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
        let knows = |rule: &str| rules.contains_key(rule) || self.errands.contains_key(rule);
        match check(&definition, compat, knows) {
            Ok(graph) => Some(Workflow {
                plan: Plan::Graph(Arc::new(graph)),
                attributes: Value::Object(definition.attributes).to_string(),
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
                self.fault(path, error);
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
            let erased = (self.erase_types)(source, Path::new("function.ts"));
            let text = match erased {
                Ok(text) => text,
                Err(what) => {
                    self.fault(path, format!("node `{}`: {what}", node.id));
                    continue;
                }
            };
            let rule = Rule::function(
                &node.name,
                &RuleFile {
                    name: self.shown(&place),
                    text,
                },
            );
            if let Err(fault) = rule.check() {
                self.placed_fault(path, fault.to_string());
            }
            self.functions.insert(source.clone(), Arc::new(rule));
        }
        match jdm::check(&document, |key| {
            names.contains(key.strip_suffix(".json").unwrap_or(key))
        }) {
            Ok(decision) => Some(decision),
            Err(problems) => {
                for problem in problems {
                    self.fault(path, problem);
                }
                None
            }
        }
    }

    fn rules(&mut self, files: &WorkflowFiles) -> HashMap<String, Arc<Rule>> {
        // Those of one rule follow one another, but for a file of the same name as a folder.
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
            // Stable: those before it keep their order.
            parts.sort_by_key(|(path, _)| Path::new(path).file_stem().is_some_and(|stem| stem == "index"));
            let first = parts[0].0;
            let parts: Vec<_> = parts
                .into_iter()
                .filter_map(|(path, text)| self.rule_file(path, text))
                .collect();
            let rule = Rule::new(name, &parts);
            if let Err(fault) = rule.check() {
                self.placed_fault(first, fault.to_string());
            }
            rules.insert(name.to_owned(), Arc::new(rule));
        }
        rules
    }

    /// Reads modules, and what custom nodes do.
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
            let (rule, known) = if is_module {
                (Rule::module(name, &file), &mut self.modules)
            } else {
                (Rule::function(name, &file), &mut self.nodes)
            };
            let checked = rule.check();
            let before = known.insert(name.to_owned(), Arc::new(rule));
            if let Err(fault) = checked {
                self.placed_fault(path, fault.to_string());
            }
            if before.is_some() {
                self.fault(path, format!("`{name}` is there twice"));
            }
        }
    }

    /// Names the modules that are required and not there.
    fn check_required(&mut self, rules: &HashMap<String, Arc<Rule>>) {
        let mut faults = Vec::new();
        let others = rules
            .values()
            .chain(self.functions.values())
            .chain(self.nodes.values());
        let others = others.map(|rule| ("", rule));
        let modules = self.modules.iter().map(|(path, rule)| (path.as_str(), rule));
        for (from, rule) in others.chain(modules) {
            for required in rule.required() {
                if let Err(what) = module_of(&self.modules, from, &required.name) {
                    faults.push((
                        required.file.clone(),
                        format!("{}:{}: {what}", required.file, required.line),
                    ));
                }
            }
        }
        faults.sort();
        faults.dedup();
        for (file, text) in faults {
            let within = Path::new(&file).strip_prefix(self.place);
            let within = within.unwrap_or(Path::new(&file)).to_string_lossy().into_owned();
            // That of a function names its node as well.
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
        match (self.erase_types)(text, &PathBuf::from(&name)) {
            Ok(text) => Some(RuleFile { name, text }),
            Err(what) => {
                self.placed_fault(path, what);
                None
            }
        }
    }
}

/// The module that is named so at the path `from`: by its path from the folder of modules, or behind `./` or `../` from that of `from`.
fn module_of(modules: &HashMap<String, Arc<Rule>>, from: &str, name: &str) -> Result<RuleModule, String> {
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

/// Whether it is a decision of GoRules, whose nodes have a `type` in the place of an `@type`. What cannot be read is none.
fn is_decision(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    let first = value.get("nodes").and_then(|nodes| nodes.get(0));
    first.is_some_and(|node| node.get("type").is_some() && node.get("@type").is_none())
}
