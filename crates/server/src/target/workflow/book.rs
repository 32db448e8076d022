//! The graphs and rules of a folder.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_script::{Rule, RuleFile};
use forebay_workflow::{
    Compat, Definition, Graph, Kind, check,
    jdm::{self, Decision, Document},
};
use serde_json::{Value, json};

use crate::app::EraseTypes;

/// Longest file of a graph or a rule, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most graphs, and most rules, of a folder.
const ENTRIES_MAX: usize = 100_000;

/// Graphs and rules as they are in force. Runs hold the book that they began with.
#[derive(Debug)]
pub(crate) struct Book {
    workflows: BTreeMap<String, Workflow>,
    rules: HashMap<String, Arc<Rule>>,
    /// Functions of decisions, by their text.
    functions: HashMap<String, Arc<Rule>>,
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

/// All that is wrong with a folder.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BookFaults(Vec<String>);

impl Book {
    /// Reads a folder: `NAME.json` are graphs, or decisions of GoRules, `rules/NAME.js` or `.ts` rules, as are the folders of `rules`.
    pub(crate) fn read(folder: &Path, compat: Compat, erase_types: EraseTypes) -> Result<Self, BookFaults> {
        let mut reader = Reader {
            erase_types,
            faults: Vec::new(),
            functions: HashMap::new(),
            subflows: Vec::new(),
        };
        let rules = reader.rules(&folder.join("rules"));
        let mut workflows = BTreeMap::new();
        let is_graph =
            |path: &PathBuf| path.is_file() && path.extension().is_some_and(|extension| extension == "json");
        let mut paths = reader.entries(folder);
        paths.retain(is_graph);
        let name_of = |path: &PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
        let names: HashSet<String> = paths.iter().filter_map(name_of).collect();
        for path in paths {
            let Some(name) = name_of(&path) else {
                reader.fault(&path, "its name is no text");
                continue;
            };
            if let Some(workflow) = reader.workflow(&path, compat, &rules, &names) {
                workflows.insert(name, workflow);
            }
        }
        for (path, node, workflow) in std::mem::take(&mut reader.subflows) {
            // One that cannot be read has its own fault.
            let fault = match workflows.get(&workflow).map(|workflow| &workflow.plan) {
                None if !names.contains(&workflow) => "there is no workflow",
                Some(Plan::Decision(_)) => "a graph runs no decision, and this is one:",
                _ => continue,
            };
            reader.fault(&path, format!("node `{node}`: {fault} `{workflow}`"));
        }
        if reader.faults.is_empty() {
            Ok(Self {
                workflows,
                rules,
                functions: reader.functions,
            })
        } else {
            Err(BookFaults(reader.faults))
        }
    }

    pub(crate) fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows.get(name)
    }

    /// A function of a decision, by its text.
    pub(super) fn function(&self, source: &str) -> Option<&Arc<Rule>> {
        self.functions.get(source)
    }

    /// A graph that has one node, which runs this rule.
    pub(super) fn plan_of_rule(&self, rule: &str) -> Option<Plan> {
        let nodes = json!([{"@type": "BOOT", "id": "0"}, {"@type": "PROCESS", "id": "1", "ruleId": rule}]);
        let definition =
            Definition::of(&json!({"nodes": nodes, "edges": [{"from": "0", "to": "1"}]})).ok()?;
        let graph = check(&definition, Compat::None, |rule| self.rules.contains_key(rule)).ok()?;
        Some(Plan::Graph(Arc::new(graph)))
    }

    pub(super) fn rule(&self, name: &str) -> Option<&Arc<Rule>> {
        self.rules.get(name)
    }
}

struct Reader {
    erase_types: EraseTypes,
    faults: Vec<String>,
    functions: HashMap<String, Arc<Rule>>,
    /// Graphs that graphs run: the file, its node, and which.
    subflows: Vec<(PathBuf, String, String)>,
}

impl Reader {
    fn fault(&mut self, path: &Path, what: impl std::fmt::Display) {
        self.faults.push(format!("{}: {what}", path.display()));
    }

