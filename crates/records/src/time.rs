//! Parsing and formatting of times.
//!
//! A time is `2017-01-05T15:04:33`, optionally a point and up to nine decimals, then `Z` or an offset from UTC such as
//! `+02:00` (RFC 3339; dateTime of XML Schema with a time zone). Dates before 1582 use the proleptic Gregorian
//! calendar.

use jiff::{SignedDuration, civil::Date};

use crate::settings::{TimeFormat, TimeNumber, zone_text};

const EPOCH: Date = jiff::civil::date(1970, 1, 1);
const DAY_SECONDS: i64 = 86_400;
const NANOS: u32 = 1_000_000_000;
/// Years 0 to 9999 in seconds since 1970: those that are written with four digits.
const SECONDS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// A moment: seconds since 1970 UTC, plus nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Time {
    seconds: i64,
    nanos: u32,
}

impl Time {
    /// Parses a text that is exactly a time.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        // `2017-01-05T15:04:33Z` is the shortest.
        if text.len() < 20 || text[4] != b'-' || text[7] != b'-' || !matches!(text[10], b'T' | b't') {
            return None;
        }
        if text[13] != b':' || text[16] != b':' {
            return None;
        }
        let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..10])?);
        let (hour, minute, second) = (
            digits(&text[11..13])?,
            digits(&text[14..16])?,
            digits(&text[17..19])?,
        );
        let date = Date::new(year as i16, month as i8, day as i8).ok()?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (nanos, rest) = fraction(&text[19..])?;
        let zone = zone(rest)?;
        let days = date.duration_since(EPOCH);
        let seconds = days.as_secs() + hour * 3600 + minute * 60 + second - zone * 60;
        Some(Self { seconds, nanos })
    }

    /// Parses a JSON number that is also a time.
    pub(crate) fn of_number(text: &[u8], which: TimeNumber) -> Option<Self> {
        let (whole, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
        let (nanos, rest) = fraction(rest)?;
        // The decimal point itself does not count.
        let decimals = (text.len() - whole.len()).saturating_sub(1);
        let is_usual = which.decimals == 0 || decimals == usize::from(which.decimals);
        let seconds: u64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
        let is_within = seconds >= which.min && (seconds, nanos) <= (which.max, 0);
        let seconds = i64::try_from(seconds).ok()?;
        (rest.is_empty() && is_usual && is_within).then_some(Self { seconds, nanos })
    }

    /// The second that contains the moment, and the next one, since 1970.
    pub(crate) fn around(self) -> (i64, i64) {
        (self.seconds, self.seconds + 1)
    }

    /// The moment's date in UTC plus `later` days, if its year has four digits.
    pub(crate) fn date(self, later: i64) -> Option<String> {
        let seconds = self.seconds + later * DAY_SECONDS;
        SECONDS.contains(&seconds).then(|| date_text(seconds))
    }

    /// Formats the moment as JSON; `None` if its year in that time zone does not have four digits.
    pub(crate) fn write(self, format: TimeFormat, zone_minutes: i32) -> Option<String> {
        let (seconds, nanos) = (self.seconds, self.nanos);
        let decimals = |count: u8| match count {
            0 => String::new(),
            count => format!(".{}", &format!("{nanos:09}")[..usize::from(count.min(9))]),
        };
        let local = seconds + i64::from(zone_minutes) * 60;
        match format {
            TimeFormat::Stored => None,
            // Before 1970 the decimals count towards zero, not away from it.
            TimeFormat::Unix(count) if seconds < 0 && nanos > 0 => {
                let part = format!("{:09}", NANOS - nanos);
                let whole = seconds + 1;
                let sign = if whole == 0 { "-" } else { "" };
                let part = match count {
                    0 => String::new(),
                    count => format!(".{}", &part[..usize::from(count.min(9))]),
                };
                Some(format!("{sign}{whole}{part}"))
            }
            TimeFormat::Unix(count) => Some(format!("{seconds}{}", decimals(count))),
            TimeFormat::Date if local.rem_euclid(DAY_SECONDS) == 0 && nanos == 0 => SECONDS
                .contains(&local)
                .then(|| format!("\"{}\"", date_text(local))),
            TimeFormat::Date => self.write(TimeFormat::Xsd(None), zone_minutes),
            TimeFormat::Xsd(count) => {
                let count = count.unwrap_or_else(|| {
                    let trailing = format!("{nanos:09}").trim_end_matches('0').len();
                    trailing as u8
                });
                let of_day = local.rem_euclid(DAY_SECONDS);
                let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
                let zone = zone_text(zone_minutes);
                SECONDS.contains(&local).then(|| {
                    let date = date_text(local);
                    format!(
                        "\"{date}T{hour:02}:{minute:02}:{second:02}{}{zone}\"",
                        decimals(count)
                    )
                })
            }
        }
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

/// Parses decimals to nanoseconds; also returns the rest.
fn fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=9).contains(&count) {
        return None;
    }
    let value = digits(&rest[..count])?;
    let scale = 10_i64.pow(9 - count as u32);
    Some(((value * scale) as u32, &rest[count..]))
}

