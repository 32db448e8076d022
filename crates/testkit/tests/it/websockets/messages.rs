//! Frames and messages: the classes of cases of RFC 6455 that an endpoint is to handle.

use std::process::Command;

use forebay_testkit::wait_until;
use serde_json::json;

use super::{BINARY, CLOSE, CONTINUE, Frame, PING, PONG, Socket, TEXT, closed, frame, pool, request};
use crate::support::{ONE_WORKER, Runtime};

#[test]
fn messages_of_every_length_come_back_however_they_are_sent() {
    for runtime in Runtime::BOTH {
        let server = pool(runtime, ONE_WORKER).start();
        let mut socket = Socket::open(&server, "/echo");
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 300_000, 1 << 20] {
            let text = "ab".repeat(length / 2) + &"c".repeat(length % 2);
            socket.send(&text);
            assert_eq!(socket.receive().text(), text, "{runtime:?}");
            let bytes: Vec<_> = (0..length).map(|at| (at % 251) as u8).collect();
            // In fragments, with a ping within, and each byte of the heads by itself.
            let (first, rest) = bytes.split_at(length / 3);
            let sent = [
                frame(BINARY, false, first),
                frame(PING, true, b"are you there"),
                frame(CONTINUE, false, b""),
                frame(CONTINUE, true, rest),
            ]
            .concat();
            let (slowly, at_once) = sent.split_at(40.min(sent.len()));
            for byte in slowly {
                socket.client.send([*byte]);
            }
            socket.client.send(at_once);
            let pong = Frame {
                opcode: PONG,
                payload: b"are you there".into(),
            };
            assert_eq!(socket.receive(), pong);
            assert_eq!(
                socket.receive(),
                Frame {
                    opcode: BINARY,
                    payload: bytes
                }
            );
        }
        // Many at once keep their order.
        let all: Vec<_> = (0..5_000).map(|number| number.to_string()).collect();
        let mut sender = socket.client.another_half();
        let frames = all
            .iter()
            .flat_map(|text| frame(TEXT, true, text.as_bytes()))
            .collect::<Vec<_>>();
        let sending = std::thread::spawn(move || sender.send(frames));
        for text in &all {
            assert_eq!(socket.receive().text(), text);
        }
        sending.join().expect("they are sent");
    }
}

#[test]
fn each_violation_is_closed_with_its_code_and_the_handler_told() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    let unmasked = [0x81, 1, b'a'];
    let reserved_bit = [0xc1, 0x80, 0, 0, 0, 0];
    let unknown_opcode = [0x83, 0x80, 0, 0, 0, 0];
    let half_fragment = frame(TEXT, false, b"a");
    let cases: [(Vec<u8>, u16); 10] = [
        (unmasked.into(), 1002),
        (reserved_bit.into(), 1002),
        (unknown_opcode.into(), 1002),
        (frame(CONTINUE, true, b"a"), 1002),
        ([half_fragment, frame(TEXT, true, b"b")].concat(), 1002),
        (frame(PING, true, &[0; 126]), 1002),
        (frame(PING, false, b""), 1002),
        (frame(CLOSE, true, &999u16.to_be_bytes()), 1002),
        (frame(TEXT, true, b"\xce\xba\xed\xa0\x80"), 1007),
        (frame(BINARY, true, &vec![0; (1 << 20) + 1]), 1009),
    ];
    for (at, (bytes, code)) in cases.into_iter().enumerate() {
        let mut socket = Socket::open(&server, "/echo");
        socket.send("fine");
        assert_eq!(socket.receive().text(), "fine");
        // The server may close before it has read a message that is too long.
        let _ = socket.client.try_send(&bytes);
        assert_eq!(socket.receive().code(), code, "case {at}");
        socket.ends();
        wait_until("the handler is told", || closed(&server)[at][0] == code);
    }
}

