//! Points in time on a command line, in RFC 3339.

/// Parses `2026-11-22T01:57:07Z` or `2026-11-22T01:57:07.5+01:00` into milliseconds since 1970 UTC; `None` for anything else.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, offset_minutes) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let at = time.rfind(['+', '-'])?;
            let [hours, minutes] = numbers(&time[at + 1..], ':', [2, 2])?;
            let sign = if time[at..].starts_with('-') { -1 } else { 1 };
            (&time[..at], sign * (hours * 60 + minutes))
        }
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let in_range =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !in_range {
        return None;
    }
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    u64::try_from((minutes * 60 + second) * 1000 + thousandths).ok()
}

/// Formats milliseconds since 1970 UTC as `2026-11-22T01:57:07Z`.
pub(crate) fn written(at_ms: u64) -> String {
    let seconds = i64::try_from(at_ms / 1000).unwrap_or(i64::MAX);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // In a year that begins in March, the leap day is the last day.
    let since = days + 719_468;
    let era = since / 146_097;
    let day_of_era = since % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Parses numbers of fixed lengths with one separator between them.
fn numbers<const N: usize>(text: &str, separator: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for (place, length) in found.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length)?;
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *place = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Days since 1970-01-01 in the Gregorian calendar, with years that begin in March so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_any_zone() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-22T01:57:07Z", 1_795_312_627_000),
            ("2026-11-22T02:57:07.5+01:00", 1_795_312_627_500),
            ("2026-11-21 23:57:07.1234-02:00", 1_795_312_627_123),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
        ] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2026-11-22T01:57:07Z",
            "2099-12-31T12:00:00Z",
        ] {
            assert_eq!(written(milliseconds(text).unwrap()), text);
        }
        assert_eq!(written(1_795_312_627_999), "2026-11-22T01:57:07Z");
        // Any number gives a valid text.
        assert!(written(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "2026-11-22",
            "2026-11-22T01:57:07",
            "2026-13-22T01:57:07Z",
            "2026-11-22T25:57:07Z",
            "2026-11-22T01:57:07.Z",
            "26-11-22T01:57:07Z",
            "1969-01-01T00:00:00Z",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
