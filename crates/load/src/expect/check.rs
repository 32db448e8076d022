//! A single condition on a response, and its evaluation.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{ExpectError, JsonPath, Seen};

/// A condition on a response besides its status.
#[derive(Clone, Debug)]
pub enum Check {
    /// The body is these bytes.
    Equals(Vec<u8>),
    /// The body contains these bytes.
    Contains(Vec<u8>),
    /// The body matches somewhere. Bytes that are not UTF-8 are read as U+FFFD.
    Matches(regex_lite::Regex),
    /// The body has this length in bytes.
    Length(u64),
    /// The body is as long as that of the run's first response.
    LengthOfFirst(FirstLength),
    /// The body has this SHA-256.
    Sha256([u8; 32]),
    /// The body is a JSON value equal to this one, whatever its formatting.
    Json(Value),
    /// The body is JSON with a value at this path, equal to `value` if there is one.
    JsonAt {
        /// Path within the body.
        path: JsonPath,
        /// The value that is required there; `None`: any.
        value: Option<Value>,
    },
    /// The response has this field, with this value if there is one.
    Field {
        /// Name of the field, in any case.
        name: String,
        /// Value of the field, without spaces around it.
        value: Option<String>,
    },
}

/// The length of the first response's body, shared by all threads of a run.
#[derive(Clone, Debug)]
pub struct FirstLength(Arc<AtomicU64>);

const UNKNOWN: u64 = u64::MAX;

impl Default for FirstLength {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(UNKNOWN)))
    }
}

impl FirstLength {
    /// The length, once a response has arrived.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|length| *length != UNKNOWN)
    }

    /// The length of the first response, which is this one if there was none before it.
    fn or(&self, length: u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => match self
                .0
                .compare_exchange(UNKNOWN, length, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => length,
                Err(first) => first,
            },
            first => first,
        }
    }
}

impl Check {
    /// Parses a condition on the body: `equals:TEXT`, `contains:TEXT`, `regex:EXPRESSION`, `length:BYTES` or `sha256:HEX`; `~TEXT` is short
    /// for `contains:TEXT`, and any other text is what the body must equal.
    pub fn body(text: &str) -> Result<Self, ExpectError> {
        if let Some(part) = text.strip_prefix('~') {
            return Ok(Self::Contains(part.into()));
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return Ok(Self::Equals(text.into()));
        };
        Ok(match kind {
            "equals" => Self::Equals(rest.into()),
            "contains" => Self::Contains(rest.into()),
            "regex" => Self::Matches(pattern(rest)?),
            "length" => Self::Length(
                rest.trim()
                    .parse()
                    .map_err(|_| ExpectError::Length { text: rest.into() })?,
            ),
            "sha256" => {
                Self::Sha256(hash(rest.trim()).ok_or_else(|| ExpectError::Hash { text: rest.into() })?)
            }
            _ => Self::Equals(text.into()),
        })
    }

    /// Parses a condition on a JSON body: a value, a path such as `$.user.name` that must exist, or a path and its value,
    /// `$.user.name=Ann`. The part after `=` is read as JSON if possible, and as text otherwise.
    pub fn json(text: &str) -> Result<Self, ExpectError> {
        if text.starts_with('$') {
            let (path, value) = match split_path(text) {
                (path, Some(value)) => (
                    path,
                    Some(serde_json::from_str(value).unwrap_or_else(|_| value.into())),
                ),
                (path, None) => (path, None),
            };
            let path = JsonPath::parse(path)?;
            return Ok(Self::JsonAt { path, value });
        }
        serde_json::from_str(text)
            .map(Self::Json)
            .map_err(|error| ExpectError::Json {
                text: text.to_owned(),
                what: error.to_string(),
            })
    }

    /// Parses a required field: `name`, or `name: value`.
    pub fn field(text: &str) -> Result<Self, ExpectError> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
            None => (text.trim(), None),
        };
        if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(ExpectError::Field {
                text: text.to_owned(),
            });
        }
        Ok(Self::Field {
            name: name.to_owned(),
            value,
        })
    }

    /// Whether the check needs the head or body itself, and not only its length.
    pub(super) fn keeps(&self) -> bool {
        !matches!(self, Self::Length(_) | Self::LengthOfFirst(_))
    }

    /// Says how a response violates the condition; `None` if it does not.
    pub(super) fn against(&self, seen: &Seen<'_>) -> Option<String> {
        let cut =
            self.keeps() && !matches!(self, Self::Field { .. }) && seen.body.len() as u64 != seen.body_bytes;
        if cut {
            return Some(format!(
                "the body has {} bytes, more than are looked into",
                seen.body_bytes
            ));
        }
        let found = seen.body_bytes;
        match self {
            Self::Equals(expected) => {
                (expected != seen.body).then(|| "the body is not the one expected".into())
            }
            Self::Contains(part) => {
                let missing = memchr::memmem::find(seen.body, part).is_none();
                missing.then(|| "the body does not contain what is expected".into())
            }
            Self::Matches(pattern) => {
                let missing = !pattern.is_match(&String::from_utf8_lossy(seen.body));
                missing.then(|| format!("the body does not match `{pattern}`"))
            }
            Self::Length(length) => {
                (*length != found).then(|| format!("the body has {found} bytes, {length} are expected"))
            }
            Self::LengthOfFirst(first) => {
                let length = first.or(found);
                (length != found)
                    .then(|| format!("the body has {found} bytes, that of the first answer has {length}"))
            }
            Self::Sha256(hash) => {
                let other = Sha256::digest(seen.body).as_slice() != hash;
                other.then(|| "the body has another SHA-256 than expected".into())
            }
            Self::Json(expected) => match seen.json() {
                Ok(value) => {
                    (!same(&value, expected)).then(|| "the body is another JSON value than expected".into())
                }
                Err(what) => Some(what),
            },
            Self::JsonAt {
                path,
                value: expected,
            } => match (seen.json(), expected) {
                (Err(what), _) => Some(what),
                (Ok(value), expected) => match (path.find(&value), expected) {
                    (None, _) => Some(format!("the body has nothing at {path}")),
                    (Some(found), Some(expected)) if !same(found, expected) => {
                        Some(format!("the body has {found} at {path}, {expected} is expected"))
                    }
                    _ => None,
                },
            },
            Self::Field { name, value: None } => seen
                .field(name)
                .is_none()
                .then(|| format!("there is no header `{name}`")),
            Self::Field {
                name,
                value: Some(value),
            } => {
                let found = seen.fields(name).any(|found| found == value.as_bytes());
                (!found).then(|| match seen.field(name) {
                    Some(other) => format!(
                        "header `{name}` is `{}`, `{value}` is expected",
                        String::from_utf8_lossy(other)
                    ),
                    None => format!("there is no header `{name}`"),
                })
            }
        }
    }
}

/// A regular expression, with an error that names it.
pub(crate) fn pattern(text: &str) -> Result<regex_lite::Regex, ExpectError> {
    regex_lite::Regex::new(text).map_err(|error| ExpectError::Pattern {
        text: text.to_owned(),
        what: error.to_string(),
    })
}

fn hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Splits at the first `=` that is not within a quoted name.
fn split_path(text: &str) -> (&str, Option<&str>) {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '=') => return (text[..at].trim_end(), Some(text[at + 1..].trim_start())),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    (text, None)
}

/// Whether two values are equal, numbers by their value: 1 equals 1.0.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has_same =
                |(key, value): (&String, &Value)| right.get(key).is_some_and(|other| same(value, other));
            left.len() == right.len() && left.iter().all(has_same)
        }
        _ => left == right,
    }
}
