//! Workflow files as texts, whether they come from a folder or from a release.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{BundleError, BundleErrors, template};

/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most entries of a folder, and most files in all.
const ENTRIES_MAX: usize = 100_000;
/// Longest path of a file, in bytes.
const PATH_BYTES_MAX: usize = 512;

/// Folder of rules.
const RULES: &str = "rules";
/// Folder of modules that rules require.
const MODULES: &str = "modules";
/// Folder of decisions' custom nodes.
const NODES: &str = "nodes";
/// Folder of tests.
const TESTS: &str = "tests";
/// Folder of response templates.
const TEMPLATES: &str = "templates";
/// Folder of schemas.
const SCHEMAS: &str = "schemas";

/// Role of a file, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role<'p> {
    /// A graph or a decision, by its name.
    Workflow(&'p str),
    /// One file of the rule of this name.
    Rule(&'p str),
    /// A module, by its path without extension.
    Module(&'p str),
    /// The implementation of custom nodes, by their kind.
    Node(&'p str),
    /// A list of stored tests.
    Tests,
    /// A template, by its name and its file's extension.
    Template(&'p str, &'p str),
    /// Schemas, by the name of their workflow.
    Schemas(&'p str),
}

/// The files of a set of workflows: paths with `/` as the separator, and their texts. Only files with a role in workflows can be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowFiles(BTreeMap<String, String>);

impl WorkflowFiles {
    /// Reads a folder: `NAME.json`, `rules/NAME.js` or `.ts`, the same in folders of `rules`, in `modules` and its folders, and in `nodes`,
    /// `tests/NAME.json`, `schemas/NAME.json` and templates. Ignores all other files.
    ///
    /// # Errors
    /// Every file that cannot be read or is too long (16 MiB per file), with its path.
    pub fn read(folder: &Path) -> Result<Self, BundleErrors> {
        let (files, unreadable) = Self::read_most(folder)?;
        if unreadable.is_empty() {
            Ok(files)
        } else {
            Err(BundleErrors(unreadable))
        }
    }

    /// As [`Self::read`], with the errors of single files apart.
    ///
    /// # Errors
    /// A folder that cannot be read, and what is no file of its own.
    pub(super) fn read_most(folder: &Path) -> Result<(Self, Vec<BundleError>), BundleErrors> {
        let mut reading = Reading {
            folder,
            files: BTreeMap::new(),
            faults: Vec::new(),
        };
        reading.folder("", folder);
        for outer in [RULES, MODULES] {
            for path in reading.folder(outer, &folder.join(outer)) {
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                    reading.fault(None, &path, "its name is no text");
                    continue;
                };
                reading.folder(&format!("{outer}/{name}"), &path);
            }
        }
        reading.folder(NODES, &folder.join(NODES));
        reading.folder(TESTS, &folder.join(TESTS));
        reading.folder(TEMPLATES, &folder.join(TEMPLATES));
        reading.folder(SCHEMAS, &folder.join(SCHEMAS));
        if reading.files.len() > ENTRIES_MAX {
            reading.fault(None, folder, format!("it has more than {ENTRIES_MAX} files"));
        }
        if reading.faults.iter().all(|fault| fault.file.is_some()) {
            Ok((Self(reading.files), reading.faults))
        } else {
            Err(BundleErrors(reading.faults))
        }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// A reason, if the path has no role in workflows, or the path or the text is too long.
    pub fn add(&mut self, path: &str, text: String) -> Result<(), String> {
        if path.len() > PATH_BYTES_MAX {
            let bytes = path.len();
            return Err(format!("its path has {bytes} bytes (at most {PATH_BYTES_MAX})"));
        }
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(too_long(text.len() as u64));
        }
        if role_of(path).is_none() {
            return Err(
                "it is no file of workflows: NAME.json, rules/NAME.js, rules/NAME/FILE.js, modules/NAME.js, nodes/KIND.js or tests/NAME.json"
                    .into(),
            );
        }
        self.0.insert(path.to_owned(), text);
        Ok(())
    }

    /// Removes a file; returns whether there was one.
    pub fn remove(&mut self, path: &str) -> bool {
        self.0.remove(path).is_some()
    }

    /// The text of the file at `path`.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Paths and texts, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (&**path, &**text))
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Total length of all texts in bytes.
    pub fn bytes(&self) -> usize {
        self.0.values().map(String::len).sum()
    }

    /// Names of the workflows, sorted.
    pub fn workflows(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|path| match role_of(path) {
            Some(Role::Workflow(name)) => Some(name),
            _ => None,
        })
    }

    /// Writes the files into a folder, which is created if it is missing.
    ///
    /// # Errors
    /// The first I/O error; some of the files may have been written by then.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for (path, text) in self.iter() {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, text)?;
        }
        Ok(())
    }
}

