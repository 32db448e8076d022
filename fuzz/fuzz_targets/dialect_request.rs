//! A request as a controller is told of it on standard input.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_pool::fuzzing::dialect_request(bytes));
