//! The path of a request, and the route that it matches.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::request_path(bytes));
