//! The codings that a client accepts.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::accept_encoding(bytes));
