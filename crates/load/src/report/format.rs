//! Formats figures and settings for people. Nothing here decides anything: the same value always gives the same words, however large, small
//! or hostile it is.

use jiff::Timestamp;

use crate::{plan::Pace, report::Run, search::WarmedUp};

/// A duration in the unit that suits it, with four digits: `950 ns`, `213.4 us`, `1.049 ms`, `12.50 s`.
pub fn duration(ns: f64) -> String {
    let (value, unit) = duration_parts(ns);
    format!("{value} {unit}")
}

/// As [`duration`], with number and unit apart, for columns.
pub(crate) fn duration_parts(ns: f64) -> (String, &'static str) {
    let (value, unit) = match ns {
        ns if ns < 999.5 => return (format!("{ns:.0}"), "ns"),
        ns if ns < 999_950.0 => (ns / 1e3, "us"),
        ns if ns < 999_950_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    (four_digits(value), unit)
}

/// A round duration without decimals that it does not have: `2 ms`.
pub fn short_duration(ns: f64) -> String {
    let (number, unit) = duration_parts(ns);
    let number = match number.split_once('.') {
        Some(_) => number.trim_end_matches('0').trim_end_matches('.'),
        None => &number,
    };
    format!("{number} {unit}")
}

fn four_digits(value: f64) -> String {
    let decimals = match value {
        value if value < 9.9995 => 3,
        value if value < 99.995 => 2,
        value if value < 999.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A number with its thousands apart: `2,370,000`.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Digits with a comma before each three from the right.
pub fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per second: whole from 100 on, with up to two decimals below.
pub fn rate(per_second: f64) -> String {
    if per_second >= 99.95 {
        count(per_second.round() as u64)
    } else {
        let text = format!("{per_second:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Bytes in the decimal unit that suits them: `149 B`, `353.1 MB`.
pub fn bytes(number: f64) -> String {
    let mut value = number;
    if value < 999.5 {
        return format!("{value:.0} B");
    }
    for unit in ["kB", "MB", "GB", "TB"] {
        value /= 1e3;
        if value < 999.95 {
            return format!("{} {unit}", four_digits(value));
        }
    }
    format!("{} PB", four_digits(value / 1e3))
}

/// A part of a whole in percent, with as many decimals as it takes to see that it is not 0.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    match percent {
        _ if part == 0 => "0 %".into(),
        percent if percent < 0.0001 => "under 0.0001 %".into(),
        percent if percent < 0.1 => format!("{percent:.4} %"),
        percent if part < whole && percent > 99.99 => "over 99.99 %".into(),
        percent => format!("{percent:.2} %"),
    }
}

/// A number with its noun: `1 thread`, `2 threads`, `3 processes`.
pub fn several(number: u64, thing: &str) -> String {
    let ending = match number {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {thing}{ending}", count(number))
}

/// A percentile without needless zeros: `50`, `97.5`, `99.9`.
pub(crate) fn percentile(percent: f64) -> String {
    // Rounds away the residue of arithmetic: 99.9, not 99.90000000000001.
    let text = format!("{percent:.5}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A warm-up in words: how long, until what, and with how many requests.
pub(crate) fn warm_up(warm_up: &WarmedUp) -> String {
    let steady = match warm_up.steady {
        Some(true) => " until it was steady",
        Some(false) => " without becoming steady",
        None => "",
    };
    let took = duration(warm_up.seconds * 1e9);
    format!("of {took}{steady}, {}", several(warm_up.requests, "request"))
}

/// Most stages that are listed one by one.
const STAGES_TOLD_MAX: usize = 8;

/// The load in words: open or closed, and how that affects the figures.
pub(crate) fn load(run: &Run) -> String {
    let connections = several(run.connections as u64, "connection");
    if !run.stages.is_empty() {
        let stages: Vec<&str> = run
            .stages
            .iter()
            .take(STAGES_TOLD_MAX)
            .map(String::as_str)
            .collect();
        let more = if run.stages.len() > stages.len() {
            ", and so on"
        } else {
            ""
        };
        return format!(
            "load in stages, on at most {connections}: {}{more}",
            stages.join(", then ")
        );
    }
    let pace = run.load.map_or(Pace::Closed, |load| load.pace);
    match pace {
        Pace::Closed => {
            let next = if run.pipeline > 1 {
                format!("each keeps {} requests under way", run.pipeline)
            } else {
                "each sends its next request when the answer to the last has come".into()
            };
            format!("closed load: {connections}, {next}")
        }
        Pace::Open { per_second } => {
            let rate = rate(per_second);
            format!("open load: {rate} requests a second over {connections}, whatever the answers do")
        }
    }
}

/// Why latency counts from where it does.
pub(crate) fn latency_from(run: &Run) -> &'static str {
    match run.load.map_or(Pace::Closed, |load| load.pace) {
        Pace::Closed => "from the moment a request is written to the end of its answer",
        Pace::Open { .. } => {
            "from the moment a request was due, even if it had to wait to be sent, to the end of its answer"
        }
    }
}

/// A moment in UTC: `2025-10-09 08:53:20 UTC`.
pub(crate) fn moment(unix_ms: u64) -> String {
    let moment = i64::try_from(unix_ms).ok().map(Timestamp::from_millisecond);
    let moment = moment.and_then(Result::ok).unwrap_or(Timestamp::MAX);
    moment.strftime("%F %T UTC").to_string()
}

/// Text from outside in one line without control characters, cut after `characters_max` characters.
pub fn plain(text: &str, characters_max: usize) -> String {
    let mut plain: String = text
        .chars()
        .take(characters_max + 1)
        .map(|character| match character {
            character if character.is_control() => ' ',
            // Bidirectional control characters could make the text look like another one.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
            character => character,
        })
        .collect();
    if plain.chars().count() > characters_max {
        plain.truncate(
            plain
                .char_indices()
                .nth(characters_max.saturating_sub(3))
                .map_or(0, |(at, _)| at),
        );
        plain.push_str("...");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_has_its_unit_and_four_digits() {
        for (ns, words) in [
            (0.0, "0 ns"),
            (999.4, "999 ns"),
            (999.6, "1.000 us"),
            (213_375.0, "213.4 us"),
            (999_960.0, "1.000 ms"),
            (99_996_000.0, "100.0 ms"),
            (2_000_683_007.0, "2.001 s"),
            (3.6e12, "3600 s"),
        ] {
            assert_eq!(duration(ns), words);
        }
    }

    #[test]
    fn numbers_are_grouped_and_parts_are_never_rounded_to_nothing() {
        assert_eq!(
            (count(0), count(999), count(1_000)),
            ("0".into(), "999".into(), "1,000".into())
        );
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            (rate(0.5), rate(12.0), rate(237_000.4)),
            ("0.5".into(), "12".into(), "237,000".into())
        );
        assert_eq!(
            (bytes(149.0), bytes(353_130_000.0)),
            ("149 B".into(), "353.1 MB".into())
        );
        assert_eq!(bytes(5e18), "5000 PB");
        assert_eq!((percent(0, 5), percent(5, 5)), ("0 %".into(), "100.00 %".into()));
        assert_eq!(percent(1, 10_000_000), "under 0.0001 %");
        assert_eq!(percent(9_999_999, 10_000_000), "over 99.99 %");
        assert_eq!(
            (percentile(50.0), percentile(97.5), percentile(0.999 * 100.0)),
            ("50".into(), "97.5".into(), "99.9".into())
        );
    }

    #[test]
    fn text_from_outside_cannot_steer_a_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\r\nc\u{202e}d", 80), "a [31mb  c d");
        assert_eq!(plain("abcdefgh", 8), "abcdefgh");
        assert_eq!(plain("abcdefghi", 8), "abcde...");
    }
}
