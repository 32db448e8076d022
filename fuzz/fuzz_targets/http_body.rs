//! The body of a request: two bytes that select its framing and how it is split, then the bytes that arrive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::http_body(bytes));
