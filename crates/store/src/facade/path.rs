//! Encoding of paths passed from other languages: concatenated parts, the first of them the global's name.
//!
//! ```text
//! part = length 2 | UTF-8 bytes          a text, of at most FFFD bytes
//!      | FFFE     | integer 4, signed    a number
//!      | FFFF     | double 8             a number
//! ```
//!
//! All numbers are little-endian.

use crate::key::{Key, KeyError, Subscript};

use super::SessionError;

const INTEGER: u16 = 0xFFFE;
const DOUBLE: u16 = 0xFFFF;

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'a> {
    /// Validated UTF-8.
    Text(&'a [u8]),
    Integer(i32),
    Double(f64),
}

/// Decodes paths. Remembers the last one, because most paths share a prefix with the one before.
#[derive(Debug)]
pub(super) struct Paths {
    path: Vec<u8>,
    key: Key,
    /// Ends of each part, in the path and in the key.
    ends: Vec<(usize, usize)>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            path: Vec::new(),
            key: Key::from_encoded(&[]),
            ends: Vec::new(),
        }
    }
}

impl Paths {
    /// The node's key.
    pub(super) fn key(&mut self, path: &[u8]) -> Result<Key, SessionError> {
        let mut known = (0, 0);
        let mut parts = 0;
        for end in &self.ends {
            if path.get(known.0..end.0) != Some(&self.path[known.0..end.0]) {
                break;
            }
            known = *end;
            parts += 1;
        }
        self.ends.truncate(parts);
        self.key.truncate(known.1);
        self.path.truncate(known.0);
        let mut rest = &path[known.0..];
        self.path.extend_from_slice(rest);
        if parts == 0 {
            let (name, after) = first_text(rest)?;
            self.key = Key::global(name)?;
            rest = after;
            self.ends.push((path.len() - rest.len(), self.key.len()));
        }
        while !rest.is_empty() {
            let (found, after) = part(rest)?;
            match found {
                Part::Text(text) => self.key.push_utf8(text),
                Part::Integer(number) => with_digits(number, |digits| self.key.push_utf8(digits)),
                Part::Double(number) => self.key.push_number(number)?,
            }
            rest = after;
            self.ends.push((path.len() - rest.len(), self.key.len()));
        }
        self.key.check()?;
        Ok(self.key.clone())
    }
}

/// Decodes a single subscript; `None` for no bytes.
pub(super) fn subscript(bytes: &[u8]) -> Result<Option<Subscript>, SessionError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(match part(bytes)?.0 {
        Part::Text(text) => Subscript::from_utf8(text),
        Part::Integer(number) => with_digits(number, Subscript::from_utf8),
        Part::Double(number) => Subscript::number(number).map_err(crate::StoreError::from)?,
    }))
}

/// Decodes a single part that must be text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, SessionError> {
    Ok(first_text(bytes)?.0)
}

/// Splits off the first part, which must be text.
pub(super) fn first_text(bytes: &[u8]) -> Result<(&str, &[u8]), SessionError> {
    match part(bytes)? {
        (Part::Text(text), rest) => Ok((utf8(text)?, rest)),
        (Part::Integer(_) | Part::Double(_), _) => Err(SessionError::Malformed),
    }
}

/// Splits off the first part.
fn part(bytes: &[u8]) -> Result<(Part<'_>, &[u8]), SessionError> {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else {
        return Err(SessionError::Malformed);
    };
    let length = u16::from_le_bytes(*length);
    if length < INTEGER {
        let Some((text, rest)) = rest.split_at_checked(length.into()) else {
            return Err(SessionError::Malformed);
        };
        if !text.is_ascii() {
            utf8(text)?;
        }
        return Ok((Part::Text(text), rest));
    }
    if length == INTEGER
        && let Some((number, rest)) = rest.split_first_chunk::<4>()
    {
        return Ok((Part::Integer(i32::from_le_bytes(*number)), rest));
    }
    if length == DOUBLE
        && let Some((number, rest)) = rest.split_first_chunk::<8>()
    {
        return Ok((Part::Double(f64::from_le_bytes(*number)), rest));
    }
    Err(SessionError::Malformed)
}

fn utf8(text: &[u8]) -> Result<&str, SessionError> {
    std::str::from_utf8(text).map_err(|_| SessionError::NotText)
}

/// Passes the number's decimal digits to `take`, without allocating.
fn with_digits<T>(number: i32, take: impl FnOnce(&[u8]) -> T) -> T {
    let mut digits = [0; 11];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    take(&digits[at..])
}

impl From<KeyError> for SessionError {
    fn from(error: KeyError) -> Self {
        Self::Store(error.into())
    }
}
