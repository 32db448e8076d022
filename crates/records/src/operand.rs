//! Comparison values of statements. Numbers compare by value, times by moment and only with times, UUIDs regardless of
//! case, and everything else exactly.

use std::{cmp::Ordering, fmt};

use forebay_store::json;

use crate::{
    kind::text_of,
    number,
    settings::{Detect, TimeNumber},
    time::Time,
};

/// A value in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// `null`, `true`, `false`, or a text, as canonical JSON.
    Exact(Vec<u8>),
    /// A JSON number, and the moment it stands for when compared with times, if it is in that range.
    Number(Vec<u8>, Option<Time>),
    /// A time, its canonical JSON, and which numbers compare with it.
    Time(Time, Vec<u8>, Option<TimeNumber>),
    /// In lower and upper case, as canonical JSON.
    Uuid(Vec<u8>, Vec<u8>),
}

impl Operand {
    /// Classifies a text that may be a time or UUID.
    pub(crate) fn detect(text: &str, detect: Detect) -> Self {
        if detect.time
            && let Some(time) = Time::read(text.as_bytes())
        {
            return Self::Time(time, json::string(text), detect.time_number);
        }
        if detect.uuid && is_uuid(text.as_bytes()) {
            return Self::Uuid(
                json::string(&text.to_ascii_lowercase()),
                json::string(&text.to_ascii_uppercase()),
            );
        }
        Self::text(text)
    }

    /// Classifies a JSON number.
    pub(crate) fn number(text: &[u8], detect: Detect) -> Self {
        let which = detect.time_number.filter(|_| detect.time);
        Self::Number(
            text.to_vec(),
            which.and_then(|which| Time::of_number(text, which)),
        )
    }

    /// A plain text, not to be taken for a time or UUID.
    pub(crate) fn text(text: &str) -> Self {
        Self::Exact(json::string(text))
    }

    /// Whether the operand has an order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Self::Number(..) | Self::Time(..))
    }

    /// Whether a value of a record equals the operand.
    pub(crate) fn equals(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text == value,
            Self::Uuid(small, large) => small == value || large == value,
            Self::Number(..) | Self::Time(..) => self.order_of(value).is_some_and(Ordering::is_eq),
        }
    }

    /// How a value of a record compares with the operand; `None` if they are not comparable.
    pub(crate) fn order_of(&self, value: &[u8]) -> Option<Ordering> {
        match self {
            Self::Number(number, _) if number::is_number(value) => Some(number::compare(value, number)),
            Self::Number(_, time) => Some(written_time(value)?.cmp(time.as_ref()?)),
            Self::Time(time, _, which) if number::is_number(value) => {
                Some(Time::of_number(value, (*which)?)?.cmp(time))
            }
            Self::Time(time, ..) => Some(written_time(value)?.cmp(time)),
            Self::Exact(_) | Self::Uuid(..) => None,
        }
    }

    /// All scalars that can equal the operand, if they are finitely many.
    pub(crate) fn spellings(&self) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::Exact(text) | Self::Number(text, None) => Some(vec![text.clone()]),
            Self::Uuid(small, large) => Some(vec![small.clone(), large.clone()]),
            Self::Number(_, Some(_)) | Self::Time(..) => None,
        }
    }

    /// Bound in an index for numbers that are at least (`lower`) or at most the operand; `None` if no number compares
    /// with it.
    pub(crate) fn number_bound(&self, lower: bool) -> Option<Vec<u8>> {
        match self {
            Self::Number(number, _) => Some(number.clone()),
            Self::Time(time, _, Some(_)) => {
                let (before, behind) = time.around();
                Some(if lower { before } else { behind }.to_string().into_bytes())
            }
            Self::Time(..) | Self::Exact(_) | Self::Uuid(..) => None,
        }
    }

    /// Bound in an index for texts that are times of at least (`lower`) or at most the operand: a date, one day off
    /// because of time zones. `None` if no text compares with it.
    pub(crate) fn time_bound(&self, lower: bool) -> Option<Vec<u8>> {
        let (Self::Time(time, ..) | Self::Number(_, Some(time))) = self else {
            return None;
        };
        let date = time.date(if lower { -1 } else { 2 });
        let least = || if lower { "" } else { "\u{10ffff}" }.to_owned();
        Some(json::string(&date.unwrap_or_else(least)))
    }

    /// Content of a plain text.
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
            Self::Exact(text) | Self::Number(text, _) | Self::Time(_, text, _) | Self::Uuid(text, _) => text,
        };
        out.write_str(&String::from_utf8_lossy(text))
    }
}

/// The moment that a value of a record stands for, in any time zone, if the settings take such texts or numbers for
/// times.
pub(crate) fn time_of(value: &[u8], detect: Detect) -> Option<Time> {
    if number::is_number(value) {
        return Time::of_number(value, detect.time_number?);
    }
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
