//! Records where the time of a single request goes.
//!
//! A traced request has a [`Trace`]. Code that works for it runs [`within`] that trace and records each step as a [`Span`] in the
//! [`current`] trace. For requests that are not traced nothing is recorded; finding that out costs one thread-local read.

#![forbid(unsafe_code)]

use std::{cell::RefCell, future::poll_fn, pin::pin, sync::Arc, time::Instant};

use parking_lot::Mutex;

/// Most spans kept for a request; further ones are only counted.
pub const SPANS_MAX: usize = 2048;
/// Most bytes of a span's detail; longer ones are truncated.
pub const DETAIL_BYTES_MAX: usize = 160;

thread_local! {
    /// The trace of the request this thread is currently working for.
    static CURRENT: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// A handle to the record of one request; clones share it.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    begun: Instant,
    traceparent: Option<String>,
    record: Mutex<Record>,
}

/// The spans recorded for a request.
#[derive(Debug, Default)]
pub struct Record {
    /// In the order in which they ended.
    pub spans: Vec<Span>,
    /// Spans dropped because [`SPANS_MAX`] was reached.
    pub left_out: usize,
    is_over: bool,
}

/// One interval of a request's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The activity that took the time.
    pub kind: Kind,
    /// Tells spans of one kind apart, for example by a statement's text.
    pub detail: String,
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub until: Instant,
    /// Consecutive parts of the span, each with its name and end; the first begins at `from`.
    pub parts: Vec<(&'static str, Instant)>,
}

/// The activity during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server reads and routes the request.
    Front,
    /// The request waits for a worker or a thread.
    Queue,
    /// A handler has the request, running or waiting.
    Handler,
    /// A handler's code is running.
    Running,
    /// Another server has the request, from the moment it was chosen to the head of its response.
    Upstream,
    /// A database statement, from when it was requested until its rows arrived.
    Statement,
    /// The response is built from the handler's result and written.
    Write,
}

impl Kind {
    /// The kind's name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Queue => "queue",
            Self::Handler => "handler",
            Self::Running => "running",
            Self::Upstream => "upstream",
            Self::Statement => "statement",
            Self::Write => "write",
        }
    }
}

impl Span {
    /// A span without parts.
    pub fn new(kind: Kind, detail: &str, from: Instant, until: Instant) -> Self {
        let end = detail.floor_char_boundary(DETAIL_BYTES_MAX);
        Self {
            kind,
            detail: detail[..end].to_owned(),
            from,
            until,
            parts: Vec::new(),
        }
    }
}

impl Trace {
    /// An empty record of a request that began at `begun`. `traceparent` (W3C Trace Context) is what others who work for it are told, so that
    /// what they record belongs to it.
    pub fn new(begun: Instant, traceparent: Option<String>) -> Self {
        Self(Arc::new(Shared {
            begun,
            traceparent,
            record: Mutex::default(),
        }))
    }

    /// When its request began.
    pub fn begun(&self) -> Instant {
        self.0.begun
    }

    /// The trace context for others that work for the request.
    pub fn traceparent(&self) -> Option<&str> {
        self.0.traceparent.as_deref()
    }

    /// The ids of the trace and of the request's span in it, as hexadecimal digits; `None` if nobody else is told of them.
    pub fn ids(&self) -> Option<(&str, &str)> {
        let mut parts = self.traceparent()?.split('-').skip(1);
        parts.next().zip(parts.next())
    }

    /// Records a span, unless the record is full or the request has ended.
    pub fn record(&self, span: Span) {
        let mut record = self.0.record.lock();
        if record.is_over {
            return;
        }
        if record.spans.len() < SPANS_MAX {
            record.spans.push(span);
        } else {
            record.left_out += 1;
        }
    }

    /// The gaps between `from` and `until` that no recorded span of this kind covers, in order.
    pub fn without(&self, kind: Kind, from: Instant, until: Instant) -> Vec<(Instant, Instant)> {
        let record = self.0.record.lock();
        let of_kind = record.spans.iter().filter(|span| span.kind == kind);
        let mut busy: Vec<_> = of_kind.map(|span| (span.from, span.until)).collect();
        busy.sort_unstable();
        let mut parts = Vec::new();
        let mut at = from;
        for (begins, ends) in busy {
            if begins.min(until) > at {
                parts.push((at, begins.min(until)));
            }
            at = at.max(ends);
        }
        if until > at {
            parts.push((at, until));
        }
        parts
    }

    /// Closes the record and returns it; later spans are discarded.
    pub fn end(&self) -> Record {
        let over = Record {
            is_over: true,
            ..Record::default()
        };
        std::mem::replace(&mut *self.0.record.lock(), over)
    }
}

/// The trace of the request this thread is working for, if it is traced.
pub fn current() -> Option<Trace> {
    CURRENT.with_borrow(Clone::clone)
}

/// Restores the previous trace on drop, also when a panic unwinds.
struct Restore(Option<Trace>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Runs a task with `trace` as the [`current`] trace.
pub async fn within<F: Future>(trace: Option<Trace>, task: F) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|context| match &trace {
        None => task.as_mut().poll(context),
        Some(trace) => {
            let _restore = Restore(CURRENT.replace(Some(trace.clone())));
            task.as_mut().poll(context)
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use super::*;

    fn span(detail: &str) -> Span {
        let now = Instant::now();
        Span::new(Kind::Statement, detail, now, now)
    }

    #[test]
    fn a_trace_is_current_only_while_its_task_runs() {
        let trace = Trace::new(Instant::now(), None);
        let mut has_waited = false;
        let mut task = pin!(within(
            Some(trace.clone()),
            poll_fn(|_| {
                current().expect("the task is traced").record(span("here"));
                if std::mem::replace(&mut has_waited, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }),
        ));
        let mut context = Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_pending());
        assert!(current().is_none(), "another task of the thread is not");
        assert!(task.as_mut().poll(&mut context).is_ready());
        assert!(current().is_none());
        assert_eq!(trace.end().spans.len(), 2);
    }

    #[test]
    fn a_request_has_no_more_spans_than_it_may_and_none_after_its_end() {
        let trace = Trace::new(Instant::now(), None);
        for _ in 0..SPANS_MAX + 3 {
            trace.record(span("select"));
        }
        let record = trace.end();
        assert_eq!((record.spans.len(), record.left_out), (SPANS_MAX, 3));
        trace.record(span("late"));
        assert!(trace.end().spans.is_empty());
    }

    #[test]
    fn a_time_is_cut_where_something_else_was_under_way() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let trace = Trace::new(begun, None);
        for (kind, from, until) in [
            (Kind::Statement, 40, 60),
            (Kind::Statement, 10, 30),
            (Kind::Statement, 20, 25),
            (Kind::Queue, 31, 35),
            (Kind::Statement, 90, 200),
        ] {
            trace.record(Span::new(kind, "", at(from), at(until)));
        }
        let parts = trace.without(Kind::Statement, at(15), at(100));
        assert_eq!(parts, [(at(30), at(40)), (at(60), at(90))]);
        assert_eq!(trace.without(Kind::Statement, at(0), at(5)), [(at(0), at(5))]);
        assert!(trace.without(Kind::Statement, at(41), at(59)).is_empty());
    }

    #[test]
    fn a_detail_is_cut_between_two_characters() {
        let span = span(&"é".repeat(DETAIL_BYTES_MAX));
        assert_eq!(span.detail, "é".repeat(DETAIL_BYTES_MAX / 2));
    }
}
