//! CURSOR: where an answer has ended, so that another one goes on behind it. The text holds all there is to know; nothing is kept for it.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::walk::{Plan, Walk};
use crate::RecordsError;

/// Longest text of a cursor, in bytes: a kind, the name of an index, and an entry of it.
const TEXT_BYTES_MAX: usize = 2 * (64 + 64 + 1900 + 2);

/// What CURSOR says.
#[derive(Debug)]
pub(crate) enum Cursor {
    Begin,
    Behind {
        kind: String,
        index: String,
        place: Vec<u8>,
    },
}

impl Cursor {
    /// Reads what [`Cursor::text`] has written, or nothing.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Begin);
        }
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        let mut parts = bytes.splitn(3, |byte| *byte == 0);
        let mut name = || String::from_utf8(parts.next()?.to_vec()).ok();
        Some(Self::Behind {
            kind: name()?,
            index: name()?,
            place: parts.next()?.to_vec(),
        })
    }

    /// The walk that begins there.
    pub(super) fn walk(&self, plan: &Plan) -> Result<Walk, RecordsError> {
        match self {
            Self::Begin => Ok(Walk::default()),
            Self::Behind { kind, index, place } => {
                Walk::behind(plan, kind, index, place).ok_or(RecordsError::Cursor)
            }
        }
    }

    /// The text of a place.
    pub(super) fn text(kind: &str, index: &str, place: &[u8]) -> String {
        HEXLOWER.encode(&[kind.as_bytes(), &[0], index.as_bytes(), &[0], place].concat())
    }
}
