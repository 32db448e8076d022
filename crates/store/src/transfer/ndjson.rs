//! NDJSON: one JSON object per line.
//!
//! ```text
//! {"path":["Person","data",1,"firstName"],"value":"Rob"}     a node's own value: a scalar, {} or []
//! {"path":["Person","data",1],"document":{"firstName":"Rob"}} a whole subtree
//! {"path":["Person","tags"],"array":true}                     the children that follow are elements
//! {"path":["Person","tags"],"array":true,"value":"x"}         the same, and the node has a value besides
//! {"path":["Session","a1"],"expires":1795312627000}           expiry time, in milliseconds since 1970 UTC
//! {"index":{"fields":[["name"]],"name":"by_name","records":["Person","data"],"unique":false}}
//! ```
//!
//! A path is the global's name and the subscripts. A numeric subscript is written as a number if JSON has that
//! notation, otherwise as a string: `.5`. Both are accepted, so `1` and `"1"` are the same.

use std::borrow::Cow;

use crate::{
    index::Definition,
    json,
    key::{Key, Subscript},
};

use super::{LineError, item::Content};

/// Writes a line.
pub(super) fn write(key: &Key, content: &Content<'_>, line: &mut Vec<u8>) {
    if let Content::Index(definition) = content {
        line.extend_from_slice(b"{\"index\":");
        line.extend_from_slice(&definition.to_json());
        line.extend_from_slice(b"}\n");
        return;
    }
    line.extend_from_slice(b"{\"path\":[");
    json::write_string(key.global_name(), line);
    for text in key.texts() {
        line.push(b',');
        if is_json_number(&text) && Subscript::new(&text).is_number() {
            line.extend_from_slice(text.as_bytes());
        } else {
            json::write_string(&text, line);
        }
    }
    line.push(b']');
    let mut member = |name: &str, text: &[u8]| {
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(text);
    };
    match content {
        Content::Value(text) => member(",\"value\":", text),
        Content::Document(text) => member(",\"document\":", text),
        Content::Array(own) => {
            member(",\"array\":", b"true");
            if let Some(text) = own {
                member(",\"value\":", text);
            }
        }
        Content::Expires(at_ms) => member(",\"expires\":", at_ms.to_string().as_bytes()),
        Content::Index(_) => {}
    }
    line.extend_from_slice(b"}\n");
}

/// Whether a canonical number is also a JSON number: M writes no 0 before the decimal point.
fn is_json_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|first: char| first.is_ascii_digit())
}

/// Parses a line. The values returned are canonical.
pub(super) fn read(line: &[u8]) -> Result<(Key, Content<'static>), LineError> {
    let (mut path, mut value, mut document, mut array) = (None, None, None, false);
    let (mut expires, mut index) = (None, None);
    let mut scan = Scan { line, at: 0 };
    scan.expect(b'{', "a line is an object: `{` is missing")?;
    loop {
        scan.space();
        let name = scan.value()?;
        scan.expect(b':', "`:` is missing")?;
        scan.space();
        let start = scan.at;
        let text = scan.value()?;
        let taken = match name {
            b"\"path\"" => path.replace(text).is_some(),
            b"\"value\"" => value.replace((start, text)).is_some(),
            b"\"document\"" => document.replace((start, text)).is_some(),
            b"\"expires\"" => expires.replace(text).is_some(),
            b"\"index\"" => index.replace(text).is_some(),
            b"\"array\"" if text == b"true" => std::mem::replace(&mut array, true),
            b"\"array\"" => return Err(scan.wrong("`array` is `true` or not there")),
            other => {
                let name = String::from_utf8_lossy(other).trim_matches('"').to_owned();
                return Err(LineError::Member { name });
            }
        };
        if taken {
            return Err(scan.wrong("a member is there twice"));
        }
        scan.space();
        match scan.line.get(scan.at) {
            Some(b',') => scan.at += 1,
            Some(b'}') => break,
            _ => return Err(scan.wrong("`,` or `}` is missing")),
        }
    }
    scan.at += 1;
    scan.space();
    if scan.at < line.len() {
        return Err(scan.wrong("something after the object"));
    }
    if let Some(index) = index {
        if path.is_some() || value.is_some() || document.is_some() || array || expires.is_some() {
            return Err(scan.wrong("a line with `index` says nothing else"));
        }
        let definition = Definition::from_json(index)?;
        return Ok((definition.records.clone(), Content::Index(Box::new(definition))));
    }
    let key = key(path.ok_or_else(|| scan.wrong("`path` is missing"))?)?;
    let canonical = |(start, text): (usize, &[u8])| {
        json::canonical(text).map_err(|mut error| {
            error.offset += start;
            error
        })
    };
    if let Some(at_ms) = expires {
        if value.is_some() || document.is_some() || array {
            return Err(scan.wrong("a line with `expires` says nothing else of its node"));
        }
        let at_ms = std::str::from_utf8(at_ms).ok().and_then(|text| text.parse().ok());
        return at_ms
            .map(|at_ms| (key, Content::Expires(at_ms)))
            .ok_or_else(|| scan.wrong("`expires` is a whole number of milliseconds"));
    }
    let content = match (value, document, array) {
        (Some(value), None, false) => {
            let text = canonical(value)?;
            if json::container(&text).is_some() && text.len() > 2 {
                return Err(scan.wrong("`value` has children, which only a `document` has"));
            }
            Content::Value(text.into())
        }
        (None, Some(document), false) => Content::Document(canonical(document)?.into()),
        (own, None, true) => {
            let own = own.map(canonical).transpose()?;
            if own.as_ref().is_some_and(|text| json::container(text).is_some()) {
                return Err(scan.wrong("the `value` of an array is a scalar"));
            }
            Content::Array(own.map(Cow::Owned))
        }
        _ => return Err(scan.wrong("one of `value`, `document`, `array` and `expires` is said")),
    };
    Ok((key, content))
}

