//! Finds values inside a canonical text without parsing it.
//!
//! The text was validated when it was written and its checksum when it was read, so these functions look only for
//! quotes, brackets and commas. On text that is not canonical they return nothing or a wrong part, but never read out
//! of bounds.

use std::borrow::Cow;

use super::{DEPTH_MAX, index_of, is_plain, unescape, write_string};

/// `Some(true)` for an array, `Some(false)` for an object.
pub fn container(text: &[u8]) -> Option<bool> {
    match text.first() {
        Some(b'[') => Some(true),
        Some(b'{') => Some(false),
        _ => None,
    }
}

/// Text of the child with that name.
pub fn find<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    if container(text)? {
        let wanted = index_of(name)?;
        return children(text).nth(wanted).map(|child| child.text);
    }
    let mut escaped = Vec::new();
    let wanted = if name.bytes().all(is_plain) {
        name.as_bytes()
    } else {
        write_string(name, &mut escaped);
        &escaped[1..escaped.len() - 1]
    };
    let mut at = 1;
    while text.get(at) == Some(&b'"') {
        let end = string_end(text, at)?;
        let value = end + 1;
        let after = skip(text, value)?;
        if &text[at + 1..end - 1] == wanted {
            return Some(&text[value..after]);
        }
        at = after + 1;
    }
    None
}

/// Children of a container, in order; none for a scalar.
pub fn children(text: &[u8]) -> Children<'_> {
    Children {
        text,
        at: 1,
        array: container(text),
        index: 0,
    }
}

/// Iterates over the children of a container; unescapes only the names of members.
#[derive(Clone, Debug)]
pub struct Children<'a> {
    text: &'a [u8],
    at: usize,
    array: Option<bool>,
    index: usize,
}

/// A child: its name as a subscript, and its text.
#[derive(Clone, Debug)]
pub struct Child<'a> {
    /// Member name, or index of an array element.
    pub name: Cow<'a, str>,
    /// Canonical text of the child's value.
    pub text: &'a [u8],
}

impl<'a> Iterator for Children<'a> {
    type Item = Child<'a>;

    fn next(&mut self) -> Option<Child<'a>> {
        let array = self.array?;
        if matches!(self.text.get(self.at)?, b']' | b'}') {
            return None;
        }
        let (name, value) = if array {
            self.index += 1;
            (Cow::Owned((self.index - 1).to_string()), self.at)
        } else {
            let end = string_end(self.text, self.at)?;
            let content = std::str::from_utf8(&self.text[self.at + 1..end - 1]).ok()?;
            (unescape(content).ok()?, end + 1)
        };
        let after = skip(self.text, value)?;
        self.at = after + 1;
        if self.text.get(after)? != &b',' {
            self.at = after;
        }
        Some(Child {
            name,
            text: &self.text[value..after],
        })
    }
}

/// Appends a canonical text in which containers nested deeper than `depth` are empty.
pub(crate) fn write_to_depth(text: &[u8], depth: usize, out: &mut Vec<u8>) {
    let array = match container(text) {
        Some(array) if depth < DEPTH_MAX => array,
        _ => return out.extend_from_slice(text),
    };
    out.push(if array { b'[' } else { b'{' });
    for (at, child) in children(text).take_while(|_| depth > 0).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if !array {
            write_string(&child.name, out);
            out.push(b':');
        }
        write_to_depth(child.text, depth - 1, out);
    }
    out.push(if array { b']' } else { b'}' });
}

/// Offset just after the value that begins at `at`.
pub(crate) fn skip(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => {
            let (mut at, mut depth) = (at + 1, 1);
            while depth > 0 {
                match text.get(at)? {
                    b'"' => {
                        at = string_end(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
            Some(at)
        }
        _ => {
            let length = text[at..]
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']'));
            Some(length.map_or(text.len(), |length| at + length))
        }
    }
}

/// Offset just after the string whose opening quote is at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
