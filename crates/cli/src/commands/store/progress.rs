//! A progress bar on the terminal. Elsewhere nothing is shown; the summary at the end is printed in any case.

use std::time::{Duration, Instant};

use crate::output;

/// Interval between redraws.
const EVERY: Duration = Duration::from_millis(200);
/// Characters of the bar.
const WIDTH: usize = 30;
/// Number of columns if the terminal does not report it.
const COLUMNS: usize = 80;
/// Returns to the first column and clears the line (ECMA-48: EL).
const CLEAR: &str = "\r\x1b[K";

/// Progress of an operation, on standard error.
#[derive(Debug)]
pub(super) struct Bar {
    what: &'static str,
    /// Unit of the count: `lines`, `records`; `None` if only bytes are counted.
    unit: Option<&'static str>,
    /// Whether bytes are counted.
    sized: bool,
    /// Expected total of the bytes, or else of the count, if known.
    total: Option<u64>,
    begun: Instant,
    /// Time of the next redraw; `None` if standard error is not a terminal.
    next: Option<Instant>,
    drawn: bool,
}

impl Bar {
    /// `total_bytes`: the expected number of bytes, if known.
    pub(super) fn new(what: &'static str, unit: &'static str, total_bytes: Option<u64>) -> Self {
        Self::of(what, Some(unit), true, total_bytes)
    }

    /// A bar that counts only bytes.
    pub(super) fn of_bytes(what: &'static str) -> Self {
        Self::of(what, None, true, None)
    }

    /// A bar with a count only, and its expected `total`, if known.
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

    /// Sets the expected total, once it is known.
    pub(super) fn has_total(&mut self, total: u64) {
        self.total = Some(total).filter(|total| *total > 0);
    }

    /// Shows the progress, if it is time to.
    pub(super) fn at(&mut self, count: u64, bytes: u64) {
        let Some(next) = self.next else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        self.next = Some(now + EVERY);
        self.drawn = true;
        let picture = self.picture(count, bytes, now - self.begun);
        // A character in the last column would wrap the line.
        let cut: String = picture.chars().take(columns() - 1).collect();
        output::picture(&format!("{CLEAR}{cut}"));
    }

    /// Removes the bar, and returns a summary with the speed.
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
            // Clear the line for the output that follows, also after an error.
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
