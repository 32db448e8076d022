//! A request as it is written to a controller's standard input.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_pool::fuzzing::dialect_request(bytes));
