//! Observes operations on exclusive connections: their progress, if the request is traced, and their counters.

use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use forebay_trace::{Span, Trace};

use crate::{
    PgError, Source,
    counts::{Counting, Placed},
    timing::{Reached, Timing},
};

/// Most parts of a span that alternates between activity and waiting; further times are summed up.
const PARTS_MAX: usize = 64;
/// Part of a span during which the reader or writer was busy: the client, or the handler.
const READER: &str = "reader";

/// A statement from its request to its outcome. Dropped without an outcome, it counts as abandoned.
#[derive(Debug)]
pub(crate) struct Watch<'t> {
    text: Cow<'t, str>,
    timing: Timing,
    counting: Option<Counting<'t, Source>>,
}

impl<'t> Watch<'t> {
    /// Observes a statement requested at `asked`; with `counted` it is also counted.
    pub(crate) fn begin(counted: Option<&Source>, text: impl Into<Cow<'t, str>>, asked: Instant) -> Self {
        let text = text.into();
        let counting = counted.map(|source| Counting::begin(source.clone(), text.clone(), Placed::default()));
        Self {
            text,
            timing: Timing::begin_at(asked),
            counting,
        }
    }

    /// Records that it has got a connection.
    pub(crate) fn place(&self) {
        self.timing.reach(Reached::Placed);
        if let Some(counting) = &self.counting {
            counting.place(Instant::now());
        }
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Records its outcome and its number of rows.
    pub(crate) fn end<O>(self, outcome: &Result<O, PgError>, rows: impl FnOnce(&O) -> u64) {
        self.timing.end(&self.text);
        if let Some(mut counting) = self.counting {
            counting.end(outcome, rows);
        }
    }

    /// Continues with a statement that transfers rows or bytes piece by piece; or records its failure.
    pub(crate) fn flow<O>(self, outcome: &Result<O, PgError>) -> Option<Flow>
    where
        't: 'static,
    {
        if outcome.is_err() {
            self.end(outcome, |_| 0);
            return None;
        }
        let steps = self.timing.so_far(&self.text).map(|(trace, span)| {
            let further = Vec::new();
            Box::new(Steps { trace, span, further })
        });
        Some(Flow {
            steps,
            counting: self.counting,
        })
    }
}

/// A statement that transfers rows or bytes piece by piece, until its end is recorded or this is dropped.
#[derive(Debug)]
pub(crate) struct Flow {
    steps: Option<Box<Steps>>,
    counting: Option<Counting<'static, Source>>,
}

#[derive(Debug)]
struct Steps {
    trace: Trace,
    /// Holds the parts so far.
    span: Span,
    /// Times for which there was no part left.
    further: Vec<(&'static str, Duration)>,
}

impl Flow {
    /// The reader or writer continues, after it was busy.
    pub(crate) fn asked(&mut self) {
        self.was(READER);
    }

    /// Records that the time until now was spent on this part.
    pub(crate) fn was(&mut self, part: &'static str) {
        if let Some(steps) = &mut self.steps {
            steps.add(part, Instant::now());
        }
    }

    /// Counts rows.
    pub(crate) fn count(&mut self, rows: u64) {
        if let Some(counting) = &mut self.counting {
            counting.gives(rows);
        }
    }

    pub(crate) fn end<O>(mut self, outcome: &Result<O, PgError>) {
        if let Some(mut counting) = self.counting.take() {
            match outcome {
                Ok(_) => counting.done(),
                Err(error) => counting.fail(error),
            }
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Some(steps) = self.steps.take() {
            steps.end();
        }
    }
}

impl Steps {
    fn add(&mut self, part: &'static str, until: Instant) {
        let parts = &mut self.span.parts;
        if self.further.is_empty() {
            if let Some((last, at)) = parts.last_mut()
                && *last == part
            {
                *at = until;
                return;
            }
            if parts.len() < PARTS_MAX {
                parts.push((part, until));
                return;
            }
        }
        let took = until.saturating_duration_since(self.over());
        match self.further.iter_mut().find(|(name, _)| *name == part) {
            Some((_, sum)) => *sum += took,
            None => self.further.push((part, took)),
        }
    }

    /// End of the last part.
    fn told_until(&self) -> Instant {
        self.span.parts.last().map_or(self.span.from, |(_, at)| *at)
    }

    /// End of the recorded time, including that without a part.
    fn over(&self) -> Instant {
        self.told_until() + self.further.iter().map(|(_, took)| *took).sum::<Duration>()
    }

    fn end(mut self) {
        self.span.until = self.over();
        let mut at = self.told_until();
        for (part, took) in self.further {
            at += took;
            self.span.parts.push((part, at));
        }
        self.trace.record(self.span);
    }
}

#[cfg(test)]
mod tests {
    use forebay_trace::Kind;

    use super::*;

    #[test]
    fn however_often_a_statement_rests_its_times_add_up() {
        let begun = Instant::now();
        let trace = Trace::new(begun, None);
        let mut steps = Steps {
            trace: trace.clone(),
            span: Span::new(Kind::Statement, "select", begun, begun),
            further: Vec::new(),
        };
        let mut at = begun;
        for _ in 0..1000 {
            for (part, took) in [("server", 2), ("server", 1), (READER, 5)] {
                at += Duration::from_micros(took);
                steps.add(part, at);
            }
        }
        steps.end();
        let [span] = &trace.end().spans[..] else {
            panic!("it is one span")
        };
        assert_eq!((span.from, span.until), (begun, at));
        assert_eq!(span.parts.len(), PARTS_MAX + 2);
        let mut sums = [Duration::ZERO; 2];
        let mut before = begun;
        for (part, until) in &span.parts {
            sums[usize::from(*part == READER)] += *until - before;
            before = *until;
        }
        assert_eq!(sums, [Duration::from_millis(3), Duration::from_millis(5)]);
    }
}
