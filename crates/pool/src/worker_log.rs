//! What workers print and log, as events of our own log: one a line, with pool, worker and, where it is known, request.

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes of one line that are logged; the rest of a longer line becomes lines of its own.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Which of a worker's two outputs a line came from.
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

/// Logs the content of a LOG frame.
pub(crate) fn structured(pool: &str, worker: u64, request: Option<&str>, payload: &[u8]) {
    let entry: Map<String, Value> = serde_json::from_slice(payload).unwrap_or_default();
    let message = entry.get("message").and_then(Value::as_str).unwrap_or_default();
    let fields = entry.get("fields").map(Value::to_string);
    let fields = fields.as_deref();
    match entry.get("level").and_then(Value::as_str) {
        Some("error") => {
            tracing::error!(target: "forebay::worker", pool, worker, request, fields, "{message}");
        }
        Some("warn") => tracing::warn!(target: "forebay::worker", pool, worker, request, fields, "{message}"),
        Some("debug") => {
            tracing::debug!(target: "forebay::worker", pool, worker, request, fields, "{message}");
        }
        _ => tracing::info!(target: "forebay::worker", pool, worker, request, fields, "{message}"),
    }
}

/// Calls `take` with every line until the output ends. Bytes that are not UTF-8 are replaced.
pub(crate) async fn each_line(mut output: impl AsyncBufRead + Unpin, mut take: impl FnMut(&str)) {
    let mut line = Vec::new();
    while let Ok(chunk) = output.fill_buf().await {
        if chunk.is_empty() {
            break;
        }
        let room = LINE_BYTES_MAX - line.len();
        let (used, whole) = match chunk.iter().take(room).position(|&byte| byte == b'\n') {
            Some(at) => {
                line.extend_from_slice(&chunk[..at]);
                (at + 1, true)
            }
            None => {
                let used = chunk.len().min(room);
                line.extend_from_slice(&chunk[..used]);
                (used, line.len() == LINE_BYTES_MAX)
            }
        };
        output.consume(used);
        if whole {
            take(String::from_utf8_lossy(&line).trim_end_matches('\r'));
            line.clear();
        }
    }
    if !line.is_empty() {
        take(&String::from_utf8_lossy(&line));
    }
}