/// Parses a time zone to minutes east of UTC.
fn zone(text: &[u8]) -> Option<i64> {
    match text {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            let (hours, minutes) = (digits(&[*a, *b])?, digits(&[*c, *d])?);
            let distance = hours * 60 + minutes;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -distance } else { distance })
        }
        _ => None,
    }
}

/// The date of a moment within [`SECONDS`].
fn date_text(seconds: i64) -> String {
    let days = SignedDuration::from_secs(seconds.div_euclid(DAY_SECONDS) * DAY_SECONDS);
    (EPOCH + days).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_moment_however_it_is_written() {
        let time = |text: &str| Time::read(text.as_bytes());
        let one = time("2017-01-05T15:04:33Z").unwrap();
        assert_eq!(time("2017-01-05T17:04:33.000+02:00"), Some(one));
        assert_eq!(time("2017-01-04T16:34:33-22:30"), Some(one));
        assert!(time("2017-01-05T15:04:33.000000001Z") > Some(one));
        assert_eq!(one.write(TimeFormat::Unix(0), 0).unwrap(), "1483628673");
        for wrong in [
            "2017-01-05",
            "2017-01-05T15:04:33",
            "2017-02-29T15:04:33Z",
            "2017-13-05T15:04:33Z",
            "2017-01-05T24:04:33Z",
            "2017-01-05T15:04:33.Z",
            "2017-01-05T15:04:33.1234567890Z",
            "2017-01-05T15:04:33+0200",
            "2017-01-05T15:04:33+24:00",
            "12017-01-05T15:04:33Z",
            "2017-01-05 15:04:33Z",
        ] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_is_written_in_each_format_and_zone() {
        let time = Time::read(b"2017-01-05T15:04:33.123456789Z").unwrap();
        for (name, zone, expected) in [
            ("UNIX", 0, "1483628673.123456789"),
            ("UNIX6", 0, "1483628673.123456"),
            ("UNIX3", 0, "1483628673.123"),
            ("UNIX0", 0, "1483628673"),
            ("XSD9", 0, "\"2017-01-05T15:04:33.123456789Z\""),
            ("XSD6", 0, "\"2017-01-05T15:04:33.123456Z\""),
            ("XSD3", 120, "\"2017-01-05T17:04:33.123+02:00\""),
            ("XSD0", -960, "\"2017-01-04T23:04:33-16:00\""),
            ("XSD", 0, "\"2017-01-05T15:04:33.123456789Z\""),
            ("DATE", 0, "\"2017-01-05T15:04:33.123456789Z\""),
        ] {
            let format = TimeFormat::from_name(name).unwrap();
            assert_eq!(time.write(format, zone).unwrap(), expected, "{name} {zone}");
        }
        let midnight = Time::read(b"2017-01-05T22:00:00Z").unwrap();
        let date = |zone| midnight.write(TimeFormat::Date, zone).unwrap();
        assert_eq!(date(120), "\"2017-01-06\"");
        assert_eq!(date(0), "\"2017-01-05T22:00:00Z\"");
        let early = Time::read(b"1969-12-31T23:59:59.75Z").unwrap();
        assert_eq!(early.write(TimeFormat::Unix(3), 0).unwrap(), "-0.250");
        assert_eq!(
            early.write(TimeFormat::Xsd(None), 0).unwrap(),
            "\"1969-12-31T23:59:59.75Z\""
        );
        assert_eq!(
            Time::read(b"1969-12-31T23:59:58.75Z")
                .unwrap()
                .write(TimeFormat::Unix(3), 0)
                .unwrap(),
            "-1.250"
        );
    }

    #[test]
    fn dates_count_on_over_every_border() {
        let mut day = Time::read(b"1896-02-27T12:00:00Z").unwrap();
        let mut last = day.date(0).unwrap();
        for _ in 0..150_000 {
            day.seconds += DAY_SECONDS;
            let date = day.date(0).unwrap();
            assert!(date > last, "{last} {date}");
            let back = Time::read(format!("{date}T12:00:00Z").as_bytes());
            assert_eq!(back, Some(day));
            last = date;
        }
        assert_eq!(Time::read(b"0000-01-01T00:00:00Z").unwrap().date(-1), None);
        assert_eq!(Time::read(b"9999-12-31T23:00:00Z").unwrap().date(1), None);
    }
}
