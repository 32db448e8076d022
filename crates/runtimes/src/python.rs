//! The interpreter of Python, and where it is installed.

use std::path::{Path, PathBuf};

use crate::{Surroundings, is_executable};

/// The variable that names the interpreter.
const VARIABLE: &str = "FOREBAY_PYTHON";
/// What virtual environments are called that belong to a folder.
const ENVIRONMENTS: [&str; 2] = [".venv", "venv"];
/// The interpreter in a virtual environment.
const IN_ENVIRONMENT: &str = "bin/python";

/// Why there is no interpreter.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// It is nowhere.
    #[error(
        "no Python is installed: there is no `.venv` or `venv` in the folder of the configuration or above it, no `python3` or \
         `python` in PATH, and neither VIRTUAL_ENV nor FOREBAY_PYTHON is set; install Python 3.9 or newer, or say `python = \"PATH\"`"
    )]
    Missing,
    /// What names it names something else.
    #[error("{name} is {found:?}, which is neither an executable file nor a virtual environment")]
    NotExecutable {
        /// The key or the variable.
        name: &'static str,
        /// What it says.
        found: String,
    },
}

/// The interpreter that the key `python` names, or else `FOREBAY_PYTHON`; that of the virtual environment which is active, or lies in the
/// configuration's folder or above it; or the one in `PATH`. Symbolic links stay: Python knows its environment by them.
pub fn find_python(
    named: Option<&str>,
    folder: &Path,
    surroundings: &Surroundings<'_>,
) -> Result<PathBuf, PythonError> {
    let variable = |name| (surroundings.env)(name).filter(|value| !value.is_empty());
    let explicit = named
        .map(|named| ("`python`", named.to_owned()))
        .or_else(|| Some((VARIABLE, variable(VARIABLE)?)));
    if let Some((name, found)) = explicit {
        return interpreter(&found, folder, surroundings).ok_or(PythonError::NotExecutable { name, found });
    }
    let active = variable("VIRTUAL_ENV").map(|environment| folder.join(environment).join(IN_ENVIRONMENT));
    let local = folder
        .ancestors()
        .flat_map(|above| ENVIRONMENTS.map(|name| above.join(name).join(IN_ENVIRONMENT)));
    let installed = ["python3", "python"]
        .into_iter()
        .find_map(|name| (surroundings.find_program)(name));
    active
        .into_iter()
        .chain(local)
        .find(|program| is_executable(program))
        .or(installed)
        .ok_or(PythonError::Missing)
}

/// An executable file, the folder of a virtual environment, or the name of a program in `PATH`.
fn interpreter(named: &str, folder: &Path, surroundings: &Surroundings<'_>) -> Option<PathBuf> {
    let path = folder.join(named);
    let places = [path.join(IN_ENVIRONMENT), path];
    let file = places.into_iter().find(|program| is_executable(program));
    if named.contains('/') {
        file
    } else {
        file.or_else(|| (surroundings.find_program)(named))
    }
}
