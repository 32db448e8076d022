//! Applications that take connections over with the event `upgrade` of `node:http`.

use std::process::Command;

use forebay_testkit::wait_until;

use super::{application, packages};
use crate::{
    support::Runtime,
    websockets::{CLOSE, PING, PONG, Socket, TEXT, frame, request},
};

/// Express and the package `ws`, at the same port.
const CHAT: &str = r"
import { createServer } from 'node:http';
import express from 'express';
import { WebSocketServer } from 'ws';

const app = express();
app.get('/', (req, res) => res.send(`plain, ${sockets.clients.size} connected`));
const server = createServer(app);
const sockets = new WebSocketServer({ noServer: true });
server.on('upgrade', (request, socket, head) => {
  if (request.url === '/private') {
    socket.end('HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic\r\ncontent-length: 6\r\n\r\nsecret');
    return;
  }
  if (request.url === '/gone') return socket.destroy();
  sockets.handleUpgrade(request, socket, head, (client) => sockets.emit('connection', client, request));
});
sockets.on('connection', (client, request) => {
  client.send(`hello ${request.headers['x-name']} from ${request.socket.remoteAddress ?? 'nowhere'}`);
  client.on('message', (data, isBinary) => client.send(data, { binary: isBinary }));
});
server.listen(3000);
";

#[test]
fn the_package_ws_speaks_through_a_pool() {
    let server = application(Runtime::Node, "app.mjs", CHAT).start();
    let (mut socket, head) = Socket::open_with(&server, "/chat", "x-name: Ada\r\n");
    assert_eq!(
        head.header("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert_eq!(socket.receive().text(), "hello Ada from 127.0.0.1");
    for length in [0, 200, 100_000, 3_000_000] {
        let text = "x".repeat(length);
        socket.send(&text);
        assert_eq!(socket.receive().text(), text);
    }
    socket.send_frame(PING, true, b"ping");
    assert_eq!(socket.receive().opcode, PONG);
    assert_eq!(server.get("/").text(), "plain, 1 connected");
    socket.send_frame(CLOSE, true, &1000u16.to_be_bytes());
    assert_eq!(socket.receive().code(), 1000);
    socket.ends();
    // What comes before the response to the handshake is not lost.
    let mut early = server.connect();
    early.send([request("/chat", "").into_bytes(), frame(TEXT, true, b"early")].concat());
    assert_eq!(early.head().expect("a head").status, 101);
    let mut seen = Vec::new();
    while !seen.ends_with(b"\x81\x05early") {
        let more = early.some_bytes();
        assert!(!more.is_empty(), "{seen:?}");
        seen.extend(more);
    }
    drop(early);
    wait_until("the application sees its clients leave", || {
        server.get("/").text() == "plain, 0 connected"
    });
    // An application may refuse, with a response or without.
    let mut refused = server.connect();
    refused.send(request("/private", ""));
    let response = refused.response();
    assert_eq!(
        (
            response.status,
            response.header("www-authenticate"),
            response.text()
        ),
        (401, Some("Basic"), "secret")
    );
    let mut gone = server.connect();
    gone.send(request("/gone", ""));
    assert_eq!(gone.response().status, 500);
}

/// The example of Socket.IO's documentation: a server and a client that talk by long polling first, and then by a WebSocket.
#[test]
fn socket_io_goes_over_from_polling_to_a_websocket() {
    let server = application(
        Runtime::Node,
        "app.mjs",
        r"
        import { createServer } from 'node:http';
        import { Server } from 'socket.io';
        const server = createServer();
        const io = new Server(server);
        io.on('connection', (socket) => socket.on('hello', (name, reply) => reply(`hello ${name}`)));
        server.listen(3000);
        ",
    )
    .start();
    let client = format!(
        "import {{ io }} from 'socket.io-client';
         const socket = io('http://{}');
         socket.on('connect_error', (error) => {{ console.error(error); process.exit(3); }});
         socket.io.engine.once('upgrade', () => socket.emit('hello', 'Ada', (text) => {{
           console.log(text, socket.io.engine.transport.name);
           process.exit(0);
         }}));",
        server.address()
    );
    let output = Command::new("node")
        .args(["--input-type=module", "-e", &client])
        .current_dir(packages())
        .output()
        .expect("Node can be started");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "hello Ada websocket",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
