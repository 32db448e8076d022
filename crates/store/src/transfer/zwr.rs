//! The ZWR extract of `YottaDB` and GT.M: `^Person("data",1,"firstName")="Rob"`.
//!
//! M has only strings, some of which are canonical numbers. A JSON string that is not a canonical number is written as
//! that string, and a JSON number as the canonical number, without the 0 before the decimal point. Everything else has
//! no equivalent in M: `true`, `null`, `{}`, the string `"5"`, the number `1.0`, the fact that children are elements of
//! an array. An exact export writes these as strings that begin with `$C(0)`:
//!
//! ```text
//! $C(0)_"true"        the JSON value that follows: a scalar, {} or []
//! $C(0)_"["           the children are elements of an array
//! $C(0)_"[""x"""      the same, and the node has that scalar as a value of its own
//! ```
//!
//! A string that begins with `$C(0)` but does not continue like this is an ordinary string.
//!
//! Graphic characters, as M calls them, are written between quotes, with quotes doubled; all others by number with
//! `$C`. The numbers are those of characters if the file's first line ends with `UTF-8`, otherwise those of bytes.

use crate::{
    decimal, json,
    key::{Key, Subscript},
};

use super::{LineError, TransferError, item::Content, ndjson::canonical_number};

/// Longest name of a global in M, in bytes.
const NAME_BYTES_MAX: usize = 31;
/// First character of strings that encode something else.
const MARK: char = '\0';

/// The two heading lines of a ZWR file.
pub(super) fn head(date: &str) -> [String; 2] {
    ["Forebay store export UTF-8\n".into(), format!("{date} ZWR\n")]
}

/// Writes a line, or nothing if a lossy export leaves it out.
pub(super) fn write(
    key: &Key,
    content: &Content<'_>,
    lossy: bool,
    line: &mut Vec<u8>,
) -> Result<(), TransferError> {
    let value = match content {
        Content::Value(text) | Content::Document(text) if lossy => plain(text),
        Content::Array(own) if lossy => match own {
            Some(text) => plain(text),
            None => return Ok(()),
        },
        // M has neither expiry times nor indexes.
        Content::Expires(_) | Content::Index(_) => return Ok(()),
        Content::Value(text) | Content::Document(text) => exact(text),
        Content::Array(own) => {
            let own = own.as_deref().unwrap_or_default();
            format!("{MARK}[{}", String::from_utf8_lossy(own))
        }
    };
    let name = key.global_name();
    if !is_m_name(name) {
        return Err(TransferError::NotAnMName { name: name.into() });
    }
    let mut out = format!("^{name}");
    let mut separator = '(';
    for text in key.texts() {
        out.push(separator);
        separator = ',';
        if Subscript::new(&text).is_number() {
            out.push_str(&text);
        } else {
            put_string(&text, &mut out);
        }
    }
    if separator == ',' {
        out.push(')');
    }
    out.push('=');
    put_string(&value, &mut out);
    out.push('\n');
    line.extend_from_slice(out.as_bytes());
    Ok(())
}

fn is_m_name(name: &str) -> bool {
    let mut characters = name.chars();
    name.len() <= NAME_BYTES_MAX
        && characters
            .next()
            .is_some_and(|first| first == '%' || first.is_ascii_alphabetic())
        && characters.all(|character| character.is_ascii_alphanumeric())
}

/// The M string for a value, from which [`content`] restores it.
fn exact(json: &[u8]) -> String {
    let json = String::from_utf8_lossy(json);
    let candidate = match json.as_bytes().first() {
        Some(b'"') => json::unescape(&json[1..json.len() - 1]).ok(),
        Some(b'-' | b'0'..=b'9') => Some(canonical_number(&json)),
        _ => None,
    };
    candidate
        .filter(|text| content(text) == Content::Value(json.as_bytes().into()))
        .map_or_else(|| format!("{MARK}{json}"), Into::into)
}

/// The value as an M program expects it.
fn plain(json: &[u8]) -> String {
    let json = String::from_utf8_lossy(json);
    match json.as_bytes().first() {
        Some(b'"') => json::unescape(&json[1..json.len() - 1]).map_or_else(|_| String::new(), Into::into),
        Some(b't') => "1".into(),
        Some(b'f') => "0".into(),
        Some(b'-' | b'0'..=b'9') => shortest(&json),
        _ => String::new(),
    }
}

/// A JSON number in M's canonical form, if it has one.
fn shortest(json: &str) -> String {
    let plain = decimal::add(json, "0").map(|plain| canonical_number(&plain).into_owned());
    plain
        .filter(|plain| Subscript::new(plain).is_number())
        .unwrap_or_else(|| json.into())
}

/// Decodes an M string.
fn content(text: &str) -> Content<'static> {
    if let Some(marked) = text.strip_prefix(MARK).and_then(marked) {
        return marked;
    }
    let json = if Subscript::new(text).is_number() {
        match text.strip_prefix('-') {
            Some(digits) if digits.starts_with('.') => format!("-0{digits}").into_bytes(),
            None if text.starts_with('.') => format!("0{text}").into_bytes(),
            _ => text.as_bytes().to_vec(),
        }
    } else {
        json::string(text)
    };
    Content::Value(json.into())
}

/// Decodes what follows a mark; `None` if it is not an encoded value.
fn marked(text: &str) -> Option<Content<'static>> {
    let is_leaf = |text: &str| {
        let canonical = json::canonical(text.as_bytes()).ok()?;
        let leaf = json::container(&canonical).is_none() || canonical.len() == 2;
        (leaf && canonical == text.as_bytes()).then_some(canonical)
    };
    if let Some(value) = is_leaf(text) {
        return Some(Content::Value(value.into()));
    }
    match text.strip_prefix('[')? {
        "" => Some(Content::Array(None)),
        own if json::container(own.as_bytes()).is_some() => None,
        own => is_leaf(own).map(|own| Content::Array(Some(own.into()))),
    }
}

