//! The feed of changes over a WebSocket: the events of the stream, one in each text message.

use std::{fs, process::Command};

use forebay_testkit::{Response, Server, Setup, blocks};
use serde_json::{Value, json};

use super::{ask, config, put, reload, setup, start};
use crate::{
    applications::packages,
    websockets::{BINARY, CLOSE, PING, PONG, Socket, TEXT, request},
};

/// The next message.
fn message(socket: &mut Socket) -> Value {
    serde_json::from_str(socket.receive().text()).expect("a message is JSON")
}

/// The next message with a change: its id, and its data.
fn change(socket: &mut Socket) -> (u64, Value) {
    loop {
        let mut message = message(socket);
        if message["event"] == "change" {
            return (message["id"].as_u64().expect("a number"), message["data"].take());
        }
        assert!(message.get("event").is_none(), "{message}");
    }
}

/// The response to a handshake that is refused.
fn refused(server: &Server, target: &str, lines: &str) -> Response {
    let mut client = server.connect();
    client.send(request(target, lines));
    client.response()
}

#[test]
fn changes_come_as_messages_and_a_client_goes_on_where_it_was() {
    let server = start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let mut socket = Socket::open(&server, "/store:changes?since=0");
    assert_eq!(message(&mut socket), json!({"id": 0}));
    for number in 1..50 {
        let (id, data) = change(&mut socket);
        assert_eq!((id, &data["sequence"]), (number, &json!(number)));
        assert_eq!(
            data["operations"],
            json!([{"op": "put", "path": ["Open", "a"], "value": number}])
        );
        put(&mut client, "/store/Open/a", &(number + 1).to_string());
    }
    let mut back = Socket::open(&server, "/store:changes?since=48");
    assert_eq!(message(&mut back), json!({"id": 48}));
    assert_eq!(change(&mut back).0, 49);
    assert_eq!(change(&mut back).0, 50);
    let (mut also, _) = Socket::open_with(&server, "/store:changes", "last-event-id: 49\r\n");
    assert_eq!(change(&mut also).0, 50);
    // Who names no change begins now.
    let mut fresh = Socket::open(&server, "/store:changes");
    assert_eq!(message(&mut fresh), json!({"id": 50}));
    // A message may be longer than a piece.
    let long = format!("\"{}\"", "é".repeat(300_000));
    put(&mut client, "/store/Open/b", &long);
    for socket in [&mut socket, &mut fresh] {
        while change(socket).1["operations"][0]["value"].as_str().map(str::len) != Some(600_000) {}
    }
}

#[test]
fn a_socket_hears_only_of_globals_that_its_client_may_read() {
    let rules = "Open = { read = \"public\", write = \"public\" }\nSecret = { read = \"token:SECRET\", write = \"public\" }\n";
    let server = Setup::new(&config("", rules, "")).env("SECRET", "sesame").start();
    let mut client = server.connect();
    put(&mut client, "/store/Secret/a", "1");
    put(&mut client, "/store/Open/a", "2");
    let mut anybody = Socket::open(&server, "/store:changes?since=0");
    assert_eq!(change(&mut anybody).0, 2);
    let (mut trusted, _) = Socket::open_with(
        &server,
        "/store:changes?since=0",
        "authorization: Bearer sesame\r\n",
    );
    assert_eq!(change(&mut trusted).0, 1);
    assert_eq!(change(&mut trusted).0, 2);
    let closed = Setup::new(&config("", "Secret = { read = \"token:SECRET\" }\n", ""))
        .env("SECRET", "sesame")
        .start();
    assert_eq!(refused(&closed, "/store:changes", "").status, 401);
    let nobodys = Setup::new(&config("", "", "")).start();
    assert_eq!(refused(&nobodys, "/store:changes", "").status, 403);
}

/// Browsers let any page open a WebSocket, and read what comes.
#[test]
fn a_page_of_another_site_opens_no_socket_unless_the_route_names_it() {
    let evil = "origin: https://evil.example\r\n";
    let friend = "origin: https://friend.example\r\n";
    let named = setup("", "origins = [\"https://friend.example\"]").start();
    let readers = setup("", "cors = { origins = [\"https://friend.example\"] }").start();
    for server in [&named, &readers] {
        for lines in [
            evil,
            "sec-fetch-site: cross-site\r\norigin: https://evil.example\r\n",
            "origin: null\r\n",
        ] {
            let response = refused(server, "/store:changes", lines);
            assert_eq!(response.status, 403, "{lines}");
            assert!(response.detail().contains("`origins`"), "{}", response.detail());
        }
        for lines in ["", friend, "origin: http://test\r\n"] {
            let (mut socket, _) = Socket::open_with(server, "/store:changes", lines);
            assert_eq!(message(&mut socket), json!({"id": 0}), "{lines}");
        }
    }
    // What every page may read, every page may follow.
    let public = setup("", "cors = { origins = [\"*\"] }").start();
    Socket::open_with(&public, "/store:changes", evil);
    let mut client = public.connect();
    let fields = [("origin", "https://evil.example")];
    assert_eq!(
        ask(&mut client, "PUT", "/store/Open/a", &fields, b"1").status,
        403
    );
}

