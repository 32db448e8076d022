//! What clients and token issuers send to prove who a client is.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_auth::fuzzing::credentials(bytes));
