//! What is kept of single answers where an option asks for it. By default that is nothing but a closer look at the very first one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
    mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::window::slice_latencies;
use crate::failure::Class;

/// Lines that one thread gathers before it hands them over.
const BATCH_LINES: usize = 1024;
/// Batches that may wait to be written: of all threads together.
const BATCHES_MAX: usize = 256;
/// Most requests that are told apart.
pub const URLS_MAX: usize = 100;

/// What is kept of single answers.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Whether the latency of what failed is left out.
    pub exclude_errors: bool,
    /// Whether different requests are told apart, up to [`URLS_MAX`] of them.
    pub urls: bool,
    /// Whether the first answer is looked at closely.
    pub first_answer: bool,
    /// Where a line for each request goes.
    pub log: Option<Log>,
}

/// One request as it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was due, in nanoseconds since the session began.
    pub due_ns: u64,
    /// From then to the end of its answer, or until it failed.
    pub latency_ns: u64,
    /// The status of the answer; 0 without one.
    pub status: u16,
    /// Bytes of the answer with its head.
    pub bytes: u64,
    /// What failed.
    pub class: Option<Class>,
}

/// The writing end of a queue of lines. A thread of the load never waits for it: what does not fit is counted and lost.
#[derive(Clone, Debug)]
pub struct Log {
    sender: SyncSender<Vec<Line>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    on: AtomicBool,
    lost: AtomicU64,
    began_unix_ns: AtomicU64,
}

/// The reading end.
#[derive(Debug)]
pub struct Lines(Receiver<Vec<Line>>);

impl Log {
    /// A queue, switched off.
    pub fn new() -> (Self, Lines) {
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let shared = Arc::default();
        (Self { sender, shared }, Lines(receiver))
    }

    /// Whether what is answered from now on is logged.
    pub fn switch(&self, on: bool) {
        self.shared.on.store(on, Ordering::Relaxed);
    }

    /// Lines that found no room so far.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// When the session began that logs, in nanoseconds since 1970.
    pub fn began_unix_ns(&self) -> u64 {
        self.shared.began_unix_ns.load(Ordering::Relaxed)
    }

    /// Tells the reading end that no more lines come. Waits until there is room.
    pub fn end(&self) {
        // Without a reader there is nobody to tell.
        let _ = self.sender.send(Vec::new());
    }

    pub(super) fn begin(&self, unix_ns: u64) {
        self.shared.began_unix_ns.store(unix_ns, Ordering::Relaxed);
    }

    /// A place for one thread's lines.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            log: self.clone(),
            lines: Vec::new(),
        }
    }
}

impl Lines {
    /// The next lines; `None` at their end.
    pub fn next(&self) -> Option<Vec<Line>> {
        self.0.recv().ok().filter(|lines| !lines.is_empty())
    }
}

/// Lines of one thread that have not been handed over.
#[derive(Debug)]
pub(super) struct Batch {
    log: Log,
    lines: Vec<Line>,
}

impl Batch {
    pub(super) fn put(&mut self, line: Line) {
        if !self.log.shared.on.load(Ordering::Relaxed) {
            return;
        }
        if self.lines.capacity() == 0 {
            self.lines.reserve_exact(BATCH_LINES);
        }
        self.lines.push(line);
        if self.lines.len() == BATCH_LINES {
            self.hand_over();
        }
    }

    pub(super) fn hand_over(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(lines) | TrySendError::Disconnected(lines)) =
            self.log.sender.try_send(std::mem::take(&mut self.lines))
        {
            let lost = lines.len() as u64;
            self.log.shared.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

/// The very first answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstAnswer {
    /// Its status.
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// The SHA-256 of its body in hexadecimal digits; `None` if it is too long to be kept.
    pub sha256: Option<String>,
    /// Its Server field.
    pub server: Option<String>,
    /// Its head with the status line, at most [`HEAD_MAX`] characters of it.
    #[serde(default)]
    pub head: String,
}

/// Most characters of a first answer's head.
pub(super) const HEAD_MAX: usize = 4 * 1024;

impl FirstAnswer {
    /// It in a line: `200, 13 bytes, sha256 315f5bdb...`.
    pub fn line(&self) -> String {
        let hash = self.sha256.as_deref().unwrap_or("unknown, as it is too long");
        format!("{}, {} bytes, sha256 {hash}", self.status, self.body_bytes)
    }
}

/// What was measured of one of several requests.
#[derive(Clone, Debug)]
pub struct UrlWindow {
    /// Whole answers, whatever they say.
    pub answers: u64,
    /// What failed, with an answer or without.
    pub failures: u64,
    /// Latencies in nanoseconds, to two digits.
    pub latency: Histogram<u64>,
}

impl Default for UrlWindow {
    fn default() -> Self {
        Self {
            answers: 0,
            failures: 0,
            latency: slice_latencies(),
        }
    }
}

impl UrlWindow {
    pub(super) fn merge(&mut self, other: &Self) {
        self.answers += other.answers;
        self.failures += other.failures;
        self.latency
            .add(&other.latency)
            .expect("all histograms have the same bounds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_waits() {
        let (log, lines) = Log::new();
        let mut batch = log.batch();
        let line = Line {
            due_ns: 1,
            latency_ns: 2,
            status: 200,
            bytes: 3,
            class: None,
        };
        batch.put(line);
        batch.hand_over();
        log.switch(true);
        for _ in 0..(BATCHES_MAX + 2) * BATCH_LINES {
            batch.put(line);
        }
        assert_eq!(log.lost(), 2 * BATCH_LINES as u64);
        let mut read = 0;
        for _ in 0..BATCHES_MAX {
            read += lines.next().unwrap().len();
        }
        assert_eq!(
            read,
            BATCHES_MAX * BATCH_LINES,
            "what came while it was off is not in it"
        );
        log.end();
        assert_eq!(lines.next(), None);
    }
}