#[test]
fn what_opens_no_socket_is_refused() {
    let server = start();
    assert_eq!(refused(&server, "/store/Open/a", "").status, 501);
    assert_eq!(refused(&server, "/store:batch", "").status, 501);
    assert_eq!(refused(&server, "/store:changes?since=x", "").status, 400);
    let mut old = server.connect();
    old.send(request("/store:changes", "").replace("version: 13", "version: 8"));
    let response = old.response();
    assert_eq!(
        (response.status, response.header("sec-websocket-version")),
        (400, Some("13"))
    );
    // Without `Connection: upgrade` it is a request for the stream (RFC 9110, 7.8).
    let mut plain = server.connect();
    plain.send(request("/store:changes", "").replace("connection: Upgrade\r\n", ""));
    let head = plain.head().expect("a head");
    assert_eq!(
        (head.status, head.header("content-type")),
        (200, Some("text/event-stream"))
    );
}

#[test]
fn a_socket_answers_pings_and_closes_and_takes_no_messages() {
    let server = start();
    let mut socket = Socket::open(&server, "/store:changes");
    assert_eq!(message(&mut socket), json!({"id": 0}));
    socket.send_frame(PING, true, b"are you there");
    let pong = socket.receive();
    assert_eq!((pong.opcode, &pong.payload[..]), (PONG, &b"are you there"[..]));
    socket.send_frame(CLOSE, true, b"\x0f\xa0bye");
    let close = socket.receive();
    assert_eq!((close.code(), &close.payload[2..]), (4000, &b"bye"[..]));
    socket.ends();
    for (opcode, payload) in [(TEXT, &b""[..]), (TEXT, b"hello"), (BINARY, &[0; 1000])] {
        let mut socket = Socket::open(&server, "/store:changes");
        assert_eq!(message(&mut socket), json!({"id": 0}));
        socket.send_frame(opcode, true, payload);
        let close = socket.receive();
        assert_eq!(close.code(), 1003);
        assert!(close.payload.ends_with(b"takes no messages"));
    }
    let mut socket = Socket::open(&server, "/store:changes");
    assert_eq!(message(&mut socket), json!({"id": 0}));
    socket.client.send([0x89, 0]);
    assert_eq!(socket.receive().code(), 1002, "it is not masked");
}

#[test]
fn a_client_that_takes_nothing_holds_up_nobody_and_loses_nothing() {
    let server = start();
    let mut client = server.connect();
    let mut slow = Socket::open(&server, "/store:changes");
    let mut fast = Socket::open(&server, "/store:changes");
    assert_eq!(message(&mut slow), json!({"id": 0}));
    // More than the kernel holds for it.
    let document = format!("\"{}\"", "x".repeat(900_000));
    for number in 1..=40 {
        put(&mut client, "/store/Open/a", &document);
        assert_eq!(change(&mut fast).0, number);
    }
    for number in 1..=40 {
        assert_eq!(change(&mut slow).0, number);
    }
}

