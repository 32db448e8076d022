//! The bytes of answers, right ones and wrong ones.

use std::io::Write as _;

use super::{
    path::{Action, Fault},
    request::Asked,
};

/// Longest body that is put out in one piece; longer ones are made as the connection takes them.
pub(super) const PIECE_BYTES: usize = 32 * 1024;
/// What `/` says.
const HELLO: &[u8] = b"Hello, World!";
/// Bytes of the answers that are cut off or slow.
const FAULTY_BODY_BYTES: usize = 256;
/// Longer than any reader should read.
const OVERLONG_HEAD_BYTES: usize = 256 * 1024;
/// What bodies of a given length are made of: lines, so that they can be looked at.
const LINE: &[u8; 64] = b"The quick brown fox jumps over the lazy dog, 0123456789 times.\r\n";
const TEXT: &str = "text/plain";
const BINARY: &str = "application/octet-stream";

/// The whole answer to a request where it is always the same and not long.
pub(super) fn fixed(asked: &Asked) -> Option<Box<[u8]>> {
    let mut out = Vec::new();
    match &asked.action {
        Action::Hello
        | Action::Delay(_)
        | Action::DelayBy(_)
        | Action::Stall { .. }
        | Action::Close { .. } => {
            hello(&mut out, asked);
        }
        Action::Bytes(bytes) if *bytes <= PIECE_BYTES as u64 => {
            head(&mut out, asked, 200, BINARY, Length::Known(*bytes));
            body(&mut out, asked, |out| lines(out, *bytes as usize));
        }
        Action::Status(status) => text(&mut out, asked, *status, ""),
        Action::Refused { status, text: reason } => text(&mut out, asked, *status, &format!("{reason}\n")),
        // The small answer, for the requests that are spared.
        Action::Fault { .. } => hello(&mut out, asked),
        Action::Bytes(_) | Action::Chunked(_) | Action::Echo | Action::Stats | Action::Reset => return None,
    }
    Some(out.into())
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Known(u64),
    Chunked,
    /// By the end of the connection: HTTP/1.0 knows no chunks.
    UntilClose,
}

/// Puts out the head of an answer.
pub(super) fn head(out: &mut Vec<u8>, asked: &Asked, status: u16, kind: &str, length: Length) {
    let reason = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason());
    put(
        out,
        format_args!(
            "HTTP/1.1 {status} {}\r\nserver: forebay-load\r\n",
            reason.unwrap_or("Status")
        ),
    );
    if !matches!(status, 204 | 304) {
        put(out, format_args!("content-type: {kind}\r\n"));
        match length {
            Length::Known(bytes) => put(out, format_args!("content-length: {bytes}\r\n")),
            Length::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Length::UntilClose => {}
        }
    }
    if asked.old && asked.keep_alive {
        out.extend_from_slice(b"connection: keep-alive\r\n");
    } else if !asked.keep_alive && !matches!(asked.action, Action::Close { announced: false }) {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn body(out: &mut Vec<u8>, asked: &Asked, fill: impl FnOnce(&mut Vec<u8>)) {
    if !asked.head_only {
        fill(out);
    }
}

fn hello(out: &mut Vec<u8>, asked: &Asked) {
    head(out, asked, 200, TEXT, Length::Known(HELLO.len() as u64));
    body(out, asked, |out| out.extend_from_slice(HELLO));
}

/// An answer of a few words.
pub(super) fn text(out: &mut Vec<u8>, asked: &Asked, status: u16, text: &str) {
    head(out, asked, status, TEXT, Length::Known(text.len() as u64));
    if !matches!(status, 204 | 304) {
        body(out, asked, |out| out.extend_from_slice(text.as_bytes()));
    }
}

/// An answer that is JSON.
pub(super) fn json(out: &mut Vec<u8>, asked: &Asked, value: &serde_json::Value) {
    let text = format!("{value:#}\n");
    head(
        out,
        asked,
        200,
        "application/json",
        Length::Known(text.len() as u64),
    );
    body(out, asked, |out| out.extend_from_slice(text.as_bytes()));
}

/// The body of a request, back.
pub(super) fn echo(out: &mut Vec<u8>, asked: &Asked, bytes: &[u8]) {
    head(out, asked, 200, BINARY, Length::Known(bytes.len() as u64));
    body(out, asked, |out| out.extend_from_slice(bytes));
}

/// What is said about something that is no request, before the connection is closed.
pub(super) fn refusal(out: &mut Vec<u8>, reason: &str) {
    let length = reason.len() + 1;
    put(
        out,
        format_args!(
            "HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{reason}\n"
        ),
    );
}

/// So many bytes of a long body.
pub(super) fn lines(out: &mut Vec<u8>, mut bytes: usize) {
    while bytes > 0 {
        let part = bytes.min(LINE.len());
        out.extend_from_slice(&LINE[..part]);
        bytes -= part;
    }
}

/// So many bytes as one chunk.
pub(super) fn chunk(out: &mut Vec<u8>, bytes: usize) {
    put(out, format_args!("{bytes:x}\r\n"));
    lines(out, bytes);
    out.extend_from_slice(b"\r\n");
}

/// What a faulty server puts out; nothing where it says nothing.
pub(super) fn faulty(out: &mut Vec<u8>, asked: &Asked, fault: Fault) {
    match fault {
        Fault::Reset | Fault::Silent | Fault::Never => {}
        Fault::Truncate => {
            head(out, asked, 200, BINARY, Length::Known(FAULTY_BODY_BYTES as u64));
            lines(out, FAULTY_BODY_BYTES / 2);
        }
        Fault::HalfHead => out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-len"),
        Fault::Garbage => out.extend_from_slice(b"\x16\x03\x01 this is \0 no answer at all\r\n\r\n"),
        Fault::Slow { .. } => {
            head(out, asked, 200, BINARY, Length::Known(FAULTY_BODY_BYTES as u64));
            body(out, asked, |out| lines(out, FAULTY_BODY_BYTES));
        }
        Fault::TwoLengths => {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\ncontent-length: 14\r\n\r\n");
            out.extend_from_slice(HELLO);
        }
        Fault::OverlongHead => {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\nx: ");
            out.resize(out.len() + OVERLONG_HEAD_BYTES, b'y');
        }
        Fault::BadChunk => {
            out.extend_from_slice(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nfive\r\n",
            );
        }
        Fault::Unsolicited => {
            hello(out, asked);
            hello(out, asked);
        }
        Fault::Interim => {
            out.extend_from_slice(
                b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
            );
            hello(out, asked);
        }
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes all that memory holds");
}
