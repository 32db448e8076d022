//! Decodes replies.

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// Deepest nesting of arrays.
const DEPTH_MAX: usize = 16;
/// Longest line including its end.
const LINE_MAX: usize = 64 * 1024;
/// Bytes that each part of a reply counts for besides its text.
const PART_BYTES: usize = 32;

/// Why there is no reply; after all but `Refused` the connection must be closed.
#[derive(Debug)]
pub(super) enum ReplyError {
    /// The server refused the command.
    Refused(String),
    /// The reply exceeds its limit.
    Long,
    /// The connection failed.
    Broken(std::io::Error),
    /// The reply is malformed.
    Unreadable(&'static str),
}

impl From<std::io::Error> for ReplyError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Reads one reply of at most `bytes_max` bytes: a text, a number, null, or an array of these. An error inside an array is the result of the whole.
pub(super) async fn read<S: AsyncBufRead + Unpin>(
    stream: &mut S,
    bytes_max: usize,
) -> Result<Value, ReplyError> {
    let mut left = bytes_max;
    // Arrays that are not complete: how many elements each has, and those that have come.
    let mut open: Vec<(usize, Vec<Value>)> = Vec::new();
    let mut refused = None;
    loop {
        let line = read_line(stream, &mut left).await?;
        let (&kind, rest) = line
            .split_first()
            .ok_or(ReplyError::Unreadable("an empty line"))?;
        let mut value = match kind {
            b'+' => Value::from(text(rest)?),
            b'-' => {
                refused.get_or_insert(String::from_utf8_lossy(rest).into_owned());
                Value::Null
            }
            b':' => Value::from(number(rest)?),
            b'$' => match usize::try_from(number(rest)?) {
                Ok(length) => Value::from(read_bulk(stream, length, &mut left).await?),
                Err(_) => Value::Null,
            },
            b'*' => match usize::try_from(number(rest)?) {
                Ok(0) => Value::Array(Vec::new()),
                Ok(_) if open.len() == DEPTH_MAX => {
                    return Err(ReplyError::Unreadable("arrays are too deep in one another"));
                }
                Ok(count) => {
                    open.push((count, Vec::new()));
                    continue;
                }
                Err(_) => Value::Null,
            },
            _ => return Err(ReplyError::Unreadable("a kind of reply that is not known")),
        };
        loop {
            let Some((count, elements)) = open.last_mut() else {
                return refused.map_or(Ok(value), |reason| Err(ReplyError::Refused(reason)));
            };
            elements.push(value);
            if elements.len() < *count {
                break;
            }
            value = Value::Array(std::mem::take(elements));
            open.pop();
        }
    }
}

/// Reads a line without its end.
async fn read_line<S: AsyncBufRead + Unpin>(stream: &mut S, left: &mut usize) -> Result<Vec<u8>, ReplyError> {
    *left = left.checked_sub(PART_BYTES).ok_or(ReplyError::Long)?;
    let mut line = Vec::new();
    stream.take(LINE_MAX as u64).read_until(b'\n', &mut line).await?;
    let length = line.len();
    *left = left.checked_sub(length).ok_or(ReplyError::Long)?;
    if !line.ends_with(b"\r\n") {
        return Err(if length == LINE_MAX {
            ReplyError::Unreadable("a line is too long")
        } else {
            ReplyError::Broken(std::io::ErrorKind::UnexpectedEof.into())
        });
    }
    line.truncate(length - 2);
    Ok(line)
}

async fn read_bulk<S: AsyncBufRead + Unpin>(
    stream: &mut S,
    length: usize,
    left: &mut usize,
) -> Result<String, ReplyError> {
    *left = left.checked_sub(length).ok_or(ReplyError::Long)?;
    let mut bytes = Vec::new();
    stream.take(length as u64 + 2).read_to_end(&mut bytes).await?;
    if bytes.len() < length + 2 {
        return Err(ReplyError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
    }
    if !bytes.ends_with(b"\r\n") {
        return Err(ReplyError::Unreadable("a text is longer than it says"));
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| ReplyError::Unreadable("a text is not UTF-8"))
}

fn text(bytes: &[u8]) -> Result<&str, ReplyError> {
    std::str::from_utf8(bytes).map_err(|_| ReplyError::Unreadable("a text is not UTF-8"))
}

fn number(digits: &[u8]) -> Result<i64, ReplyError> {
    let number = text(digits)?.parse();
    number.map_err(|_| ReplyError::Unreadable("a number is expected"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read_all(mut bytes: &[u8], bytes_max: usize) -> Result<Value, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(read(&mut bytes, bytes_max));
        outcome.map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn replies_are_texts_numbers_and_arrays_of_them() {
        for (bytes, value) in [
            ("+OK\r\n", json!("OK")),
            (":-12\r\n", json!(-12)),
            ("$5\r\na\r\nbc\r\n", json!("a\r\nbc")),
            ("$0\r\n\r\n", json!("")),
            ("$-1\r\n", json!(null)),
            ("*-1\r\n", json!(null)),
            ("*0\r\n", json!([])),
            (
                "*3\r\n:1\r\n*2\r\n+a\r\n$1\r\nb\r\n$-1\r\n",
                json!([1, ["a", "b"], null]),
            ),
        ] {
            assert_eq!(read_all(bytes.as_bytes(), 1000), Ok(value), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_refused_unreadable_or_too_long_is_told_apart() {
        let deep = "*1\r\n".repeat(17);
        for (bytes, told) in [
            ("-ERR wrong\r\n", "Refused(\"ERR wrong\")"),
            ("*2\r\n-ERR a\r\n:1\r\n", "Refused(\"ERR a\")"),
            ("$500\r\n", "Long"),
            (
                "*1000000000\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
                "Long",
            ),
            ("$9223372036854775807\r\n", "Long"),
            ("$3\r\nab", "Broken"),
            (":1", "Broken"),
            ("", "Broken"),
            ("$1\r\nabc\r\n", "longer than it says"),
            ("!1\r\n", "not known"),
            ("\r\n", "empty"),
            (":x\r\n", "a number"),
            ("+\u{e9}\r\n", ""),
            (&deep, "too deep"),
        ] {
            let outcome = read_all(bytes.as_bytes(), if bytes == deep { 5000 } else { 300 });
            match outcome {
                Err(error) => assert!(error.contains(told), "{bytes:?}: {error}"),
                Ok(_) => assert!(told.is_empty(), "{bytes:?}"),
            }
        }
        assert!(read_all(b"$1\r\n\xff\r\n", 300).unwrap_err().contains("UTF-8"));
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_or_a_reply(bytes in proptest::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b':'), Just(b'\r'), Just(b'\n'), b'0'..=b'9', any::<u8>()], 0..200)) {
            let _ = read_all(&bytes, 4096);
        }
    }
}
