//! The payload of CALL and RETURN: PROTOCOL.md section 9.

use crate::{Header, WireError, frame::u32_at, put_frame};

/// Bytes of the number that stands before the body of a CALL or RETURN.
pub const CALL_NUMBER_BYTES: usize = 4;

/// A CALL or a RETURN, borrowed from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallView<'a> {
    /// The call's number, counted by the worker.
    pub number: u32,
    /// The request or its result, or one piece of it.
    pub body: &'a [u8],
}

impl<'a> CallView<'a> {
    /// Reads a payload.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        let Some((number, body)) = payload.split_first_chunk::<CALL_NUMBER_BYTES>() else {
            return Err(WireError::Truncated {
                kind: "CALL",
                needed: CALL_NUMBER_BYTES as u64,
                present: payload.len(),
            });
        };
        Ok(Self {
            number: u32_at(number, 0),
            body,
        })
    }
}

/// Appends a CALL or RETURN frame, or a piece of one.
///
/// # Panics
/// When the body is longer than [`FRAME_PAYLOAD_MAX`](crate::FRAME_PAYLOAD_MAX) less the number: the sender must split it.
pub fn put_call(out: &mut Vec<u8>, header: &Header, number: u32, body: &[u8]) {
    let at = out.len();
    put_frame(out, header, &number.to_le_bytes());
    let length = CALL_NUMBER_BYTES + body.len();
    assert!(
        length <= crate::FRAME_PAYLOAD_MAX as usize,
        "a call's body is split before it is sent"
    );
    out[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(body);
}
