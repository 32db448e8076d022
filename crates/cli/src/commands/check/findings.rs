//! The errors and warnings of a check, printed as text or as JSON.

use std::{fs, path::PathBuf};

use forebay_server::config::{ConfigError, Problem};
use serde::Serialize;
use serde_json::json;

/// Everything that a check has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Finding>,
    /// The warnings and notes, as they are printed.
    pub(super) remarks: Vec<String>,
    /// The first error.
    pub(super) error: Option<anyhow::Error>,
}

/// A problem as programs get it.
#[derive(Debug, Default, Serialize)]
struct Finding {
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(flatten)]
    range: Option<Range>,
    /// The full name of a key of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The id of a workflow's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
    message: String,
}

/// A part of one line. Lines and columns count from 1, columns in characters.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Range {
    line: usize,
    column: usize,
    /// Exclusive; unknown if the error only says where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_column: Option<usize>,
}

impl Findings {
    /// The value of a step; its error is kept.
    pub(super) fn keep<T>(&mut self, result: Result<T, impl Into<anyhow::Error>>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error.into(),
        };
        match error.downcast_ref() {
            Some(ConfigError::Invalid { problems }) => {
                self.problems.extend(problems.iter().map(Finding::of_config));
            }
            _ => self.add("error", &format!("{error:#}")),
        }
        self.error.get_or_insert(error);
        None
    }

    pub(super) fn note(&mut self, text: &str) {
        self.remark("note", text);
    }

    pub(super) fn remark(&mut self, severity: &'static str, text: &str) {
        self.remarks.push(format!("{severity}: {text}"));
        self.add(severity, text);
    }

    /// Adds each problem of a text, in which a line without a file belongs to the one before.
    fn add(&mut self, severity: &'static str, text: &str) {
        for (at, line) in text.lines().enumerate() {
            let finding = Finding::of_line(severity, line);
            match self
                .problems
                .last_mut()
                .filter(|_| at > 0 && finding.file.is_none())
            {
                Some(before) => before.message = format!("{}\n{line}", before.message),
                None => self.problems.push(finding),
            }
        }
    }

    pub(super) fn to_json(&self) -> String {
        json!({ "problems": self.problems }).to_string()
    }
}

impl Finding {
    fn of_config(problem: &Problem) -> Self {
        let text = fs::read_to_string(&problem.file).unwrap_or_default();
        let line = text.lines().nth(problem.line - 1).unwrap_or_default();
        let name = problem.key.rsplit('.').next().unwrap_or_default();
        Self {
            severity: "error",
            file: Some(problem.file.clone()),
            range: Some(Range::of(line, problem.line, name)),
            key: Some(problem.key.clone()).filter(|key| !key.is_empty()),
            suggestion: problem.suggestion.clone(),
            message: problem.message.clone(),
            ..Self::default()
        }
    }

    /// Reads the place with which lines of errors begin, for terminals and editors (`FILE:LINE:COLUMN:`, perhaps without line or column), and
    /// the node that follows the file of a workflow.
    fn of_line(severity: &'static str, text: &str) -> Self {
        let file_of = |(at, _)| {
            let file = std::path::absolute(&text[..at]).ok()?;
            file.is_file().then_some((file, &text[at + 1..]))
        };
        let Some((file, rest)) = text.match_indices(':').find_map(file_of) else {
            return Self {
                severity,
                message: text.to_owned(),
                ..Self::default()
            };
        };
        let (line, rest) = number(rest);
        let (column, message) = number(rest);
        let message = message.trim_start();
        let node = ["node `", "nodes `", "the edge from `"]
            .iter()
            .find_map(|begin| message.strip_prefix(begin)?.split('`').next());
        let source = || fs::read_to_string(&file).unwrap_or_default();
        let range = match (line, column, node) {
            (Some(line), Some(column), _) => Some(Range {
                line,
                column,
                end_column: None,
            }),
            (Some(line), None, _) => Some(Range::of(
                source().lines().nth(line - 1).unwrap_or_default(),
                line,
                "",
            )),
            (None, _, Some(node)) => range_of_node(&source(), node),
            _ => None,
        };
        Self {
            severity,
            range,
            node: node.map(str::to_owned),
            message: message.to_owned(),
            file: Some(file),
            ..Self::default()
        }
    }
}

impl Range {
    /// The name within a line of text; without one, all of the line.
    fn of(text: &str, line: usize, name: &str) -> Self {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let whole_word =
            |at: usize| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part);
        let found = text
            .match_indices(name)
            .find(|(at, _)| !name.is_empty() && whole_word(*at));
        let indent = text.len() - text.trim_start().len();
        let (start, found) = found.unwrap_or((indent, text.trim()));
        let column = text[..start].chars().count() + 1;
        Self {
            line,
            column,
            end_column: Some(column + found.chars().count()),
        }
    }
}

/// The number before the next colon, and the text behind that.
fn number(text: &str) -> (Option<usize>, &str) {
    let read = |(digits, rest): (&str, _)| Some((digits.parse().ok().filter(|number| *number > 0)?, rest));
    match text.split_once(':').and_then(read) {
        Some((number, rest)) => (Some(number), rest),
        None => (None, text),
    }
}

/// Finds the `"id"` of a node in the JSON of a workflow.
fn range_of_node(source: &str, node: &str) -> Option<Range> {
    let quoted = json!(node).to_string();
    source.lines().enumerate().find_map(|(at, line)| {
        let is_id = |start: usize| {
            let key = line[..start].trim_end().strip_suffix(':');
            key.is_some_and(|key| key.trim_end().ends_with("\"id\""))
        };
        let (start, _) = line.match_indices(&quoted).find(|(start, _)| is_id(*start))?;
        let column = line[..start].chars().count() + 1;
        Some(Range {
            line: at + 1,
            column,
            end_column: Some(column + quoted.chars().count()),
        })
    })
}
