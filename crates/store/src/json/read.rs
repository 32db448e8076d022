//! Strict JSON parser (RFC 8259) for external text. Rejects anything else, and strings that cannot be stored as UTF-8.

use std::borrow::Cow;

use super::{Json, JsonError, collate, write_string};
use crate::key::Subscript;

/// Parses a whole text: one value and nothing after it.
pub(super) fn document(text: &[u8], depth_max: usize) -> Result<Json<'_>, JsonError> {
    let text = std::str::from_utf8(text).map_err(|error| JsonError {
        offset: error.valid_up_to(),
        reason: "invalid UTF-8",
    })?;
    let mut reader = Reader {
        text,
        at: 0,
        depth_left: depth_max,
    };
    let value = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.wrong("something after the value"));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, reason: &'static str) -> JsonError {
        JsonError {
            offset: self.at,
            reason,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn value(&mut self) -> Result<Json<'a>, JsonError> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => {
                let start = self.at;
                let content = self.string()?;
                Ok(Json::Scalar(match content {
                    Cow::Borrowed(_) => Cow::Borrowed(&self.text[start..self.at]),
                    Cow::Owned(content) => {
                        let mut text = Vec::with_capacity(content.len() + 2);
                        write_string(&content, &mut text);
                        Cow::Owned(String::from_utf8(text).expect("an escaped string is text"))
                    }
                }))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => Err(self.wrong("a value is missing")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json<'a>, JsonError>) -> Result<Json<'a>, JsonError> {
        if self.depth_left == 0 {
            return Err(self.wrong("containers nested more than 200 deep"));
        }
        self.depth_left -= 1;
        self.at += 1;
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Json<'a>, JsonError> {
        let mut elements = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            self.space();
            if self.take(b']') {
                return Ok(Json::Array(elements));
            }
            if !self.take(b',') {
                return Err(self.wrong("`,` or `]` is missing"));
            }
        }
    }

    fn object(&mut self) -> Result<Json<'a>, JsonError> {
        let mut members: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        let mut sorted = true;
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("the name of a member is missing"));
            }
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err(self.wrong("`:` is missing"));
            }
            let value = self.value()?;
            sorted = sorted
                && members
                    .last()
                    .is_none_or(|(last, _)| collate(last, &name).is_lt());
            members.push((name, value));
            self.space();
            if self.take(b'}') {
                break;
            }
            if !self.take(b',') {
                return Err(self.wrong("`,` or `}` is missing"));
            }
        }
        if !sorted {
            // The sort is stable, so the last of members with the same name stays last.
            members.sort_by_cached_key(|(name, _)| Subscript::new(name));
            members.reverse();
            members.dedup_by(|(later, _), (kept, _)| later == kept);
            members.reverse();
        }
        Ok(Json::Object(members))
    }

    /// Content of a string; borrowed where its text is canonical.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(0..0x20) => return Err(self.wrong("a control character in a string")),
                Some(_) => self.at += 1,
                None => {
                    self.at = bytes.len();
                    return Err(self.wrong("a string has no end"));
                }
            }
        }
        let content = &self.text[start..self.at];
        self.at += 1;
        if escaped {
            unescape(content, start)
        } else {
            Ok(Cow::Borrowed(content))
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.wrong("a digit is missing"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.wrong("a number begins with 0"));
        }
        Ok(Json::Scalar(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn word(&mut self) -> Result<Json<'a>, JsonError> {
        for word in ["true", "false", "null"] {
            if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(Json::Scalar(Cow::Borrowed(word)));
            }
        }
        Err(self.wrong("no JSON value begins like this"))
    }
}

/// Replaces the escapes of a string whose content begins at byte `offset` of the text.
pub(super) fn unescape(content: &str, offset: usize) -> Result<Cow<'_, str>, JsonError> {
    if memchr::memchr(b'\\', content.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(content));
    }
    let wrong = |at: usize, reason| JsonError {
        offset: offset + at,
        reason,
    };
    let bytes = content.as_bytes();
    let mut plain = String::with_capacity(content.len());
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escape = at + found;
        plain.push_str(&content[at..escape]);
        at = escape + 2;
        plain.push(match bytes.get(escape + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b't') => '\t',
            Some(b'n') => '\n',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            Some(b'u') => {
                let unit =
                    four_digits(bytes, at).ok_or_else(|| wrong(escape, "`\\u` without four hex digits"))?;
                at += 4;
                match unit {
                    0xD800..0xDC00 => {
                        let second = if bytes[at..].starts_with(b"\\u") {
                            four_digits(bytes, at + 2)
                        } else {
                            None
                        };
                        let Some(second @ 0xDC00..0xE000) = second else {
                            return Err(wrong(escape, "half of a surrogate pair"));
                        };
                        at += 6;
                        let code =
                            0x1_0000 + ((u32::from(unit) - 0xD800) << 10) + (u32::from(second) - 0xDC00);
                        char::from_u32(code).expect("two surrogates are a character")
                    }
                    0xDC00..0xE000 => return Err(wrong(escape, "half of a surrogate pair")),
                    unit => char::from_u32(u32::from(unit)).expect("no surrogate is left"),
                }
            }
            _ => return Err(wrong(escape, "an unknown escape")),
        });
    }
    plain.push_str(&content[at..]);
    Ok(Cow::Owned(plain))
}

fn four_digits(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |unit, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(unit * 16 + u16::try_from(digit).expect("a hex digit is small"))
    })
}