#[test]
fn a_close_is_answered_from_both_sides() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    // The client closes: with a code and a reason, with neither.
    for (payload, told) in [
        (&b"\x0f\xa0bye"[..], json!([4000, "bye"])),
        (b"", json!([1005, ""])),
    ] {
        let mut socket = Socket::open(&server, "/echo");
        socket.send_frame(CLOSE, true, payload);
        assert_eq!(
            socket.receive(),
            Frame {
                opcode: CLOSE,
                payload: payload.into()
            }
        );
        socket.ends();
        wait_until("the handler is told", || {
            closed(&server)
                .as_array()
                .is_some_and(|all| all.last() == Some(&told))
        });
    }
    // The handler closes, and messages that cross its close are dropped.
    let mut socket = Socket::open(&server, "/close/3005");
    socket.send("now");
    let close = socket.receive();
    assert_eq!((close.code(), &close.payload[2..]), (3005, &b"as told"[..]));
    socket.send("crossing");
    socket.send_frame(CLOSE, true, &3005u16.to_be_bytes());
    socket.ends();
    // The client leaves without a word.
    drop(Socket::open(&server, "/echo"));
    wait_until("the handler is told", || closed(&server)[3] == json!([1006, ""]));
    // The handler fails.
    let mut socket = Socket::open(&server, "/throw");
    socket.send("anything");
    assert_eq!(socket.receive().code(), 1011);
    server.wait_for_log(&["the connection of /throw failed", "on purpose"]);
    // An invalid close code is the handler's mistake.
    let mut socket = Socket::open(&server, "/close/1006");
    socket.send("now");
    assert_eq!(socket.receive().code(), 1011);
    server.wait_for_log(&["RangeError", "not 1006"]);
}

#[test]
fn an_asynchronous_handler_has_one_message_at_a_time() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    let mut socket = Socket::open(&server, "/slowly");
    socket.send("first");
    socket.send("second");
    assert_eq!(socket.receive().text(), "first");
    assert_eq!(socket.receive().text(), "second");
}

#[test]
fn a_handshake_is_checked_before_a_worker_gets_it() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    let ask = |request: String| {
        let mut client = server.connect();
        client.send(request);
        client.response()
    };
    let old = ask(request("/echo", "").replace("version: 13", "version: 8"));
    assert_eq!(
        (old.status, old.header("sec-websocket-version")),
        (400, Some("13"))
    );
    for broken in [
        request("/echo", "").replace("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="),
        request("/echo", "").replace("GET", "POST"),
    ] {
        let response = ask(broken);
        assert_eq!(response.status, 400);
        assert!(
            response.detail().contains("sec-websocket-key"),
            "{}",
            response.detail()
        );
    }
    // What is no WebSocket is not answered as one.
    let plain = server.get("/echo");
    assert_eq!(plain.status, 400);
    assert!(plain.detail().contains("WebSocket"), "{}", plain.detail());
    let (mut socket, head) = Socket::open_with(
        &server,
        "/hello?data=mine&protocol=chat",
        "sec-websocket-protocol: other, chat\r\norigin: http://test\r\n",
    );
    assert_eq!(head.header("sec-websocket-protocol"), Some("chat"));
    assert_eq!(
        (head.header("set-cookie"), head.header("connection")),
        (Some("a=b"), Some("upgrade"))
    );
    let hello: serde_json::Value = serde_json::from_str(socket.receive().text()).expect("JSON");
    assert_eq!(
        (&hello["data"], &hello["path"]),
        (&json!("mine"), &json!("/hello"))
    );
    let unasked = ask(request(
        "/hello?protocol=chat",
        "sec-websocket-protocol: other\r\n",
    ));
    assert_eq!(unasked.status, 500);
    assert!(
        unasked.detail().contains("has not offered"),
        "{}",
        unasked.detail()
    );
}

#[test]
fn messages_are_compressed_for_a_client_that_asks_for_it() {
    let keys = format!("{ONE_WORKER}\nwebsocket = {{ compress = true }}\n");
    let server = pool(Runtime::Node, &keys).start();
    let client = format!(
        "const socket = new WebSocket('ws://{}/echo');
         const messages = ['', 'short', 'long '.repeat(60000), JSON.stringify([...Array(9999).keys()])];
         let at = 0;
         socket.onopen = () => messages.forEach((message) => socket.send(message));
         socket.onmessage = ({{ data }}) => {{
           if (data !== messages[at]) process.exit(3);
           if (++at === messages.length) socket.close(1000);
         }};
         socket.onclose = ({{ code }}) => {{ console.log(socket.extensions); process.exit(code === 1000 ? 0 : 4); }};",
        server.address()
    );
    let output = Command::new("node")
        .args(["-e", &client])
        .output()
        .expect("Node can be started");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let extensions = String::from_utf8_lossy(&output.stdout);
    assert!(extensions.starts_with("permessage-deflate"), "{extensions}");
    let (mut socket, head) = Socket::open_with(
        &server,
        "/send/10000",
        "sec-websocket-extensions: permessage-deflate\r\n",
    );
    assert!(head.header("sec-websocket-extensions").is_some());
    let bytes = socket.client.some_bytes();
    assert!(bytes[0] == 0xc1 && bytes.len() < 200, "{} bytes", bytes.len());
}