    /// What is in a folder, in the order of names.
    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.fault(folder, error);
                return Vec::new();
            }
        };
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .take(ENTRIES_MAX + 1)
            .collect();
        if paths.len() > ENTRIES_MAX {
            self.fault(folder, format!("it has more than {ENTRIES_MAX} entries"));
        }
        paths.sort();
        paths
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let read = || {
            let length = fs::metadata(path)?.len();
            if length > FILE_BYTES_MAX {
                let what = format!("it has {length} bytes, at most {FILE_BYTES_MAX}");
                return Err(std::io::Error::other(what));
            }
            fs::read_to_string(path)
        };
        match read() {
            Ok(text) => Some(text),
            Err(error) => {
                self.fault(path, error);
                None
            }
        }
    }

    fn workflow(
        &mut self,
        path: &Path,
        compat: Compat,
        rules: &HashMap<String, Arc<Rule>>,
        names: &HashSet<String>,
    ) -> Option<Workflow> {
        let text = self.text(path)?;
        if is_decision(&text) {
            let decision = Arc::new(self.decision(path, &text, names)?);
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
        for node in &definition.nodes {
            if let Kind::Subflow { workflow } = &node.kind {
                self.subflows
                    .push((path.to_owned(), node.id.clone(), workflow.clone()));
            }
        }
        match check(&definition, compat, |rule| rules.contains_key(rule)) {
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

    fn decision(&mut self, path: &Path, text: &str, names: &HashSet<String>) -> Option<Decision> {
        let document = match Document::parse(text.as_bytes()) {
            Ok(document) => document,
            Err(error) => {
                self.fault(path, error);
                return None;
            }
        };
        for node in &document.nodes {
            let jdm::Kind::Function { source, .. } = &node.kind else {
                continue;
            };
            if self.functions.contains_key(source) {
                continue;
            }
            let place = PathBuf::from(format!("{}: node `{}`", path.display(), node.id));
            let erased = (self.erase_types)(source, Path::new("function.ts"));
            let text = match erased {
                Ok(text) => text,
                Err(what) => {
                    self.fault(&place, what);
                    continue;
                }
            };
            let rule = Rule::function(
                &node.name,
                &RuleFile {
                    name: place.display().to_string(),
                    text,
                },
            );
            if let Err(fault) = rule.check() {
                self.faults.push(fault.to_string());
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

    fn rules(&mut self, folder: &Path) -> HashMap<String, Arc<Rule>> {
        let mut rules: HashMap<String, Arc<Rule>> = HashMap::new();
        if !folder.is_dir() {
            return rules;
        }
        for path in self.entries(folder) {
            let (name, files) = if path.is_dir() {
                let mut files: Vec<_> = self
                    .entries(&path)
                    .into_iter()
                    .filter(|path| is_code(path))
                    .collect();
                // Stable: those before it keep their order.
                files.sort_by_key(|file| file.file_stem().is_some_and(|stem| stem == "index"));
                (path.file_name(), files)
            } else if is_code(&path) {
                (path.file_stem(), vec![path.clone()])
            } else {
                continue;
            };
            let Some(name) = name.and_then(|name| name.to_str()).map(str::to_owned) else {
                self.fault(&path, "its name is no text");
                continue;
            };
            let files: Vec<_> = files.iter().filter_map(|file| self.rule_file(file)).collect();
            let rule = Rule::new(&name, &files);
            if let Err(fault) = rule.check() {
                self.faults.push(fault.to_string());
            }
            if rules.insert(name.clone(), Arc::new(rule)).is_some() {
                self.fault(&path, format!("the rule `{name}` is there twice"));
            }
        }
        rules
    }

    fn rule_file(&mut self, path: &Path) -> Option<RuleFile> {
        let mut text = self.text(path)?;
        if path.extension().is_some_and(|extension| extension == "ts") {
            match (self.erase_types)(&text, path) {
                Ok(erased) => text = erased,
                Err(what) => {
                    self.faults.push(what);
                    return None;
                }
            }
        }
        let name = path.display().to_string();
        Some(RuleFile { name, text })
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

fn is_code(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "js" || extension == "ts")
}
