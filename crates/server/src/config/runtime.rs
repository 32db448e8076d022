//! Which JavaScript runtime runs a handler, and where it is installed.

use std::path::{Path, PathBuf};

use super::surroundings::is_executable;
use super::{Runtime, Surroundings};

/// Extensions of the modules that both runtimes load.
const EXTENSIONS: [&str; 6] = ["mjs", "js", "ts", "mts", "cjs", "cts"];

impl Runtime {
    /// As in `runtime = "node"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Bun => "bun",
        }
    }

    /// The variable that names its executable.
    fn variable(self) -> &'static str {
        match self {
            Self::Node => "FOREBAY_NODE",
            Self::Bun => "FOREBAY_BUN",
        }
    }
}

/// Why there is no runtime for a handler.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuntimeError {
    #[error("{} is not installed: there is no `{}` in {places}, and {} is not set", .runtime.name(), .runtime.name(), .runtime.variable())]
    Missing { runtime: Runtime, places: &'static str },
    #[error(
        "neither node nor bun is installed: there is no `node` in PATH and no `bun` in node_modules/.bin or PATH, \
         and neither FOREBAY_NODE nor FOREBAY_BUN is set"
    )]
    NoneInstalled,
    #[error("{variable} is {:?}, which is not an executable file", .program.display().to_string())]
    NotExecutable {
        variable: &'static str,
        program: PathBuf,
    },
    #[error(
        "\"auto\" knows handlers that end with .mjs, .js, .ts, .mts, .cjs, .cts or .py, found `{}`; \
         name a runtime (\"node\", \"bun\", \"python\") or give a command", .handler.display()
    )]
    UnknownHandler { handler: PathBuf },
}

/// Chooses by the word of the configuration (`auto`, `node`, `bun`), the handler's name and what is installed.
pub(super) fn choose(
    word: &str,
    handler: &Path,
    folder: &Path,
    surroundings: &Surroundings<'_>,
) -> Result<(Runtime, PathBuf), RuntimeError> {
    let find = |runtime| find(runtime, folder, surroundings).map(|program| (runtime, program));
    match word {
        "node" => find(Runtime::Node),
        "bun" => find(Runtime::Bun),
        _ => {
            let known = handler
                .extension()
                .is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
            if !known {
                return Err(RuntimeError::UnknownHandler {
                    handler: handler.to_owned(),
                });
            }
            match find(Runtime::Node) {
                Err(RuntimeError::Missing { .. }) => find(Runtime::Bun).map_err(|error| match error {
                    RuntimeError::Missing { .. } => RuntimeError::NoneInstalled,
                    other => other,
                }),
                found => found,
            }
        }
    }
}

fn find(runtime: Runtime, folder: &Path, surroundings: &Surroundings<'_>) -> Result<PathBuf, RuntimeError> {
    let variable = runtime.variable();
    if let Some(named) = (surroundings.env)(variable).filter(|named| !named.is_empty()) {
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
        .or_else(|| (surroundings.find_program)(runtime.name()))
        .ok_or(RuntimeError::Missing { runtime, places })
}

/// A program that npm installed for this folder or one above it.
fn local_program(folder: &Path, name: &str) -> Option<PathBuf> {
    let candidates = folder
        .ancestors()
        .map(|above| above.join("node_modules/.bin").join(name));
    candidates.into_iter().find(|file| is_executable(file))
}
