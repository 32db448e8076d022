//! The text of a workflow graph: parsed and checked, in our format and in Rengine's.

#![no_main]

use forebay_workflow::{Compat, Definition, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let definition = match Definition::parse(bytes) {
        Ok(definition) => definition,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for compat in [Compat::None, Compat::Rengine] {
        if let Err(problems) = check(&definition, compat, |rule| rule.len() < 8) {
            assert!(!problems.is_empty(), "what is refused has a reason");
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
        }
    }
});
