//! A request's path, split into segments and validated once, so that no code behind the router meets a broken encoding.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

/// A validated path: each segment decodes to UTF-8 without NUL and is neither `.` nor `..`.
pub(super) struct CheckedPath<'p> {
    text: &'p str,
    segments: SmallVec<[Range<u32>; 12]>,
    encoded: bool,
}

impl<'p> CheckedPath<'p> {
    /// `None` if the path must be refused.
    pub(super) fn new(text: &'p str) -> Option<Self> {
        if !text.starts_with('/') || text.len() > u32::MAX as usize {
            return None;
        }
        let (segments, encoded) = cut(text);
        let path = Self {
            text,
            segments,
            encoded,
        };
        let sound = (0..path.len()).all(|at| path.is_sound(at));
        sound.then_some(path)
    }

    /// Number of segments; at least one.
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether the decoded segment equals `text`.
    pub(super) fn segment_is(&self, at: usize, text: &str) -> bool {
        let raw = self.raw(at);
        raw == text || (self.encoded && decode(raw).is_some_and(|decoded| decoded == text))
    }

    /// The decoded segment; borrowed if nothing is encoded.
    pub(super) fn segment(&self, at: usize) -> Cow<'p, str> {
        self.decoded(self.raw(at))
    }

    /// The rest of the path from this segment on, as received.
    pub(super) fn raw_from(&self, at: usize) -> &'p str {
        &self.text[self.segments[at].start as usize..]
    }

    /// The rest of the path from this segment on, decoded.
    pub(super) fn from(&self, at: usize) -> Cow<'p, str> {
        self.decoded(self.raw_from(at))
    }

    /// Whether the segment has no bytes.
    pub(super) fn is_empty(&self, at: usize) -> bool {
        self.segments[at].is_empty()
    }

    fn raw(&self, at: usize) -> &'p str {
        let Range { start, end } = self.segments[at];
        &self.text[start as usize..end as usize]
    }

    fn decoded(&self, raw: &'p str) -> Cow<'p, str> {
        if !self.encoded {
            return Cow::Borrowed(raw);
        }
        decode(raw).expect("every segment was decoded once when the path was checked")
    }

    fn is_sound(&self, at: usize) -> bool {
        let raw = self.raw(at);
        if !self.encoded {
            return !is_dots(raw);
        }
        decode(raw).is_some_and(|decoded| !is_dots(&decoded) && !decoded.contains('\0'))
    }
}

/// The segments, and whether any byte needs further checks. A single byte loop, because most paths are too short to pay for setting up a
/// vectorised search.
fn cut(text: &str) -> (SmallVec<[Range<u32>; 12]>, bool) {
    let mut segments = SmallVec::new();
    let mut encoded = false;
    let mut start = 1;
    for (at, byte) in (1_u32..).zip(&text.as_bytes()[1..]) {
        match byte {
            b'/' => {
                segments.push(start..at);
                start = at + 1;
            }
            b'%' | 0 => encoded = true,
            _ => {}
        }
    }
    segments.push(start..text.len() as u32);
    (segments, encoded)
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Percent-decodes (RFC 3986, 2.1). `None` if a `%` lacks two hexadecimal digits or the result is not UTF-8.
pub fn decode(raw: &str) -> Option<Cow<'_, str>> {
    let Some(first) = memchr::memchr(b'%', raw.as_bytes()) else {
        return Some(Cow::Borrowed(raw));
    };
    let mut bytes = raw.as_bytes()[..first].to_vec();
    let mut rest = &raw.as_bytes()[first..];
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let [high, low, ..] = *after else { return None };
            bytes.push((hex(high)? << 4) | hex(low)?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Percent-encodes everything but unreserved characters (RFC 3986, 2.3).
pub fn put_encoded(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            put_byte(byte, out);
        }
    }
}

/// Percent-encodes a byte (RFC 3986, 2.1).
pub(super) fn put_byte(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digits = [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
    out.extend(['%', digits[0], digits[1]]);
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
