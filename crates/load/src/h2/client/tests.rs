use super::*;
use crate::{h2::Coder, request::Random};

fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (setting, value) in pairs {
        payload.extend_from_slice(&setting.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(frame::SETTINGS, 0, 0, &payload)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, kind, flags, stream, payload);
    out
}

/// A head with status 200 (entry 8 of the static table).
fn head(stream: u32, flags: u8) -> Vec<u8> {
    frame(frame::HEADERS, frame::END_HEADERS | flags, stream, &[0x88])
}

/// A client whose server has sent its settings, with so many requests under way and nothing to be written.
fn client(requests: usize) -> Client {
    client_with(requests, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n", &[])
}

fn client_with(requests: usize, message: &[u8], pairs: &[(u16, u32)]) -> Client {
    let mut client = Client::new(false);
    assert_eq!(client.room(10), 0, "the server has not spoken");
    assert_eq!(events(&mut client, &settings(pairs)), Ok(vec![Event::Settled]));
    client.out.clear();
    let mut coder = Coder::new(false);
    for _ in 0..requests {
        client.request(coder.code(message).unwrap(), false);
    }
    client
}

fn events(client: &mut Client, bytes: &[u8]) -> Result<Vec<Event>, Class> {
    let (mut at, mut events) = (0, Vec::new());
    while at < bytes.len() {
        let (used, event) = client.read(&bytes[at..]).map_err(|broken| broken.class)?;
        assert!(used > 0 || event.is_some(), "every call gets on");
        at += used;
        events.extend(event);
    }
    Ok(events)
}

/// The frames that a client wants to send, after its preface if that is there.
fn frames(client: &mut Client) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut rest = client.out.strip_prefix(frame::PREFACE).unwrap_or(&client.out);
    let mut frames = Vec::new();
    while let Some((bytes, after)) = rest.split_first_chunk() {
        let head = Head::read(*bytes);
        frames.push((head.kind, head.flags, head.stream, after[..head.length].to_vec()));
        rest = &after[head.length..];
    }
    client.out.clear();
    frames
}

fn answer(place: usize, body_bytes: u64, wire_bytes: u64) -> Event {
    Event::Answer {
        place,
        answer: Answer {
            status: 200,
            wire_bytes,
            body_bytes,
            keep_alive: true,
        },
        began: 0,
    }
}

#[test]
fn answers_are_the_same_however_the_octets_are_cut() {
    let stream = [
        head(5, frame::END_STREAM),
        head(1, 0),
        frame(frame::DATA, 0, 1, b"hello"),
        // Four octets of padding.
        frame(frame::DATA, frame::PADDED, 1, b"\x04abcd\0\0\0\0"),
        frame(frame::PING, 0, 0, b"12345678"),
        // An interim answer (103), then a head in two frames, with padding and a priority.
        frame(frame::HEADERS, frame::END_HEADERS, 3, b"\x08\x03103"),
        frame(
            frame::HEADERS,
            frame::PADDED | frame::WITH_PRIORITY,
            3,
            b"\x01\0\0\0\0\0\x88\0",
        ),
        frame(frame::CONTINUATION, frame::END_HEADERS, 3, &[]),
        frame(200, 0xff, 3, b"a kind of frame that nobody knows"),
        frame(frame::DATA, frame::END_STREAM, 1, b""),
        // Trailers.
        frame(
            frame::HEADERS,
            frame::END_HEADERS | frame::END_STREAM,
            3,
            b"\0\x01a\x01b",
        ),
    ]
    .concat();
    // Places are those that are left: stream 5 is the third, then 1 and 3 are the first.
    let expected = vec![
        answer(2, 0, 10),
        answer(0, 9, 10 + 14 + 18 + 9),
        answer(0, 0, 14 + 17 + 9 + 14),
    ];
    for piece in 1..=stream.len() {
        let mut client = client(3);
        let mut found = Vec::new();
        for part in stream.chunks(piece) {
            found.extend(events(&mut client, part).unwrap());
        }
        assert_eq!(found, expected, "pieces of {piece}");
        let pongs = frames(&mut client)
            .into_iter()
            .filter(|frame| frame.0 == frame::PING);
        assert_eq!(
            pongs.collect::<Vec<_>>(),
            [(frame::PING, frame::ACK, 0, b"12345678".to_vec())]
        );
    }
}

