//! Node paths, encoded as bytes that sort in node order.
//!
//! ```text
//! global 00  subscript subscript ...
//! subscript = number | string
//! number    = first byte 25..DA: sign and power of ten; then two decimal digits a byte
//! string    = E0, the UTF-8 bytes with 00 written as 00 FF, then 00
//! ```
//!
//! No encoded subscript is a prefix of another, so a path is a prefix of exactly its descendants, and nothing else
//! sorts between them: the subtree of `key` is everything from `key` up to but excluding `key FF`.
//!
//! **Collation** is that of M: numbers in canonical form first, by value, then all other strings by their bytes. A
//! number is canonical when it is written as M writes it: no sign but `-`, no redundant zeros, no `0` before the
//! decimal point, at most [`DIGITS_MAX`] significant digits, and a magnitude between 1E-43 and 1E47. So `1` and `"1"`
//! are the same subscript, and `"01"`, `"1.0"` and `"0.5"` are strings (`.5` is the number).
//!
//! Two digits a byte with "more follows" as the lowest bit: the layout of `SQLite4`'s key encoding.

use std::{borrow::Cow, cmp::Ordering, fmt};

use smallvec::SmallVec;

/// Longest name of a global, in bytes.
pub const GLOBAL_BYTES_MAX: usize = 64;
/// Longest encoded path, in bytes: what the engine accepts with pages of 4 KiB, minus what secondary keys add.
pub const KEY_BYTES_MAX: usize = 1900;
/// Most subscripts of a path. A node at that depth can only be a scalar, so no document is nested deeper.
pub const SUBSCRIPTS_MAX: usize = 200;
/// Most significant digits of a number that sorts as one.
pub const DIGITS_MAX: usize = 18;

const EXPONENT_MIN: i32 = -42;
const EXPONENT_MAX: i32 = 47;
const ZERO: u8 = 0x80;
const STRING: u8 = 0xE0;
/// Greater than the first byte of every subscript.
pub(crate) const ABOVE_CHILDREN: u8 = 0xFF;

/// Why a path is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// A global without a name.
    #[error("the name of a global is empty")]
    EmptyGlobal,
    /// A global with too long a name.
    #[error("the name of global `{name}` has {} bytes (at most {GLOBAL_BYTES_MAX})", name.len())]
    GlobalTooLong {
        /// The rejected name.
        name: String,
    },
    /// A character that names cannot have.
    #[error("the name of a global cannot contain {found:?}: letters, digits and any of `%._-` are accepted")]
    GlobalCharacter {
        /// The first invalid character.
        found: char,
    },
    /// A path that is too long in encoded form.
    #[error("the path has {bytes} bytes (at most {KEY_BYTES_MAX})")]
    TooLong {
        /// Its encoded length, or the length at which encoding stopped.
        bytes: usize,
    },
    /// Too many subscripts, or a container so deep that its children would have too many.
    #[error("the path has more than {SUBSCRIPTS_MAX} subscripts")]
    TooDeep,
    /// A number that cannot be a subscript.
    #[error("{found} cannot be a subscript")]
    NotANumber {
        /// `NaN` or an infinity.
        found: f64,
    },
}

/// Encoded path of a node: a global and any number of subscripts.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    bytes: SmallVec<[u8; 64]>,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        // The derived `clone` of the vector copies byte by byte.
        Self::from_encoded(&self.bytes)
    }
}

impl Key {
    /// The root of a global. Names are 1 to [`GLOBAL_BYTES_MAX`] bytes of letters (of any script), digits and `%._-`.
    pub fn global(name: &str) -> Result<Self, KeyError> {
        if name.is_empty() {
            return Err(KeyError::EmptyGlobal);
        }
        if name.len() > GLOBAL_BYTES_MAX {
            return Err(KeyError::GlobalTooLong { name: name.into() });
        }
        if let Some(found) = name
            .chars()
            .find(|character| !character.is_alphanumeric() && !"%._-".contains(*character))
        {
            return Err(KeyError::GlobalCharacter { found });
        }
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        Ok(Self { bytes })
    }

