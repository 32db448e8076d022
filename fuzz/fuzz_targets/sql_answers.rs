//! Messages from a PostgreSQL server: a byte for the number of pending statements (0: during startup), a byte for the size of the pieces,
//! then the bytes that arrive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_pg::fuzzing::server(bytes));