#[test]
fn what_breaks_the_rules_ends_the_connection_with_its_class() {
    let long = vec![0; frame::PAYLOAD_BYTES_MAX];
    let mut too_long = frame(frame::DATA, 0, 1, &long);
    too_long[2] = 1;
    let many = [
        frame(frame::HEADERS, 0, 1, &[0x88]),
        frame(frame::CONTINUATION, 0, 1, &[]).repeat(20_000),
    ]
    .concat();
    let wide = [
        frame(frame::HEADERS, 0, 1, &long),
        frame(frame::CONTINUATION, 0, 1, &long).repeat(4),
    ]
    .concat();
    for (what, bytes, class) in [
        ("a frame that is too long", too_long, Class::Malformed),
        (
            "a body without a head",
            frame(frame::DATA, 0, 1, b"x"),
            Class::Malformed,
        ),
        (
            "a body on stream 0",
            frame(frame::DATA, 0, 0, b"x"),
            Class::Malformed,
        ),
        (
            "a body on a stream to come",
            frame(frame::DATA, 0, 99, b"x"),
            Class::Malformed,
        ),
        ("a head on a stream to come", head(99, 0), Class::Malformed),
        ("a head on a server's stream", head(2, 0), Class::Malformed),
        (
            "padding without an end",
            [head(1, 0), frame(frame::DATA, frame::PADDED, 1, b"\x09ab")].concat(),
            Class::Malformed,
        ),
        (
            "padding of nothing",
            [head(1, 0), frame(frame::DATA, frame::PADDED, 1, b"")].concat(),
            Class::Malformed,
        ),
        (
            "padding of a head without an end",
            frame(frame::HEADERS, frame::PADDED | 4, 1, b"\x09ab"),
            Class::Malformed,
        ),
        (
            "a priority that is cut",
            frame(frame::HEADERS, frame::WITH_PRIORITY | 4, 1, b"\0\0"),
            Class::Malformed,
        ),
        (
            "a block that is none",
            frame(frame::HEADERS, frame::END_HEADERS, 1, &[0x80]),
            Class::Malformed,
        ),
        (
            "a block that is interrupted",
            [frame(frame::HEADERS, 0, 1, &[]), head(3, 0)].concat(),
            Class::Malformed,
        ),
        (
            "a block continued elsewhere",
            [
                frame(frame::HEADERS, 0, 1, &[]),
                frame(frame::CONTINUATION, 4, 3, &[]),
            ]
            .concat(),
            Class::Malformed,
        ),
        (
            "a continuation of nothing",
            frame(frame::CONTINUATION, 4, 1, &[]),
            Class::Malformed,
        ),
        ("a block without an end", many, Class::OverLong),
        ("a block of any size", wide, Class::OverLong),
        (
            "a promise",
            frame(frame::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82]),
            Class::Malformed,
        ),
        (
            "a ping that is too short",
            frame(frame::PING, 0, 0, b"1"),
            Class::Malformed,
        ),
        (
            "a ping on a stream",
            frame(frame::PING, 0, 1, b"12345678"),
            Class::Malformed,
        ),
        (
            "settings of a broken length",
            frame(frame::SETTINGS, 0, 0, b"12345"),
            Class::Malformed,
        ),
        (
            "settings confirmed with more",
            frame(frame::SETTINGS, frame::ACK, 0, b"123456"),
            Class::Malformed,
        ),
        (
            "settings of a window too large",
            settings(&[(4, 0x8000_0000)]),
            Class::Malformed,
        ),
        (
            "settings of frames too small",
            settings(&[(5, 1)]),
            Class::Malformed,
        ),
        ("settings of pushes", settings(&[(2, 1)]), Class::Malformed),
        (
            "a reset of nothing",
            frame(frame::RST_STREAM, 0, 99, &[0; 4]),
            Class::Malformed,
        ),
        (
            "a reset that is too long",
            frame(frame::RST_STREAM, 0, 1, &[0; 5]),
            Class::Malformed,
        ),
        (
            "a goodbye that is too short",
            frame(frame::GOAWAY, 0, 0, &[0; 7]),
            Class::Malformed,
        ),
        (
            "no leave at all",
            frame(frame::WINDOW_UPDATE, 0, 0, &[0; 4]),
            Class::Malformed,
        ),
        (
            "more leave than there can be",
            frame(frame::WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
            Class::Malformed,
        ),
        (
            "leave for a stream to come",
            frame(frame::WINDOW_UPDATE, 0, 99, &[0, 0, 0, 1]),
            Class::Malformed,
        ),
        (
            "a second answer",
            [head(1, frame::END_STREAM), head(1, 0)].concat(),
            Class::Unsolicited,
        ),
        (
            "more than all",
            [head(1, frame::END_STREAM), frame(frame::DATA, 0, 1, b"x")].concat(),
            Class::Unsolicited,
        ),
        (
            "pings without end",
            frame(frame::PING, 0, 0, b"12345678").repeat(100_000),
            Class::Malformed,
        ),
    ] {
        assert_eq!(events(&mut client(2), &bytes).map(|_| ()), Err(class), "{what}");
    }
}

