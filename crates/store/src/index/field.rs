//! Text syntax of fields: `lastName`, `address.city`, `tags.*`.
//!
//! ```text
//! field = "." | step *( "." step )          "." alone is the record itself
//! step  = "*" | bare | a JSON string        `*` stands for every element of an array
//! bare  = characters other than . " = < > ! and control characters
//! ```

use crate::json::{self, Json};

use super::EACH;

/// Why a text is not a valid field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {offset}")]
pub struct FieldError {
    /// Byte offset of the error, from 0.
    pub offset: usize,
    /// Description of the error.
    pub reason: &'static str,
}

/// Parses a text that is a field as a whole.
pub fn parse_field(text: &str) -> Result<Vec<String>, FieldError> {
    match split_field(text)? {
        (steps, "") => Ok(steps),
        (_, rest) => Err(FieldError {
            offset: text.len() - rest.len(),
            reason: "a character that stands between quotes in a field's name, as in `\"a=b\"`, stands without them",
        }),
    }
}

/// Parses the field at the beginning of a text; also returns the rest.
pub fn split_field(text: &str) -> Result<(Vec<String>, &str), FieldError> {
    if let Some(rest) = text.strip_prefix('.')
        && !rest.starts_with(is_bare)
        && !rest.starts_with(['.', '"'])
    {
        return Ok((Vec::new(), rest));
    }
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        let wrong = |reason| FieldError {
            offset: text.len() - rest.len(),
            reason,
        };
        let (step, behind) = if rest.starts_with('"') {
            let length = string_length(rest).ok_or_else(|| wrong("a quoted name does not end"))?;
            let (quoted, behind) = rest.split_at(length);
            let step = Json::read(quoted.as_bytes())
                .ok()
                .and_then(|json| json.as_string());
            let step = step.ok_or_else(|| wrong("a quoted name is no JSON string"))?;
            if step == EACH {
                return Err(wrong("a member whose name is `*` cannot be in an index"));
            }
            (step, behind)
        } else {
            let length = rest.find(|character| !is_bare(character)).unwrap_or(rest.len());
            if length == 0 {
                return Err(wrong("a name is missing (an empty one is written `\"\"`)"));
            }
            (rest[..length].to_owned(), &rest[length..])
        };
        steps.push(step);
        match behind.strip_prefix('.') {
            Some(next) => rest = next,
            None => return Ok((steps, behind)),
        }
    }
}

/// Writes a field in the syntax that [`parse_field`] reads.
pub fn field_text(steps: &[String]) -> String {
    if steps.is_empty() {
        return ".".to_owned();
    }
    let plain = |character: char| character.is_alphanumeric() || "_-$@".contains(character);
    let texts = steps.iter().map(|step| {
        if step == EACH || (!step.is_empty() && step.chars().all(plain)) {
            step.clone()
        } else {
            String::from_utf8_lossy(&json::string(step)).into_owned()
        }
    });
    texts.collect::<Vec<_>>().join(".")
}

fn is_bare(character: char) -> bool {
    !character.is_control() && !".\"=<>!".contains(character)
}

/// Length in bytes of the JSON string at the beginning of a text, including its quotes.
fn string_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for (text, steps) in [
            ("lastName", &["lastName"][..]),
            ("address.city", &["address", "city"]),
            ("tags.*", &["tags", "*"]),
            ("*", &["*"]),
            (".", &[]),
            (r#""a.b"."x=\"y\"".c"#, &["a.b", "x=\"y\"", "c"]),
            (r#""".a"#, &["", "a"]),
            ("größe", &["größe"]),
            (r#""first name""#, &["first name"]),
        ] {
            let steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
            assert_eq!(parse_field(text), Ok(steps.clone()), "{text}");
            assert_eq!(field_text(&steps), text);
        }
        // Not how it would be written, but unambiguous.
        assert_eq!(parse_field("first name"), Ok(vec!["first name".to_owned()]));
    }

    #[test]
    fn a_field_ends_where_its_condition_begins() {
        for (text, steps, rest) in [
            ("age>=30", 1, ">=30"),
            ("a.b=x.y", 2, "=x.y"),
            (".=5", 0, "=5"),
            (r#""a=b"<1"#, 1, "<1"),
        ] {
            let (found, behind) = split_field(text).unwrap();
            assert_eq!((found.len(), behind), (steps, rest), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (text, offset, reason) in [
            ("", 0, "a name is missing"),
            ("a.", 2, "a name is missing"),
            (".a", 0, "a name is missing"),
            ("..", 0, "a name is missing"),
            ("a..b", 2, "a name is missing"),
            (r#"a."b"#, 2, "a quoted name does not end"),
            (r#""\q""#, 0, "a quoted name is no JSON string"),
            (r#"a."*""#, 2, "a member whose name is `*`"),
            ("a=b", 1, "a character that stands between quotes"),
            (r#""a"b"#, 3, "a character that stands between quotes"),
        ] {
            let error = parse_field(text).unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.reason.starts_with(reason), "{text}: {error}");
        }
    }
}