fn key(text: &[u8]) -> Result<Key, LineError> {
    let wrong = |reason| LineError::Form { offset: 0, reason };
    // Also validates the text, which the walk below relies on.
    let text = json::canonical(text)?;
    if json::container(&text) != Some(true) {
        return Err(wrong("`path` is an array"));
    }
    let mut steps = json::children(&text).map(|step| step.text);
    let Some([b'"', global @ .., b'"']) = steps.next() else {
        return Err(wrong("`path` begins with the name of a global"));
    };
    let mut key = Key::global(&json::unescape(&String::from_utf8_lossy(global))?)?;
    for step in steps {
        let text = String::from_utf8_lossy(step);
        match step.first() {
            Some(b'"') => key.push(&json::unescape(&text[1..text.len() - 1])?)?,
            Some(b'-' | b'0'..=b'9') => {
                let number = canonical_number(&text);
                if !Subscript::new(&number).is_number() {
                    return Err(wrong(
                        "a number in `path` is not in its shortest form; as a string it is another subscript",
                    ));
                }
                key.push(&number)?;
            }
            _ => return Err(wrong("`path` has strings and numbers only")),
        }
    }
    Ok(key)
}

/// A JSON number as M writes it: without a 0 before the decimal point.
pub(super) fn canonical_number(text: &str) -> Cow<'_, str> {
    match text.strip_prefix("-0.") {
        Some(fraction) => format!("-.{fraction}").into(),
        None => match text.strip_prefix("0.") {
            Some(_) => text[1..].into(),
            None => text.into(),
        },
    }
}

/// Finds the members of a line without validating their JSON.
struct Scan<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn wrong(&self, reason: &'static str) -> LineError {
        LineError::Form {
            offset: self.at,
            reason,
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.line.get(self.at) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, reason: &'static str) -> Result<(), LineError> {
        self.space();
        if self.line.get(self.at) != Some(&byte) {
            return Err(self.wrong(reason));
        }
        self.at += 1;
        Ok(())
    }

    /// Text of the value that begins here.
    fn value(&mut self) -> Result<&'a [u8], LineError> {
        let Some(end) = json::skip(self.line, self.at) else {
            return Err(self.wrong(match self.line.get(self.at) {
                None => "a value is missing",
                Some(b'"') => "a string has no end",
                Some(_) => "an array or object has no end",
            }));
        };
        if end == self.at {
            return Err(self.wrong("a value is missing"));
        }
        let text = &self.line[self.at..end];
        self.at = end;
        Ok(text.trim_ascii_end())
    }
}
