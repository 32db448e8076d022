//! Decoding arbitrary bytes returns a value or an error, never panics, and encoded frames round-trip.

use forebay_wire::{
    CallView, ContentKind, FrameType, Header, Pairs, RequestParts, RequestView, ResponseHead, ResponseView,
    Split, WireError, flag, put_frame, put_pair, split_frame, without_identity,
};
use proptest::prelude::*;

fn blob(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..max)
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in blob(200)) {
        if let Ok(Split::Whole { frame, used }) = split_frame(&bytes) {
            prop_assert!(used <= bytes.len());
            prop_assert_eq!(frame.payload.len() + 16, used);
        }
        let _ = RequestView::decode(&bytes);
        let _ = ResponseView::decode(&bytes);
        let _ = CallView::decode(&bytes);
        prop_assert!(Pairs::new(&bytes).count() <= bytes.len() / 8 + 1);
    }

    #[test]
    fn a_request_is_read_back_as_written(
        method in blob(9), path in blob(40), query in blob(40), route in blob(20), peer in blob(16), id in blob(16), identity in blob(60), body in blob(99),
        params in proptest::collection::vec((blob(9), blob(9)), 0..4),
        headers in proptest::collection::vec((blob(9), blob(9)), 0..9),
        remaining_ms: u32,
    ) {
        let mut payload = Vec::new();
        let borrowed = |pairs: &[(Vec<u8>, Vec<u8>)]| -> Vec<(Vec<u8>, Vec<u8>)> { pairs.to_vec() };
        RequestParts {
            remaining_ms, method: &method, path: &path, query: &query, route: &route, peer: &peer, id: &id, identity: &identity, body: &body,
            params: params.iter().map(|(n, v)| (&n[..], &v[..])),
            headers: headers.iter().map(|(n, v)| (&n[..], &v[..])),
        }.put(&mut payload);
        let view = RequestView::decode(&payload).unwrap();
        prop_assert_eq!((view.method, view.path, view.query), (&method[..], &path[..], &query[..]));
        prop_assert_eq!((view.route, view.peer, view.id, view.body), (&route[..], &peer[..], &id[..], &body[..]));
        prop_assert_eq!((view.remaining_ms, view.identity), (remaining_ms, &identity[..]));
        let plain = without_identity(&payload);
        prop_assert_eq!(plain.is_some(), !identity.is_empty());
        if let Some(plain) = plain {
            prop_assert_eq!(RequestView::decode(&plain).unwrap(), RequestView { identity: b"", ..view });
        }
        let read = |block| Pairs::new(block).map(|p| p.map(|(n, v)| (n.to_vec(), v.to_vec())).unwrap()).collect::<Vec<_>>();
        prop_assert_eq!(read(view.params), borrowed(&params));
        prop_assert_eq!(read(view.headers), borrowed(&headers));
        for cut in 0..payload.len().min(payload.len() - body.len()) {
            prop_assert!(RequestView::decode(&payload[..cut]).is_err());
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_partial_and_says_how_much_it_needs(payload in blob(300), cut_at in 0usize..316) {
        let header = Header { kind: FrameType::Body, flags: flag::END, generation: 7, job: 9, slot: 4095 };
        let mut bytes = Vec::new();
        put_frame(&mut bytes, &header, &payload);
        let cut = cut_at.min(bytes.len() - 1);
        match split_frame(&bytes[..cut]).unwrap() {
            Split::Partial { needed } => prop_assert!(needed > cut && needed <= bytes.len()),
            Split::Whole { .. } => prop_assert!(false, "a frame without its last bytes is not whole"),
        }
    }
}

#[test]
fn limits_are_refused_with_the_value_and_the_limit() {
    let mut bytes = [0u8; 16];
    bytes[..4].copy_from_slice(&(1u32 << 20 | 1).to_le_bytes());
    let error = split_frame(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "frame of 1048577 bytes is too long (frame_payload_max 1048576)"
    );
    let mut bytes = [0u8; 16];
    bytes[12..].copy_from_slice(&4097u32.to_le_bytes());
    assert_eq!(
        split_frame(&bytes),
        Err(WireError::SlotTooHigh {
            slot: 4097,
            max: 4096
        })
    );
}

#[test]
fn a_response_outside_of_http_is_refused() {
    let mut payload = Vec::new();
    ResponseHead {
        status: 199,
        content: ContentKind::Json,
        run_us: 0,
    }
    .put(&mut payload, &[], b"");
    assert_eq!(
        ResponseView::decode(&payload),
        Err(WireError::Status { status: 199 })
    );
    payload[0] = 200;
    payload[2] = 5;
    assert_eq!(
        ResponseView::decode(&payload),
        Err(WireError::ContentKind { code: 5 })
    );
    payload[2] = 1;
    payload[8] = 1;
    assert_eq!(
        ResponseView::decode(&payload),
        Err(WireError::Truncated {
            kind: "RESPONSE",
            needed: 13,
            present: 12
        })
    );
}

#[test]
fn a_pair_block_cut_off_ends_with_one_error() {
    let mut block = Vec::new();
    put_pair(&mut block, b"a", b"1");
    put_pair(&mut block, b"b", b"2");
    block.pop();
    let read: Vec<_> = Pairs::new(&block).collect();
    assert_eq!(
        read,
        vec![
            Ok((&b"a"[..], &b"1"[..])),
            Err(WireError::PairsTruncated { at: 10, length: 19 })
        ]
    );
}
