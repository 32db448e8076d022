//! One filter of `?where=`: a field of a record, a comparison and a value.
//!
//! ```text
//! filter     = field comparison value        the field as `forebay_store::index::split_field` reads it
//! comparison = "=" | "<" | "<=" | ">" | ">="
//! value      = null | true | false | a JSON number | a JSON string | any other text, which is a string
//! ```
//!
//! So `7` is a number, `"7"` a string, and `007` a string too. A program that inserts user input should put it in quotes.

use std::ops::Bound;

use forebay_store::{
    index::{field_text, split_field},
    json,
};

use crate::failure::Refusal;

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A parsed filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) field: Vec<String>,
    pub(super) comparison: Comparison,
    /// A scalar, as canonical JSON.
    pub(super) value: Vec<u8>,
}

/// Kinds of values, in an index's sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Null,
    Flag,
    Number,
    Text,
}

/// Longer operators before their prefixes.
const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl Filter {
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let wrong = |what: String| Refusal::Filter {
            text: text.to_owned(),
            what,
        };
        let (field, rest) = split_field(text).map_err(|error| wrong(error.to_string()))?;
        let found = COMPARISONS
            .iter()
            .find_map(|(sign, comparison)| Some((rest.strip_prefix(sign)?, *comparison)));
        let Some((value, comparison)) = found else {
            return Err(wrong(format!(
                "`{}` is followed by =, <, <=, > or >=, and a value",
                field_text(&field)
            )));
        };
        Ok(Self {
            field,
            comparison,
            value: read_value(value).map_err(|what| wrong(what.to_owned()))?,
        })
    }

    pub(super) fn kind(&self) -> ValueKind {
        match self.value.first() {
            Some(b'n') => ValueKind::Null,
            Some(b't' | b'f') => ValueKind::Flag,
            Some(b'"') => ValueKind::Text,
            _ => ValueKind::Number,
        }
    }
}

impl ValueKind {
    /// The smallest and the largest value of the kind, as bounds.
    pub(super) fn bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let included = |text: &[u8]| Bound::Included(text.to_vec());
        let excluded = |text: &[u8]| Bound::Excluded(text.to_vec());
        match self {
            Self::Null => (included(b"null"), included(b"null")),
            Self::Flag => (included(b"false"), included(b"true")),
            Self::Number => (excluded(b"true"), excluded(b"\"\"")),
            Self::Text => (included(b"\"\""), Bound::Unbounded),
        }
    }
}

fn read_value(text: &str) -> Result<Vec<u8>, &'static str> {
    match text.bytes().next() {
        None => Err("a value is missing (an empty text is written `\"\"`)"),
        Some(b'"') => {
            json::canonical(text.as_bytes()).map_err(|_| "a value that begins with `\"` is one JSON string")
        }
        Some(b'{' | b'[') => {
            Err("objects and arrays are in no index (a text that begins so is written between quotes)")
        }
        // A JSON scalar has no surrounding white space here; with it, the value is a text.
        Some(_) => match json::canonical(text.as_bytes()) {
            Ok(scalar) if scalar.len() == text.len() => Ok(scalar),
            _ => Ok(json::string(text)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_meaning() {
        for (text, value) in [
            ("a=7", "7"),
            ("a=-7.50", "-7.50"),
            ("a=1e3", "1e3"),
            ("a=\"7\"", "\"7\""),
            ("a=007", "\"007\""),
            ("a= 7", "\" 7\""),
            ("a=true", "true"),
            ("a=True", "\"True\""),
            ("a=null", "null"),
            ("a=\"null\"", "\"null\""),
            ("a=O'Neil", "\"O'Neil\""),
            ("a=\"\"", "\"\""),
            ("a==", "\"=\""),
            ("a=\"\\u0041\"", "\"A\""),
        ] {
            let read = Filter::read(text).unwrap();
            assert_eq!(String::from_utf8(read.value).unwrap(), value, "{text}");
            assert_eq!(read.comparison, Comparison::Equal);
        }
    }

    #[test]
    fn comparisons_are_told_apart() {
        for (text, comparison, value) in [
            ("a<7", Comparison::Less, "7"),
            ("a<=7", Comparison::LessOrEqual, "7"),
            ("a>7", Comparison::Greater, "7"),
            ("a>=7", Comparison::GreaterOrEqual, "7"),
            ("a>>", Comparison::Greater, "\">\""),
        ] {
            let read = Filter::read(text).unwrap();
            assert_eq!((read.comparison, &read.value[..]), (comparison, value.as_bytes()));
        }
    }
}
