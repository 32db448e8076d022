//! Converts values from the server's text format to JSON. Results match the server's own `to_json` (manual, 9.16),
//! except that `json` values keep their stored text.

use std::borrow::Cow;

use data_encoding::HEXLOWER_PERMISSIVE;
use postgres_protocol::Oid;

/// How the text of a type is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bool,
    /// Digits unchanged; `NaN` and `Infinity` become strings.
    Number,
    /// The same for 64-bit integers.
    BigInteger,
    /// The same for numbers of any length.
    Decimal,
    /// JSON unchanged.
    Json,
    /// `2020-01-31 10:20:30` with a `T`, and `+00:00` for `+00`.
    Timestamp,
    Text,
}

/// OIDs of `json` and `jsonb`.
pub(crate) const JSON_TYPES: [Oid; 2] = [114, 3802];

/// OIDs of types and of their array types, which never change (`pg_type.dat` in the server's source code).
const FORMS: [(Oid, Oid, Form); 20] = [
    (16, 1000, Form::Bool),
    (20, 1016, Form::BigInteger),
    (21, 1005, Form::Number),
    (23, 1007, Form::Number),
    (26, 1028, Form::Number),
    (700, 1021, Form::Number),
    (701, 1022, Form::Number),
    (1700, 1231, Form::Decimal),
    (114, 199, Form::Json),
    (3802, 3807, Form::Json),
    (1114, 1115, Form::Timestamp),
    (1184, 1185, Form::Timestamp),
    (17, 1001, Form::Text),
    (18, 1002, Form::Text),
    (19, 1003, Form::Text),
    (25, 1009, Form::Text),
    (1042, 1014, Form::Text),
    (1043, 1015, Form::Text),
    (1082, 1182, Form::Text),
    (2950, 2951, Form::Text),
];

/// Number representation of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Arbitrary precision: all numbers stay numbers.
    Exact,
    /// Floating point: numbers that would lose digits become strings: integers whose magnitude exceeds 2^53 − 1, and
    /// all of `numeric`.
    Doubles,
}

/// A value for a program with floating-point numbers: the same value as the JSON of [`Numbers::Doubles`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'v> {
    /// SQL null.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer that a double represents exactly.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// Text, and everything represented as text.
    Text(Cow<'v, str>),
    /// `bytea`, decoded.
    Bytes(Vec<u8>),
    /// Anything else, as JSON.
    Json(Vec<u8>),
}

/// Writes the values of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    form: Form,
    is_array: bool,
}

impl Writer {
    /// The writer for a type; unknown types are written as text.
    pub fn of(oid: Oid) -> Self {
        for (element, array, form) in FORMS {
            if oid == element || oid == array {
                return Self {
                    form,
                    is_array: oid == array,
                };
            }
        }
        Self {
            form: Form::Text,
            is_array: false,
        }
    }

    /// Appends a value; `None` is null.
    pub fn write(self, value: Option<&[u8]>, numbers: Numbers, out: &mut Vec<u8>) {
        let form = match (numbers, self.form) {
            (Numbers::Doubles, Form::Decimal) => Form::Text,
            (Numbers::Exact, Form::BigInteger | Form::Decimal) => Form::Number,
            (_, form) => form,
        };
        match value {
            None => out.extend_from_slice(b"null"),
            Some(text) if self.is_array => write_array(form, text, out),
            Some(text) => write_scalar(form, text, out),
        }
    }
}

impl Writer {
    /// Converts a value; `None` is null. Arrays become JSON, those of `bytea` with their text.
    pub fn value(self, value: Option<&[u8]>) -> Value<'_> {
        let Some(text) = value else { return Value::Null };
        let json = || {
            let mut out = Vec::new();
            self.write(value, Numbers::Doubles, &mut out);
            Value::Json(out)
        };
        if self.is_array {
            return json();
        }
        match self.form {
            Form::Bool => Value::Bool(text == b"t"),
            Form::Number => number(text).unwrap_or_else(|| Value::Text(lossy(text))),
            Form::BigInteger if is_safe_integer(text) => number(text).unwrap_or_else(json),
            Form::BigInteger | Form::Decimal | Form::Text => Value::Text(lossy(text)),
            Form::Json | Form::Timestamp => json(),
        }
    }
}

/// Decodes the server's text, which is almost always valid: the standard library's strict check is several times as
/// fast as lossy decoding.
fn lossy(text: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed)
}

