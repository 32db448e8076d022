//! The records of a kind, page by page in the order of their references, and JSON laid out to be read.

use std::ops::Bound;

use forebay_store::{Key, Range, Read, StoreError, Subscript};

use crate::{RecordsError, ended::Ended, reference::Reference};

/// Bytes after which a page ends, whatever its size is.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most records that a page passes over: they are walked in one go.
const PASSED_OVER_MAX: u64 = 100_000;
/// Most spaces that a level is indented by.
pub const INDENT_MAX: usize = 8;

/// Which records of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The kind.
    pub kind: String,
    /// Only those behind this one.
    pub after: Option<Reference>,
    /// How many pages to pass over.
    pub page: u64,
    /// Records of a page.
    pub size: u64,
    /// Whether the records come as well, or their references only.
    pub full: bool,
}

/// The references of records among the children of a kind, from behind one on.
pub(crate) fn references<'r, R: Read>(
    read: &'r R,
    kind: &Key,
    after: Option<Reference>,
) -> Result<impl Iterator<Item = Result<Reference, StoreError>> + use<'r, R>, StoreError> {
    let from = after.map_or(Bound::Unbounded, |after| {
        Bound::Excluded(Subscript::new(&after.to_string()))
    });
    // All numbers sort before the first text.
    let to = Bound::Excluded(Subscript::new(""));
    let range = Range {
        from,
        to,
        reverse: false,
    };
    let walk = read.children(kind, range)?;
    Ok(walk.filter_map(|child| match child {
        Ok(child) => Reference::from_decimal(&child.text()).map(Ok),
        Err(error) => Some(Err(error)),
    }))
}

impl List {
    /// Writes the page as a JSON array: references, or `{"id":11,"data":{...}}` of each. A page ends early when it has become long. Gives
    /// the last reference when there are records behind it.
    pub fn write(
        &self,
        read: &impl Read,
        bytes_max: usize,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Reference>, RecordsError> {
        let kind = Key::global(&self.kind)?;
        let ended = Ended::by(now_ms, read)?;
        let skipped = self.page.saturating_mul(self.size);
        if skipped > PASSED_OVER_MAX {
            return Err(RecordsError::PageMax {
                page: self.page,
                size: self.size,
                max: PASSED_OVER_MAX,
            });
        }
        let start = out.len();
        out.push(b'[');
        let (mut found, mut last) = (0_u64, None);
        for reference in references(read, &kind, self.after)? {
            let reference = reference?;
            let key = reference.key(&self.kind)?;
            if ended.has(&key, read)? {
                continue;
            }
            found += 1;
            if found <= skipped {
                continue;
            }
            if found - skipped > self.size || out.len() - start > PAGE_BYTES_MAX {
                out.push(b']');
                return Ok(last);
            }
            last = Some(reference);
            if found - skipped > 1 {
                out.push(b',');
            }
            if self.full {
                out.extend_from_slice(format!("{{\"id\":{reference},\"data\":").as_bytes());
                let document = read.document_within(&key, bytes_max)?;
                out.extend_from_slice(document.as_deref().unwrap_or(b"null"));
                out.push(b'}');
            } else {
                out.extend_from_slice(reference.to_string().as_bytes());
            }
        }
        out.push(b']');
        Ok(None)
    }
}

/// Canonical JSON with a line for each member and element, indented by so many spaces a level, at most [`INDENT_MAX`]; as it is for 0.
/// Where values lie deep within each other it becomes many times as long, so it is refused once it has more than `bytes_max`
/// ([`Settings::answer_bytes_max`](crate::Settings::answer_bytes_max)).
pub fn indented(text: &[u8], spaces: usize, bytes_max: usize) -> Result<Vec<u8>, RecordsError> {
    let spaces = spaces.min(INDENT_MAX);
    if spaces == 0 {
        return Ok(text.to_vec());
    }
    let too_long = || RecordsError::AnswerBytesMax { max: bytes_max };
    let mut out = Vec::with_capacity(text.len().saturating_mul(2).min(bytes_max));
    let (mut depth, mut in_string, mut at) = (0, false, 0);
    let line = |out: &mut Vec<u8>, depth: usize| {
        let length = out.len() + 1 + depth * spaces;
        if length > bytes_max {
            return Err(too_long());
        }
        out.push(b'\n');
        out.resize(length, b' ');
        Ok(())
    };
    while let Some(&byte) = text.get(at) {
        at += 1;
        out.push(byte);
        if in_string {
            if byte == b'\\' {
                out.extend(text.get(at));
                at += 1;
            }
            in_string = byte != b'"';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b':' => out.push(b' '),
            b',' => line(&mut out, depth)?,
            b'{' | b'[' => match text.get(at) {
                Some(&end @ (b'}' | b']')) => {
                    out.push(end);
                    at += 1;
                }
                _ => {
                    depth += 1;
                    line(&mut out, depth)?;
                }
            },
            b'}' | b']' => {
                out.pop();
                depth = depth.saturating_sub(1);
                line(&mut out, depth)?;
                out.push(byte);
            }
            _ => {}
        }
    }
    if out.len() > bytes_max {
        return Err(too_long());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn indented_json_has_a_line_for_everything() {
        let text = br#"{"a":[1,"x\"{,}"],"b":{},"c":[]}"#;
        let expected = "{\n  \"a\": [\n    1,\n    \"x\\\"{,}\"\n  ],\n  \"b\": {},\n  \"c\": []\n}";
        let indented = |text, spaces| indented(text, spaces, 100).unwrap();
        assert_eq!(String::from_utf8(indented(text, 2)).unwrap(), expected);
        assert_eq!(indented(text, 0), text);
        assert_eq!(indented(b"{\"a", 2), b"{\n  \"a");
    }

    #[test]
    fn indented_json_is_no_longer_than_an_answer_may_be() {
        let deep = [&[b'['; 50][..], &b"1,".repeat(1000), b"1", &[b']'; 50]].concat();
        let needed = indented(&deep, 8, usize::MAX).unwrap().len();
        assert!(needed > 100 * deep.len(), "{needed}");
        assert_eq!(indented(&deep, 8, needed).unwrap().len(), needed);
        for max in [0, 1, deep.len(), needed - 1] {
            let refused = indented(&deep, 8, max).unwrap_err().to_string();
            let expected = format!("the answer has more than {max} bytes (records.answer_bytes_max)");
            assert_eq!(refused, expected);
        }
        let flat = format!("\"{}\"", "a".repeat(100)).into_bytes();
        assert!(indented(&flat, 1, 101).is_err());
    }
}
