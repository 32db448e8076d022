//! JSON formatted for reading.

use crate::RecordsError;

/// Most spaces per indentation level.
pub const INDENT_MAX: usize = 8;

/// Canonical JSON with one line per member and element, indented by `spaces` per level, at most [`INDENT_MAX`];
/// unchanged for 0. Deeply nested values become many times as long, so the result is an error once it has more than
/// `bytes_max` bytes ([`Settings::answer_bytes_max`](crate::Settings::answer_bytes_max)).
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
