//! Parses and prints sizes and durations: `32KiB`, `1MB`, `300ms`, `5m`.

use std::time::Duration;

/// Units, largest first; of equal ones, the first is used for printing.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Units in milliseconds, largest first.
const DURATIONS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a number of bytes: digits with an optional unit.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = number_and_unit(text)?;
    let factor = if unit.is_empty() {
        Some(1)
    } else {
        factor(&SIZES, unit)
    };
    digits.checked_mul(factor?)
}

/// Parses a duration: digits and a unit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (digits, unit) = number_and_unit(text)?;
    digits
        .checked_mul(factor(&DURATIONS, unit)?)
        .map(Duration::from_millis)
}

/// Prints a size in the largest binary unit that represents it exactly.
pub fn print_size(bytes: u64) -> String {
    let binary = SIZES.iter().filter(|(unit, _)| unit.ends_with("iB"));
    print(binary, bytes).unwrap_or_else(|| bytes.to_string())
}

/// Prints a duration in the largest unit that represents it exactly, in whole milliseconds.
pub fn print_duration(duration: Duration) -> String {
    let millis = duration.as_millis() as u64;
    print(DURATIONS.iter(), millis).unwrap_or_else(|| "0s".to_owned())
}

fn print<'u>(mut units: impl Iterator<Item = &'u (&'u str, u64)>, number: u64) -> Option<String> {
    let (unit, factor) = units.find(|(_, factor)| number > 0 && number.is_multiple_of(*factor))?;
    Some(format!("{}{unit}", number / factor))
}

fn factor(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_and_decimal_units() {
        for (text, bytes) in [
            ("123", Some(123)),
            ("0", Some(0)),
            ("7B", Some(7)),
            ("32KiB", Some(32_768)),
            ("1MiB", Some(1_048_576)),
            ("64MB", Some(64_000_000)),
            ("16777215TiB", Some(16_777_215 << 40)),
            ("16777216TiB", None),
            ("1 KiB", None),
            ("1kib", None),
            ("1.5MiB", None),
            ("-1", None),
            ("KiB", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, millis) in [
            ("300ms", Some(300)),
            ("10s", Some(10_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0s", Some(0)),
            ("10", None),
            ("1d", None),
            ("1m30s", None),
            ("ms", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        for bytes in [
            0,
            1,
            1023,
            1024,
            1025,
            1_000_000,
            1 << 20,
            3 << 30,
            1 << 45,
            u64::MAX,
        ] {
            assert_eq!(parse_size(&print_size(bytes)), Some(bytes), "{bytes}");
        }
        for millis in [0, 1, 999, 1000, 1001, 60_000, 90_000, 3_600_000, u64::MAX] {
            let duration = Duration::from_millis(millis);
            assert_eq!(
                parse_duration(&print_duration(duration)),
                Some(duration),
                "{millis}"
            );
        }
        assert_eq!(print_size(64 << 20), "64MiB");
        assert_eq!(print_duration(Duration::from_secs(90)), "90s");
    }
}
