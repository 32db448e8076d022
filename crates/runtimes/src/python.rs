//! Locates the Python interpreter.

use std::path::{Path, PathBuf};

use crate::{Environment, is_executable};

/// The environment variable that names the interpreter.
const VARIABLE: &str = "FOREBAY_PYTHON";
/// The usual names of a project's virtual environment.
const ENVIRONMENTS: [&str; 2] = [".venv", "venv"];
/// The interpreter's path within a virtual environment.
const IN_ENVIRONMENT: &str = "bin/python";

/// No Python interpreter could be found.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// It is not installed anywhere that was searched.
    #[error(
        "no Python is installed: there is no `.venv` or `venv` in the folder of the configuration or above it, no `python3` or \
         `python` in PATH, and neither VIRTUAL_ENV nor FOREBAY_PYTHON is set; install Python 3.9 or newer, or say `python = \"PATH\"`"
    )]
    Missing,
    /// The configuration key or environment variable names neither an executable file nor a virtual environment.
    #[error("{name} is {found:?}, which is neither an executable file nor a virtual environment")]
    NotExecutable {
        /// The key or the environment variable.
        name: &'static str,
        /// The text that it contains.
        found: String,
    },
}

/// The interpreter named by the key `python`, else by `FOREBAY_PYTHON`, else that of the active virtual environment or of one in the
/// configuration's folder or above, else the one in `PATH`. Symbolic links are not resolved: Python finds its environment through them.
pub fn find_python(
    named: Option<&str>,
    folder: &Path,
    environment: &Environment<'_>,
) -> Result<PathBuf, PythonError> {
    let variable = |name| (environment.env)(name).filter(|value| !value.is_empty());
    let explicit = named
        .map(|named| ("`python`", named.to_owned()))
        .or_else(|| Some((VARIABLE, variable(VARIABLE)?)));
    if let Some((name, found)) = explicit {
        return interpreter(&found, folder, environment).ok_or(PythonError::NotExecutable { name, found });
    }
    let active = variable("VIRTUAL_ENV").map(|environment| folder.join(environment).join(IN_ENVIRONMENT));
    let local = folder
        .ancestors()
        .flat_map(|above| ENVIRONMENTS.map(|name| above.join(name).join(IN_ENVIRONMENT)));
    let installed = ["python3", "python"]
        .into_iter()
        .find_map(|name| (environment.find_program)(name));
    active
        .into_iter()
        .chain(local)
        .find(|program| is_executable(program))
        .or(installed)
        .ok_or(PythonError::Missing)
}

/// Resolves an executable file, the folder of a virtual environment, or a program's name in `PATH`.
fn interpreter(named: &str, folder: &Path, environment: &Environment<'_>) -> Option<PathBuf> {
    let path = folder.join(named);
    let places = [path.join(IN_ENVIRONMENT), path];
    let file = places.into_iter().find(|program| is_executable(program));
    if named.contains('/') {
        file
    } else {
        file.or_else(|| (environment.find_program)(named))
    }
}
