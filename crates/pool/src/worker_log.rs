//! Turns the output and log entries of workers into events of the server's log: one per line, or per stack trace, with pool, worker and,
//! if known, request.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt},
    time::timeout,
};

/// Maximum length of a logged line in bytes; a longer line becomes several. In a LOG frame, message and fields are each cut off at this
/// length, so that the memory of the log stays small.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of a record of several lines in bytes; beyond it another begins.
const RECORD_BYTES_MAX: usize = 32 * 1024;

/// How long the next line of a record may take.
const NEXT_LINE_MAX: Duration = Duration::from_millis(50);

/// With this a traceback of Python begins.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Before the traceback that follows another (`traceback.py` of Python: `_cause_message`, `_context_message`).
const CHAINED: [&str; 2] = [
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
];

/// The output stream that a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Logs what a worker printed.
pub(crate) fn printed(pool: &str, worker: u64, request: Option<&str>, stream: Stream, line: &str) {
    match stream {
        Stream::Stdout => tracing::info!(target: "forebay::worker", pool, worker, request, "{line}"),
        Stream::Stderr => tracing::warn!(target: "forebay::worker", pool, worker, request, "{line}"),
    }
}

/// Severity of a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    /// Finds a level by its name in any case; unknown names mean `Info`.
    pub(crate) fn named(name: &str) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match () {
            () if is("error") => Self::Error,
            () if is("warn") => Self::Warn,
            () if is("debug") => Self::Debug,
            () => Self::Info,
        }
    }
}

/// Logs the content of a LOG frame. `request` is the id of its request, or `None` if the answer has overtaken the entry.
pub(crate) fn structured(pool: &str, worker: u64, request: Option<&str>, payload: &[u8]) {
    let entry: Map<String, Value> = serde_json::from_slice(payload).unwrap_or_default();
    let text = |name| entry.get(name).and_then(Value::as_str).map(shortened);
    let message = text("message").unwrap_or_default();
    let fields = entry.get("fields").map(Value::to_string);
    let fields = fields.as_deref().map(shortened);
    let request = text("request").or(request);
    let level = Level::named(text("level").unwrap_or_default());
    write(pool, worker, request, level, message, fields);
}

/// Logs a message of a worker that did not come in a LOG frame.
pub(crate) fn noted(
    pool: &str,
    worker: u64,
    request: Option<&str>,
    level: Level,
    message: &str,
    fields: Option<&str>,
) {
    write(
        pool,
        worker,
        request,
        level,
        shortened(message),
        fields.map(shortened),
    );
}

fn write(pool: &str, worker: u64, request: Option<&str>, level: Level, message: &str, fields: Option<&str>) {
    match level {
        Level::Error => {
            tracing::error!(target: "forebay::worker", pool, worker, request, fields, "{message}");
        }
        Level::Warn => tracing::warn!(target: "forebay::worker", pool, worker, request, fields, "{message}"),
        Level::Debug => {
            tracing::debug!(target: "forebay::worker", pool, worker, request, fields, "{message}");
        }
        Level::Info => tracing::info!(target: "forebay::worker", pool, worker, request, fields, "{message}"),
    }
}

/// The beginning of a text, of at most [`LINE_BYTES_MAX`] bytes.
pub(crate) fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A stack without the error's message, with which stacks of JavaScript begin; other stacks are returned whole.
pub(crate) fn without_cause<'a>(stack: &'a str, cause: &str) -> &'a str {
    match stack.split_once(cause) {
        Some((kind, calls)) if !kind.contains('\n') => calls.trim_start_matches('\n'),
        _ => stack,
    }
}

/// Gathers lines into records: a traceback of Python is one, and so is a line with the indented ones that follow it, such as the stack of
/// an error of JavaScript.
#[derive(Debug, Default)]
pub(crate) struct Record {
    text: String,
    request: Option<String>,
    part: Part,
}

/// The kind of a record's last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Text,
    /// A line of source, which Bun prints before an error.
    Source,
    /// A line of a traceback before that of its exception.
    Frame,
    /// The line of an exception.
    Exception,
    /// A line between an exception and the traceback of the next.
    Between,
}

impl Record {
    /// A record that begins with this line, printed during this request.
    pub(crate) fn new(line: &str, request: Option<String>) -> Self {
        Self {
            text: line.to_owned(),
            request,
            part: match () {
                () if line.ends_with(TRACEBACK) => Part::Frame,
                () if quotes_source(line) => Part::Source,
                () => Part::Text,
            },
        }
    }

    /// Adds a line, if it belongs to the record.
    pub(crate) fn takes(&mut self, line: &str) -> bool {
        let part = match self.part {
            Part::Between if line == TRACEBACK => Some(Part::Frame),
            Part::Exception | Part::Between if line.is_empty() || CHAINED.contains(&line) => {
                Some(Part::Between)
            }
            // Also the end of an object that `console.log` has printed.
            part if line.starts_with([' ', '\t', '}', ']']) => Some(part),
            Part::Frame => Some(Part::Exception),
            Part::Source if quotes_source(line) => Some(Part::Source),
            Part::Source => Some(Part::Text),
            Part::Text | Part::Exception | Part::Between => None,
        };
        let part = part.filter(|_| self.text.len() + line.len() < RECORD_BYTES_MAX);
        if let Some(part) = part {
            self.part = part;
            self.text.push('\n');
            self.text.push_str(line);
        }
        part.is_some()
    }

    /// Logs the record.
    pub(crate) fn log(self, pool: &str, worker: u64, stream: Stream) {
        printed(
            pool,
            worker,
            self.request.as_deref(),
            stream,
            self.text.trim_end_matches('\n'),
        );
    }
}

