//! Chooses the JavaScript runtime for a handler.

use std::path::{Path, PathBuf};

use forebay_runtimes::{Runtime, RuntimeError, find_runtime};

use crate::Environment;

/// Extensions of modules that both runtimes can load.
const EXTENSIONS: [&str; 6] = ["mjs", "js", "ts", "mts", "cjs", "cts"];

/// No runtime could be chosen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceError {
    #[error(transparent)]
    Unusable(#[from] forebay_runtimes::RuntimeError),
    #[error(
        "neither node nor bun is installed: there is no `node` in PATH and no `bun` in node_modules/.bin or PATH, \
         and neither FOREBAY_NODE nor FOREBAY_BUN is set"
    )]
    NoneInstalled,
    #[error(
        "\"auto\" knows handlers that end with .mjs, .js, .ts, .mts, .cjs, .cts or .py, found `{}`; \
         name a runtime (\"node\", \"bun\", \"python\") or give a command", .handler.display()
    )]
    UnknownHandler { handler: PathBuf },
}

/// Chooses a runtime from the configured word (`auto`, `node`, `bun`), the handler's name and the installed runtimes.
pub(crate) fn choose(
    word: &str,
    handler: &Path,
    folder: &Path,
    environment: &Environment<'_>,
) -> Result<(Runtime, PathBuf), ChoiceError> {
    let find = |runtime| find_runtime(runtime, folder, environment).map(|program| (runtime, program));
    match word {
        "node" => Ok(find(Runtime::Node)?),
        "bun" => Ok(find(Runtime::Bun)?),
        _ => {
            let known = handler
                .extension()
                .is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
            if !known {
                return Err(ChoiceError::UnknownHandler {
                    handler: handler.to_owned(),
                });
            }
            match find(Runtime::Node) {
                Err(RuntimeError::Missing { .. }) => find(Runtime::Bun).map_err(|error| match error {
                    RuntimeError::Missing { .. } => ChoiceError::NoneInstalled,
                    other @ RuntimeError::NotExecutable { .. } => other.into(),
                }),
                found => Ok(found?),
            }
        }
    }
}