/// Parses a number; `None` unless it is finite.
fn number(text: &[u8]) -> Option<Value<'static>> {
    let text = std::str::from_utf8(text).ok()?;
    match text.parse::<i64>() {
        // -0 is not an integer.
        Ok(integer) if integer != 0 || !text.starts_with('-') => Some(Value::Integer(integer)),
        _ => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::Double),
    }
}

/// Decodes `\x00ff` (manual, 8.4.1); `None` for any other format.
pub fn bytes_of(text: &[u8]) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.strip_prefix(b"\\x")?).ok()
}

fn write_scalar(form: Form, text: &[u8], out: &mut Vec<u8>) {
    match form {
        Form::Bool => out.extend_from_slice(if text == b"t" { b"true" } else { b"false" }),
        Form::BigInteger if is_safe_integer(text) => out.extend_from_slice(text),
        Form::Number if matches!(text, [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..]) => {
            out.extend_from_slice(text);
        }
        Form::Json => out.extend_from_slice(text),
        Form::Timestamp => write_timestamp(text, out),
        Form::Number | Form::BigInteger | Form::Decimal | Form::Text => write_string(text, out),
    }
}

/// Whether a double represents this integer and all smaller ones exactly.
fn is_safe_integer(text: &[u8]) -> bool {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    number.is_some_and(|number| number.unsigned_abs() < 1 << 53)
}

fn write_timestamp(text: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    write_string(text, out);
    let Some(space) = out[from..].iter().position(|&byte| byte == b' ') else {
        return;
    };
    out[from + space] = b'T';
    if matches!(out[from..], [.., b'+' | b'-', b'0'..=b'9', b'0'..=b'9', b'"']) {
        out.pop();
        out.extend_from_slice(b":00\"");
    }
}

/// Appends text as a JSON string. The server's text is UTF-8 unless its database has no encoding: invalid bytes become
/// U+FFFD.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    serde_json::to_writer(out, &lossy(text)).expect("text becomes JSON");
}

/// Writes `{1,NULL,"a b",{...}}` (manual, 8.15.6) as nested arrays. Text that is not an array is written as text.
fn write_array(form: Form, text: &[u8], out: &mut Vec<u8>) {
    // Bounds that do not begin at 1 precede the array: `[0:1]={1,2}`.
    let body = match text.iter().position(|&byte| byte == b'{') {
        Some(at) => &text[at..],
        None => return write_string(text, out),
    };
    let mut element = Vec::new();
    let mut at = 0;
    // Whether the next item follows another element of the same array.
    let mut follows = false;
    while at < body.len() {
        match body[at] {
            b'{' => {
                separate(follows, out);
                out.push(b'[');
                follows = false;
                at += 1;
            }
            b'}' => {
                out.push(b']');
                follows = true;
                at += 1;
            }
            b',' => at += 1,
            b'"' => {
                separate(follows, out);
                follows = true;
                element.clear();
                at = unquote(body, at + 1, &mut element);
                write_scalar(form, &element, out);
            }
            _ => {
                separate(follows, out);
                follows = true;
                let length = body[at..]
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}'))
                    .unwrap_or(body.len() - at);
                let bare = &body[at..at + length];
                if bare == b"NULL" {
                    out.extend_from_slice(b"null");
                } else {
                    write_scalar(form, bare, out);
                }
                at += length;
            }
        }
    }
}

fn separate(follows: bool, out: &mut Vec<u8>) {
    if follows {
        out.push(b',');
    }
}

