//! Frames and messages of the WebSocket protocol (RFC 6455, 5 and 7), without I/O: bytes of a client become messages, and messages bytes.

use std::io::Cursor;

use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{CloseCode, Control, Data, OpCode},
};

use super::deflate::{Deflate, decompress};

/// Longest payload of a control frame (RFC 6455, 5.5).
const CONTROL_BYTES_MAX: u64 = 125;
/// Longest reason of a close: a control frame's payload without the code.
const REASON_BYTES_MAX: usize = CONTROL_BYTES_MAX as usize - 2;
/// Shorter messages are not compressed: they would not become shorter.
const COMPRESSED_BYTES_MIN: usize = 256;

/// Why a WebSocket has to be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::target) enum WebSocketError {
    #[error("{0}")]
    Protocol(&'static str),
    #[error("a text message is not UTF-8")]
    NotUtf8,
    #[error("a message has more than {message_bytes_max} bytes (websocket.message_bytes_max)")]
    TooLong { message_bytes_max: usize },
    #[error("more than {messages_per_second_max} messages a second (websocket.messages_per_second_max)")]
    TooMany { messages_per_second_max: u32 },
    #[error("the client takes its messages too slowly: more than {bytes_max} bytes of rooms wait")]
    TooSlow { bytes_max: usize },
    #[error("no memory is left for a message (server.buffers_max)")]
    NoMemory,
    #[error("this WebSocket takes no messages")]
    NoMessages,
}

impl WebSocketError {
    /// The code for the client (RFC 6455, 7.4.1).
    pub(in crate::target) const fn code(&self) -> u16 {
        match self {
            Self::Protocol(_) => 1002,
            Self::NoMessages => 1003,
            Self::NotUtf8 => 1007,
            Self::TooLong { .. } => 1009,
            Self::TooMany { .. } | Self::TooSlow { .. } => 1008,
            Self::NoMemory => 1013,
        }
    }
}

/// A message or control frame of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Message {
        bytes: Vec<u8>,
        is_text: bool,
    },
    Ping(Vec<u8>),
    Pong,
    /// 1005 stands for a close without a code.
    Close {
        code: u16,
        reason: Vec<u8>,
    },
}

/// Reads the frames of a client.
#[derive(Debug)]
pub(super) struct Decoder {
    message_bytes_max: usize,
    deflate: Option<Deflate>,
    /// Bytes that have arrived, the first `taken` of which have been processed.
    input: Vec<u8>,
    taken: usize,
    /// The payload so far of a message in several frames.
    message: Vec<u8>,
    /// The message that further frames continue.
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    is_text: bool,
    is_compressed: bool,
}

impl Decoder {
    /// With 0 as `message_bytes_max`, the client may send no messages.
    pub(super) fn new(message_bytes_max: usize, deflate: Option<Deflate>) -> Self {
        Self {
            message_bytes_max,
            deflate,
            input: Vec::new(),
            taken: 0,
            message: Vec::new(),
            open: None,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Bytes of messages that are not complete.
    pub(super) fn buffered(&self) -> usize {
        self.input.len() - self.taken + self.message.len()
    }

    /// The next event; `None` if more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Event>, WebSocketError> {
        loop {
            let mut cursor = Cursor::new(&self.input[self.taken..]);
            let parsed = FrameHeader::parse(&mut cursor);
            let Some((header, length)) = parsed.map_err(|_| WebSocketError::Protocol("unknown opcode"))?
            else {
                break;
            };
            let start = self.taken + cursor.position() as usize;
            let mask = self.check(&header, length)?;
            let end = start + length as usize;
            if self.input.len() < end {
                break;
            }
            apply_mask(&mut self.input[start..end], mask);
            self.taken = end;
            if let Some(event) = self.take_frame(&header, start..end)? {
                return Ok(Some(event));
            }
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        if self.input.is_empty() {
            // Most connections are idle most of the time.
            self.input = Vec::new();
        }
        Ok(None)
    }

    /// Checks a frame before its payload has arrived, and returns its mask.
    fn check(&self, header: &FrameHeader, length: u64) -> Result<[u8; 4], WebSocketError> {
        if let Some(what) = self.violation(header, length) {
            return Err(WebSocketError::Protocol(what));
        }
        let is_data = matches!(header.opcode, OpCode::Data(_));
        if is_data && length.saturating_add(self.message.len() as u64) > self.message_bytes_max as u64 {
            return Err(self.too_long());
        }
        let unmasked = WebSocketError::Protocol("a frame of the client is not masked");
        header.mask.ok_or(unmasked)
    }

    /// How a frame's header breaks the protocol, if it does (RFC 6455, 5.2, 5.4 and 5.5).
    fn violation(&self, header: &FrameHeader, length: u64) -> Option<&'static str> {
        if header.rsv2 || header.rsv3 {
            return Some("a reserved bit is set");
        }
        match header.opcode {
            OpCode::Control(_) if header.rsv1 => Some("a control frame is compressed"),
            OpCode::Control(_) if !header.is_final => Some("a control frame is fragmented"),
            OpCode::Control(_) if length > CONTROL_BYTES_MAX => {
                Some("a control frame has more than 125 bytes")
            }
            OpCode::Data(Data::Continue) if header.rsv1 => Some("a continuation is compressed"),
            OpCode::Data(Data::Continue) if self.open.is_none() => Some("nothing is to be continued"),
            OpCode::Data(Data::Text | Data::Binary) if self.open.is_some() => {
                Some("a message begins within another")
            }
            OpCode::Data(_) if header.rsv1 && self.deflate.is_none() => {
                Some("a message is compressed, which was not agreed on")
            }
            _ => None,
        }
    }

    fn too_long(&self) -> WebSocketError {
        match self.message_bytes_max {
            0 => WebSocketError::NoMessages,
            message_bytes_max => WebSocketError::TooLong { message_bytes_max },
        }
    }

    fn take_frame(
        &mut self,
        header: &FrameHeader,
        payload: std::ops::Range<usize>,
    ) -> Result<Option<Event>, WebSocketError> {
        let payload = &self.input[payload];
        let open = match header.opcode {
            OpCode::Control(Control::Ping) => return Ok(Some(Event::Ping(payload.to_vec()))),
            OpCode::Control(Control::Pong) => return Ok(Some(Event::Pong)),
            OpCode::Control(_) => return read_close(payload).map(Some),
            OpCode::Data(Data::Continue) => self.open.expect("it was checked that there is one"),
            OpCode::Data(kind) => Open {
                is_text: kind == Data::Text,
                is_compressed: header.rsv1,
            },
        };
        self.message.extend_from_slice(payload);
        if !header.is_final {
            self.open = Some(open);
            return Ok(None);
        }
        self.open = None;
        let mut bytes = std::mem::take(&mut self.message);
        if open.is_compressed {
            let inflated = decompress(&bytes, self.message_bytes_max)?;
            bytes = inflated.ok_or_else(|| self.too_long())?;
        }
        if open.is_text && std::str::from_utf8(&bytes).is_err() {
            return Err(WebSocketError::NotUtf8);
        }
        let is_text = open.is_text;
        Ok(Some(Event::Message { bytes, is_text }))
    }
}

/// Reads all frames of these bytes, which arrive in pieces, for [`crate::fuzzing`]: the lengths of what came, and the code of the error.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_all(bytes: &[u8], piece: usize, message_bytes_max: usize) -> (Vec<usize>, Option<u16>) {
    let deflate = Deflate::accept("permessage-deflate").map(|(deflate, _)| deflate);
    let mut decoder = Decoder::new(message_bytes_max, deflate);
    let mut lengths = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(Event::Message { bytes, .. } | Event::Ping(bytes))) => lengths.push(bytes.len()),
                Ok(Some(Event::Close { code, .. })) => return (lengths, Some(code)),
                Ok(Some(Event::Pong)) => {}
                Ok(None) => break,
                Err(error) => return (lengths, Some(error.code())),
            }
        }
    }
    (lengths, None)
}