#[test]
fn sockets_end_with_the_server_with_its_configuration_and_with_the_log() {
    let mut server = setup("", "").start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let mut socket = Socket::open(&server, "/store:changes?since=0");
    assert_eq!(change(&mut socket).0, 1);
    let closed =
        "Open = { read = \"none\", write = \"public\" }\nOther = { read = \"public\", write = \"public\" }\n";
    server.reconfigure(&config("", closed, ""));
    assert_eq!(reload(&server).status, 200);
    put(&mut client, "/store/Open/a", "2");
    assert_eq!(
        socket.receive().code(),
        1012,
        "nothing is told under the old rules"
    );
    socket.send_frame(CLOSE, true, &1012u16.to_be_bytes());
    socket.ends();

    put(&mut client, "/store/Other/a", "3");
    let mut socket = Socket::open(&server, "/store:changes?since=1");
    assert_eq!(change(&mut socket).0, 3);
    let mut socket = Socket::open(&server, "/store:changes");
    assert_eq!(message(&mut socket), json!({"id": 3}));
    for segment in fs::read_dir(server.folder().path().join("data/changes")).unwrap() {
        fs::remove_file(segment.unwrap().path()).unwrap();
    }
    put(&mut client, "/store/Other/a", "4");
    let gone = "the log of changes does not go on from 3; read everything anew and go on from there";
    assert_eq!(message(&mut socket), json!({"event": "gone", "data": gone}));
    assert_eq!(socket.receive().code(), 1011);
    // A page learns nothing of a handshake that fails, so this is told later.
    let mut late = Socket::open(&server, "/store:changes?since=1");
    assert_eq!(message(&mut late)["event"], "gone");
    assert_eq!(late.receive().code(), 1011);

    let mut socket = Socket::open(&server, "/store:changes");
    assert_eq!(message(&mut socket), json!({"id": 4}));
    server.terminate();
    let close = socket.receive();
    assert_eq!(
        (close.code(), &close.payload[2..]),
        (1001, &b"the server is stopping"[..])
    );
    socket.send_frame(CLOSE, true, &1001u16.to_be_bytes());
    socket.ends();
    assert!(server.wait().success());
}

/// Ends a client of Node for which nothing comes.
const DEADLINE: &str = "setTimeout(() => process.exit(3), 30_000).unref();";

/// A client of the package `ws` that goes on where it was after the connection has been lost; it prints the ids that it has seen.
const WS: &str = r"
import { WebSocket } from 'ws';
const seen = [];
let since = 0;
const connect = (until) => {
  const socket = new WebSocket(`${process.argv[1]}/store:changes?since=${since}`);
  socket.on('message', (text) => {
    const { id, event, data } = JSON.parse(text);
    since = id ?? since;
    if (event === 'change') seen.push(data.sequence);
    if (seen.length === until) until === 6 ? socket.close(1000) : socket.terminate();
  });
  socket.on('close', (code) => {
    if (until < 6) return connect(6);
    console.log(code, ...seen);
  });
};
connect(3);
";

/// The same with the package `websockets` of Python, and with a page's origin.
const WEBSOCKETS: &str = r#"
import json, sys
from websockets.sync.client import connect
from websockets.exceptions import InvalidStatus
seen, since = [], 0
for until in (3, 6):
    with connect(f"{sys.argv[1]}/store:changes?since={since}") as socket:
        while True:
            message = json.loads(socket.recv(30))
            since = message.get("id", since)
            if message.get("event") == "change":
                seen.append(message["data"]["sequence"])
            if len(seen) == until:
                break
    code = socket.protocol.close_code
try:
    connect(sys.argv[1] + "/store:changes", origin="https://evil.example")
except InvalidStatus as refused:
    assert refused.response.status_code == 403
print(code, *seen)
"#;

/// The page of docs/guide/store.md.
#[test]
fn the_page_of_the_guide_follows_changes() {
    let blocks = blocks(include_str!("../../../../../docs/guide/store.md"), "js");
    let page = blocks
        .iter()
        .find(|block| block.contains("store:changes"))
        .expect("it is there");
    let server = start();
    put(&mut server.connect(), "/store/Open/a", "[7]");
    let address = format!("ws://{}/", server.address());
    let page = page.replace("wss://example.org/", &address);
    let show = "const show = (operations) => { console.log(JSON.stringify(operations)); process.exit(); };";
    let output = Command::new("node")
        .args(["-e", &format!("{show}\n{page}\n{DEADLINE}")])
        .output();
    let output = output.expect("Node can be started");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "[{\"op\":\"put\",\"path\":[\"Open\",\"a\"],\"value\":[7]}]\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn clients_of_node_and_python_follow_and_resume() {
    let server = start();
    let mut client = server.connect();
    for number in 1..=6 {
        put(&mut client, "/store/Open/a", &number.to_string());
    }
    let url = format!("ws://{}", server.address());
    let mut node = Command::new("node");
    node.args(["--input-type=module", "-e", &format!("{WS}{DEADLINE}"), &url])
        .current_dir(packages());
    let mut python = Command::new(forebay_testkit::python());
    python.args(["-c", WEBSOCKETS, &url]);
    for mut command in [node, python] {
        let output = command.output().expect("it can be started");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "1000 1 2 3 4 5 6\n",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
