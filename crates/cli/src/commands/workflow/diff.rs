//! `diff`: the differences between two releases, or a release and a folder.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use forebay_workflow::WorkflowFiles;
use serde_json::{Value, json};

use super::source::Source;
use crate::{arguments::ConfigFile, output};

/// Most lines of a file that are shown.
const LINES_MAX: usize = 200;

/// Show what differs between two releases, or a release and a folder: files, and of graphs which nodes and edges
#[derive(Debug, clap::Args)]
pub(super) struct WorkflowDiffArgs {
    /// A release by its number, or a folder. Example: forebay workflow diff 6 7
    #[arg(value_name = "A")]
    before: String,
    /// The other release or folder. Example: forebay workflow diff 7 workflows
    #[arg(value_name = "B")]
    after: String,
    /// One JSON object for programs. Example: forebay workflow diff 6 7 --json | jq .files
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn run(arguments: &WorkflowDiffArgs) -> anyhow::Result<()> {
    let read = |which: &str| -> anyhow::Result<WorkflowFiles> {
        match which.parse() {
            Ok(number) => Ok(Source::open(&arguments.config, false)?.0.files(number)?),
            Err(_) => Ok(WorkflowFiles::read(Path::new(which))?),
        }
    };
    let differences = differences(&read(&arguments.before)?, &read(&arguments.after)?);
    if arguments.json {
        let files: Vec<Value> = differences.iter().map(Difference::told).collect();
        return Ok(output::line(&json!({ "files": files }).to_string())?);
    }
    if differences.is_empty() {
        return Ok(output::line("nothing differs")?);
    }
    let mut text = String::new();
    for difference in &differences {
        difference.put(&mut text);
    }
    Ok(output::whole(&text)?)
}

/// A file that differs.
#[derive(Debug, PartialEq)]
struct Difference {
    path: String,
    change: Change,
}

#[derive(Debug, PartialEq)]
enum Change {
    New,
    Gone,
    Graph(Vec<Part>),
    Lines { gone: Vec<String>, new: Vec<String> },
}

/// A part of a graph that differs.
#[derive(Debug, PartialEq)]
struct Part {
    /// Name of the part, such as node `2`.
    what: String,
    before: Option<Value>,
    after: Option<Value>,
}

fn differences(before: &WorkflowFiles, after: &WorkflowFiles) -> Vec<Difference> {
    let mut paths: Vec<&str> = before.iter().chain(after.iter()).map(|(path, _)| path).collect();
    paths.sort_unstable();
    paths.dedup();
    let of_path = |path: &str| {
        let change = match (before.get(path), after.get(path)) {
            (None, _) => Change::New,
            (_, None) => Change::Gone,
            (Some(before), Some(after)) if before == after => return None,
            (Some(before), Some(after)) => {
                let is_graph = !path.contains('/');
                let parts = is_graph.then(|| parts(before, after)).flatten();
                parts.map_or_else(|| lines(before, after), Change::Graph)
            }
        };
        let path = path.to_owned();
        Some(Difference { path, change })
    };
    paths.into_iter().filter_map(of_path).collect()
}

/// The parts in which two graphs differ; `None`: one is not a graph, or only their formatting differs.
fn parts(before: &str, after: &str) -> Option<Vec<Part>> {
    let (before, after) = (parts_of(before)?, parts_of(after)?);
    let mut parts = Vec::new();
    for (what, value) in &before {
        let now = after.get(what);
        if now != Some(value) {
            parts.push(Part {
                what: what.clone(),
                before: Some(value.clone()),
                after: now.cloned(),
            });
        }
    }
    for (what, value) in &after {
        if !before.contains_key(what) {
            parts.push(Part {
                what: what.clone(),
                before: None,
                after: Some(value.clone()),
            });
        }
    }
    (!parts.is_empty()).then_some(parts)
}

/// The parts of a graph or a decision by name.
fn parts_of(text: &str) -> Option<BTreeMap<String, Value>> {
    let Ok(Value::Object(document)) = serde_json::from_str(text) else {
        return None;
    };
    let mut parts = BTreeMap::new();
    for (name, value) in document {
        let members = match value {
            Value::Array(members) if name == "nodes" || name == "edges" => members,
            value => {
                parts.insert(format!("`{name}`"), value);
                continue;
            }
        };
        for member in members {
            let text = |name: &str| match member.get(name)? {
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let end = |one: &str, other: &str| text(one).or_else(|| text(other)).unwrap_or_default();
            let what = if name == "nodes" {
                format!("node `{}`", text("id")?)
            } else {
                format!(
                    "edge `{}` to `{}`",
                    end("from", "sourceId"),
                    end("to", "targetId")
                )
            };
            parts.insert(what, member);
        }
    }
    Some(parts)
}

/// The lines between the common beginning and the common end of two texts.
fn lines(before: &str, after: &str) -> Change {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let first = same(&mut before.iter().zip(&after));
    let last = same(&mut before[first..].iter().rev().zip(after[first..].iter().rev()));
    let middle = |lines: &[&str]| {
        lines[first..lines.len() - last]
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    Change::Lines {
        gone: middle(&before),
        new: middle(&after),
    }
}

impl Part {
    fn put(&self, text: &mut String) {
        let what = &self.what;
        let _ = match (&self.before, &self.after) {
            (None, Some(after)) => writeln!(text, "    {what} is new: {after}"),
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
                names.sort_unstable();
                names.dedup();
                let shown =
                    |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
                let members: Vec<String> = names
                    .into_iter()
                    .filter(|name| before.get(*name) != after.get(*name))
                    .map(|name| {
                        format!(
                            "{name} {} becomes {}",
                            shown(before.get(name)),
                            shown(after.get(name))
                        )
                    })
                    .collect();
                writeln!(text, "    {what}: {}", members.join(", "))
            }
            (Some(before), Some(after)) => writeln!(text, "    {what}: {before} becomes {after}"),
            (Some(_), None) => writeln!(text, "    {what} is gone"),
            (None, None) => Ok(()),
        };
    }
}

impl Difference {
    fn put(&self, text: &mut String) {
        let (good, bad, plain) = if output::in_colour() {
            ("\x1b[32m", "\x1b[31m", "\x1b[0m")
        } else {
            ("", "", "")
        };
        let path = &self.path;
        // Writing to a String cannot fail.
        let _ = match &self.change {
            Change::New => writeln!(text, "{good}new{plain}      {path}"),
            Change::Gone => writeln!(text, "{bad}gone{plain}     {path}"),
            Change::Graph(_) | Change::Lines { .. } => writeln!(text, "changed  {path}"),
        };
        match &self.change {
            Change::Graph(parts) => parts.iter().for_each(|part| part.put(text)),
            Change::Lines { gone, new } => {
                for (mark, colour, lines) in [("-", bad, gone), ("+", good, new)] {
                    for line in lines.iter().take(LINES_MAX) {
                        let _ = writeln!(text, "  {colour}{mark} {line}{plain}");
                    }
                    if lines.len() > LINES_MAX {
                        let _ = writeln!(text, "  {mark} and {} further lines", lines.len() - LINES_MAX);
                    }
                }
            }
            Change::New | Change::Gone => {}
        }
    }

    fn told(&self) -> Value {
        let path = &self.path;
        match &self.change {
            Change::New => json!({"path": path, "change": "new"}),
            Change::Gone => json!({"path": path, "change": "gone"}),
            Change::Graph(parts) => {
                let parts: Vec<Value> = parts
                    .iter()
                    .map(|part| json!({"what": part.what, "before": part.before, "after": part.after}))
                    .collect();
                json!({"path": path, "change": "changed", "parts": parts})
            }
            Change::Lines { gone, new } => {
                json!({"path": path, "change": "changed", "gone": gone, "new": new})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> WorkflowFiles {
        let mut files = WorkflowFiles::default();
        for (path, text) in all {
            files.add(path, (*text).to_owned()).unwrap();
        }
        files
    }

    fn told(before: &[(&str, &str)], after: &[(&str, &str)]) -> String {
        let mut text = String::new();
        for difference in differences(&files(before), &files(after)) {
            difference.put(&mut text);
        }
        text
    }

    #[test]
    fn graphs_differ_by_their_parts_and_rules_by_their_lines() {
        let before = r#"{"nodes":[{"id":"1","ruleId":"a"},{"id":"2"}],"edges":[{"from":"1","to":"2"}],"attributes":{"n":1}}"#;
        let after = r#"{"nodes":[{"id":"1","ruleId":"b"},{"id":"3"}],"edges":[{"from":"1","to":"3"}],"attributes":{"n":2}}"#;
        assert_eq!(
            told(
                &[
                    ("g.json", before),
                    ("rules/a.js", "one\ntwo\nthree"),
                    ("rules/b.js", "")
                ],
                &[
                    ("g.json", after),
                    ("rules/a.js", "one\n2\nthree"),
                    ("rules/c.js", "")
                ]
            ),
            "changed  g.json\n    \
                 `attributes`: n 1 becomes 2\n    \
                 edge `1` to `2` is gone\n    \
                 node `1`: ruleId \"a\" becomes \"b\"\n    \
                 node `2` is gone\n    \
                 edge `1` to `3` is new: {\"from\":\"1\",\"to\":\"3\"}\n    \
                 node `3` is new: {\"id\":\"3\"}\n\
             changed  rules/a.js\n  - two\n  + 2\n\
             gone     rules/b.js\n\
             new      rules/c.js\n"
        );
    }

    #[test]
    fn a_graph_that_is_written_otherwise_and_what_is_no_graph_differ_by_lines() {
        assert_eq!(
            told(&[("g.json", "{}")], &[("g.json", "{ }")]),
            "changed  g.json\n  - {}\n  + { }\n"
        );
        assert_eq!(
            told(&[("g.json", "[")], &[("g.json", "]")]),
            "changed  g.json\n  - [\n  + ]\n"
        );
        assert_eq!(told(&[("g.json", "{}")], &[("g.json", "{}")]), "");
    }
}
