//! What is seen while it runs. On a terminal a few lines, redrawn in place; elsewhere a line every few seconds. Looks at figures that are
//! there anyway, some times a second, so that it costs nothing that could be measured.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use forebay_load::{
    engine::{Stretch, Timeline, Until},
    failure::Class,
};

use crate::output;

/// Pause between two pictures on a terminal.
const PICTURE_EVERY: Duration = Duration::from_millis(250);
/// Pause between two lines elsewhere.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Bars of the sparkline.
const BARS: usize = 40;
/// Heights of a bar.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns when the terminal does not say.
const COLUMNS: usize = 80;

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Not at all.
    Quiet,
    /// A line now and then.
    Lines,
    /// Redrawn in place.
    Terminal { colour: bool },
}

/// Shows a run while it lasts, on standard error.
#[derive(Debug)]
pub(crate) struct Live {
    way: Way,
    what: &'static str,
    until: Until,
    begun: Instant,
    next: Instant,
    /// Lines of the last picture, which the next one replaces.
    drawn: usize,
    last: Sample,
}

/// Figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Duration,
    answers: u64,
    per_second: f64,
}

impl Live {
    /// Nothing is shown yet. `what` is what goes on, such as `measuring`.
    pub(crate) fn new(quiet: bool, what: &'static str, until: Until) -> Self {
        let way = if quiet {
            Way::Quiet
        } else if output::has_pictures() {
            Way::Terminal {
                colour: output::complaints_in_colour(),
            }
        } else {
            Way::Lines
        };
        Self::shown(way, what, until)
    }

    fn shown(way: Way, what: &'static str, until: Until) -> Self {
        let begun = Instant::now();
        let first = if way == Way::Lines {
            LINE_EVERY
        } else {
            PICTURE_EVERY
        };
        Self {
            way,
            what,
            until,
            begun,
            next: begun + first,
            drawn: 0,
            last: Sample::default(),
        }
    }

    /// Shows what there is, when it is time to.
    pub(crate) fn look(&mut self, stretch: &Stretch) {
        let now = Instant::now();
        if self.way == Way::Quiet || now < self.next {
            return;
        }
        let elapsed = now - self.begun;
        let passed = elapsed.saturating_sub(self.last.at).as_secs_f64();
        let answered = stretch.total.answers.saturating_sub(self.last.answers);
        self.last = Sample {
            at: elapsed,
            answers: stretch.total.answers,
            per_second: if passed > 0.0 {
                answered as f64 / passed
            } else {
                0.0
            },
        };
        match self.way {
            Way::Quiet => {}
            Way::Lines => {
                self.next = now + LINE_EVERY;
                output::complaint(&self.line(stretch));
            }
            Way::Terminal { colour } => {
                self.next = now + PICTURE_EVERY;
                let picture = self.picture(stretch, colour);
                self.draw(&picture);
            }
        }
    }

    /// Takes the picture away: the result follows.
    pub(crate) fn end(&mut self) {
        if self.drawn > 0 {
            self.draw("");
        }
    }

    fn draw(&mut self, picture: &str) {
        let columns = columns();
        let mut out = String::new();
        if self.drawn > 0 {
            // Up to the first line of the last picture, and all below it away (ECMA-48: CUU, ED).
            let _ = write!(out, "\x1b[{}A\r\x1b[J", self.drawn);
        }
        self.drawn = 0;
        for line in picture.lines() {
            out.push_str(&cut(line, columns));
            out.push('\n');
            self.drawn += 1;
        }
        output::picture(&out);
    }

    fn line(&self, stretch: &Stretch) -> String {
        let latency = &stretch.total.latency;
        let percentile = |percent| milliseconds(latency.value_at_percentile(percent));
        format!(
            "{} {}: {} answers, {}/s, p50 {}, p99 {}, max {}, {}",
            self.what,
            self.progress(stretch),
            stretch.total.answers,
            whole(self.last.per_second),
            percentile(50.0),
            percentile(99.0),
            milliseconds(latency.max()),
            errors(stretch)
        )
    }