/// Whether a line is one of source with its number, such as `12 | code`.
fn quotes_source(line: &str) -> bool {
    let number = line.split_once(" | ").map_or("", |(number, _)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Calls `take` with every line until the output ends, and with `None` when no line has come for a while. Bytes that are not UTF-8 are
/// replaced.
pub(crate) async fn each_line(mut output: impl AsyncBufRead + Unpin, mut take: impl FnMut(Option<&str>)) {
    let mut line = Vec::new();
    // The current line was cut off because of its length; a line end right after it does not end another line.
    let mut cut = false;
    loop {
        let chunk = match timeout(NEXT_LINE_MAX, output.fill_buf()).await {
            Ok(chunk) => chunk,
            Err(_) => {
                take(None);
                output.fill_buf().await
            }
        };
        let Ok(chunk) = chunk else { break };
        if chunk.is_empty() {
            break;
        }
        let room = LINE_BYTES_MAX - line.len();
        let end = chunk.iter().take(room).position(|&byte| byte == b'\n');
        let taken = end.unwrap_or(chunk.len().min(room));
        line.extend_from_slice(&chunk[..taken]);
        output.consume(taken + usize::from(end.is_some()));
        let full = line.len() == LINE_BYTES_MAX;
        if end.is_some() || full {
            if !(cut && line.is_empty()) {
                take(Some(String::from_utf8_lossy(&line).trim_end_matches('\r')));
            }
            line.clear();
            cut = full && end.is_none();
        }
    }
    if !line.is_empty() {
        take(Some(&String::from_utf8_lossy(&line)));
    }
    take(None);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, BufReader};

    use super::*;

    /// Writes the pieces and returns the resulting lines.
    async fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut writer, reader) = tokio::io::duplex(7);
        let write = async {
            for piece in pieces {
                writer.write_all(piece).await.unwrap();
            }
            drop(writer);
        };
        let mut lines = Vec::new();
        let read = each_line(BufReader::new(reader), |line| {
            lines.extend(line.map(str::to_owned));
        });
        tokio::join!(write, read);
        lines
    }

    #[tokio::test]
    async fn lines_are_whole_however_they_arrive() {
        assert_eq!(
            lines(&[b"one\ntw", b"o\r\n", b"\n", b"thr\xc3", b"\xa9e"]).await,
            ["one", "two", "", "thr\u{e9}e"]
        );
        assert!(lines(&[]).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_longer_than_the_limit_becomes_several() {
        for extra in [0, 1, LINE_BYTES_MAX] {
            let long = [vec![b'x'; LINE_BYTES_MAX + extra], b"\nnext\n".to_vec()].concat();
            let lines = lines(&[&long]).await;
            assert_eq!(
                lines.concat().len(),
                LINE_BYTES_MAX + extra + 4,
                "nothing is lost"
            );
            assert!(
                lines
                    .iter()
                    .all(|line| !line.is_empty() && line.len() <= LINE_BYTES_MAX)
            );
            assert_eq!(lines.last().map(String::as_str), Some("next"));
        }
    }

    /// The records of these lines.
    fn records(lines: &str) -> Vec<String> {
        let mut records: Vec<Record> = Vec::new();
        for line in lines.lines() {
            if !records.last_mut().is_some_and(|record| record.takes(line)) {
                records.push(Record::new(line, None));
            }
        }
        records.into_iter().map(|record| record.text).collect()
    }

    #[test]
    fn stack_traces_are_one_record() {
        for whole in [
            "one",
            "Error: a\n    at b (c.js:1:2)\n    at d\n\t[cause]: e",
            "{\n  a: 1\n}",
            "8 | a\n9 | b\n    ^\nerror: c\n      at d (e.js:9:5)",
            "forebay: failed: Traceback (most recent call last):\n  File \"a\", line 1\n    b()\nKeyError: 'a'",
            "Traceback (most recent call last):\n  File \"a\"\nA: a\n\nDuring handling of the above exception, another exception occurred:\n\n\
             Traceback (most recent call last):\n  File \"b\"\nB: b",
        ] {
            assert_eq!(records(whole), [whole]);
            assert_eq!(
                records(&format!("before\n{whole}\nbehind")),
                ["before", whole, "behind"]
            );
        }
        assert_eq!(records("a\n\nb"), ["a", "", "b"]);
        let long = format!("a\n{}", " b\n".repeat(RECORD_BYTES_MAX));
        assert!(
            records(&long)
                .iter()
                .all(|record| record.len() <= RECORD_BYTES_MAX)
        );
    }

    #[test]
    fn a_stack_does_not_repeat_the_message_before_it() {
        let calls = "    at a (b.js:1:2)";
        for begin in ["", "TypeError: ", "Error [ERR_MODULE_NOT_FOUND]: "] {
            let stack = format!("{begin}no x\n{calls}");
            assert_eq!(without_cause(&stack, "no x"), calls);
        }
        let traceback = "Traceback (most recent call last):\n  File \"a\", line 1\nKeyError: 'x'";
        assert_eq!(without_cause(traceback, "KeyError: 'x'"), traceback);
        assert_eq!(without_cause("at a", "no x"), "at a");
    }

    #[test]
    fn a_text_is_cut_off_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = format!("x{}", "\u{e9}".repeat(LINE_BYTES_MAX));
        assert_eq!(shortened(&long).len(), LINE_BYTES_MAX - 1);
    }

    #[tokio::test]
    async fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(lines(&[b"a\xffb\n"]).await, ["a\u{fffd}b"]);
    }
}
