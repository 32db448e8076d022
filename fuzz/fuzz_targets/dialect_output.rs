//! Standard output of a controller.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_pool::fuzzing::dialect_output(bytes));
