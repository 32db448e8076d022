//! Messages from a PostgreSQL server: two bytes that select the situation and how the bytes are split, then the bytes that arrive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_pg::fuzzing::server(bytes));
