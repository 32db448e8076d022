//! Responses of a server, as parsed by the load generator: two bytes that select the request and how the responses are split, then the
//! bytes that arrive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_load::fuzzing::response(bytes));
