//! Frames of a WebSocket's client.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_server::fuzzing::websocket(bytes));
