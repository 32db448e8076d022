//! A bar on the terminal for what takes long. Elsewhere nothing is shown; what was done is told at the end in any case.

use std::time::{Duration, Instant};

use crate::output;

/// Pause between two pictures.
const EVERY: Duration = Duration::from_millis(200);
/// Characters of the bar.
const WIDTH: usize = 30;
/// Columns when the terminal does not say.
const COLUMNS: usize = 80;
/// Back to the first column, and what stands in the line away (ECMA-48: EL).
const CLEAR: &str = "\r\x1b[K";

/// How far something is, on standard error.
#[derive(Debug)]
pub(super) struct Bar {
    what: &'static str,
    /// What is counted: `lines`, `records`; `None` where only bytes are.
    unit: Option<&'static str>,
    /// Whether bytes are counted.
    sized: bool,
    /// What the bytes, or else the count, will come to, where that is known.
    total: Option<u64>,
    begun: Instant,
    /// `None` when nobody looks.
    next: Option<Instant>,
    drawn: bool,
}

impl Bar {
    /// `total_bytes` is what the bytes will come to, where that is known.
    pub(super) fn new(what: &'static str, unit: &'static str, total_bytes: Option<u64>) -> Self {
        Self::of(what, Some(unit), true, total_bytes)
    }

    /// Of bytes alone.
    pub(super) fn of_bytes(what: &'static str) -> Self {
        Self::of(what, None, true, None)
    }

    /// Of a count alone, which comes to `total` where that is known.
    pub(super) fn of_count(what: &'static str, unit: &'static str, total: Option<u64>) -> Self {
        Self::of(what, Some(unit), false, total)
    }

    fn of(what: &'static str, unit: Option<&'static str>, sized: bool, total: Option<u64>) -> Self {
        let begun = Instant::now();
        Self {
            what,
            unit,
            sized,
            total: total.filter(|total| *total > 0),
            begun,
            next: output::has_pictures().then(|| begun + EVERY),
            drawn: false,
        }
    }

    /// Tells what it will come to, which is known only now.
    pub(super) fn has_total(&mut self, total: u64) {
        self.total = Some(total).filter(|total| *total > 0);
    }

    /// Shows where it is, when it is time to.
    pub(super) fn at(&mut self, count: u64, bytes: u64) {
        let Some(next) = self.next else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        self.next = Some(now + EVERY);
        self.drawn = true;
        let picture = self.picture(count, bytes, now - self.begun);
        // In the last column it would take two rows.
        let cut: String = picture.chars().take(columns() - 1).collect();
        output::picture(&format!("{CLEAR}{cut}"));
    }

    /// Takes the bar away, and says what was done and how fast.
    pub(super) fn end(&mut self, count: u64, bytes: u64) -> String {
        if std::mem::take(&mut self.drawn) {
            output::picture(CLEAR);
        }
        let elapsed = self.begun.elapsed();
        format!("{} in {:.1} s", self.amount(count, bytes), elapsed.as_secs_f64())
    }

    /// `1,500 lines, 1.0 MB`
    fn amount(&self, count: u64, bytes: u64) -> String {
        let count = self.unit.map(|unit| format!("{} {unit}", thousands(count)));
        let size = self.sized.then(|| megabytes(bytes));
        count.into_iter().chain(size).collect::<Vec<_>>().join(", ")
    }

    fn picture(&self, count: u64, bytes: u64, elapsed: Duration) -> String {
        let reached = if self.sized { bytes } else { count };
        let bar = self.total.map_or(String::new(), |total| {
            let share = (reached as f64 / total as f64).min(1.0);
            let full = (share * WIDTH as f64) as usize;
            format!(
                " [{}{}] {:.0} %",
                "#".repeat(full),
                "-".repeat(WIDTH - full),
                (share * 100.0).floor()
            )
        });
        let rate = (reached as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
        let rate = if self.sized {
            megabytes(rate)
        } else {
            thousands(rate)
        };
        format!("{}{bar} {}, {rate}/s", self.what, self.amount(count, bytes))
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn {
            // What follows begins on a clean line, also after an error.
            output::picture(CLEAR);
        }
    }
}

fn columns() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .map(|size| size.ws_col.into())
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS)
}

/// A size in the unit that suits it.
pub(super) fn megabytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// A whole number with commas between thousands.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_tells_the_share_where_it_is_known() {
        let mut bar = Bar::new("import", "lines", Some(2_000_000));
        assert_eq!(
            bar.picture(1_500, 1_000_000, Duration::from_secs(2)),
            "import [###############---------------] 50 % 1,500 lines, 1.0 MB, 500.0 kB/s"
        );
        bar.total = None;
        assert_eq!(
            bar.picture(15, 10, Duration::from_secs(1)),
            "import 15 lines, 10 B, 10 B/s"
        );
        let mut copying = Bar::of_bytes("backup");
        copying.has_total(4_000_000);
        assert_eq!(
            copying.picture(0, 1_000_000, Duration::from_secs(2)),
            "backup [#######-----------------------] 25 % 1.0 MB, 500.0 kB/s"
        );
        assert_eq!(
            Bar::of_count("restore", "changes", Some(6000)).picture(3000, 0, Duration::from_secs(2)),
            "restore [###############---------------] 50 % 3,000 changes, 1,500/s"
        );
    }
}
