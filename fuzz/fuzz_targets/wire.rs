//! Frames from a worker: whatever the bytes are, decoding terminates and stays within them, and a decoded frame can be encoded again.

#![no_main]

use forebay_wire::{Pairs, RequestView, ResponseView, Split, put_frame, split_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Split::Whole { frame, used }) = split_frame(rest) {
        let mut again = Vec::new();
        put_frame(&mut again, &frame.header, frame.payload);
        assert_eq!(again, rest[..used]);
        payload(frame.payload);
        rest = &rest[used..];
    }
    payload(bytes);
});

fn payload(bytes: &[u8]) {
    if let Ok(request) = RequestView::decode(bytes) {
        let parts = [request.method, request.path, request.query, request.route, request.params, request.headers, request.identity];
        // Behind a bit in the length of the id, the identity has a length of its own, which may be 0.
        let identity_length = if bytes[35] & 0x80 == 0 { 0 } else { 4 };
        let length: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(length + request.peer.len() + request.id.len() + request.body.len() + 36, bytes.len() - identity_length);
        pairs(request.params);
        pairs(request.headers);
    }
    if let Ok(response) = ResponseView::decode(bytes) {
        assert_eq!(response.headers.len() + response.body.len() + 12, bytes.len());
        pairs(response.headers);
    }
    pairs(bytes);
}

fn pairs(block: &[u8]) {
    let mut taken = 0;
    for pair in Pairs::new(block) {
        let Ok((name, value)) = pair else { return };
        taken += 8 + name.len() + value.len();
    }
    assert_eq!(taken, block.len());
}
