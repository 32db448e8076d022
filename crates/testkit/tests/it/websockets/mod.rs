//! WebSockets and event streams of handlers.

mod connections;
mod guide;
mod messages;

use forebay_testkit::{Client, Response, Server, Setup};

use crate::support::Runtime;

pub(crate) const HANDLERS: &str = include_str!("../handlers/websockets.mjs");

pub(crate) const CONTINUE: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// A server with a pool of these handlers.
fn pool(runtime: Runtime, keys: &str) -> Setup {
    runtime.pool(HANDLERS, keys)
}

/// A client of a WebSocket that speaks the protocol by itself, and so can break it.
pub(crate) struct Socket {
    pub(crate) client: Client,
    received: Vec<u8>,
}

/// A frame of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.opcode, TEXT, "{self:?}");
        std::str::from_utf8(&self.payload).expect("text is UTF-8")
    }

    /// The code of a close.
    pub(crate) fn code(&self) -> u16 {
        assert_eq!(self.opcode, CLOSE, "{self:?}");
        let code = self.payload.first_chunk().expect("it has a code");
        u16::from_be_bytes(*code)
    }
}

/// The request for a WebSocket, with further header lines.
pub(crate) fn request(target: &str, lines: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nhost: test\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
}

impl Socket {
    pub(crate) fn open(server: &Server, target: &str) -> Self {
        let (socket, head) = Self::open_with(server, target, "");
        // RFC 6455, 1.3 has the key and this value.
        assert_eq!(
            head.header("sec-websocket-accept"),
            Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        );
        socket
    }

    pub(crate) fn open_with(server: &Server, target: &str, lines: &str) -> (Self, Response) {
        let mut client = server.connect();
        client.send(request(target, lines));
        let head = client.head().expect("a head");
        assert_eq!(head.status, 101, "{head:?}");
        let received = Vec::new();
        (Self { client, received }, head)
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.send_frame(TEXT, true, text.as_bytes());
    }

    pub(crate) fn send_frame(&mut self, opcode: u8, is_final: bool, payload: &[u8]) {
        self.client.send(frame(opcode, is_final, payload));
    }

    pub(crate) fn receive(&mut self) -> Frame {
        loop {
            if let Some((frame, used)) = read_frame(&self.received) {
                self.received.drain(..used);
                return frame;
            }
            let more = self.client.some_bytes();
            assert!(!more.is_empty(), "the connection ends within {:?}", self.received);
            self.received.extend(more);
        }
    }

    /// Waits until the server ends the connection, and has sent nothing more.
    pub(crate) fn ends(&mut self) {
        assert_eq!(self.received, b"");
        self.client.ends();
    }
}

/// A masked frame.
pub(crate) fn frame(opcode: u8, is_final: bool, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![opcode | if is_final { 0x80 } else { 0 }];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0xfe);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0xff);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    frame
}

/// The first frame of these bytes, if it is complete, and its length.
fn read_frame(bytes: &[u8]) -> Option<(Frame, usize)> {
    let [first, second, ..] = *bytes else { return None };
    assert_eq!(first & 0x70, 0, "no reserved bit is set");
    assert_eq!(first & 0x80, 0x80, "the server does not fragment");
    assert_eq!(second & 0x80, 0, "the server does not mask");
    let (length, start) = match second {
        126 => (u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?) as usize, 4),
        127 => (u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?) as usize, 10),
        length => (length as usize, 2),
    };
    let payload = bytes.get(start..start + length)?.to_vec();
    let opcode = first & 0x0f;
    Some((Frame { opcode, payload }, start + length))
}

/// The codes and reasons with which WebSockets of this server's only worker have been closed.
fn closed(server: &Server) -> serde_json::Value {
    server.get("/closed").json()
}
