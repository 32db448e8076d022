//! Frame headers: PROTOCOL.md sections 2 and 3.

use crate::WireError;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;

/// Most bytes of payload that one frame may carry.
pub const FRAME_PAYLOAD_MAX: u32 = 1 << 20;

/// Number of slots, and so of jobs that one worker can have at a time.
pub const SLOTS_MAX: u32 = 4096;

/// Stands in the place of a slot for a job that has left its slot; its number alone names it.
pub const DETACHED_SLOT: u32 = SLOTS_MAX;

/// The bits of a header's flags.
pub mod flag {
    /// On REQUEST, BODY, RESPONSE, MESSAGE, CALL and RETURN: the body, or the message, ends with this frame.
    pub const END: u8 = 0x01;
    /// On RESPONSE: the handler threw. On RETURN: the call was not done.
    pub const FAULT: u8 = 0x02;
    /// On RESPONSE: the job leaves its slot, and its body may last.
    pub const DETACHED: u8 = 0x04;
    /// On UPGRADE: the server speaks WebSocket with the client, and the worker sends and receives messages.
    pub const WEBSOCKET: u8 = 0x04;
    /// On MESSAGE and PUBLISH: the message is text, not binary.
    pub const TEXT: u8 = 0x04;
    /// On RESPONSE: the body is a part of a file, whose descriptor comes with the frame.
    pub const FILE: u8 = 0x08;
    /// On REQUEST: the payload ends with a [`Connection`](crate::Connection).
    pub const CONNECTION: u8 = 0x10;
    /// On MESSAGE from a worker host: the message came by way of a room, and uses up no window.
    pub const PUBLISHED: u8 = 0x08;
}

/// The purpose of a frame. Unknown codes are kept because receivers must skip such frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "PROTOCOL.md section 3 is the description of each")]
pub enum FrameType {
    Pad,
    Hello,
    Init,
    Ready,
    Failed,
    Drain,
    Log,
    Profile,
    Profiled,
    Request,
    Body,
    Window,
    Abort,
    Reset,
    Trailers,
    Response,
    Failure,
    Upgrade,
    Message,
    Close,
    Join,
    Leave,
    Publish,
    Call,
    Return,
    Unknown(u8),
}

impl FrameType {
    /// The code that stands in the header.
    pub const fn code(self) -> u8 {
        match self {
            Self::Pad => 0x00,
            Self::Hello => 0x01,
            Self::Init => 0x02,
            Self::Ready => 0x03,
            Self::Failed => 0x04,
            Self::Drain => 0x05,
            Self::Log => 0x06,
            Self::Profile => 0x07,
            Self::Profiled => 0x08,
            Self::Request => 0x10,
            Self::Body => 0x11,
            Self::Window => 0x12,
            Self::Abort => 0x13,
            Self::Reset => 0x14,
            Self::Trailers => 0x15,
            Self::Response => 0x20,
            Self::Failure => 0x21,
            Self::Upgrade => 0x30,
            Self::Message => 0x31,
            Self::Close => 0x32,
            Self::Join => 0x33,
            Self::Leave => 0x34,
            Self::Publish => 0x35,
            Self::Call => 0x40,
            Self::Return => 0x41,
            Self::Unknown(code) => code,
        }
    }

    /// The type for a code; unknown codes are kept.
    pub const fn from_code(code: u8) -> Self {
        match code {
            0x00 => Self::Pad,
            0x01 => Self::Hello,
            0x02 => Self::Init,
            0x03 => Self::Ready,
            0x04 => Self::Failed,
            0x05 => Self::Drain,
            0x06 => Self::Log,
            0x07 => Self::Profile,
            0x08 => Self::Profiled,
            0x10 => Self::Request,
            0x11 => Self::Body,
            0x12 => Self::Window,
            0x13 => Self::Abort,
            0x14 => Self::Reset,
            0x15 => Self::Trailers,
            0x20 => Self::Response,
            0x21 => Self::Failure,
            0x30 => Self::Upgrade,
            0x31 => Self::Message,
            0x32 => Self::Close,
            0x33 => Self::Join,
            0x34 => Self::Leave,
            0x35 => Self::Publish,
            0x40 => Self::Call,
            0x41 => Self::Return,
            other => Self::Unknown(other),
        }
    }
}

/// A frame's header without its length, which follows from the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The frame's type.
    pub kind: FrameType,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The generation of the worker at the other end.
    pub generation: u16,
    /// The job's number on this link; 0 when the frame is about the link.
    pub job: u32,
    /// The job's slot, or [`DETACHED_SLOT`]; 0 when the frame is about the link.
    pub slot: u32,
}

impl Header {
    /// A header of a frame about the link itself.
    pub const fn link(kind: FrameType, generation: u16) -> Self {
        Self {
            kind,
            flags: 0,
            generation,
            job: 0,
            slot: 0,
        }
    }

    /// Whether a bit of [`flag`] is set.
    pub const fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// The header's bytes for a payload of `length` bytes.
    pub fn to_bytes(&self, length: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&length.to_le_bytes());
        bytes[4] = self.kind.code();
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.job.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slot.to_le_bytes());
        bytes
    }
}

/// One whole frame, borrowed from received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Everything before the payload but its length.
    pub header: Header,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

/// The result of [`split_frame`]: a whole frame, or the start of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// A whole frame; `used` bytes belong to it.
    Whole {
        /// The frame, borrowed from the input.
        frame: Frame<'a>,
        /// Bytes of header and payload.
        used: usize,
    },
    /// Only the beginning of a frame.
    Partial {
        /// Total bytes required before another attempt is worthwhile. While the header is incomplete this is only a lower bound.
        needed: usize,
    },
}

/// Takes the first frame off `bytes`.
pub fn split_frame(bytes: &[u8]) -> Result<Split<'_>, WireError> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Split::Partial { needed: HEADER_BYTES });
    };
    let length = u32_at(head, 0);
    if length > FRAME_PAYLOAD_MAX {
        return Err(WireError::FrameTooLong {
            length,
            max: FRAME_PAYLOAD_MAX,
        });
    }
    let header = Header {
        kind: FrameType::from_code(head[4]),
        flags: head[5],
        generation: u16::from_le_bytes([head[6], head[7]]),
        job: u32_at(head, 8),
        slot: u32_at(head, 12),
    };
    if header.slot > DETACHED_SLOT {
        return Err(WireError::SlotTooHigh {
            slot: header.slot,
            max: SLOTS_MAX,
        });
    }
    match rest.get(..length as usize) {
        Some(payload) => Ok(Split::Whole {
            frame: Frame { header, payload },
            used: HEADER_BYTES + length as usize,
        }),
        None => Ok(Split::Partial {
            needed: HEADER_BYTES + length as usize,
        }),
    }
}

/// Appends a frame to `out`.
///
/// # Panics
/// When the payload is longer than [`FRAME_PAYLOAD_MAX`]: the sender must split it.
pub fn put_frame(out: &mut Vec<u8>, header: &Header, payload: &[u8]) {
    assert!(
        payload.len() <= FRAME_PAYLOAD_MAX as usize,
        "a frame's payload is split before it is sent"
    );
    out.extend_from_slice(&header.to_bytes(payload.len() as u32));
    out.extend_from_slice(payload);
}

/// The little-endian u32 at `at`. The caller guarantees that it lies within `bytes`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
