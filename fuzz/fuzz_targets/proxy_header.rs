//! The header of the PROXY protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::proxy_header(bytes));
