//! Numbers as other tools write them: their units, the points at which they change from one to the next, and their rounding.

use crate::report::words;

/// A number scaled by `scale` as often as it reaches 0.85 of it and there is a unit left, with two decimals: `1.05ms`, `606.33M`.
/// wrk (src/units.c) and bombardier (format.go) do it so.
fn scaled(number: f64, scale: f64, base: &str, units: &[&str], decimals: usize) -> String {
    let (mut number, mut unit) = (number, base);
    for next in units {
        if number < scale * 0.85 {
            break;
        }
        (number, unit) = (number / scale, next);
    }
    format!("{number:.decimals$}{unit}")
}

/// Microseconds as wrk writes them: up to `ms` below a second, `s` and `m` from there.
pub(super) fn wrk_time(us: f64) -> String {
    if us >= 1e6 {
        return scaled(us / 1e6, 60.0, "s", &["m"], 2);
    }
    scaled(us, 1e3, "us", &["ms"], 2)
}

/// Whole seconds or minutes: `30s`, `2m`.
pub(super) fn wrk_seconds(seconds: f64) -> String {
    scaled(seconds, 60.0, "s", &["m"], 0)
}

/// Bytes by 1,024, without the final `B`.
pub(super) fn wrk_bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, "", &["K", "M", "G", "T"], 2)
}

/// A number by 1,000.
pub(super) fn wrk_metric(number: f64) -> String {
    scaled(number, 1e3, "", &["k", "M", "G", "T"], 2)
}

/// Microseconds as bombardier writes them.
pub(super) fn bombardier_time(us: f64) -> String {
    if us >= 1e6 {
        return scaled(us / 1e6, 60.0, "s", &["m", "h"], 2);
    }
    scaled(us, 1e3, "us", &["ms", "s"], 2)
}

/// Bytes as bombardier writes them.
pub(super) fn bombardier_bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, "", &["KB", "MB", "GB", "TB", "PB"], 2)
}

/// Bytes in decimal units to three digits, as the npm package pretty-bytes 5 writes them: `2.29 MB`, `171 kB`, `0 B`.
pub(super) fn pretty_bytes(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1.0 {
        return format!("{bytes} B");
    }
    let exponent = ((bytes.log10() / 3.0).floor() as i32).min(6);
    let number = bytes / 1000_f64.powi(exponent);
    format!("{} {}", three_digits(number), UNITS[exponent as usize])
}

fn three_digits(number: f64) -> f64 {
    let before_point = number.log10().floor() as i32 + 1;
    let scale = 10_f64.powi(3 - before_point);
    (number * scale).round() / scale
}

/// Bytes by 1,024 with two decimals as the crate byte-unit 5 writes them for oha: `1.13 KiB`, `12 B`.
pub(super) fn binary_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let exponent = (1..=UNITS.len())
        .rev()
        .find(|exponent| bytes >= 1 << (10 * exponent));
    match exponent {
        Some(exponent) => format!(
            "{:.2} {}",
            bytes as f64 / (1_u64 << (10 * exponent)) as f64,
            UNITS[exponent - 1]
        ),
        None => format!("{bytes} B"),
    }
}

/// A number with commas between thousands, and all its decimals: `25,131.2`.
pub(super) fn grouped(number: f64) -> String {
    let text = number.to_string();
    let (whole, decimals) = text.split_at(text.find('.').unwrap_or(text.len()));
    words::grouped(whole) + decimals
}

/// A duration as the Go language writes it: `1m30s`, `9.999s`, `213.375µs`, `0s`.
pub(super) fn go_duration(ns: u64) -> String {
    let shortest = |number: u64, decimals: usize| {
        let scale = 10_u64.pow(decimals as u32);
        let text = format!("{}.{:0decimals$}", number / scale, number % scale);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match ns {
        0 => "0s".into(),
        1..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}µs", shortest(ns, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", shortest(ns, 6)),
        _ => {
            let (hours, minutes) = (ns / 3_600_000_000_000, ns / 60_000_000_000 % 60);
            let seconds = shortest(ns % 60_000_000_000, 9);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, _) => format!("{minutes}m{seconds}s"),
                _ => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the outputs that the tools' own documents show.
    #[test]
    fn numbers_are_written_as_the_tools_documents_show_them() {
        assert_eq!(wrk_time(635.91), "635.91us");
        assert_eq!(wrk_time(890.0), "0.89ms");
        assert_eq!(wrk_time(900_000.0), "900.00ms");
        assert_eq!(wrk_time(30_000_000.0), "30.00s");
        assert_eq!(
            (wrk_seconds(30.0), wrk_seconds(60.0)),
            ("30s".into(), "1m".into())
        );
        assert_eq!(wrk_bytes(606.33 * 1024.0 * 1024.0), "606.33M");
        assert_eq!(wrk_metric(56_200.0), "56.20k");
        assert_eq!(
            (bombardier_time(51_000.0), bombardier_time(471.0)),
            ("51.00ms".into(), "471.00us".into())
        );
        assert_eq!(bombardier_bytes(292.92 * 1024.0 * 1024.0), "292.92MB");
    }

    #[test]
    fn bytes_keep_three_digits_in_decimal_units() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (12.0, "12 B"),
            (999.6, "1000 B"),
            (171_400.0, "171 kB"),
            (2_290_000.0, "2.29 MB"),
            (27_900_000.0, "27.9 MB"),
        ] {
            assert_eq!(pretty_bytes(bytes), text);
        }
    }

    #[test]
    fn bytes_have_decimals_in_binary_units_only() {
        assert_eq!(
            (binary_bytes(12), binary_bytes(1_024)),
            ("12 B".into(), "1.00 KiB".into())
        );
        assert_eq!(binary_bytes(28_440_000), "27.12 MiB");
        assert_eq!(binary_bytes(u64::MAX), "16.00 EiB");
    }

    #[test]
    fn thousands_are_grouped_before_the_point_only() {
        assert_eq!((grouped(0.0), grouped(999.25)), ("0".into(), "999.25".into()));
        assert_eq!(
            (grouped(246_374.4), grouped(1_000_000.0)),
            ("246,374.4".into(), "1,000,000".into())
        );
    }

    #[test]
    fn durations_are_those_of_go() {
        for (ns, text) in [
            (0, "0s"),
            (999, "999ns"),
            (213_375, "213.375µs"),
            (1_100_000, "1.1ms"),
            (9_999_000_000, "9.999s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(go_duration(ns), text);
        }
    }
}
