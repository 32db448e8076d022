//! CURSOR: the position where an answer ended, from which another one continues. The text is self-contained; no state
//! is kept for it.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::walk::{Plan, Walk};
use crate::RecordsError;

/// Longest cursor text, in bytes: a kind, the name of an index, and an index entry.
const TEXT_BYTES_MAX: usize = 2 * (64 + 64 + 1900 + 2);

/// Position given by a CURSOR clause.
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
    /// Parses the output of [`Cursor::text`], or an empty text.
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

    /// The walk that starts at this position.
    pub(super) fn walk(&self, plan: &Plan) -> Result<Walk, RecordsError> {
        match self {
            Self::Begin => Ok(Walk::default()),
            Self::Behind { kind, index, place } => {
                Walk::behind(plan, kind, index, place).ok_or(RecordsError::Cursor)
            }
        }
    }

    /// Encodes a position.
    pub(super) fn text(kind: &str, index: &str, place: &[u8]) -> String {
        HEXLOWER.encode(&[kind.as_bytes(), &[0], index.as_bytes(), &[0], place].concat())
    }
}
