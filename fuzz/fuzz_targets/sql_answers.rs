//! What a PostgreSQL server sends: two bytes that say at what and in which pieces, then what arrives.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_pg::fuzzing::server(bytes));