    /// Descends to the child with this subscript; the text of a canonical number means the number.
    pub fn push(&mut self, subscript: &str) -> Result<(), KeyError> {
        encode_text(subscript.as_bytes(), &mut self.bytes);
        self.check()
    }

    /// Descends to a numbered child.
    pub fn push_integer(&mut self, subscript: i64) -> Result<(), KeyError> {
        self.push(&subscript.to_string())
    }

    /// Descends to a numbered child; 0.5 is the subscript that M writes `.5`.
    pub fn push_number(&mut self, subscript: f64) -> Result<(), KeyError> {
        self.push(&number_text(subscript)?)
    }

    /// Descends to a child given by its encoded subscript.
    pub fn push_encoded(&mut self, subscript: &Subscript) -> Result<(), KeyError> {
        self.bytes.extend_from_slice(&subscript.bytes);
        self.check()
    }

    /// The path of a child.
    pub fn child(&self, subscript: &str) -> Result<Self, KeyError> {
        let mut key = self.clone();
        key.push(subscript)?;
        Ok(key)
    }

    /// The parent's path; `None` for a global's root.
    pub fn parent(&self) -> Option<Self> {
        let last = self.subscripts().last()?;
        let length = self.bytes.len() - last.len();
        Some(Self {
            bytes: SmallVec::from_slice(&self.bytes[..length]),
        })
    }

    /// Name of the global; of a damaged key, as much as can be read.
    pub fn global_name(&self) -> &str {
        let name = self.bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The subscripts as texts.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.subscripts().map(|subscript| decode(subscript).into_owned())
    }

    /// The encoded path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A path from the bytes of [`Key::as_bytes`].
    pub(crate) fn from_encoded(bytes: &[u8]) -> Self {
        Self {
            bytes: SmallVec::from_slice(bytes),
        }
    }

    /// A path from bytes that may be damaged; `None` if they are not a valid path.
    pub(crate) fn from_stored(bytes: &[u8]) -> Option<Self> {
        let end = memchr::memchr(0, bytes)?;
        let mut key = Self::global(std::str::from_utf8(&bytes[..end]).ok()?).ok()?;
        let subscripts = Subscripts {
            rest: &bytes[end + 1..],
        };
        for subscript in subscripts {
            key.push(&decode(subscript)).ok()?;
        }
        // If encoding the decoded path does not reproduce the bytes, they were not a valid path.
        (key.as_bytes() == bytes).then_some(key)
    }

    /// The encoded subscripts.
    pub(crate) fn subscripts(&self) -> Subscripts<'_> {
        Subscripts {
            rest: &self.bytes[global_length(&self.bytes)..],
        }
    }

    /// Truncates the path to a length that it had before.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// [`Key::push`] of valid UTF-8, without a length check, which is left to [`Key::check`].
    pub(crate) fn push_utf8(&mut self, subscript: &[u8]) {
        encode_text(subscript, &mut self.bytes);
    }

    pub(crate) fn push_bytes(&mut self, subscript: &[u8]) -> Result<(), KeyError> {
        self.bytes.extend_from_slice(subscript);
        self.check()
    }

    pub(crate) fn check(&self) -> Result<(), KeyError> {
        if self.bytes.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong {
                bytes: self.bytes.len(),
            });
        }
        // Every subscript takes at least one byte, so short paths need no counting.
        if self.bytes.len() > SUBSCRIPTS_MAX && self.subscripts().count() > SUBSCRIPTS_MAX {
            return Err(KeyError::TooDeep);
        }
        Ok(())
    }

    /// Whether a container is allowed here: its children must not have too many subscripts.
    pub(crate) fn check_container(&self) -> Result<(), KeyError> {
        if self.bytes.len() > SUBSCRIPTS_MAX && self.subscripts().count() >= SUBSCRIPTS_MAX {
            return Err(KeyError::TooDeep);
        }
        Ok(())
    }
}

