//! Errors in a configuration, each with its position.

use std::fmt;
use std::path::PathBuf;

/// The configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration `{}`", .file.display())]
    Unreadable {
        /// The configuration's main file.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The application cannot be served without a configuration.
    #[error("cannot serve `{application}`: {reason}")]
    Application {
        /// The application as it was named.
        application: String,
        /// The reason, such as that there is no such file.
        reason: String,
    },
    /// The configuration is invalid.
    #[error("{}", problem_lines(.problems))]
    Invalid {
        /// At least one, in file order; problems of included files follow those of the main file.
        problems: Vec<Problem>,
    },
}

/// A problem found while files are being read; its line is counted across all files.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) suggestion: Option<String>,
    pub(crate) message: String,
}

/// A problem with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file with the problem.
    pub file: PathBuf,
    /// The line in that file, 1-based.
    pub line: usize,
    /// The key's full name, such as `pool.api.queue_max`; empty for problems of the text as a whole.
    pub key: String,
    /// The accepted name that is closest to the last one of `key`, which is misspelt.
    pub suggestion: Option<String>,
    /// The value found and the values accepted.
    pub message: String,
}

impl fmt::Display for Problem {
    /// As `file:line: key: message`, which editors and terminals turn into links.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file.display(), self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// One problem a line.
fn problem_lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The name closest to a misspelt one, if it is close enough to be what was meant.
pub(crate) fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let accepted = (written.chars().count() / 3).clamp(1, 4);
    names
        .map(|name| (distance(written, name), name))
        .filter(|(distance, _)| *distance <= accepted)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (i, &l) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &r) in right.iter().enumerate() {
            let replaced = above[j] + usize::from(l != r);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && l == right[j - 1] && left[i - 1] == r {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_with_swaps_as_one() {
        for (left, right, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("listen", "lisen", 1),
            ("listen", "litsen", 1),
            ("threads", "thread_s", 1),
            ("abc", "xyz", 3),
        ] {
            assert_eq!(distance(left, right), edits, "{left} {right}");
            assert_eq!(distance(right, left), edits, "{right} {left}");
        }
    }

    #[test]
    fn only_a_near_name_is_proposed() {
        let names = || ["queue_max", "queue_bytes_max", "retry"].into_iter();
        assert_eq!(nearest("queue_mx", names()), Some("queue_max"));
        assert_eq!(nearest("queuemax", names()), Some("queue_max"));
        assert_eq!(nearest("colour", names()), None);
    }
}
