//! The answers of a server, as the load generator reads them: two bytes that say what was asked for and how they are cut, then what
//! arrives.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_load::fuzzing::response(bytes));
