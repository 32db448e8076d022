//! How far one statement has come when, if its request is traced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_trace::{Kind, Span, Trace};

/// What a statement has behind it. They come in this order; what is left out has taken no time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached {
    /// It has a connection, and the connection has room.
    Placed,
    /// The system has taken its bytes.
    Sent,
    /// The first of its answer has come.
    Answered,
    /// The last of its answer has come and is decoded.
    Decoded,
}

/// What a statement does until each stage.
const PARTS: [&str; 4] = ["wait", "send", "server", "rows"];

/// The stages of one statement. Nobody asks for those of most, which then cost nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing(Option<Arc<Marks>>);

#[derive(Debug)]
struct Marks {
    trace: Trace,
    begun: Instant,
    /// Nanoseconds after the beginning; 0: not yet.
    at: [AtomicU64; PARTS.len()],
}

impl Timing {
    /// Of a statement that begins now.
    pub(crate) fn begin() -> Self {
        Self::of(Instant::now)
    }

    /// Of one that was asked for then.
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

    /// Whether anybody asks.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// The statement has come so far; the first time counts.
    pub(crate) fn reach(&self, stage: Reached) {
        if let Some(marks) = &self.0 {
            let nanos = u64::try_from(marks.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // That another thread was first changes nothing but the digits behind.
            let _ = marks.at[stage as usize].compare_exchange(
                0,
                nanos.max(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// The one who has asked for the statement goes on.
    pub(crate) fn end(&self, text: &str) {
        let Some(marks) = &self.0 else { return };
        let until = Instant::now();
        let mut span = Span::new(Kind::Statement, text, marks.begun, until);
        span.parts = marks.parts();
        span.parts.push(("hand-over", until));
        marks.trace.record(span);
    }

    /// What has become of it up to now, for a statement that goes on piece by piece from here.
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
            // A statement that was run again has some of its stages from the first time.
            if at > before {
                before = at;
                parts.push((part, self.begun + Duration::from_nanos(at)));
            }
        }
        parts
    }
}