/// Decodes a quoted element; returns the offset after its closing quote.
fn unquote(text: &[u8], mut at: usize, element: &mut Vec<u8>) -> usize {
    while at < text.len() {
        match text[at] {
            b'"' => return at + 1,
            b'\\' if at + 1 < text.len() => {
                element.push(text[at + 1]);
                at += 2;
            }
            byte => {
                element.push(byte);
                at += 1;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(oid: Oid, text: &str) -> String {
        let mut out = Vec::new();
        Writer::of(oid).write(Some(text.as_bytes()), Numbers::Exact, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_written_as_the_server_itself_would() {
        for (oid, text, expected) in [
            (16, "t", "true"),
            (16, "f", "false"),
            (23, "-7", "-7"),
            (20, "9223372036854775807", "9223372036854775807"),
            (1700, "0.10", "0.10"),
            (1700, "NaN", "\"NaN\""),
            (701, "1e+20", "1e+20"),
            (701, "-Infinity", "\"-Infinity\""),
            (25, "a\"b\\\n\u{1}é", r#""a\"b\\\n\u0001é""#),
            (114, "{\"a\" : 1}", "{\"a\" : 1}"),
            (1114, "2020-01-31 10:20:30.5", "\"2020-01-31T10:20:30.5\""),
            (1184, "2020-01-31 10:20:30+00", "\"2020-01-31T10:20:30+00:00\""),
            (1184, "infinity", "\"infinity\""),
            (17, "\\x00ff", r#""\\x00ff""#),
            (600, "(1,2)", "\"(1,2)\""),
        ] {
            assert_eq!(json(oid, text), expected, "{oid} {text}");
        }
        let mut out = Vec::new();
        Writer::of(25).write(None, Numbers::Exact, &mut out);
        assert_eq!(out, b"null");
        out.clear();
        Writer::of(25).write(Some(b"a\xff"), Numbers::Exact, &mut out);
        assert_eq!(out, "\"a\u{fffd}\"".as_bytes());
    }

    #[test]
    fn numbers_that_a_double_would_cut_are_strings_for_those_who_have_only_doubles() {
        for (oid, text, expected) in [
            (20, "9007199254740991", "9007199254740991"),
            (20, "-9007199254740991", "-9007199254740991"),
            (20, "9007199254740992", "\"9007199254740992\""),
            (20, "-9223372036854775808", "\"-9223372036854775808\""),
            (23, "5", "5"),
            (1700, "5", "\"5\""),
            (1231, "{1.50,NULL}", "[\"1.50\",null]"),
            (701, "0.1", "0.1"),
        ] {
            let mut out = Vec::new();
            Writer::of(oid).write(Some(text.as_bytes()), Numbers::Doubles, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{oid} {text}");
        }
    }

    #[test]
    fn arrays_are_arrays_in_one_another() {
        for (oid, text, expected) in [
            (1007, "{1,NULL,3}", "[1,null,3]"),
            (1007, "{}", "[]"),
            (1007, "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
            (1007, "[0:1]={1,2}", "[1,2]"),
            (
                1009,
                r#"{a,"b c","d\"e\\",NULL,"NULL",""}"#,
                r#"["a","b c","d\"e\\",null,"NULL",""]"#,
            ),
            (1000, "{t,f}", "[true,false]"),
            (3807, r#"{"{\"a\": 1}",2}"#, r#"[{"a": 1},2]"#),
            (
                1185,
                r#"{"2020-01-31 10:20:30+00"}"#,
                r#"["2020-01-31T10:20:30+00:00"]"#,
            ),
        ] {
            assert_eq!(json(oid, text), expected, "{text}");
        }
    }

    /// Converts a value to JSON.
    fn as_json(value: Value<'_>) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Integer(value) => value.into(),
            Value::Double(value) => value.into(),
            Value::Text(value) => value.into_owned().into(),
            Value::Bytes(_) => unreachable!("a writer does not know bytes"),
            Value::Json(text) => serde_json::from_slice(&text).unwrap(),
        }
    }

    #[test]
    fn a_value_is_what_its_json_says() {
        for (oid, text) in [
            (16, "t"),
            (16, "f"),
            (23, "-7"),
            (20, "9007199254740991"),
            (20, "9007199254740992"),
            (1700, "0.10"),
            (1700, "NaN"),
            (701, "1e+20"),
            (701, "1e-7"),
            (701, "-0"),
            (701, "0.1"),
            (701, "-Infinity"),
            (25, "a\"b\\\n\u{1}é"),
            (114, "{\"a\" : [1]}"),
            (1184, "2020-01-31 10:20:30+00"),
            (1007, "{1,NULL,{2}}"),
            (600, "(1,2)"),
        ] {
            let mut out = Vec::new();
            Writer::of(oid).write(Some(text.as_bytes()), Numbers::Doubles, &mut out);
            let written: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let value = as_json(Writer::of(oid).value(Some(text.as_bytes())));
            assert!(
                written == value || written.as_f64().is_some() && written.as_f64() == value.as_f64(),
                "{oid} {text}: {written} and {value}"
            );
        }
        assert_eq!(Writer::of(25).value(None), Value::Null);
        assert_eq!(bytes_of(br"\x00ff"), Some(vec![0, 255]));
        assert_eq!(bytes_of(br"\x0"), None);
        assert_eq!(bytes_of(b"text"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_written(text in ".{0,40}", oid in prop::sample::select(vec![25_u32, 1009, 1007, 1184, 23])) {
            let _ = json(oid, &text);
        }

        #[test]
        fn strings_are_json(text in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
            let written = json(25, &text);
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