#[test]
fn a_server_that_speaks_something_else_is_noticed_at_once() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"SSH-2.0-OpenSSH\r\n",
        &head(1, 0),
        &frame(frame::SETTINGS, frame::ACK, 0, &[]),
    ] {
        let broken = Client::new(false).read(bytes).unwrap_err();
        assert_eq!(broken.class, Class::Malformed);
        assert_eq!(
            broken.what.contains("HTTP/1:"),
            bytes.starts_with(b"HTTP"),
            "{}",
            broken.what
        );
    }
}

#[test]
fn a_wrong_answer_costs_one_request() {
    let field = |name: &str, value: &str| {
        let mut block = vec![0x88];
        crate::h2::hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
        block
    };
    for (block, flags, class) in [
        (field("connection", "close"), 0, Class::Malformed),
        (field("content-length", "5"), frame::END_STREAM, Class::Framing),
        (b"\x08\x03101".to_vec(), 0, Class::Malformed),
        (b"\x08\x03100".to_vec(), frame::END_STREAM, Class::Malformed),
        (b"\0\x01a\x01b".to_vec(), 0, Class::Malformed),
    ] {
        let mut client = client(3);
        let wrong = frame(frame::HEADERS, frame::END_HEADERS | flags, 3, &block);
        let found = events(&mut client, &wrong).unwrap();
        assert!(
            matches!(&found[..], [Event::Lost { place: 1, class: found, .. }] if *found == class),
            "{found:?}"
        );
        let resets = frames(&mut client)
            .into_iter()
            .filter(|frame| frame.0 == frame::RST_STREAM)
            .count();
        assert_eq!(
            resets,
            usize::from(flags == 0),
            "a stream that the server has ended needs no reset"
        );
        // What the server sent before it knew is passed over.
        if flags == 0 {
            assert_eq!(
                events(&mut client, &frame(frame::DATA, frame::END_STREAM, 3, b"x")),
                Ok(vec![])
            );
        }
        assert_eq!(
            events(&mut client, &head(5, frame::END_STREAM)),
            Ok(vec![answer(1, 0, 10)])
        );
    }
}

#[test]
fn a_server_that_goes_away_is_asked_no_more() {
    let mut client = client(4);
    assert_eq!(client.room(10), 6);
    let found = events(
        &mut client,
        &frame(frame::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 11, b'n', b'o', b'\n']),
    )
    .unwrap();
    let what = "the server goes away (ENHANCE_YOUR_CALM, no\\n) and has not looked at the request".to_owned();
    assert_eq!(found, [Event::GoesAway { place: 2, what }]);
    assert_eq!((client.room(10), client.takes_no_more()), (0, true));
    assert_eq!(
        events(&mut client, &head(3, frame::END_STREAM)),
        Ok(vec![answer(1, 0, 10)])
    );
}

#[test]
fn leave_to_send_is_given_back_in_time() {
    let mut client = client(1);
    let data = frame(frame::DATA, 0, 1, &[0; frame::PAYLOAD_BYTES_MAX]);
    events(&mut client, &head(1, 0)).unwrap();
    frames(&mut client);
    let (mut of_stream, mut of_connection) = (i64::from(STREAM_WINDOW), i64::from(CONNECTION_WINDOW));
    // More than the windows hold.
    for _ in 0..2 * CONNECTION_WINDOW as usize / frame::PAYLOAD_BYTES_MAX {
        events(&mut client, &data).unwrap();
        of_stream -= PART_MAX;
        of_connection -= PART_MAX;
        for (kind, _, stream, payload) in frames(&mut client) {
            assert_eq!(kind, frame::WINDOW_UPDATE);
            *if stream == 0 {
                &mut of_connection
            } else {
                &mut of_stream
            } += i64::from(frame::number(&payload).unwrap());
        }
        assert!(of_stream > 0 && of_connection > 0, "the server never has to wait");
        assert!(of_stream <= i64::from(STREAM_WINDOW) && of_connection <= i64::from(CONNECTION_WINDOW));
    }
}

