use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

use super::{
    deflate::{Deflate, decompress},
    messages::{Decoder, Event, WebSocketError, put_close, put_message},
};

/// A masked frame of a client.
fn client_frame(opcode: OpCode, is_final: bool, is_compressed: bool, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 0, 255, 80];
    let header = FrameHeader {
        is_final,
        rsv1: is_compressed,
        opcode,
        mask: Some(mask),
        ..FrameHeader::default()
    };
    let mut frame = Vec::new();
    header.format(payload.len() as u64, &mut frame).unwrap();
    frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    frame
}

const TEXT: OpCode = OpCode::Data(Data::Text);
const BINARY: OpCode = OpCode::Data(Data::Binary);
const CONTINUE: OpCode = OpCode::Data(Data::Continue);
const PING: OpCode = OpCode::Control(Control::Ping);
const CLOSE: OpCode = OpCode::Control(Control::Close);

fn text(text: &str) -> Event {
    Event::Message {
        bytes: text.into(),
        is_text: true,
    }
}

/// All events of bytes that arrive in pieces of this size, and the error that ends them.
fn events(bytes: &[u8], piece: usize, deflate: Option<Deflate>) -> (Vec<Event>, Option<WebSocketError>) {
    let mut decoder = Decoder::new(1000, deflate);
    let mut events = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    (events, None)
}

fn error_of(bytes: &[u8]) -> u16 {
    let (_, error) = events(bytes, bytes.len(), None);
    error.expect("the bytes break the protocol").code()
}

#[test]
fn messages_are_the_same_however_they_arrive() {
    let bytes = [
        client_frame(TEXT, true, false, b""),
        client_frame(TEXT, false, false, b"h\xc3"),
        client_frame(PING, true, false, b"now"),
        client_frame(CONTINUE, false, false, b""),
        client_frame(CONTINUE, true, false, b"\xa9"),
        client_frame(BINARY, true, false, &[0xff; 300]),
        client_frame(CLOSE, true, false, b"\x0b\xb8bye"),
    ]
    .concat();
    let expected = vec![
        text(""),
        Event::Ping(b"now".into()),
        text("hé"),
        Event::Message {
            bytes: vec![0xff; 300],
            is_text: false,
        },
        Event::Close {
            code: 3000,
            reason: b"bye".into(),
        },
    ];
    for piece in 1..bytes.len() {
        assert_eq!(
            events(&bytes, piece, None),
            (expected.clone(), None),
            "pieces of {piece}"
        );
    }
}

#[test]
fn what_breaks_the_protocol_is_closed_with_the_code_for_it() {
    let mut unmasked = Vec::new();
    put_message(&mut unmasked, b"a", true, None);
    let with_bit = |bit: u8| {
        let mut frame = client_frame(TEXT, true, false, b"a");
        frame[0] |= bit;
        frame
    };
    let begun = client_frame(TEXT, false, false, b"a");
    for (bytes, code) in [
        (unmasked, 1002),
        (with_bit(0x40), 1002),
        (with_bit(0x20), 1002),
        (with_bit(0x10), 1002),
        (vec![0x83, 0x80, 0, 0, 0, 0], 1002),
        (vec![0x8b, 0x80, 0, 0, 0, 0], 1002),
        (client_frame(CONTINUE, true, false, b"a"), 1002),
        (
            [begun.clone(), client_frame(TEXT, true, false, b"b")].concat(),
            1002,
        ),
        (client_frame(PING, false, false, b""), 1002),
        (client_frame(PING, true, false, &[0; 126]), 1002),
        (client_frame(CLOSE, true, false, b"\x03"), 1002),
        (client_frame(CLOSE, true, false, b"\x03\xed"), 1002),
        (client_frame(CLOSE, true, false, b"\x00\x00"), 1002),
        (client_frame(CLOSE, true, false, b"\x03\xe8\xff"), 1007),
        (client_frame(TEXT, true, false, b"\xff"), 1007),
        (client_frame(TEXT, true, false, b"\xed\xa0\x80"), 1007),
        (client_frame(BINARY, true, false, &[0; 1001]), 1009),
        (
            [begun, client_frame(CONTINUE, true, false, &[b'a'; 1000])].concat(),
            1009,
        ),
        // Only the head has to arrive.
        (
            client_frame(BINARY, true, false, &vec![0; 70_000])[..14].to_vec(),
            1009,
        ),
    ] {
        assert_eq!(error_of(&bytes), code, "{:?}", &bytes[..bytes.len().min(20)]);
    }
}