impl fmt::Display for Key {
    /// As M writes it: `^Person("data",1)`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "^{}", self.global_name())?;
        for (index, subscript) in self.subscripts().enumerate() {
            out.write_str(if index == 0 { "(" } else { "," })?;
            let text = decode(subscript);
            if subscript[0] == STRING {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            } else {
                out.write_str(&text)?;
            }
        }
        out.write_str(if self.subscripts().next().is_some() {
            ")"
        } else {
            ""
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// An encoded step of a path. Its order is the collation order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscript {
    bytes: SmallVec<[u8; 32]>,
}

impl Subscript {
    /// The subscript of a text.
    pub fn new(text: &str) -> Self {
        Self::from_utf8(text.as_bytes())
    }

    /// The subscript of text that is valid UTF-8.
    pub(crate) fn from_utf8(text: &[u8]) -> Self {
        let mut bytes = SmallVec::new();
        encode_text(text, &mut bytes);
        Self { bytes }
    }

    /// The subscript of a number; an error for `NaN` and infinities.
    pub fn number(value: f64) -> Result<Self, KeyError> {
        Ok(Self::new(&number_text(value)?))
    }

    /// A subscript that sorts as a string even if the text is a number.
    pub(crate) fn string(text: &str) -> Self {
        let mut bytes = SmallVec::new();
        encode_string(text.as_bytes(), &mut bytes);
        Self { bytes }
    }

    /// A subscript that sorts as the JSON number in the text, rounded to its first [`DIGITS_MAX`] digits.
    pub(crate) fn rounded(number: &str) -> Self {
        let mut bytes = SmallVec::new();
        Canonical::round(number, &mut SmallVec::new()).encode(&mut bytes);
        Self { bytes }
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }

    /// The text from which [`Subscript::new`] makes this subscript.
    pub fn text(&self) -> String {
        decode(&self.bytes).into_owned()
    }

    /// Whether it sorts as a number.
    pub fn is_number(&self) -> bool {
        self.bytes[0] != STRING
    }

    /// Bounds that enclose exactly the strings that begin with the prefix. Numbers are not among them.
    pub(crate) fn around_prefix(prefix: &str) -> (Self, Self) {
        let mut least = SmallVec::new();
        encode_string(prefix.as_bytes(), &mut least);
        // Without its terminator the encoding is a prefix of all longer texts.
        least.pop();
        let mut greatest = least.clone();
        greatest.push(ABOVE_CHILDREN);
        (Self { bytes: least }, Self { bytes: greatest })
    }

    pub(crate) fn from_encoded(bytes: &[u8]) -> Self {
        Self {
            bytes: SmallVec::from_slice(bytes),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Subscript {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), out)
    }
}

/// Iterates over encoded subscripts.
#[derive(Clone, Debug)]
pub(crate) struct Subscripts<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for Subscripts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (subscript, rest) = self.rest.split_at(subscript_length(self.rest));
        self.rest = rest;
        Some(subscript)
    }
}

/// Collation order of two subscripts given as texts.
pub(crate) fn collate(left: &str, right: &str) -> Ordering {
    let numeric = |text: &str| matches!(text.as_bytes().first(), Some(b'0'..=b'9' | b'-' | b'.'));
    if numeric(left) || numeric(right) {
        Subscript::new(left).cmp(&Subscript::new(right))
    } else {
        left.cmp(right)
    }
}

/// Length in bytes of the global's name and its terminator; of a damaged key, its whole length.
pub(crate) fn global_length(key: &[u8]) -> usize {
    memchr::memchr(0, key).map_or(key.len(), |end| end + 1)
}

/// Whether one path equals the other or is below it.
pub(crate) fn within(key: &[u8], root: &[u8]) -> bool {
    key.len() >= root.len() && key.starts_with(root) && key.get(root.len()) != Some(&ABOVE_CHILDREN)
}

