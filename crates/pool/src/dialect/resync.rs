//! Finds frames in standard output, where the program may print other text between them (PROTOCOL.md, section 1).

use bytes::{Buf, Bytes, BytesMut};
use forebay_wire::{
    DETACHED_SLOT, FRAME_PAYLOAD_MAX, FrameType, HEADER_BYTES, Header, Split, flag, split_frame,
};

/// Maximum length of a line before it is passed on in parts.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// A frame or a line.
#[derive(Debug)]
pub(crate) enum Piece {
    Frame(Header, Bytes),
    /// A line of plain output.
    Printed(String),
}

/// Separates frames from text: a header counts only if it is one that the worker may send.
#[derive(Debug)]
pub(crate) struct Resync {
    generation: u16,
    /// Number of bytes at the front that are not a frame.
    text: usize,
}

impl Resync {
    pub(crate) fn new(generation: u16) -> Self {
        Self { generation, text: 0 }
    }

    /// Consumes the next frame or line from the front of `bytes`. `None` if more input is needed.
    pub(crate) fn next(&mut self, bytes: &mut BytesMut) -> Option<Piece> {
        loop {
            let rest = &bytes[self.text..];
            if rest.len() < HEADER_BYTES {
                return None;
            }
            if !self.believes(rest) {
                let ends = rest[0] == b'\n';
                self.text += 1;
                if (ends || self.text == TEXT_BYTES_MAX)
                    && let Some(line) = take_line(bytes, std::mem::take(&mut self.text))
                {
                    return Some(Piece::Printed(line));
                }
                continue;
            }
            if self.text > 0 {
                if let Some(line) = take_line(bytes, std::mem::take(&mut self.text)) {
                    return Some(Piece::Printed(line));
                }
                continue;
            }
            let Ok(Split::Whole { frame, used }) = split_frame(bytes) else {
                return None;
            };
            let header = frame.header;
            let mut payload = bytes.split_to(used);
            payload.advance(HEADER_BYTES);
            if bytes.is_empty() {
                *bytes = BytesMut::new();
            }
            return Some(Piece::Frame(header, payload.freeze()));
        }
    }

    /// Ends the input: returns the next line of what is left.
    pub(crate) fn end(&mut self, bytes: &mut BytesMut) -> Option<String> {
        self.text = 0;
        while !bytes.is_empty() {
            let end = bytes.iter().take(TEXT_BYTES_MAX).position(|&byte| byte == b'\n');
            let length = end.map_or(bytes.len().min(TEXT_BYTES_MAX), |end| end + 1);
            if let Some(line) = take_line(bytes, length) {
                return Some(line);
            }
        }
        None
    }

    fn believes(&self, bytes: &[u8]) -> bool {
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (job, slot) = (word(8), word(12));
        let about_link = job == 0 && slot == 0;
        let fits = match FrameType::from_code(bytes[4]) {
            FrameType::Hello | FrameType::Failed | FrameType::Profiled => about_link && length > 1,
            FrameType::Ready => about_link,
            FrameType::Log => length > 1,
            FrameType::Window => job > 0 && length == 4,
            FrameType::Reset => job > 0 && length == 0,
            FrameType::Body | FrameType::Trailers | FrameType::Message => job > 0,
            FrameType::Call => length as usize >= forebay_wire::CALL_NUMBER_BYTES && (job > 0 || about_link),
            FrameType::Response | FrameType::Upgrade => {
                job > 0 && length as usize >= forebay_wire::RESPONSE_TABLE_BYTES
            }
            FrameType::Close => job > 0 && length >= 2,
            FrameType::Join | FrameType::Leave => job > 0 && length > 0,
            FrameType::Publish => length > 4 && (job > 0 || about_link),
            FrameType::Pad
            | FrameType::Init
            | FrameType::Drain
            | FrameType::Profile
            | FrameType::Request
            | FrameType::Failure
            | FrameType::Abort
            | FrameType::Return
            | FrameType::Unknown(_) => false,
        };
        fits && length <= FRAME_PAYLOAD_MAX
            && u16::from_le_bytes([bytes[6], bytes[7]]) == self.generation
            && bytes[5] & !(flag::END | flag::FAULT | flag::DETACHED) == 0
            && slot <= DETACHED_SLOT
    }
}

/// Consumes this many bytes as text. `None` if it is blank.
fn take_line(bytes: &mut BytesMut, length: usize) -> Option<String> {
    let line = bytes.split_to(length);
    let line = line.trim_ascii();
    (!line.is_empty()).then(|| String::from_utf8_lossy(line).into_owned())
}
