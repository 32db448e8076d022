//! Turns the output and log entries of workers into events of the server's log: one per line, with pool, worker and, if known, request.

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Maximum length of a logged line in bytes; a longer line becomes several. In a LOG frame, message and fields are each cut off at this
/// length, so that the memory of the log stays small.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// The output stream that a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Logs a line that a worker printed.
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

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Calls `take` with every line until the output ends. Bytes that are not UTF-8 are replaced.
pub(crate) async fn each_line(mut output: impl AsyncBufRead + Unpin, mut take: impl FnMut(&str)) {
    let mut line = Vec::new();
    // The current line was cut off because of its length; a line end right after it does not end another line.
    let mut cut = false;
    while let Ok(chunk) = output.fill_buf().await {
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
                take(String::from_utf8_lossy(&line).trim_end_matches('\r'));
            }
            line.clear();
            cut = full && end.is_none();
        }
    }
    if !line.is_empty() {
        take(&String::from_utf8_lossy(&line));
    }
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
        let read = each_line(BufReader::new(reader), |line| lines.push(line.to_owned()));
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
