//! Locates the JavaScript runtimes Node and Bun.

use std::path::{Path, PathBuf};

use crate::{Environment, is_executable};

/// A JavaScript runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// Node.js, 20 or newer.
    Node,
    /// The Bun runtime.
    Bun,
}

impl Runtime {
    /// Its value in the configuration, as in `runtime = "node"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Bun => "bun",
        }
    }

    /// The environment variable that names its executable.
    fn variable(self) -> &'static str {
        match self {
            Self::Node => "FOREBAY_NODE",
            Self::Bun => "FOREBAY_BUN",
        }
    }
}

/// A JavaScript runtime could not be found.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// It is not installed anywhere that was searched.
    #[error("{} is not installed: there is no `{}` in {places}, and {} is not set", .runtime.name(), .runtime.name(), .runtime.variable())]
    Missing {
        /// The runtime that was looked for.
        runtime: Runtime,
        /// The places searched, for the message.
        places: &'static str,
    },
    /// The environment variable names something that is not an executable file.
    #[error("{variable} is {:?}, which is not an executable file", .program.display().to_string())]
    NotExecutable {
        /// The environment variable.
        variable: &'static str,
        /// The path that it names.
        program: PathBuf,
    },
}

/// The runtime's executable: the one named by its environment variable, else (for Bun) one in a `node_modules` of the folder or above, else
/// the one in `PATH`.
pub fn find_runtime(
    runtime: Runtime,
    folder: &Path,
    environment: &Environment<'_>,
) -> Result<PathBuf, RuntimeError> {
    let variable = runtime.variable();
    if let Some(named) = (environment.env)(variable).filter(|named| !named.is_empty()) {
        let program = folder.join(named);
        return if is_executable(&program) {
            Ok(program)
        } else {
            Err(RuntimeError::NotExecutable { variable, program })
        };
    }
    let (local, places) = match runtime {
        Runtime::Node => (None, "PATH"),
        Runtime::Bun => (local_program(folder, "bun"), "node_modules/.bin or PATH"),
    };
    local
        .or_else(|| (environment.find_program)(runtime.name()))
        .ok_or(RuntimeError::Missing { runtime, places })
}

/// A program that npm installed in this folder or one above it.
fn local_program(folder: &Path, name: &str) -> Option<PathBuf> {
    let candidates = folder
        .ancestors()
        .map(|above| above.join("node_modules/.bin").join(name));
    candidates.into_iter().find(|file| is_executable(file))
}