/// The role of the file at `path`; `None`: it has none in workflows.
pub(super) fn role_of(path: &str) -> Option<Role<'_>> {
    let parts: Vec<&str> = path.split('/').collect();
    let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.contains('\0');
    if !parts.iter().all(is_plain) {
        return None;
    }
    match parts[..] {
        [file] => Some(Role::Workflow(file.strip_suffix(".json")?)),
        [RULES, file] => Some(Role::Rule(without_extension(file)?)),
        [RULES, rule, file] => without_extension(file).map(|_| Role::Rule(rule)),
        [SCHEMAS, file] => file.strip_suffix(".json").map(Role::Schemas),
        [MODULES, _] | [MODULES, _, _] => without_extension(&path[MODULES.len() + 1..]).map(Role::Module),
        [NODES, file] => without_extension(file).map(Role::Node),
        [TESTS, file] => file.strip_suffix(".json").map(|_| Role::Tests),
        [TEMPLATES, file] => {
            let (name, extension) = file.rsplit_once('.')?;
            template::is_extension(extension).then_some(Role::Template(name, extension))
        }
        _ => None,
    }
}

/// Whether a path in a folder of workflows is that of a workflow file.
pub fn is_workflow_file(path: &str) -> bool {
    role_of(path).is_some()
}

/// A JavaScript or TypeScript file's name without its extension.
fn without_extension(file: &str) -> Option<&str> {
    file.strip_suffix(".js").or_else(|| file.strip_suffix(".ts"))
}

fn too_long(bytes: u64) -> String {
    format!("it has {bytes} bytes, at most {FILE_BYTES_MAX}")
}

struct Reading<'f> {
    folder: &'f Path,
    files: BTreeMap<String, String>,
    faults: Vec<BundleError>,
}

impl Reading<'_> {
    /// Adds an error; `file` is the path of a workflow file within the folder.
    fn fault(&mut self, file: Option<String>, path: &Path, what: impl std::fmt::Display) {
        let text = format!("{}: {what}", path.display());
        self.faults.push(BundleError { file, text });
    }

    /// Reads the workflow files directly in a folder, and returns its subfolders. A missing folder counts as empty, except the outermost
    /// one.
    fn folder(&mut self, within: &str, folder: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != self.folder => {
                return Vec::new();
            }
            Err(error) => {
                self.fault(None, folder, error);
                return Vec::new();
            }
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut paths: Vec<_> = paths.take(ENTRIES_MAX + 1).collect();
        if paths.len() > ENTRIES_MAX {
            self.fault(None, folder, format!("it has more than {ENTRIES_MAX} entries"));
        }
        paths.sort();
        let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
        for path in files {
            let named = match path.file_name().and_then(|name| name.to_str()) {
                Some(name) if within.is_empty() => name.to_owned(),
                Some(name) => format!("{within}/{name}"),
                None => {
                    if is_one_by_extension(&path) {
                        self.fault(None, &path, "its name is no text");
                    }
                    continue;
                }
            };
            if role_of(&named).is_none() {
                continue;
            }
            match text_of(&path) {
                Ok(text) => {
                    self.files.insert(named, text);
                }
                Err(error) => self.fault(Some(named), &path, error),
            }
        }
        folders
    }
}

fn is_one_by_extension(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["json", "js", "ts"].iter().any(|one| extension == *one))
}

fn text_of(path: &Path) -> io::Result<String> {
    let length = fs::metadata(path)?.len();
    if length > FILE_BYTES_MAX {
        return Err(io::Error::other(too_long(length)));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_what_a_file_is() {
        for (path, role) in [
            ("order.json", Some(Role::Workflow("order"))),
            ("a.b.json", Some(Role::Workflow("a.b"))),
            ("rules/below.js", Some(Role::Rule("below"))),
            ("rules/below.ts", Some(Role::Rule("below"))),
            ("rules/below/index.ts", Some(Role::Rule("below"))),
            ("modules/lib.js", Some(Role::Module("lib"))),
            ("modules/a/b.ts", Some(Role::Module("a/b"))),
            ("modules/a/b/c.js", None),
            ("nodes/score.ts", Some(Role::Node("score"))),
            ("nodes/a/score.ts", None),
            ("tests/order.json", Some(Role::Tests)),
            ("templates/chat.xml", Some(Role::Template("chat", "xml"))),
            ("schemas/order.json", Some(Role::Schemas("order"))),
            ("schemas/order.js", None),
            ("templates/chat.js", None),
            ("README.md", None),
            ("rules/README.md", None),
            ("rules/a/b/c.js", None),
            ("../order.json", None),
            ("rules/../x.js", None),
            ("/order.json", None),
            ("", None),
        ] {
            assert_eq!(role_of(path), role, "{path}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = WorkflowFiles::default();
        for path in ["a.json", "rules/r.js", "rules/two/index.ts", "tests/t.json"] {
            files.add(path, format!("text of {path}")).unwrap();
        }
        files.write(folder.path()).unwrap();
        fs::write(folder.path().join("README.md"), "none of them").unwrap();
        assert_eq!(WorkflowFiles::read(folder.path()).unwrap(), files);
        assert_eq!(files.workflows().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_file_that_cannot_be_one_is_refused() {
        let mut files = WorkflowFiles::default();
        let long = format!("{}.json", "x".repeat(PATH_BYTES_MAX));
        for (path, text, what) in [
            ("../a.json", String::new(), "it is no file of workflows"),
            (&*long, String::new(), "its path has 517 bytes (at most 512)"),
            (
                "a.json",
                "x".repeat(FILE_BYTES_MAX as usize + 1),
                "it has 16777217 bytes",
            ),
        ] {
            let told = files.add(path, text).unwrap_err();
            assert!(told.starts_with(what), "{told}");
        }
    }
}