/// Length in bytes of the first subscript of an encoded path: at least one, and for a damaged path everything that is
/// left.
pub(crate) fn subscript_length(bytes: &[u8]) -> usize {
    match bytes[0] {
        STRING => {
            let mut at = 1;
            loop {
                let Some(end) = memchr::memchr(0, &bytes[at..]) else {
                    return bytes.len();
                };
                at += end + 1;
                if bytes.get(at) != Some(&ABOVE_CHILDREN) {
                    return at;
                }
                at += 1;
            }
        }
        ZERO => 1,
        first => {
            let flip = if first < ZERO { 0xFF } else { 0 };
            let more = |byte: &u8| (byte ^ flip) & 1 == 1;
            let last = bytes[1..].iter().position(|byte| !more(byte));
            last.map_or(bytes.len(), |last| last + 2)
        }
    }
}

fn encode_text<const N: usize>(bytes: &[u8], out: &mut SmallVec<[u8; N]>) {
    if matches!(bytes.first(), Some(b'0'..=b'9' | b'-' | b'.'))
        && let Some(number) = Canonical::read(bytes)
    {
        number.encode(out);
        return;
    }
    encode_string(bytes, out);
}

fn encode_string<const N: usize>(bytes: &[u8], out: &mut SmallVec<[u8; N]>) {
    out.reserve(bytes.len() + 2);
    out.push(STRING);
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[0, ABOVE_CHILDREN]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(0);
}

/// Text of an encoded subscript; of a damaged one, as much as can be read.
pub(crate) fn decode(subscript: &[u8]) -> Cow<'_, str> {
    match subscript[0] {
        STRING => {
            let content = subscript[1..].strip_suffix(&[0]).unwrap_or(&subscript[1..]);
            if memchr::memchr(0, content).is_none() {
                return String::from_utf8_lossy(content);
            }
            let mut bytes = Vec::with_capacity(content.len());
            let mut rest = content;
            while let Some(at) = memchr::memchr(0, rest) {
                bytes.extend_from_slice(&rest[..=at]);
                rest = rest.get(at + 2..).unwrap_or_default();
            }
            bytes.extend_from_slice(rest);
            Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
        }
        ZERO => "0".into(),
        first => {
            let (negative, flip) = (first < ZERO, if first < ZERO { 0xFF } else { 0 });
            let exponent = if negative {
                i32::from(ZERO - 1 - first) + EXPONENT_MIN
            } else {
                i32::from(first - ZERO - 1) + EXPONENT_MIN
            };
            let mut digits = SmallVec::<[u8; DIGITS_MAX + 2]>::new();
            for byte in &subscript[1..] {
                let pair = (byte ^ flip) >> 1;
                digits.extend_from_slice(&[b'0' + pair / 10, b'0' + pair % 10]);
            }
            if digits.last() == Some(&b'0') {
                digits.pop();
            }
            let mut text = String::with_capacity(24);
            if negative {
                text.push('-');
            }
            let whole = usize::try_from(exponent).unwrap_or(0);
            text.push_str(ascii(&digits[..whole.min(digits.len())]));
            text.extend(std::iter::repeat_n('0', whole.saturating_sub(digits.len())));
            if digits.len() > whole {
                text.push('.');
                text.extend(std::iter::repeat_n('0', usize::try_from(-exponent).unwrap_or(0)));
                text.push_str(ascii(&digits[whole..]));
            }
            text.into()
        }
    }
}

/// A number in canonical form: `0.digits` times ten to the power of `exponent`.
struct Canonical<'a> {
    negative: bool,
    exponent: i32,
    /// The significant digits, before and after the decimal point; empty for zero.
    before: &'a [u8],
    after: &'a [u8],
}

