//! Values as programs in other languages see them.

use std::borrow::Cow;

use crate::json;

/// A decoded canonical JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number as the nearest double; its text may have more digits.
    Number(f64),
    /// Content of a string.
    Text(Cow<'a, str>),
    /// An object or array, as JSON text.
    Container(&'a str),
}

impl<'a> Value<'a> {
    /// Decodes a result of a session; `None` for malformed text.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        Some(match text.as_bytes() {
            [b'"', content @ .., b'"'] => {
                let content = &text[1..=content.len()];
                Self::Text(if memchr::memchr(b'\\', content.as_bytes()).is_none() {
                    Cow::Borrowed(content)
                } else {
                    json::unescape(content).ok()?
                })
            }
            [b'{' | b'[', ..] => Self::Container(text),
            b"null" => Self::Null,
            b"true" => Self::Boolean(true),
            b"false" => Self::Boolean(false),
            _ => Self::Number(text.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn each_kind_of_value_is_read_from_its_text() {
        for (text, value) in [
            ("null", Value::Null),
            ("true", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
            ("-0", Value::Number(-0.0)),
            ("5e-7", Value::Number(5e-7)),
            ("9007199254740993", Value::Number(9_007_199_254_740_992.0)),
            (r#""""#, Value::Text("".into())),
            (r#""007""#, Value::Text("007".into())),
            (r#""a\n\u0000\"""#, Value::Text("a\n\0\"".into())),
            (r#"{"a":1}"#, Value::Container(r#"{"a":1}"#)),
            ("[]", Value::Container("[]")),
        ] {
            assert_eq!(Value::read(text.as_bytes()), Some(value), "{text}");
        }
    }

    #[test]
    fn what_no_session_answers_is_no_value() {
        for text in [&b"\xff"[..], b"", b"nul", b"\"a\\x\""] {
            assert_eq!(Value::read(text), None, "{text:?}");
        }
    }
}