#[test]
fn bodies_are_sent_as_far_as_the_server_allows() {
    let mut message = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\r\n".to_vec();
    message.resize(message.len() + 100_000, 7);
    // Each stream may send ten octets.
    let mut client = client_with(2, &message, &[(4, 10)]);
    let sent = |client: &mut Client| {
        let data = frames(client).into_iter().filter(|frame| frame.0 == frame::DATA);
        data.map(|(_, flags, stream, payload)| (stream, payload.len(), flags))
            .collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut client), [(1, 10, 0), (3, 10, 0)]);
    // A larger beginning counts for streams that have begun, a smaller one can leave them in debt.
    assert_eq!(events(&mut client, &settings(&[(4, 15)])), Ok(vec![]));
    client.upload();
    assert_eq!(sent(&mut client), [(1, 5, 0), (3, 5, 0)]);
    events(&mut client, &settings(&[(4, 5)])).unwrap();
    events(&mut client, &frame(frame::WINDOW_UPDATE, 0, 3, &[0, 0, 0, 10])).unwrap();
    client.upload();
    assert_eq!(sent(&mut client), []);
    events(&mut client, &frame(frame::WINDOW_UPDATE, 0, 3, &[0, 0, 0, 2])).unwrap();
    client.upload();
    assert_eq!(sent(&mut client), [(3, 2, 0)]);
    // The window of the connection: 65,535 less the 32 that were sent.
    events(
        &mut client,
        &frame(frame::WINDOW_UPDATE, 0, 1, &[0, 1, 0xff, 0xff]),
    )
    .unwrap();
    client.upload();
    let all: usize = sent(&mut client).iter().map(|(_, length, _)| length).sum();
    assert_eq!(all, 65_535 - 32);
    events(
        &mut client,
        &frame(frame::WINDOW_UPDATE, 0, 0, &[0, 1, 0xff, 0xff]),
    )
    .unwrap();
    client.upload();
    let last = sent(&mut client);
    assert_eq!(
        last.iter().map(|(_, length, _)| length).sum::<usize>(),
        100_000 - 15 - (65_535 - 32)
    );
    assert_eq!(
        last.last().map(|(stream, _, flags)| (*stream, *flags)),
        Some((1, frame::END_STREAM))
    );
    // The other one was answered before all of it was sent: the rest is not.
    assert_eq!(
        events(&mut client, &head(3, frame::END_STREAM)),
        Ok(vec![answer(1, 0, 10)])
    );
    assert_eq!(frames(&mut client), [(frame::RST_STREAM, 0, 3, vec![0, 0, 0, 8])]);
    assert_eq!(client.uploads, 0);
}

#[test]
fn streams_are_as_many_as_the_server_allows() {
    let mut client = client_with(2, b"GET / HTTP/1.1\r\n\r\n", &[(3, 5)]);
    assert_eq!((client.room(100), client.room(4), client.room(1)), (3, 2, 0));
    client.next_id = STREAM_MAX - 2;
    assert_eq!((client.room(100), client.takes_no_more()), (2, false));
    client.next_id = STREAM_MAX + 2;
    assert_eq!((client.room(100), client.takes_no_more()), (0, true));
}

#[test]
fn nothing_that_comes_makes_it_panic() {
    let valid = [
        head(1, 0),
        frame(frame::DATA, frame::PADDED, 1, b"\x04abcd\0\0\0\0"),
        frame(frame::HEADERS, 0, 3, &[0x88]),
        frame(
            frame::CONTINUATION,
            frame::END_HEADERS,
            3,
            &[0x40, 1, b'a', 1, b'b'],
        ),
        frame(frame::WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]),
        settings(&[(3, 7), (4, 100)]),
        frame(frame::RST_STREAM, 0, 3, &[0, 0, 0, 8]),
        frame(frame::DATA, frame::END_STREAM, 1, b"end"),
        frame(frame::GOAWAY, 0, 0, &[0; 8]),
    ]
    .concat();
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let mut bytes = valid.clone();
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        let mut client = client(4);
        for part in bytes.chunks(1 + random.below(40)) {
            if events(&mut client, part).is_err() {
                break;
            }
            client.upload();
        }
        assert!(client.streams.len() <= 4, "seed {seed}");
    }
}
