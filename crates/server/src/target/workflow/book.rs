//! The graphs and rules of a folder.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_script::{Rule, RuleFile};
use forebay_workflow::{Compat, Definition, Graph, Kind, check};

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
}

/// A graph that can be run.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) graph: Arc<Graph>,
    /// Those of the graph: JSON, an object.
    pub(crate) attributes: String,
}

/// All that is wrong with a folder.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BookFaults(Vec<String>);

impl Book {
    /// Reads a folder: `NAME.json` are graphs, `rules/NAME.js` or `.ts` rules, as are the folders of `rules`.
    pub(crate) fn read(folder: &Path, compat: Compat, erase_types: EraseTypes) -> Result<Self, BookFaults> {
        let mut reader = Reader {
            erase_types,
            faults: Vec::new(),
        };
        let rules = reader.rules(&folder.join("rules"));
        let mut workflows = BTreeMap::new();
        let mut subflows = Vec::new();
        for path in reader.entries(folder) {
            let is_graph = path.is_file() && path.extension().is_some_and(|extension| extension == "json");
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            if is_graph && let Some(workflow) = reader.workflow(&path, compat, &rules, &mut subflows) {
                workflows.insert(name.to_owned(), workflow);
            }
        }
        for (path, node, workflow) in subflows {
            if !workflows.contains_key(&workflow) {
                let path = path.display();
                let fault = format!("{path}: node `{node}`: there is no workflow `{workflow}`");
                reader.faults.push(fault);
            }
        }
        if reader.faults.is_empty() {
            Ok(Self { workflows, rules })
        } else {
            Err(BookFaults(reader.faults))
        }
    }

    pub(crate) fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows.get(name)
    }

    pub(super) fn rule(&self, name: &str) -> Option<&Arc<Rule>> {
        self.rules.get(name)
    }
}

struct Reader {
    erase_types: EraseTypes,
    faults: Vec<String>,
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
        subflows: &mut Vec<(PathBuf, String, String)>,
    ) -> Option<Workflow> {
        let text = self.text(path)?;
        let definition = match Definition::parse(text.as_bytes()) {
            Ok(definition) => definition,
            Err(error) => {
                self.fault(path, error);
                return None;
            }
        };
        for node in &definition.nodes {
            if let Kind::Subflow { workflow } = &node.kind {
                subflows.push((path.to_owned(), node.id.clone(), workflow.clone()));
            }
        }
        match check(&definition, compat, |rule| rules.contains_key(rule)) {
            Ok(graph) => Some(Workflow {
                graph: Arc::new(graph),
                attributes: serde_json::Value::Object(definition.attributes).to_string(),
            }),
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

fn is_code(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "js" || extension == "ts")
}
