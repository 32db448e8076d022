//! An invariant of module resolution, as a function that panics if it is violated. A fuzz target calls it, and so does a test below with
//! random names.

use std::path::{Component, Path};

use crate::{
    modules::{MAIN, Modules},
    options::{Program, ScriptEnvironment},
};

/// Resolves a name in a module of a handler in `/app`. The result must be a module of the SDK, or a file below that folder.
pub fn module_name(base: &str, name: &str) {
    let environment = ScriptEnvironment {
        sdk: |_| None,
        erase_types: |source, _| Ok(source.to_owned()),
    };
    let rules = Modules::new(environment, Program::Rules);
    let base = base.trim_start_matches("sdk:");
    if Path::new(base).components().any(|part| part == Component::ParentDir) {
        // Bases are names that were resolved before, below the folder.
        return;
    }
    assert!(
        base.is_empty() || rules.resolve(base, name).is_err(),
        "rules import nothing"
    );
    let modules = Modules::new(
        environment,
        Program::Handler {
            file: "/app/api.js".into(),
            modules: "/app".into(),
        },
    );
    let Ok(found) = modules.resolve(base, name) else {
        return;
    };
    if found == MAIN || found == "sdk:dist/index.js" {
        return;
    }
    let path = Path::new(&found);
    assert!(path.starts_with("/app"), "{base:?} {name:?} is {found:?}");
    assert!(
        !path.components().any(|part| part == Component::ParentDir),
        "{found:?}"
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_import_stays_in_the_folder(
            base in "(/app/api\\.js|/app/lib/a\\.js|/etc/passwd|<input>|)",
            name in "(\\./|\\.\\./|/|sdk:|forebay|app|lib|a\\.js|\\.|file://){0,8}",
        ) {
            module_name(&base, &name);
        }
    }
}
