//! The body of a request: two bytes that say how it is framed and cut, then what arrives.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::http_body(bytes));
