//! Paths of nodes, as bytes that sort as the nodes do.
//!
//! ```text
//! global 00  subscript subscript ...
//! subscript = number | string
//! number    = first byte 25..DA: sign and power of ten; then two decimal digits a byte
//! string    = E0, the UTF-8 bytes with 00 written as 00 FF, then 00
//! ```
//!
//! No subscript's bytes begin another's, so a path's bytes begin exactly those of its descendants, and nothing else lies
//! between them: the subtree of `key` is what is at least `key` and less than `key FF`.
//!
//! **Collation** is that of M: numbers in canonical form first, by value, then all other strings by their bytes. A number
//! is canonical when it is written as M writes it: no sign but `-`, no zeros that say nothing, no `0` before the point, at
//! most [`DIGITS_MAX`] digits that count, between 1E-43 and 1E47 away from zero. So `1` and `"1"` are the same subscript, and
//! `"01"`, `"1.0"` and `"0.5"` are strings (`.5` is the number).
//!
//! Two digits a byte with "more follows" as the lowest bit: the layout of `SQLite4`'s key encoding.

use std::{borrow::Cow, cmp::Ordering, fmt};

use smallvec::SmallVec;

/// Most bytes of a global's name.
pub const GLOBAL_BYTES_MAX: usize = 64;
/// Most bytes of a path in encoded form; what the engine takes with pages of 4 KiB, less what secondary keys add.
pub const KEY_BYTES_MAX: usize = 1900;
/// Most subscripts of a path. What has that many is a scalar, so no document is nested deeper.
pub const SUBSCRIPTS_MAX: usize = 200;
/// Most significant digits of a number that sorts as one.
pub const DIGITS_MAX: usize = 18;

const EXPONENT_MIN: i32 = -42;
const EXPONENT_MAX: i32 = 47;
const ZERO: u8 = 0x80;
const STRING: u8 = 0xE0;
/// Greater than every byte a subscript begins with.
pub(crate) const ABOVE_CHILDREN: u8 = 0xFF;

/// What cannot be the name of a node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// A global without a name.
    #[error("the name of a global is empty")]
    EmptyGlobal,
    /// A global with too long a name.
    #[error("the name of global `{name}` has {} bytes (at most {GLOBAL_BYTES_MAX})", name.len())]
    GlobalTooLong {
        /// The name.
        name: String,
    },
    /// A character that names cannot have.
    #[error("the name of a global cannot contain {found:?}: letters, digits and any of `%._-` are accepted")]
    GlobalCharacter {
        /// The character.
        found: char,
    },
    /// A path that is too long as a whole.
    #[error("the path has {bytes} bytes (at most {KEY_BYTES_MAX})")]
    TooLong {
        /// Its encoded length, or where counting stopped.
        bytes: usize,
    },
    /// Too many subscripts, or a container where its children would have too many.
    #[error("the path has more than {SUBSCRIPTS_MAX} subscripts")]
    TooDeep,
    /// A number that is none.
    #[error("{found} cannot be a subscript")]
    NotANumber {
        /// `NaN` or an infinity.
        found: f64,
    },
}

/// The path of a node in encoded form: a global and any number of subscripts.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    bytes: SmallVec<[u8; 64]>,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        // The vector's own `clone` goes byte by byte.
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

    /// Goes down to the child whose name is a text; a canonical number is the number.
    pub fn push(&mut self, subscript: &str) -> Result<(), KeyError> {
        encode_text(subscript.as_bytes(), &mut self.bytes);
        self.check()
    }

    /// Goes down to a numbered child.
    pub fn push_integer(&mut self, subscript: i64) -> Result<(), KeyError> {
        self.push(&subscript.to_string())
    }

    /// Goes down to a numbered child; 0.5 is the subscript that M writes `.5`.
    pub fn push_number(&mut self, subscript: f64) -> Result<(), KeyError> {
        self.push(&number_text(subscript)?)
    }

    /// Goes down by a subscript that was encoded before.
    pub fn push_encoded(&mut self, subscript: &Subscript) -> Result<(), KeyError> {
        self.bytes.extend_from_slice(&subscript.bytes);
        self.check()
    }

    /// The same path with one subscript more.
    pub fn child(&self, subscript: &str) -> Result<Self, KeyError> {
        let mut key = self.clone();
        key.push(subscript)?;
        Ok(key)
    }

    /// The path one step up; `None` for a global's root.
    pub fn parent(&self) -> Option<Self> {
        let last = self.subscripts().last()?;
        let length = self.bytes.len() - last.len();
        Some(Self {
            bytes: SmallVec::from_slice(&self.bytes[..length]),
        })
    }

    /// Name of the global; of a damaged key, what can be read of it.
    pub fn global_name(&self) -> &str {
        let name = self.bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The subscripts, as texts.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.subscripts().map(|subscript| decode(subscript).into_owned())
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A path that was encoded before, by [`Key::as_bytes`].
    pub(crate) fn from_encoded(bytes: &[u8]) -> Self {
        Self {
            bytes: SmallVec::from_slice(bytes),
        }
    }

    /// The same from bytes that may be damaged; `None` for those that no path has.
    pub(crate) fn from_stored(bytes: &[u8]) -> Option<Self> {
        let end = memchr::memchr(0, bytes)?;
        let mut key = Self::global(std::str::from_utf8(&bytes[..end]).ok()?).ok()?;
        let subscripts = Subscripts {
            rest: &bytes[end + 1..],
        };
        for subscript in subscripts {
            key.push(&decode(subscript)).ok()?;
        }
        // What was not written as it is now has been read wrong.
        (key.as_bytes() == bytes).then_some(key)
    }

    /// Each subscript's bytes.
    pub(crate) fn subscripts(&self) -> Subscripts<'_> {
        Subscripts {
            rest: &self.bytes[global_length(&self.bytes)..],
        }
    }

    /// Puts the path back to a length that it had before.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// [`Key::push`] of text that is known to be UTF-8; the length is left for [`Key::check`].
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
        // A subscript has a byte or more, so short paths need no counting.
        if self.bytes.len() > SUBSCRIPTS_MAX && self.subscripts().count() > SUBSCRIPTS_MAX {
            return Err(KeyError::TooDeep);
        }
        Ok(())
    }

    /// Whether a container can be here: one whose children could not be is none.
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

