//! Errors in received bytes.

/// Bytes that are not a frame, or a payload that is not what its type says. Each ends the link it came from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A header announces more payload than any frame may have.
    #[error("frame of {length} bytes is too long (frame_payload_max {max})")]
    FrameTooLong {
        /// Bytes the header announces.
        length: u32,
        /// The limit, [`FRAME_PAYLOAD_MAX`](crate::FRAME_PAYLOAD_MAX).
        max: u32,
    },
    /// A slot that is neither one of the claim words nor [`DETACHED_SLOT`](crate::DETACHED_SLOT).
    #[error("slot {slot} does not exist (slots_max {max})")]
    SlotTooHigh {
        /// The slot that the header names.
        slot: u32,
        /// The number of slots, [`SLOTS_MAX`](crate::SLOTS_MAX).
        max: u32,
    },
    /// A payload ends before the parts that its length table announces.
    #[error("payload of type {kind} needs {needed} bytes and has {present}")]
    Truncated {
        /// The frame type's name.
        kind: &'static str,
        /// Bytes the payload must have.
        needed: u64,
        /// Bytes it has.
        present: usize,
    },
    /// A pair block whose lengths do not add up to its own.
    #[error("pair block is cut off at byte {at} of {length}")]
    PairsTruncated {
        /// Where the pair that does not fit starts.
        at: usize,
        /// Length of the block.
        length: usize,
    },
    /// A BODY frame of a response before its RESPONSE.
    #[error("BODY came before RESPONSE")]
    BodyFirst,
    /// More of a response's body than its receiver has granted.
    #[error("BODY of {sent} bytes is more than the window of {window} bytes")]
    WindowExceeded {
        /// Bytes of the frame.
        sent: u64,
        /// Bytes that were still granted.
        window: u64,
    },
    /// Pieces of more calls at a time than a worker may have open.
    #[error("pieces of more than {max} calls at a time")]
    TooManyCalls {
        /// Calls a worker may have open at once.
        max: usize,
    },
    /// A RESPONSE with a file but without END, or whose body is not the file's part.
    #[error("RESPONSE with a file has END and a body of 16 bytes")]
    FilePart,
    /// A descriptor without a RESPONSE that needs it, or a RESPONSE with a file but without its descriptor.
    #[error("each RESPONSE with a file comes with one descriptor, and no other frame does")]
    Descriptor,
    /// A response status outside of 200 to 599.
    #[error("status {status} is outside of 200 to 599")]
    Status {
        /// The status found.
        status: u16,
    },
    /// A status other than 101 on UPGRADE.
    #[error("status {status} of an UPGRADE is not 101")]
    UpgradeStatus {
        /// The status found.
        status: u16,
    },
    /// A CLOSE with a code that an endpoint may not send (RFC 6455, 7.4).
    #[error("close code {code} cannot be sent (1000 to 1003, 1007 to 1014 and 3000 to 4999 can)")]
    CloseCode {
        /// The code found.
        code: u16,
    },
    /// A frame that only means something on an upgraded connection.
    #[error("{kind} came for a job that is no WebSocket")]
    NoWebSocket {
        /// The frame type's name.
        kind: &'static str,
    },
    /// A room's name that is empty or too long.
    #[error("name of a room has {length} bytes (1 to {max} are allowed)")]
    RoomName {
        /// Bytes of the name.
        length: usize,
        /// The most that a name may have.
        max: usize,
    },
    /// A content type shorthand that this version does not know.
    #[error("content type shorthand {code} is unknown (0 to 4 are)")]
    ContentKind {
        /// The code found.
        code: u8,
    },
}
