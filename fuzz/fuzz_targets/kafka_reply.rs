//! Replies of a Kafka broker.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_clients::fuzzing::kafka_reply(bytes));