/// Writes a string as an M expression.
fn put_string(text: &str, out: &mut String) {
    let (mut quoted, mut numbered) = (false, false);
    for character in text.chars() {
        if is_graphic(character) {
            if !quoted {
                out.push_str(if numbered { ")_\"" } else { "\"" });
            }
            out.push(character);
            if character == '"' {
                out.push('"');
            }
        } else {
            out.push_str(match (quoted, numbered) {
                (true, _) => "\"_$C(",
                (_, true) => ",",
                _ => "$C(",
            });
            out.push_str(&u32::from(character).to_string());
        }
        quoted = is_graphic(character);
        numbered = !quoted;
    }
    match (quoted, numbered) {
        (true, _) => out.push('"'),
        (_, true) => out.push(')'),
        _ => out.push_str("\"\""),
    }
}

/// Whether a character can be written between quotes. Invisible ones are written by number, as M does.
fn is_graphic(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

/// Parses a line. `utf8` tells whether `$C` numbers characters or bytes.
pub(super) fn read(line: &[u8], utf8: bool) -> Result<(Key, Content<'static>), LineError> {
    let mut scan = Scan { line, at: 0, utf8 };
    let key = scan.reference()?;
    if !scan.take(b'=') {
        return Err(scan.wrong("`=` is missing"));
    }
    let value = scan.expression()?;
    scan.end()?;
    Ok((key, content(&value)))
}

/// Parses a node's name as M writes it: `^Person("data",1)`.
pub fn reference(text: &str) -> Result<Key, LineError> {
    let mut scan = Scan {
        line: text.as_bytes(),
        at: 0,
        utf8: true,
    };
    let key = scan.reference()?;
    scan.end()?;
    Ok(key)
}

struct Scan<'a> {
    line: &'a [u8],
    at: usize,
    utf8: bool,
}

impl Scan<'_> {
    fn wrong(&self, reason: &'static str) -> LineError {
        LineError::Form {
            offset: self.at,
            reason,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn end(&self) -> Result<(), LineError> {
        if self.at < self.line.len() {
            return Err(self.wrong("something after the end"));
        }
        Ok(())
    }

    fn reference(&mut self) -> Result<Key, LineError> {
        if !self.take(b'^') {
            return Err(self.wrong("a node's name begins with `^`"));
        }
        let start = self.at;
        while self.peek().is_some_and(|byte| !b"(=".contains(&byte)) {
            self.at += 1;
        }
        let name = text(self.line[start..self.at].to_vec())?;
        let mut key = Key::global(&name)?;
        if !self.take(b'(') {
            return Ok(key);
        }
        loop {
            let quoted = matches!(self.peek(), Some(b'"' | b'$'));
            let start = self.at;
            let text = self.expression()?;
            if !quoted && !Subscript::new(&text).is_number() {
                self.at = start;
                return Err(self.wrong(
                    "a number that is not in its shortest form; between quotes it is another subscript",
                ));
            }
            key.push(&text)?;
            if self.take(b')') {
                return Ok(key);
            }
            if !self.take(b',') {
                return Err(self.wrong("`,` or `)` is missing"));
            }
        }
    }

    /// Parses strings and `$C` joined by `_`, or a number.
    fn expression(&mut self) -> Result<String, LineError> {
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => self.quoted(&mut bytes)?,
                Some(b'$') => self.numbered(&mut bytes)?,
                Some(b'-' | b'.' | b'0'..=b'9') => {
                    while let Some(byte @ (b'-' | b'.' | b'0'..=b'9')) = self.peek() {
                        bytes.push(byte);
                        self.at += 1;
                    }
                }
                _ => return Err(self.wrong("a string, `$C` or a number is missing")),
            }
            if !self.take(b'_') {
                return text(bytes);
            }
        }
    }

    fn quoted(&mut self, bytes: &mut Vec<u8>) -> Result<(), LineError> {
        self.at += 1;
        loop {
            let Some(length) = memchr::memchr(b'"', &self.line[self.at..]) else {
                return Err(self.wrong("a string has no end"));
            };
            bytes.extend_from_slice(&self.line[self.at..self.at + length]);
            self.at += length + 1;
            if !self.take(b'"') {
                return Ok(());
            }
            bytes.push(b'"');
        }
    }

    fn numbered(&mut self, bytes: &mut Vec<u8>) -> Result<(), LineError> {
        let rest = &self.line[self.at..];
        let names: [(&[u8], bool); 4] = [
            (b"$C(", false),
            (b"$CHAR(", false),
            (b"$ZCH(", true),
            (b"$ZCHAR(", true),
        ];
        let found = names.into_iter().find(|(name, _)| {
            rest.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        });
        let Some((name, of_bytes)) = found else {
            return Err(self.wrong("`$C(` or `$ZCH(` is meant here"));
        };
        self.at += name.len();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1;
            }
            let digits = std::str::from_utf8(&self.line[start..self.at]).unwrap_or_default();
            let number: Option<u32> = digits.parse().ok();
            let character = number.and_then(char::from_u32);
            match (number, character) {
                (Some(number), _) if of_bytes || !self.utf8 => {
                    bytes.push(u8::try_from(number).map_err(|_| self.wrong("a byte is not above 255"))?);
                }
                (_, Some(character)) => {
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return Err(self.wrong("the number of a character is missing, or no character has it")),
            }
            if self.take(b')') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.wrong("`,` or `)` is missing"));
            }
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, LineError> {
    String::from_utf8(bytes).map_err(|_| LineError::NotText)
}
