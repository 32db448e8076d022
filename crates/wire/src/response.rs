//! The payload of RESPONSE: PROTOCOL.md section 5.

use crate::{WireError, frame::u32_at};

/// Bytes of the fixed part in front of a RESPONSE's parts.
pub const RESPONSE_TABLE_BYTES: usize = 12;

/// Shorthand codes for the most common content types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(
    missing_docs,
    reason = "each is named after its media type, given by media_type"
)]
pub enum ContentKind {
    Unset = 0,
    Json = 1,
    Text = 2,
    Bytes = 3,
    Html = 4,
}

impl ContentKind {
    /// The corresponding `content-type` value; `None` for [`ContentKind::Unset`].
    pub const fn media_type(self) -> Option<&'static str> {
        match self {
            Self::Unset => None,
            Self::Json => Some("application/json"),
            Self::Text => Some("text/plain; charset=utf-8"),
            Self::Bytes => Some("application/octet-stream"),
            Self::Html => Some("text/html; charset=utf-8"),
        }
    }

    /// The content type for a code.
    pub const fn from_code(code: u8) -> Result<Self, WireError> {
        match code {
            0 => Ok(Self::Unset),
            1 => Ok(Self::Json),
            2 => Ok(Self::Text),
            3 => Ok(Self::Bytes),
            4 => Ok(Self::Html),
            code => Err(WireError::ContentKind { code }),
        }
    }
}

/// The fixed part of a RESPONSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// HTTP status: 200 to 599, or 101 on UPGRADE.
    pub status: u16,
    /// The content type, unless the headers give it.
    pub content: ContentKind,
    /// Microseconds the handler ran.
    pub run_us: u32,
}

impl ResponseHead {
    /// Appends a payload to `out`; `headers` is a pair block.
    pub fn put(&self, out: &mut Vec<u8>, headers: &[u8], body: &[u8]) {
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&[self.content as u8, 0]);
        out.extend_from_slice(&self.run_us.to_le_bytes());
        out.extend_from_slice(&(headers.len() as u32).to_le_bytes());
        out.extend_from_slice(headers);
        out.extend_from_slice(body);
    }
}

/// Sets the handler's run time in a payload made by [`ResponseHead::put`].
pub fn set_run_us(payload: &mut [u8], run: std::time::Duration) {
    let run_us = u32::try_from(run.as_micros()).unwrap_or(u32::MAX);
    payload[4..8].copy_from_slice(&run_us.to_le_bytes());
}

/// A decoded RESPONSE payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseView<'a> {
    /// Status, content type and run time.
    pub head: ResponseHead,
    /// A pair block, read by [`Pairs`](crate::Pairs).
    pub headers: &'a [u8],
    /// The body's first bytes.
    pub body: &'a [u8],
}

impl<'a> ResponseView<'a> {
    /// Reads the payload of a RESPONSE.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::decode_any(payload)?;
        match view.head.status {
            200..=599 => Ok(view),
            status => Err(WireError::Status { status }),
        }
    }

    /// Reads the payload of an UPGRADE, whose status is 101.
    pub fn decode_upgrade(payload: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::decode_any(payload)?;
        match view.head.status {
            101 => Ok(view),
            status => Err(WireError::UpgradeStatus { status }),
        }
    }

    fn decode_any(payload: &'a [u8]) -> Result<Self, WireError> {
        let truncated = |needed: u64| WireError::Truncated {
            kind: "RESPONSE",
            needed,
            present: payload.len(),
        };
        let Some((table, rest)) = payload.split_at_checked(RESPONSE_TABLE_BYTES) else {
            return Err(truncated(RESPONSE_TABLE_BYTES as u64));
        };
        let status = u16::from_le_bytes([table[0], table[1]]);
        let content = ContentKind::from_code(table[2])?;
        let length = u32_at(table, 8);
        let Some((headers, body)) = rest.split_at_checked(length as usize) else {
            return Err(truncated(RESPONSE_TABLE_BYTES as u64 + u64::from(length)));
        };
        Ok(Self {
            head: ResponseHead {
                status,
                content,
                run_us: u32_at(table, 4),
            },
            headers,
            body,
        })
    }
}
