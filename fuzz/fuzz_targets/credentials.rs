//! Credentials of clients, and the keys and metadata that token issuers publish.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_auth::fuzzing::credentials(bytes));
