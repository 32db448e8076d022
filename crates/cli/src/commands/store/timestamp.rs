//! Points in time on a command line, in RFC 3339.

use jiff::Timestamp;

/// Parses `2026-11-22T01:57:07Z` or `2026-11-22T01:57:07.5+01:00` into milliseconds since 1970 UTC; `None` for anything else.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// Formats milliseconds since 1970 UTC as `2026-11-22T01:57:07Z`.
pub(crate) fn written(at_ms: u64) -> String {
    let time = i64::try_from(at_ms / 1000).ok().map(Timestamp::from_second);
    let time = time.and_then(Result::ok).unwrap_or(Timestamp::MAX);
    time.strftime("%FT%TZ").to_string()
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
