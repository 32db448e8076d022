//! XML sent by another system as the arguments of a workflow.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::hook_xml(bytes));
