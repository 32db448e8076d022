//! Collects lines from all threads and writes them on one.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{file::RotatingFile, workflows::WorkflowFiles};

/// Most bytes of lines waiting to be written.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// How long lines are collected, to limit wake-ups when the log is busy.
const COLLECT: Duration = Duration::from_millis(5);
/// How long [`Writer::close`] waits for a slow output.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// The destination of lines.
#[derive(Debug)]
pub(super) enum Output {
    Stderr,
    File(RotatingFile),
    Workflows(WorkflowFiles),
}

impl Output {
    /// Writes whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(lines),
            Self::File(file) => file.write(lines),
            Self::Workflows(files) => files.write(lines),
        }
    }

    /// Reopens files by their paths. On an error the open ones stay in use.
    fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::Stderr => Ok(()),
            Self::File(file) => file.reopen(),
            Self::Workflows(files) => {
                files.close();
                Ok(())
            }
        }
    }
}

/// The buffer and the thread that writes it out.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Signals that lines are waiting or that the writer is closing.
    wake: Condvar,
    /// Signals that the thread has ended.
    ended: Condvar,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    reopening: bool,
    closing: bool,
    ended: bool,
}

impl Writer {
    pub(super) fn start(output: Output) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        thread::Builder::new()
            .name("log".into())
            .spawn(move || of_thread.run(output))?;
        Ok(Self { shared })
    }

    /// Adds a line, including its line feed. Never waits for the output.
    pub(super) fn push(&self, line: &[u8]) {
        let first = {
            let mut waiting = self.shared.waiting.lock();
            if waiting.closing || waiting.lines.len() + line.len() > WAITING_BYTES_MAX {
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let first = waiting.lines.is_empty();
            waiting.lines.extend_from_slice(line);
            first
        };
        if first {
            self.shared.wake.notify_one();
        }
    }

    /// Requests that the output is reopened.
    pub(super) fn reopen(&self) {
        self.shared.waiting.lock().reopening = true;
        self.shared.wake.notify_one();
    }

    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Writes the remaining lines and ends the thread; waits at most [`CLOSE_MAX`].
    pub(super) fn close(&self) {
        let mut waiting = self.shared.waiting.lock();
        waiting.closing = true;
        self.shared.wake.notify_one();
        let shared = &self.shared;
        shared
            .ended
            .wait_while_for(&mut waiting, |waiting| !waiting.ended, CLOSE_MAX);
    }
}

impl Shared {
    fn run(&self, mut output: Output) {
        let mut lines = Vec::new();
        let mut told = 0;
        loop {
            let Waiting {
                reopening, closing, ..
            } = self.take(&mut lines);
            let written = output.write(&lines);
            if let Err(error) = &written {
                self.failed(&lines, error);
            }
            // Lines logged before the request go to the old file.
            if reopening && let Err(error) = output.reopen() {
                tracing::error!(target: "forebay::log", cause = %error, "cannot reopen the log file, so the open one stays in use");
            }
            lines.clear();
            lines.shrink_to(WAITING_BYTES_MAX / 16);
            let lost = self.lost.load(Ordering::Relaxed);
            // While nothing can be written, this line would be lost too, and be told of by another one.
            if lost > told && written.is_ok() {
                told = lost;
                // Logged as an ordinary event, so that it has the usual format; it passes through the same buffer.
                tracing::warn!(target: "forebay::log", lost, "lines of the log were lost: they came faster than they could be written, or could not be written at all");
            }
            if closing {
                self.waiting.lock().ended = true;
                self.ended.notify_all();
                return;
            }
        }
    }

    /// Waits for lines or another request.
    fn take(&self, lines: &mut Vec<u8>) -> Waiting {
        let mut waiting = self.waiting.lock();
        self.wake.wait_while(&mut waiting, |waiting| {
            waiting.lines.is_empty() && !waiting.closing && !waiting.reopening
        });
        if !waiting.closing {
            self.wake
                .wait_while_for(&mut waiting, |waiting| !waiting.closing, COLLECT);
        }
        std::mem::swap(&mut waiting.lines, lines);
        Waiting {
            lines: Vec::new(),
            reopening: std::mem::take(&mut waiting.reopening),
            ..*waiting
        }
    }

    /// Counts unwritable lines as lost and reports the error on standard error.
    fn failed(&self, lines: &[u8], error: &io::Error) {
        let count = memchr::memchr_iter(b'\n', lines).count() as u64;
        self.lost.fetch_add(count, Ordering::Relaxed);
        let _ = writeln!(
            io::stderr(),
            "forebay: cannot write {count} lines of the log: {error}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer without a thread, whose buffer is never emptied.
    fn stuck() -> Writer {
        Writer {
            shared: Arc::default(),
        }
    }

    #[test]
    fn lines_beyond_the_bound_are_lost_and_counted() {
        let writer = stuck();
        let line = vec![b'x'; WAITING_BYTES_MAX / 4];
        for _ in 0..6 {
            writer.push(&line);
        }
        assert_eq!(writer.lost(), 2);
        writer.push(b"short\n");
        assert_eq!(writer.lost(), 3, "the buffer is full to the byte");
    }

    #[test]
    fn closing_writes_what_waits() {
        let folder = std::env::temp_dir().join(format!("fb-writer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let rotate = crate::config::LogRotation {
            size: 1 << 20,
            keep: 1,
        };
        let writer = Writer::start(Output::File(RotatingFile::open(&path, rotate).unwrap())).unwrap();
        for number in 0..1000 {
            writer.push(format!("{number}\n").as_bytes());
        }
        writer.close();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written
                .lines()
                .map(|line| line.parse::<usize>().unwrap())
                .eq(0..1000),
            "{written}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
