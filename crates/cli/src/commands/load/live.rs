//! The progress of a run, on standard error: on a terminal a line that is redrawn in place, elsewhere a line every two seconds. It shows
//! figures that are there anyway, some times a second, so that it costs nothing that could be measured.

use std::time::{Duration, Instant};

use forebay_load::{
    engine::{Stretch, Until},
    failure::Class,
    report::words::{count, duration},
};

use crate::output;

/// Time between two redraws on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(250);
/// Time between two lines elsewhere.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// To the start of the line, and clear it (ECMA-48: EL).
const CLEAR: &str = "\r\x1b[K";
/// Columns when the terminal does not say.
const COLUMNS: usize = 80;

/// Shows a run while it lasts.
#[derive(Debug)]
pub(crate) struct Live {
    quiet: bool,
    terminal: bool,
    what: &'static str,
    until: Until,
    begun: Instant,
    next: Instant,
    /// When it was last shown, and how many answers there were.
    last: (Instant, u64),
}

impl Live {
    /// Nothing is shown yet. `what` names the part of the run, such as `measuring`.
    pub(crate) fn new(quiet: bool, what: &'static str, until: Until) -> Self {
        let (begun, terminal) = (Instant::now(), output::has_pictures());
        let mut live = Self {
            quiet,
            terminal,
            what,
            until,
            begun,
            next: begun,
            last: (begun, 0),
        };
        live.next += live.interval();
        live
    }

    fn interval(&self) -> Duration {
        if self.terminal { REDRAW_EVERY } else { LINE_EVERY }
    }

    /// Shows what there is, when it is time to.
    pub(crate) fn look(&mut self, stretch: &Stretch) {
        let now = Instant::now();
        if self.quiet || now < self.next {
            return;
        }
        self.next = now + self.interval();
        let line = self.line(stretch, now);
        self.last = (now, stretch.total.answers);
        if self.terminal {
            let columns =
                rustix::termios::tcgetwinsize(std::io::stderr()).map(|size| usize::from(size.ws_col));
            let columns = columns.ok().filter(|columns| *columns > 1).unwrap_or(COLUMNS);
            // In the last column a terminal may begin another line.
            let shown: String = line.chars().take(columns - 1).collect();
            output::picture(&format!("{CLEAR}{shown}"));
        } else {
            output::complaint(&line);
        }
    }

    /// Clears the line: the result follows.
    pub(crate) fn end(&mut self) {
        let shown = self.last.0 != self.begun;
        if self.terminal && shown {
            output::picture(CLEAR);
        }
    }

    fn line(&self, stretch: &Stretch, now: Instant) -> String {
        let (last, answers_before) = self.last;
        let seconds = (now - last).as_secs_f64().max(1e-9);
        let rate = stretch.total.answers.saturating_sub(answers_before) as f64 / seconds;
        let latency = &stretch.total.latency;
        let percentile = |percent| duration(latency.value_at_percentile(percent) as f64);
        format!(
            "{} {}: {} answers, {}/s, p50 {}, p99 {}, max {}, {}",
            self.what,
            self.progress(stretch, now),
            stretch.total.answers,
            count(rate.round() as u64),
            percentile(50.0),
            percentile(99.0),
            duration(latency.max() as f64),
            errors(stretch)
        )
    }

    /// How far it is.
    fn progress(&self, stretch: &Stretch, now: Instant) -> String {
        let seconds = (now - self.begun).as_secs();
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
    let named = classes
        .iter()
        .take(4)
        .map(|(class, count)| format!("{} {count}", class.name()));
    format!("errors: {}", named.collect::<Vec<_>>().join(", "))
}
