//! The golden frames of `protocol/vectors`, decoded and encoded byte for byte.

use std::{fs, path::Path};

use forebay_wire::{
    BELL_OFFSET, CLAIMS_OFFSET, COMMIT_OFFSET, CONNECTION_BYTES, CallView, ClaimWord, Connection,
    ContentKind, FORMAT_OFFSET, FrameType, HEADER_BYTES, Header, OUTBOX_BYTES, OUTBOX_FRAME_ALIGN,
    OUTBOX_HEAD_OFFSET, OUTBOX_OFFSET, OUTBOX_TAIL_OFFSET, PAGE_BYTES, PAGE_FORMAT, Pairs, RequestParts,
    RequestView, ResponseHead, ResponseView, SLOTS_MAX, Split, put_call, put_frame, put_pair, split_frame,
};
use serde_json::Value;

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn number(value: &Value, key: &str) -> u32 {
    u32::try_from(
        value[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is a number in {value}")),
    )
    .unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a [u8] {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key} is text in {value}"))
        .as_bytes()
}

fn pairs(value: &Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |p: &Value| {
        (
            p[0].as_str().unwrap().as_bytes().to_vec(),
            p[1].as_str().unwrap().as_bytes().to_vec(),
        )
    };
    value.as_array().unwrap().iter().map(pair).collect()
}

fn read_block(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    Pairs::new(block)
        .map(|p| p.map(|(n, v)| (n.to_vec(), v.to_vec())).unwrap())
        .collect()
}

/// Checks one payload in both directions and returns our encoding of its description.
fn payload_of(kind: FrameType, payload: &[u8], say: &Value) -> Vec<u8> {
    match kind {
        FrameType::Request => {
            let connection = say.get("connection").map(|connection| Connection {
                port: u16::try_from(number(connection, "port")).unwrap(),
                is_tls: connection["tls"].as_bool().unwrap(),
            });
            let behind = connection.map_or(0, |_| CONNECTION_BYTES);
            let view = RequestView::decode(&payload[..payload.len() - behind]).unwrap();
            let (params, headers) = (pairs(&say["params"]), pairs(&say["headers"]));
            assert_eq!(read_block(view.params), params);
            assert_eq!(read_block(view.headers), headers);
            assert_eq!(view.id, text(say, "id"));
            let identity = say["identity"].as_str().unwrap_or_default().as_bytes();
            assert_eq!(view.identity, identity);
            let body = bytes_of(say["body_hex"].as_str().unwrap());
            assert_eq!(view.body, body);
            let mut out = Vec::new();
            RequestParts {
                remaining_ms: number(say, "remaining_ms"),
                method: text(say, "method"),
                path: text(say, "path"),
                query: text(say, "query"),
                route: text(say, "route"),
                peer: text(say, "peer"),
                id: text(say, "id"),
                identity,
                params: params.iter().map(|(n, v)| (&n[..], &v[..])),
                headers: headers.iter().map(|(n, v)| (&n[..], &v[..])),
                body: &body,
            }
            .put(&mut out);
            out.extend(connection.into_iter().flat_map(Connection::to_bytes));
            out
        }
        FrameType::Response | FrameType::Upgrade => {
            let view = match kind {
                FrameType::Upgrade => ResponseView::decode_upgrade(payload).unwrap(),
                _ => ResponseView::decode(payload).unwrap(),
            };
            assert_eq!(view.head.content as u32, number(say, "content"));
            let content = match number(say, "content") {
                0 => ContentKind::Unset,
                1 => ContentKind::Json,
                2 => ContentKind::Text,
                3 => ContentKind::Bytes,
                _ => ContentKind::Html,
            };
            let mut headers = Vec::new();
            for (name, value) in pairs(&say["headers"]) {
                put_pair(&mut headers, &name, &value);
            }
            let status = u16::try_from(number(say, "status")).unwrap();
            let head = ResponseHead {
                status,
                content,
                run_us: number(say, "run_us"),
            };
            let mut out = Vec::new();
            head.put(&mut out, &headers, &bytes_of(say["body_hex"].as_str().unwrap()));
            out
        }
        FrameType::Call | FrameType::Return => {
            let view = CallView::decode(payload).unwrap();
            assert_eq!(view.number, number(say, "call"));
            assert_eq!(view.body, text(say, "body"));
            let mut out = Vec::new();
            put_call(&mut out, &Header::link(kind, 0), view.number, view.body);
            out.split_off(HEADER_BYTES)
        }
        FrameType::Window => number(say, "bytes").to_le_bytes().to_vec(),
        FrameType::Abort => vec![u8::try_from(number(say, "reason")).unwrap()],
        _ => match say.get("json_text") {
            Some(json) => json.as_str().unwrap().as_bytes().to_vec(),
            None => bytes_of(say["bytes_hex"].as_str().unwrap()),
        },
    }
}

#[test]
fn every_golden_vector_is_read_and_written_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/vectors");
    let mut frames = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        // Vectors of messages are in a subfolder.
        if path.is_dir() {
            continue;
        }
        let vector: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for say in vector["frames"].as_array().unwrap() {
            let bytes = bytes_of(say["hex"].as_str().unwrap());
            let Split::Whole { frame, used } = split_frame(&bytes).unwrap() else {
                panic!("{path:?}: a whole frame")
            };
            assert_eq!(used, bytes.len(), "{path:?}");
            let header = Header {
                kind: FrameType::from_code(u8::try_from(number(say, "type")).unwrap()),
                flags: u8::try_from(number(say, "flags")).unwrap(),
                generation: u16::try_from(number(say, "generation")).unwrap(),
                job: number(say, "job"),
                slot: number(say, "slot"),
            };
            assert_eq!(frame.header, header, "{path:?}");
            let mut written = Vec::new();
            put_frame(
                &mut written,
                &header,
                &payload_of(header.kind, frame.payload, &say["payload"]),
            );
            assert_eq!(written, bytes, "{path:?}");
            frames += 1;
        }
    }
    assert!(frames >= 12, "the vectors cover the protocol: {frames} frames");
}

#[test]
fn the_page_is_laid_out_as_its_vector_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/vectors/page/layout.json");
    let layout: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    for (name, ours) in [
        ("page_bytes", PAGE_BYTES),
        ("format_offset", FORMAT_OFFSET),
        ("format", PAGE_FORMAT as usize),
        ("bell_offset", BELL_OFFSET),
        ("outbox_head_offset", OUTBOX_HEAD_OFFSET),
        ("outbox_tail_offset", OUTBOX_TAIL_OFFSET),
        ("commit_offset", COMMIT_OFFSET),
        ("claims_offset", CLAIMS_OFFSET),
        ("slots", SLOTS_MAX as usize),
        ("outbox_offset", OUTBOX_OFFSET),
        ("outbox_bytes", OUTBOX_BYTES as usize),
        ("outbox_frame_align", OUTBOX_FRAME_ALIGN as usize),
    ] {
        assert_eq!(number(&layout, name) as usize, ours, "{name}");
    }
    for word in layout["claim_words"].as_array().unwrap() {
        let claim = ClaimWord::of(number(word, "job"));
        assert_eq!(number(word, "offered"), claim.offered(), "{word}");
        assert_eq!(number(word, "claimed"), claim.claimed(), "{word}");
        assert_eq!(number(word, "revoked"), claim.revoked(), "{word}");
    }
}
