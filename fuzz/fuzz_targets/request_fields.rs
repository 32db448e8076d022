//! Header fields and queries of a request that have a grammar of their own.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::request_fields(bytes));
