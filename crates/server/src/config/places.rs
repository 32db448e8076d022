//! Where a line stands when a configuration has several files.
//!
//! Lines are counted through all files, in the order in which they were read: whatever keeps a line, a table or a value, need not know of files. Only
//! a problem that is told, a path that starts at its file's folder, and a statement that a database looks at later ask which file it is.

use std::path::{Path, PathBuf};

use super::error::{Noted, Problem};

/// The files of a configuration.
#[derive(Debug)]
pub(super) struct Places {
    /// Never empty; the first is the configuration's own. Each with the number of lines before it.
    files: Vec<(PathBuf, usize)>,
    /// In all files so far.
    lines: usize,
}

impl Places {
    /// Those of a configuration whose own file is this one, an absolute path.
    pub(super) fn new(file: &Path, text: &str) -> Self {
        let mut places = Self {
            files: Vec::new(),
            lines: 0,
        };
        places.add(file, text);
        places
    }

    /// Counts another file's lines behind those that there are. What comes back stands before its first line.
    pub(super) fn add(&mut self, file: &Path, text: &str) -> usize {
        let before = self.lines;
        self.files.push((file.to_owned(), before));
        self.lines += memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
        before
    }

    /// The file of a line, and its number there, from 1.
    pub(super) fn at(&self, line: usize) -> (&Path, usize) {
        let after = self.files.partition_point(|(_, before)| *before < line);
        let (file, before) = &self.files[after.max(1) - 1];
        (file, line - before)
    }

    /// Whether a line stands in another file than the configuration's own.
    pub(super) fn is_included(&self, line: usize) -> bool {
        self.at(line).0 != self.files[0].0
    }

    /// The folder of the file of a line.
    pub(super) fn folder(&self, line: usize) -> &Path {
        self.at(line).0.parent().unwrap_or(Path::new("/"))
    }

    /// A line as one says it on another.
    pub(super) fn said(&self, line: usize, on: usize) -> String {
        let (file, number) = self.at(line);
        if file == self.at(on).0 {
            return format!("line {number}");
        }
        format!("line {number} of `{}`", file.display())
    }

    /// What has been noted, in the order of the files, each with its file.
    pub(super) fn told(&self, mut noted: Vec<Noted>) -> Vec<Problem> {
        noted.sort_by_key(|noted| noted.line);
        let told = noted.into_iter().map(|Noted { line, key, message }| {
            let (file, line) = self.at(line);
            Problem {
                file: file.to_owned(),
                line,
                key,
                message,
            }
        });
        told.collect()
    }

    /// The files behind the configuration's own.
    pub(super) fn included(self) -> Vec<PathBuf> {
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