    fn picture(&self, stretch: &Stretch, colour: bool) -> String {
        let (bold, dim, red, off) = if colour {
            ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m")
        } else {
            ("", "", "", "")
        };
        let latency = &stretch.total.latency;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{bold}{}{off} {}  {bold}{}{off} answers/s  {dim}{}{off}",
            self.what,
            self.progress(stretch),
            whole(self.last.per_second),
            sparkline(&stretch.timeline)
        );
        text.push_str("latency ");
        for percent in [50.0, 90.0, 99.0, 99.9] {
            let _ = write!(
                text,
                " p{percent} {bold}{}{off} ",
                milliseconds(latency.value_at_percentile(percent))
            );
        }
        let _ = writeln!(text, " max {bold}{}{off}", milliseconds(latency.max()));
        let errors = errors(stretch);
        let shown = if stretch.total.failures.total() > 0 {
            format!("{red}{errors}{off}")
        } else {
            errors
        };
        let _ = writeln!(text, "{shown}");
        text
    }

    /// How far it is.
    fn progress(&self, stretch: &Stretch) -> String {
        let seconds = self.last.at.as_secs();
        let time = self.until.duration.map_or_else(
            || format!("{seconds} s"),
            |duration| format!("{seconds}/{} s", duration.as_secs_f64().ceil()),
        );
        match self.until.requests {
            Some(requests) => format!("{}/{requests} requests, {time}", stretch.total.answers),
            None => time,
        }
    }
}

/// What has failed, the most frequent first.
fn errors(stretch: &Stretch) -> String {
    let mut classes: Vec<(Class, u64)> = stretch.total.failures.iter().collect();
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if classes.is_empty() {
        return "no errors".to_owned();
    }
    let shown: Vec<String> = classes
        .iter()
        .take(4)
        .map(|(class, count)| format!("{} {count}", class.name()))
        .collect();
    format!("errors: {}", shown.join(", "))
}

/// Answers over time, as bars: the tallest is the highest rate so far.
fn sparkline(timeline: &Timeline) -> String {
    // The last slice is still being filled.
    let slices = timeline.slices.len().saturating_sub(1);
    let each = slices.div_ceil(BARS).max(1);
    let bars: Vec<f64> = timeline.slices[..slices]
        .chunks(each)
        .map(|slices| slices.iter().map(|slice| slice.answers).sum::<u64>() as f64 / slices.len() as f64)
        .collect();
    let highest = bars.iter().copied().fold(0.0, f64::max);
    let level = |bar: &f64| {
        let share = if highest > 0.0 { bar / highest } else { 0.0 };
        LEVELS[(share * (LEVELS.len() - 1) as f64).round() as usize]
    };
    bars.iter().map(level).collect()
}

fn milliseconds(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        1_000_000..100_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        100_000_000..10_000_000_000 => format!("{:.0} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A whole number with commas between thousands.
fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn columns() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .map(|size| size.ws_col.into())
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS)
}

/// A line that does not reach the terminal's last column, where it would take two rows. Sequences of colour take none.
fn cut(line: &str, columns: usize) -> String {
    let (mut out, mut width, mut inside) = (String::new(), 0, false);
    for character in line.chars() {
        if character == '\x1b' {
            inside = true;
        } else if inside {
            inside = !character.is_ascii_alphabetic();
        } else {
            width += 1;
            if width >= columns {
                continue;
            }
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let shown: Vec<String> = [0.0, 999.4, 1_000.0, 1_234_567.0]
            .into_iter()
            .map(whole)
            .collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        let shown: Vec<String> = [900, 91_000, 1_234_000, 250_000_000, 12_300_000_000]
            .into_iter()
            .map(milliseconds)
            .collect();
        assert_eq!(shown, ["1 us", "91 us", "1.23 ms", "250 ms", "12.3 s"]);
    }

    #[test]
    fn a_line_is_cut_before_the_edge_and_colour_takes_no_room() {
        assert_eq!(cut("abcdef", 4), "abc");
        assert_eq!(cut("\x1b[1mabc\x1b[0m", 4), "\x1b[1mabc\x1b[0m");
        assert_eq!(cut("\x1b[1mabcdef\x1b[0m", 4), "\x1b[1mabc\x1b[0m");
    }

    #[test]
    fn a_timeline_without_slices_has_no_bars() {
        assert_eq!(sparkline(&Timeline::default()), "");
    }
}
