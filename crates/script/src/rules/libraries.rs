//! Modules that rules can require without a file: those of GoRules' engine.

use std::sync::{Arc, OnceLock};

use forebay_workflow::RuleFile;

use crate::Rule;

/// The names that rules require.
pub(crate) const NAMES: [&str; 5] = ["http", "zen", "dayjs", "big.js", "zod"];
/// The first of them are parts of the SDK.
const SDK: usize = 2;
/// The others are libraries that the SDK carries. Each is read when it is first required.
static LIBRARIES: [OnceLock<Arc<Rule>>; NAMES.len() - SDK] = [const { OnceLock::new() }; NAMES.len() - SDK];

/// A built-in module.
pub(crate) enum Library {
    /// A part of the SDK, by its name.
    Sdk(&'static str),
    /// A module with this path, which no file has.
    File(String, Arc<Rule>),
}

/// Finds a built-in module; `sdk` gives the files of the SDK.
pub(crate) fn find(name: &str, sdk: fn(&str) -> Option<&'static [u8]>) -> Option<Library> {
    let number = NAMES.iter().position(|known| *known == name)?;
    let Some(library) = number.checked_sub(SDK) else {
        return Some(Library::Sdk(NAMES[number]));
    };
    let rule = LIBRARIES[library].get_or_init(|| {
        let path = name.trim_end_matches(".js");
        let name = format!("dist/rules/libraries/{path}.js");
        let text = sdk(&name).expect("the SDK is built with its libraries");
        let text = String::from_utf8_lossy(text).into_owned();
        Arc::new(Rule::module(path, &RuleFile { name, text }))
    });
    Some(Library::File(format!("library:{name}"), Arc::clone(rule)))
}
