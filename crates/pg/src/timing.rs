//! When a statement reaches each stage, if its request is traced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_trace::{Kind, Span, Trace};

/// Stages that a statement has reached, in this order; a skipped stage has taken no time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached {
    /// It has a connection, and room in its pipeline.
    Placed,
    /// The operating system has accepted its bytes.
    Sent,
    /// The beginning of the answer has arrived.
    Answered,
    /// The end of the answer has arrived and is decoded.
    Decoded,
}

/// Activity of a statement before each stage.
const PARTS: [&str; 4] = ["wait", "send", "server", "rows"];

/// Times of one statement's stages. Empty, and free of cost, if its request is not traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing(Option<Arc<Marks>>);

#[derive(Debug)]
struct Marks {
    trace: Trace,
    begun: Instant,
    /// Nanoseconds since the beginning; 0 if not reached yet.
    at: [AtomicU64; PARTS.len()],
}

impl Timing {
    /// For a statement that begins now.
    pub(crate) fn begin() -> Self {
        Self::of(Instant::now)
    }

    /// For a statement that was requested at that time.
    pub(crate) fn begin_at(asked: Instant) -> Self {
        Self::of(|| asked)
    }

    fn of(begun: impl FnOnce() -> Instant) -> Self {
        Self(forebay_trace::current().map(|trace| {
            Arc::new(Marks {
                trace,
                begun: begun(),
                at: Default::default(),
            })
        }))
    }

    /// Whether the request is traced.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Records that a stage has been reached; the first call counts.
    pub(crate) fn reach(&self, stage: Reached) {
        if let Some(marks) = &self.0 {
            let nanos = u64::try_from(marks.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // If another thread was first, its time differs only slightly.
            let _ = marks.at[stage as usize].compare_exchange(
                0,
                nanos.max(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// Adds the statement to the trace: its caller continues.
    pub(crate) fn end(&self, text: &str) {
        let Some(marks) = &self.0 else { return };
        let until = Instant::now();
        let mut span = Span::new(Kind::Statement, text, marks.begun, until);
        span.parts = marks.parts();
        span.parts.push(("hand-over", until));
        marks.trace.record(span);
    }

    /// The span up to now, for a statement that continues piece by piece.
    pub(crate) fn so_far(&self, text: &str) -> Option<(Trace, Span)> {
        let marks = self.0.as_ref()?;
        let now = Instant::now();
        let mut span = Span::new(Kind::Statement, text, marks.begun, now);
        span.parts = marks.parts();
        span.parts.push(("rows", now));
        Some((marks.trace.clone(), span))
    }
}

impl Marks {
    fn parts(&self) -> Vec<(&'static str, Instant)> {
        let mut parts = Vec::with_capacity(PARTS.len() + 1);
        let mut before = 0;
        for (part, at) in PARTS.into_iter().zip(&self.at) {
            let at = at.load(Ordering::Relaxed);
            // A statement that was run again keeps some times of its first run.
            if at > before {
                before = at;
                parts.push((part, self.begun + Duration::from_nanos(at)));
            }
        }
        parts
    }
}