impl<'a> Canonical<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        if text == b"0" {
            return Some(Self {
                negative: false,
                exponent: 0,
                before: &[],
                after: &[],
            });
        }
        let (negative, digits) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (mut before, point) = digits.split_at(whole);
        let mut after: &[u8] = &[];
        if before.first() == Some(&b'0') {
            return None;
        }
        if let Some((mark, fraction)) = point.split_first() {
            let plain = *mark == b'.' && fraction.iter().all(u8::is_ascii_digit);
            if !plain || fraction.last().is_none_or(|last| *last == b'0') {
                return None;
            }
            after = fraction;
        } else if before.is_empty() {
            return None;
        }
        let exponent;
        if before.is_empty() {
            let zeros = after.iter().take_while(|byte| **byte == b'0').count();
            after = &after[zeros..];
            exponent = -i32::try_from(zeros).ok()?;
        } else {
            exponent = i32::try_from(before.len()).ok()?;
            if after.is_empty() {
                let zeros = before.iter().rev().take_while(|byte| **byte == b'0').count();
                before = &before[..before.len() - zeros];
            }
        }
        let fits =
            (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) && before.len() + after.len() <= DIGITS_MAX;
        fits.then_some(Self {
            negative,
            exponent,
            before,
            after,
        })
    }

    /// Rounds a JSON number towards zero to a canonical number; magnitudes outside the range become the largest number
    /// or zero. The digits are stored in `digits`.
    fn round(number: &str, digits: &'a mut SmallVec<[u8; 32]>) -> Self {
        let (negative, rest) = number
            .strip_prefix('-')
            .map_or((false, number), |rest| (true, rest));
        let (number, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // An exponent that overflows is out of range in any case.
        let power = power.parse::<i64>().unwrap_or(if power.starts_with('-') {
            i64::MIN / 2
        } else {
            i64::MAX / 2
        });
        let all = whole.bytes().chain(fraction.bytes());
        let zeros = all.clone().take_while(|digit| *digit == b'0').count();
        digits.extend(all.skip(zeros).take(DIGITS_MAX));
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        let length = |count: usize| i64::try_from(count).unwrap_or(i64::MAX / 2);
        let mut exponent = length(whole.len()) - length(zeros) + power;
        if exponent > i64::from(EXPONENT_MAX) && !digits.is_empty() {
            exponent = i64::from(EXPONENT_MAX);
            digits.clear();
            digits.extend([b'9'; DIGITS_MAX]);
        }
        if exponent < i64::from(EXPONENT_MIN) {
            digits.clear();
        }
        Self {
            negative,
            exponent: i32::try_from(exponent).unwrap_or(0),
            before: digits,
            after: &[],
        }
    }

    fn encode<const N: usize>(&self, out: &mut SmallVec<[u8; N]>) {
        let count = self.before.len() + self.after.len();
        if count == 0 {
            out.push(ZERO);
            return;
        }
        let power = u8::try_from(self.exponent - EXPONENT_MIN).expect("exponents were checked");
        out.push(if self.negative {
            ZERO - 1 - power
        } else {
            ZERO + 1 + power
        });
        let flip = if self.negative { 0xFF } else { 0 };
        let mut digits = self.before.iter().chain(self.after);
        let mut left = count;
        while let Some(tens) = digits.next() {
            let ones = digits.next().map_or(0, |digit| digit - b'0');
            left = left.saturating_sub(2);
            let pair = (tens - b'0') * 10 + ones;
            out.push((pair * 2 + u8::from(left > 0)) ^ flip);
        }
    }
}

/// Writes a double as M does: no exponent, no `0` before the decimal point.
fn number_text(value: f64) -> Result<String, KeyError> {
    if !value.is_finite() {
        return Err(KeyError::NotANumber { found: value });
    }
    if value == 0.0 {
        return Ok("0".into());
    }
    // The shortest text that reads back as the same double, without an exponent.
    let text = format!("{value}");
    Ok(match text.strip_prefix("-0.") {
        Some(fraction) => format!("-.{fraction}"),
        None => text.strip_prefix('0').map_or(text.clone(), Into::into),
    })
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("digits are text")
}

#[cfg(test)]
mod tests;
