//! The text of a GoRules decision: parsed and checked, with the expressions in it.

#![no_main]

use forebay_workflow::jdm::{Document, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let document = match Document::parse(bytes) {
        Ok(document) => document,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Err(problems) = check(&document, |key| key.len() < 8) {
        assert!(!problems.is_empty(), "what is refused has a reason");
        assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
});
