//! Parsers for the values of `forebay load`'s options: durations, numbers, headers, stages. Each error says what was found and what is
//! accepted.

use std::{ops::RangeInclusive, time::Duration};

use forebay_load::search::WarmUp;
use jiff::SignedDuration;

/// Longest accepted duration: a year. It keeps sums of durations far from overflow.
pub(crate) const DURATION_MAX: Duration = Duration::from_hours(8760);
/// Most stages of one run.
pub(crate) const STAGES_MAX: usize = 1_000;

/// Reads a duration: `10`, `10s`, `1m30s`, `500ms`, `1h`, `0.5`. Without a unit it is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let read = match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => text
            .trim()
            .parse::<SignedDuration>()
            .ok()
            .and_then(|duration| duration.try_into().ok()),
    };
    match read {
        Some(duration) if duration <= DURATION_MAX => Ok(duration),
        Some(_) => Err(format!("found {text:?}, expected at most a year")),
        None => Err(format!(
            "found {text:?}, expected a duration such as 10, 1.5s, 500ms, 1m30s or 1h"
        )),
    }
}

/// Reads a duration that is not zero.
pub(crate) fn some_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("found {text:?}, expected more than nothing")),
        duration => Ok(duration),
    }
}

/// Reads the length of a warm-up: a duration, or `auto`.
pub(crate) fn warm_up(text: &str) -> Result<WarmUp, String> {
    match text.trim() {
        "auto" => Ok(WarmUp::AUTO),
        time => {
            let time = duration(time);
            time.map(WarmUp::For).map_err(|wrong| format!("{wrong}; or auto"))
        }
    }
}

/// Reads a count: `1000`, `10k`, `2m`, `1.5k`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("found {text:?}, expected a count such as 1000, 10k or 2m");
    if let Ok(plain) = text.parse() {
        return Ok(plain);
    }
    let value = scaled(text).ok_or_else(wrong)?;
    // Beyond this a float cannot represent every whole number.
    if value.fract() == 0.0 && value <= (1_u64 << 53) as f64 {
        Ok(value as u64)
    } else {
        Err(wrong())
    }
}

/// Reads a count that is not zero.
pub(crate) fn some_count(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("found 0, expected at least 1".to_owned()),
        count => Ok(count),
    }
}

/// Reads a count of things that are held in memory, not zero.
pub(crate) fn some_size(text: &str) -> Result<usize, String> {
    usize::try_from(some_count(text)?).map_err(|_| format!("found {text:?}, expected less"))
}

/// Reads a rate of requests a second: `5000`, `2.5k`, `100/s`, `300/m`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("found {text:?}, expected requests a second such as 5000, 2.5k or 100/s");
    let (amount, seconds) = match text.split_once('/') {
        None | Some((_, "s" | "1s")) => (text.split('/').next().unwrap_or_default(), 1.0),
        Some((amount, "m" | "1m")) => (amount, 60.0),
        Some(_) => return Err(wrong()),
    };
    let value = scaled(amount).ok_or_else(wrong)? / seconds;
    if value > 0.0 { Ok(value) } else { Err(wrong()) }
}

/// Reads a header: `Name: value` or `Name=value`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let at = text
        .find([':', '='])
        .ok_or_else(|| format!("found {text:?}, expected \"Name: value\""))?;
    let (name, value) = (text[..at].trim(), text[at + 1..].trim());
    if name.is_empty() {
        return Err(format!(
            "found {text:?}, expected a name before the value, such as \"Accept: text/html\""
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads statuses: `200`, `2xx`, `200-299`, several with commas.
pub(crate) fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("found {text:?}, expected statuses from 100 to 999 such as 200, 2xx or 200-299");
    let bytes = text.as_bytes();
    let range = if bytes.len() == 3 && bytes[1..].eq_ignore_ascii_case(b"xx") && bytes[0].is_ascii_digit() {
        let hundred = u16::from(bytes[0] - b'0') * 100;
        hundred..=hundred + 99
    } else {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let status = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        status(low)?..=status(high)?
    };
    if range.is_empty() || *range.start() < 100 || *range.end() > 999 {
        return Err(wrong());
    }
    Ok(range)
}

/// Reads a percentile above 0, up to 100.
pub(crate) fn percentile(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_start_matches(['p', 'P']).trim_end_matches('%');
    match number.parse::<f64>() {
        Ok(percentile) if percentile > 0.0 && percentile <= 100.0 => Ok(percentile),
        _ => Err(format!(
            "found {text:?}, expected percentiles above 0 up to 100 such as 50,90,99.9"
        )),
    }
}

/// A part of a run with a load of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stage {
    /// How long it lasts.
    pub(crate) duration: Duration,
    /// Number of connections or rate during the stage.
    pub(crate) target: StageTarget,
}

/// Target of a stage: a linear change from its first value to its second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StageTarget {
    /// Number of connections.
    Connections(usize, usize),
    /// Requests per second.
    Rate(f64, f64),
}