fn apply_mask(bytes: &mut [u8], mask: [u8; 4]) {
    let mut words = bytes.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, mask) in word.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

fn read_close(payload: &[u8]) -> Result<Event, WebSocketError> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        if payload.is_empty() {
            let reason = Vec::new();
            return Ok(Event::Close { code: 1005, reason });
        }
        return Err(WebSocketError::Protocol("a close has half a code"));
    };
    let code = u16::from_be_bytes(*code);
    if !CloseCode::from(code).is_allowed() {
        return Err(WebSocketError::Protocol(
            "a close has a code that may not be sent",
        ));
    }
    match std::str::from_utf8(reason) {
        Ok(reason) => Ok(Event::Close {
            code,
            reason: reason.into(),
        }),
        Err(_) => Err(WebSocketError::NotUtf8),
    }
}

/// Appends a message.
pub(super) fn put_message(out: &mut Vec<u8>, bytes: &[u8], is_text: bool, deflate: Option<&Deflate>) {
    let opcode = OpCode::Data(if is_text { Data::Text } else { Data::Binary });
    let deflated = deflate
        .filter(|_| bytes.len() >= COMPRESSED_BYTES_MIN)
        .map(|deflate| deflate.compress(bytes))
        .filter(|deflated| deflated.len() < bytes.len());
    match deflated {
        Some(deflated) => put_frame(out, opcode, true, &deflated),
        None => put_frame(out, opcode, false, bytes),
    }
}

pub(super) fn put_ping(out: &mut Vec<u8>) {
    put_frame(out, OpCode::Control(Control::Ping), false, &[]);
}

pub(super) fn put_pong(out: &mut Vec<u8>, payload: &[u8]) {
    put_frame(out, OpCode::Control(Control::Pong), false, payload);
}

/// Appends a close; 1005 and 1006 stand for one without a code.
pub(super) fn put_close(out: &mut Vec<u8>, code: u16, reason: &[u8]) {
    let mut payload = Vec::new();
    if !matches!(code, 1005 | 1006) {
        payload.extend_from_slice(&code.to_be_bytes());
        let reason = String::from_utf8_lossy(reason);
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        payload.extend_from_slice(&reason.as_bytes()[..end]);
    }
    put_frame(out, OpCode::Control(Control::Close), false, &payload);
}

fn put_frame(out: &mut Vec<u8>, opcode: OpCode, is_compressed: bool, payload: &[u8]) {
    let header = FrameHeader {
        is_final: true,
        rsv1: is_compressed,
        rsv2: false,
        rsv3: false,
        opcode,
        mask: None,
    };
    header
        .format(payload.len() as u64, out)
        .expect("a vector takes all that is written");
    out.extend_from_slice(payload);
}
