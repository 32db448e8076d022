//! Maps lines back to files when a configuration has several.
//!
//! Lines are numbered across all files in the order they were read, so tables and values store just a line. Only three uses need the file:
//! reporting a problem, resolving relative paths, and statements checked by a database later.

use std::path::{Path, PathBuf};

use crate::error::{Noted, Problem};

/// The files of a configuration.
#[derive(Debug)]
pub(crate) struct Places {
    /// Each file with the number of lines before it. Never empty; the first is the main file.
    files: Vec<(PathBuf, usize)>,
    /// Total number of lines so far.
    lines: usize,
}

impl Places {
    /// Starts with the main file, given by its absolute path.
    pub(crate) fn new(file: &Path, text: &str) -> Self {
        let mut places = Self {
            files: Vec::new(),
            lines: 0,
        };
        places.add(file, text);
        places
    }

    /// Appends a file. Returns the number of lines before its first line.
    pub(crate) fn add(&mut self, file: &Path, text: &str) -> usize {
        let before = self.lines;
        self.files.push((file.to_owned(), before));
        self.lines += memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
        before
    }

    /// The file of a line, and the line's number there, 1-based.
    pub(crate) fn at(&self, line: usize) -> (&Path, usize) {
        let after = self.files.partition_point(|(_, before)| *before < line);
        let (file, before) = &self.files[after.max(1) - 1];
        (file, line - before)
    }

    /// Whether a line belongs to an included file.
    pub(crate) fn is_included(&self, line: usize) -> bool {
        self.at(line).0 != self.files[0].0
    }

    /// The folder of the file a line belongs to.
    pub(crate) fn folder(&self, line: usize) -> &Path {
        self.at(line).0.parent().unwrap_or(Path::new("/"))
    }

    /// Describes a line in a message about line `on`; names the file only if it is a different one.
    pub(crate) fn said(&self, line: usize, on: usize) -> String {
        let (file, number) = self.at(line);
        if file == self.at(on).0 {
            return format!("line {number}");
        }
        format!("line {number} of `{}`", file.display())
    }

    /// Problems in file order, each with its file.
    pub(crate) fn told(&self, mut noted: Vec<Noted>) -> Vec<Problem> {
        noted.sort_by_key(|noted| noted.line);
        let told = noted.into_iter().map(|noted| {
            let (file, line) = self.at(noted.line);
            Problem {
                file: file.to_owned(),
                line,
                key: noted.key,
                suggestion: noted.suggestion,
                message: noted.message,
            }
        });
        told.collect()
    }

    /// The included files, without the main file.
    pub(crate) fn included(self) -> Vec<PathBuf> {
        self.files.into_iter().skip(1).map(|(file, _)| file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_found_in_its_file() {
        let (own, other) = (Path::new("/a/own.toml"), Path::new("/b/other.toml"));
        let mut places = Places::new(own, "one\ntwo\n");
        assert_eq!(places.add(other, "one\ntwo"), 3);
        for (line, file, number) in [(1, own, 1), (3, own, 3), (4, other, 1), (5, other, 2)] {
            assert_eq!(places.at(line), (file, number), "{line}");
        }
        assert_eq!(places.folder(2), Path::new("/a"));
        assert_eq!(places.folder(4), Path::new("/b"));
        assert_eq!(places.said(2, 1), "line 2");
        assert_eq!(places.said(2, 4), "line 2 of `/a/own.toml`");
    }
}