#[test]
fn compressed_messages_are_read_and_a_bomb_is_not() {
    let (deflate, _) = Deflate::accept("permessage-deflate").unwrap();
    let whole = "many words, ".repeat(50);
    let compressed = deflate.compress(whole.as_bytes());
    assert!(compressed.len() < whole.len() / 4);
    let (first, rest) = compressed.split_at(5);
    let bytes = [
        client_frame(TEXT, true, true, &compressed),
        client_frame(TEXT, false, true, first),
        client_frame(CONTINUE, true, false, rest),
        client_frame(TEXT, true, false, b"plain"),
        client_frame(TEXT, true, true, &deflate.compress(b"")),
    ]
    .concat();
    let expected = vec![text(&whole), text(&whole), text("plain"), text("")];
    assert_eq!(events(&bytes, 7, Some(deflate)), (expected, None));

    let bomb = client_frame(BINARY, true, true, &deflate.compress(&vec![0; 1_000_000]));
    let (_, error) = events(&bomb, bomb.len(), Some(deflate));
    assert_eq!(error.map(|error| error.code()), Some(1009));
    let garbage = client_frame(BINARY, true, true, &[0xff; 30]);
    let (_, error) = events(&garbage, garbage.len(), Some(deflate));
    assert_eq!(error.map(|error| error.code()), Some(1002));
}

/// RFC 7692, 7.2.3.2 and 7.2.3.5: shared windows apart, these are messages of other implementations.
#[test]
fn the_examples_of_the_rfc_are_read() {
    for compressed in [
        &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
        &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        &[
            0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
        ],
    ] {
        let inflated = decompress(compressed, 100).unwrap();
        assert_eq!(inflated.as_deref(), Some(&b"Hello"[..]), "{compressed:?}");
    }
}

#[test]
fn the_first_offer_that_can_be_kept_is_accepted() {
    let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    for (offers, accepted) in [
        (
            "permessage-deflate; client_max_window_bits",
            Some(both.to_owned()),
        ),
        (
            "x-other, permessage-deflate ; client_max_window_bits=10",
            Some(both.to_owned()),
        ),
        (
            "permessage-deflate; server_max_window_bits=10",
            Some(format!("{both}; server_max_window_bits=10")),
        ),
        (
            "permessage-deflate; server_max_window_bits=8, permessage-deflate",
            Some(both.to_owned()),
        ),
        ("permessage-deflate; server_max_window_bits=16", None),
        ("permessage-deflate; server_max_window_bits", None),
        ("permessage-deflate; unknown", None),
        (
            "permessage-deflate; client_max_window_bits; client_max_window_bits",
            None,
        ),
        ("x-webkit-deflate-frame", None),
        ("", None),
    ] {
        assert_eq!(
            Deflate::accept(offers).map(|(_, value)| value),
            accepted,
            "{offers}"
        );
    }
    let (narrow, _) = Deflate::accept("permessage-deflate; server_max_window_bits=9").unwrap();
    let long: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    let inflated = decompress(&narrow.compress(&long), long.len()).unwrap();
    assert!(inflated.is_some_and(|inflated| inflated == long));
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let mut frame = Vec::new();
    put_close(&mut frame, 1000, "é".repeat(100).as_bytes());
    assert_eq!(frame[1] as usize, 2 + 122);
    assert!(std::str::from_utf8(&frame[4..]).is_ok());
    frame.clear();
    put_close(&mut frame, 1005, b"not sent");
    assert_eq!(frame, [0x88, 0]);
}
