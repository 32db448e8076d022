//! Replies of a Redis server.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_clients::fuzzing::redis_reply(bytes));