/// Reads a stage: `10s:100` connections, `30s:500/s` requests a second, `1m:100..1000/s` rising.
pub(crate) fn stage(text: &str) -> Result<Stage, String> {
    let wrong = || {
        format!(
            "found {text:?}, expected DURATION:TARGET such as 10s:100 (connections), 30s:500/s (requests a second) or \
             1m:100..1000/s (rising)"
        )
    };
    let (time, target) = text.split_once(':').ok_or_else(wrong)?;
    let duration = some_duration(time)?;
    let (from, to) = target.split_once("..").unwrap_or((target, target));
    let target = if to.contains('/') {
        let per = &to[to.find('/').unwrap_or_default()..];
        let from = if from.contains('/') {
            from.to_owned()
        } else {
            format!("{from}{per}")
        };
        // A rise may begin at zero.
        let start = if from.starts_with("0/") { 0.0 } else { rate(&from)? };
        StageTarget::Rate(start, rate(to)?)
    } else {
        let connections = |text| count(text).and_then(|count| usize::try_from(count).map_err(|_| wrong()));
        StageTarget::Connections(connections(from)?, connections(to)?)
    };
    Ok(Stage { duration, target })
}

/// Reads a number that may end in k, m or g.
fn scaled(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, factor) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'm' | 'M') => (&text[..at], 1e6),
        (at, 'g' | 'G') => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number
        .parse::<f64>()
        .ok()
        .filter(|_| plain)
        .map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_units() {
        for (text, ms) in [
            ("10", 10_000),
            ("10s", 10_000),
            ("0.5", 500),
            ("1.0", 1_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "10x", "-1", "1m30", "1..2s", "ten", "1e9h", "9999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(some_duration("0s").is_err());
    }

    #[test]
    fn counts_and_rates_are_read_with_their_suffixes() {
        for (text, expected) in [
            ("1000", 1_000),
            ("10k", 10_000),
            ("2m", 2_000_000),
            ("1.5K", 1_500),
            ("0", 0),
        ] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for text in ["", "k", "1.5", "-3", "10kk", "many", "99999999999g"] {
            assert!(count(text).is_err(), "{text}");
        }
        for (text, expected) in [
            ("5000", 5_000.0),
            ("2.5k", 2_500.0),
            ("100/s", 100.0),
            ("300/m", 5.0),
            ("0.5", 0.5),
        ] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["0", "", "5/h", "-1", "fast"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_read_with_a_colon_or_an_equals_sign() {
        for (text, name, value) in [
            ("Accept: text/html", "Accept", "text/html"),
            ("X-Url: http://h/?a=b", "X-Url", "http://h/?a=b"),
            ("X-Id=7", "X-Id", "7"),
            ("X-Empty:", "X-Empty", ""),
        ] {
            assert_eq!(header(text), Ok((name.to_owned(), value.to_owned())), "{text}");
        }
        for text in ["Accept", ": x", ""] {
            assert!(header(text).is_err(), "{text}");
        }
    }

    #[test]
    fn statuses_are_read_as_one_as_a_class_and_as_a_range() {
        for (text, range) in [
            ("200", 200..=200),
            ("2xx", 200..=299),
            ("200-302", 200..=302),
            ("5XX", 500..=599),
        ] {
            assert_eq!(statuses(text), Ok(range), "{text}");
        }
        for text in ["", "20", "abc", "300-200", "99", "1000", "0xx", "2x"] {
            assert!(statuses(text).is_err(), "{text}");
        }
    }

    #[test]
    fn stages_set_connections_or_a_rate_and_may_rise() {
        let (ten, minute) = (Duration::from_secs(10), Duration::from_mins(1));
        for (text, duration, target) in [
            ("10s:100", ten, StageTarget::Connections(100, 100)),
            ("10:1..100", ten, StageTarget::Connections(1, 100)),
            ("1m:500/s", minute, StageTarget::Rate(500.0, 500.0)),
            ("1m:0..1k/s", minute, StageTarget::Rate(0.0, 1_000.0)),
            ("1m:100/s..60/m", minute, StageTarget::Rate(100.0, 1.0)),
        ] {
            assert_eq!(stage(text), Ok(Stage { duration, target }), "{text}");
        }
        for text in ["", "10s", "0s:5", "10s:", "10s:x", "10s:5/h", ":5", "10s:0/s"] {
            assert!(stage(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentiles_lie_above_0_up_to_100() {
        assert_eq!(percentile("99.9"), Ok(99.9));
        assert_eq!(percentile("p50"), Ok(50.0));
        for text in ["0", "100.1", "", "x", "-1"] {
            assert!(percentile(text).is_err(), "{text}");
        }
    }
}
