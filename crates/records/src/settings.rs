//! Settings: how records are interpreted, and the limits of statements.

use std::time::Duration;

use crate::error::RecordsError;

/// Settings of records, shared by a server, its scripts and its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Path of member names to the member that holds a record's kind.
    pub type_key: Vec<String>,
    /// Kind of records without that member.
    pub default_kind: String,
    /// Which texts and numbers are taken for times or UUIDs.
    pub detect: Detect,
    /// Format of times in TQL answers.
    pub time_format: TimeFormat,
    /// Time zone of times in TQL answers, in minutes east of UTC.
    pub zone_minutes: i32,
    /// Most records that one statement examines.
    pub examined_max: u64,
    /// Most rows of an answer, and most records, or parts of them, that one statement changes.
    pub rows_max: u64,
    /// Most bytes of an answer.
    pub answer_bytes_max: usize,
    /// Longest time that a statement that changes something may hold the write transaction.
    pub change_time_max: Duration,
}

/// Which texts and numbers are more than that when they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detect {
    /// Whether texts in the notation of RFC 3339 and XML Schema are times.
    pub time: bool,
    /// Whether UUIDs are compared regardless of case.
    pub uuid: bool,
    /// Numbers that are also times, if any.
    pub time_number: Option<TimeNumber>,
}

impl Detect {
    /// Whether any values are taken for times.
    pub(crate) fn any_time(self) -> bool {
        self.time || self.time_number.is_some()
    }
}

/// Range of numbers, written without an exponent, that are seconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeNumber {
    /// Smallest such number.
    pub min: u64,
    /// Largest such number.
    pub max: u64,
    /// Exact number of decimals; 0 accepts any number up to nine.
    pub decimals: u8,
}

/// Format of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// As it is stored.
    Stored,
    /// Seconds since 1970 as a number with that many decimals.
    Unix(u8),
    /// `2017-01-05T15:04:33Z` with that many decimals; `None` for as many as necessary.
    Xsd(Option<u8>),
    /// `2017-01-05` at midnight, otherwise as [`TimeFormat::Xsd`] with as many decimals as necessary.
    Date,
}

impl TimeFormat {
    const NAMED: [(&'static str, Self); 11] = [
        ("stored", Self::Stored),
        ("UNIX", Self::Unix(9)),
        ("UNIX6", Self::Unix(6)),
        ("UNIX3", Self::Unix(3)),
        ("UNIX0", Self::Unix(0)),
        ("XSD9", Self::Xsd(Some(9))),
        ("XSD6", Self::Xsd(Some(6))),
        ("XSD3", Self::Xsd(Some(3))),
        ("XSD0", Self::Xsd(Some(0))),
        ("XSD", Self::Xsd(None)),
        ("DATE", Self::Date),
    ];

    /// Names of all formats.
    pub const NAMES: [&'static str; Self::NAMED.len()] = {
        let mut names = [""; Self::NAMED.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::NAMED[at].0;
            at += 1;
        }
        names
    };

    /// The format with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_it = |(other, _): &(&str, Self)| *other == name;
        Self::NAMED.into_iter().find(is_it).map(|(_, format)| format)
    }

    /// Name of the format, as in the configuration.
    pub fn name(self) -> &'static str {
        let is_it = |(_, other): &(&str, Self)| *other == self;
        let named = Self::NAMED.into_iter().find(is_it);
        named.map(|(name, _)| name).expect("every format has a name")
    }
}

/// Parses a time zone: `Z`, or hours and minutes from UTC as in `+02:00`.
pub fn parse_zone(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |digits: &str| -> Option<i32> {
        let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Formats a time zone as [`parse_zone`] reads it.
pub fn zone_text(minutes: i32) -> String {
    let sign = match minutes {
        0 => return "Z".to_owned(),
        ..0 => '-',
        1.. => '+',
    };
    let minutes = minutes.unsigned_abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            type_key: vec!["kind".to_owned()],
            default_kind: "Record".to_owned(),
            detect: Detect {
                time: true,
                uuid: true,
                time_number: None,
            },
            time_format: TimeFormat::Stored,
            zone_minutes: 0,
            examined_max: 1_000_000,
            rows_max: 10_000,
            answer_bytes_max: 16 << 20,
            change_time_max: Duration::from_secs(1),
        }
    }
}

impl Settings {
    /// Serialises the settings to one line of text, for a process that must have the same ones.
    pub fn to_text(&self) -> String {
        let numbers = match self.detect.time_number {
            None => "-".to_owned(),
            Some(TimeNumber { min, max, decimals }) => format!("{min}:{max}:{decimals}"),
        };
        format!(
            "3 {} {} {numbers} {} {} {} {} {} {} {} {}",
            u8::from(self.detect.time),
            u8::from(self.detect.uuid),
            self.time_format.name(),
            self.zone_minutes,
            self.examined_max,
            self.rows_max,
            self.answer_bytes_max,
            self.change_time_max.as_millis(),
            self.default_kind,
            self.type_key.join("\u{1f}"),
        )
    }

    /// Parses the output of [`Settings::to_text`]; `None` for anything else.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.splitn(12, ' ');
        if parts.next()? != "3" {
            return None;
        }
        let mut next = || parts.next();
        let flag = |text: &str| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        let numbers = |text: &str| {
            let mut parts = text.split(':');
            let numbers = TimeNumber {
                min: parts.next()?.parse().ok()?,
                max: parts.next()?.parse().ok()?,
                decimals: parts.next()?.parse().ok()?,
            };
            Some(numbers)
        };
        Some(Self {
            detect: Detect {
                time: flag(next()?)?,
                uuid: flag(next()?)?,
                time_number: match next()? {
                    "-" => None,
                    text => Some(numbers(text)?),
                },
            },
            time_format: TimeFormat::from_name(next()?)?,
            zone_minutes: next()?.parse().ok()?,
            examined_max: next()?.parse().ok()?,
            rows_max: next()?.parse().ok()?,
            answer_bytes_max: next()?.parse().ok()?,
            change_time_max: Duration::from_millis(next()?.parse().ok()?),
            default_kind: next()?.to_owned(),
            type_key: next()?.split('\u{1f}').map(str::to_owned).collect(),
        })
    }

    /// Validates the settings.
    pub fn check(&self) -> Result<(), RecordsError> {
        crate::kind::check_kind(&self.default_kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_as_they_are_written() {
        let settings = Settings {
            type_key: vec!["meta data".to_owned(), "kind".to_owned()],
            time_format: TimeFormat::Xsd(Some(3)),
            zone_minutes: -90,
            change_time_max: Duration::from_millis(250),
            detect: Detect {
                time: true,
                uuid: false,
                time_number: Some(TimeNumber {
                    min: 1,
                    max: u64::MAX,
                    decimals: 9,
                }),
            },
            ..Settings::default()
        };
        assert_eq!(Settings::from_text(&settings.to_text()), Some(settings));
        assert_eq!(Settings::from_text("1 1"), None);
        assert_eq!(Settings::from_text(""), None);
    }

    #[test]
    fn a_zone_is_utc_or_hours_and_minutes() {
        for (text, expected) in [
            ("Z", Some(0)),
            ("+02:00", Some(120)),
            ("-01:30", Some(-90)),
            ("+24:00", None),
            ("02:00", None),
            ("+2:00", None),
            ("", None),
            ("+é2:0", None),
        ] {
            assert_eq!(parse_zone(text), expected, "{text}");
            if let Some(minutes) = expected {
                assert_eq!(zone_text(minutes), text);
            }
        }
    }
}