/// One step of a path, in encoded form. Its order is the collation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscript {
    bytes: SmallVec<[u8; 32]>,
}

impl Subscript {
    /// The subscript of a text.
    pub fn new(text: &str) -> Self {
        Self::from_utf8(text.as_bytes())
    }

    /// The same of text that is known to be UTF-8.
    pub(crate) fn from_utf8(text: &[u8]) -> Self {
        let mut bytes = SmallVec::new();
        encode_text(text, &mut bytes);
        Self { bytes }
    }

    /// The subscript of a number; there is none for `NaN` and the infinities.
    pub fn number(value: f64) -> Result<Self, KeyError> {
        Ok(Self::new(&number_text(value)?))
    }

    /// What sorts as a string even where the text is a number.
    pub(crate) fn string(text: &str) -> Self {
        let mut bytes = SmallVec::new();
        encode_string(text.as_bytes(), &mut bytes);
        Self { bytes }
    }

    /// What sorts as the JSON number that the text is, as far as its first [`DIGITS_MAX`] digits tell.
    pub(crate) fn rounded(number: &str) -> Self {
        let mut bytes = SmallVec::new();
        Canonical::round(number, &mut SmallVec::new()).encode(&mut bytes);
        Self { bytes }
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }

    /// The text that [`Subscript::new`] makes this subscript from.
    pub fn text(&self) -> String {
        decode(&self.bytes).into_owned()
    }

    /// Whether it sorts as a number.
    pub fn is_number(&self) -> bool {
        self.bytes[0] != STRING
    }

    /// Below every string that begins with the prefix, and above every one that sorts after these: numbers are none of them.
    pub(crate) fn around_prefix(prefix: &str) -> (Self, Self) {
        let mut least = SmallVec::new();
        encode_string(prefix.as_bytes(), &mut least);
        // Without its end it is where longer texts begin.
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

/// Walks over encoded subscripts.
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

/// The order of two subscripts given as texts.
pub(crate) fn collate(left: &str, right: &str) -> Ordering {
    let numeric = |text: &str| matches!(text.as_bytes().first(), Some(b'0'..=b'9' | b'-' | b'.'));
    if numeric(left) || numeric(right) {
        Subscript::new(left).cmp(&Subscript::new(right))
    } else {
        left.cmp(right)
    }
}

/// How many bytes the global's name and its end take. Of a damaged key, all.
pub(crate) fn global_length(key: &[u8]) -> usize {
    memchr::memchr(0, key).map_or(key.len(), |end| end + 1)
}

/// Whether one path is the other or lies below it.
pub(crate) fn within(key: &[u8], root: &[u8]) -> bool {
    key.len() >= root.len() && key.starts_with(root) && key.get(root.len()) != Some(&ABOVE_CHILDREN)
}

/// How many bytes the first subscript of an encoded path takes; at least one, and of a damaged one what is left.
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

/// The text of one encoded subscript; of a damaged one, what can be read of it.
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
    /// The digits that count, before and after the point; empty for zero.
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

    /// The number that a JSON number is nearest to, towards zero; what is too large or too small for a canonical number is the largest
    /// or zero. The digits go into `digits`.
    fn round(number: &str, digits: &'a mut SmallVec<[u8; 32]>) -> Self {
        let (negative, rest) = number
            .strip_prefix('-')
            .map_or((false, number), |rest| (true, rest));
        let (number, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A power that does not fit is out of range in any case.
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

/// A double as M writes numbers: no exponent, no `0` before the point.
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
