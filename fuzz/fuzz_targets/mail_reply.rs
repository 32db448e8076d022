//! Replies of a mail server.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_clients::fuzzing::mail_reply(bytes));
