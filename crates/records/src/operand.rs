//! Values that statements compare with, and how: numbers by value, times by moment and only with times, UUIDs whatever their case,
//! everything else as it is.

use std::{cmp::Ordering, fmt, ops::Bound};

use forebay_store::json;

use crate::{kind::text_of, number, settings::Detect, time::Time};

/// A value in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// `null`, `true`, `false`, or a text, as canonical JSON.
    Exact(Vec<u8>),
    /// A JSON number.
    Number(Vec<u8>),
    /// A time, as canonical JSON too.
    Time(Time, Vec<u8>),
    /// In small letters and in capitals, as canonical JSON.
    Uuid(Vec<u8>, Vec<u8>),
}

impl Operand {
    /// What a text is that may be more than that.
    pub(crate) fn detect(text: &str, detect: Detect) -> Self {
        if detect.time
            && let Some(time) = Time::read(text.as_bytes())
        {
            return Self::Time(time, json::string(text));
        }
        if detect.uuid && is_uuid(text.as_bytes()) {
            return Self::Uuid(
                json::string(&text.to_ascii_lowercase()),
                json::string(&text.to_ascii_uppercase()),
            );
        }
        Self::text(text)
    }

    /// What a text is that is nothing more.
    pub(crate) fn text(text: &str) -> Self {
        Self::Exact(json::string(text))
    }

    /// Whether values are less and greater than this one.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Time(..))
    }

    /// Whether a value of a record equals it.
    pub(crate) fn equals(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text == value,
            Self::Number(number) => number::is_number(value) && number::compare(number, value).is_eq(),
            Self::Uuid(small, large) => small == value || large == value,
            Self::Time(time, text) => text == value || written_time(value) == Some(*time),
        }
    }

    /// How a value of a record compares with it; `None`: they have nothing to do with each other.
    pub(crate) fn order_of(&self, value: &[u8]) -> Option<Ordering> {
        match self {
            Self::Number(number) => number::is_number(value).then(|| number::compare(value, number)),
            Self::Time(time, _) => Some(written_time(value)?.cmp(time)),
            Self::Exact(_) | Self::Uuid(..) => None,
        }
    }

    /// Scalars of which a value that equals it is one, where they can be counted.
    pub(crate) fn spellings(&self) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::Exact(text) | Self::Number(text) => Some(vec![text.clone()]),
            Self::Uuid(small, large) => Some(vec![small.clone(), large.clone()]),
            Self::Time(..) => None,
        }
    }

    /// Scalars between which, in the order of an index, a value lies that is at least (at most) this one: of a time that are days, for
    /// the zone can make it one more or less.
    pub(crate) fn index_bound(&self, lower: bool) -> Bound<Vec<u8>> {
        match self {
            Self::Number(number) => Bound::Included(number.clone()),
            Self::Time(time, _) => {
                let date = time.date(if lower { -1 } else { 2 });
                let least = || {
                    if lower {
                        String::new()
                    } else {
                        "\u{10ffff}".to_owned()
                    }
                };
                Bound::Included(json::string(&date.unwrap_or_else(least)))
            }
            Self::Exact(_) | Self::Uuid(..) => Bound::Unbounded,
        }
    }

    /// The content of a text that is nothing more.
    pub(crate) fn as_text(&self) -> Option<String> {
        match self {
            Self::Exact(text) => text_of(text),
            _ => None,
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Exact(text) | Self::Number(text) | Self::Time(_, text) | Self::Uuid(text, _) => text,
        };
        out.write_str(&String::from_utf8_lossy(text))
    }
}

/// The moment that a value of a record is, in whatever zone, if texts are taken for times.
pub(crate) fn time_of(value: &[u8], detect: Detect) -> Option<Time> {
    detect.time.then(|| written_time(value)).flatten()
}

fn written_time(value: &[u8]) -> Option<Time> {
    Time::read(value.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

/// 8, 4, 4, 4 and 12 hexadecimal digits, with letters of one case.
pub(crate) fn is_uuid(text: &[u8]) -> bool {
    let shape = text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    shape && !(text.iter().any(u8::is_ascii_lowercase) && text.iter().any(u8::is_ascii_uppercase))
}
