//! Finds JSON objects in a stream that may contain other text between them: what programs and their libraries print by mistake.

use bytes::BytesMut;
use memchr::{memchr2, memchr3};

use super::Said;

/// Maximum length of a line before it is passed on in parts.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of false object starts per line after which the text behind the brace is scanned again; each costs another scan.
const RETRIES_MAX: usize = 32;

/// A message is too long, and the start of the next one is unknown.
#[derive(Debug, thiserror::Error)]
#[error("worker has written a message of more than {message_bytes_max} bytes (message_bytes_max)")]
pub(crate) struct MessageTooLong {
    message_bytes_max: usize,
}

#[derive(Debug)]
pub(super) struct Scanner {
    /// Whether a line end ends every object, complete or not.
    lines: bool,
    message_bytes_max: usize,
    /// Number of bytes scanned so far.
    at: usize,
    open: Option<Open>,
    retries: usize,
}

/// An object whose end has not been found.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: usize,
    depth: usize,
    place: Place,
}

/// The tokens that JSON allows next, as far as needed to distinguish objects from text that resembles them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Right behind `{`: a name or the end.
    Opened,
    /// A value or a name may begin.
    Value,
    /// Behind a value: a comma, or an end.
    Behind,
    /// Inside a string.
    Text,
}

enum Step {
    /// All bytes were scanned.
    More,
    /// The object ends before this position.
    End(usize),
    /// The byte at this position is not valid JSON.
    Broken(usize),
}

impl Scanner {
    pub(super) fn new(lines: bool, message_bytes_max: usize) -> Self {
        Self {
            lines,
            message_bytes_max,
            at: 0,
            open: None,
            retries: 0,
        }
    }

    /// Consumes objects that `read` accepts, and the text between them, from the front of `bytes`.
    pub(super) fn take(
        &mut self,
        bytes: &mut BytesMut,
        said: &mut Vec<Said>,
        read: impl Fn(&str) -> Option<Said>,
    ) -> Result<(), MessageTooLong> {
        // Everything before this position has been passed on.
        let mut passed = 0;
        while self.at < bytes.len() {
            let Some(mut open) = self.open else {
                match memchr2(b'{', b'\n', &bytes[self.at..]) {
                    Some(found) if bytes[self.at + found] == b'{' => {
                        self.at += found + 1;
                        self.open = Some(Open {
                            start: self.at - 1,
                            depth: 1,
                            place: Place::Opened,
                        });
                    }
                    Some(found) => {
                        self.at += found + 1;
                        self.retries = 0;
                        print(&bytes[passed..self.at], said);
                        passed = self.at;
                    }
                    None => self.at = bytes.len(),
                }
                continue;
            };
            // Scan no further than a message may reach, so that the result does not depend on how the input is split.
            let end = bytes.len().min(open.start + self.message_bytes_max);
            match step(&mut open, &bytes[..end], &mut self.at, self.lines) {
                Step::More => {
                    self.open = Some(open);
                    if end < bytes.len() {
                        return Err(MessageTooLong {
                            message_bytes_max: self.message_bytes_max,
                        });
                    }
                    break;
                }
                Step::End(end) => {
                    self.open = None;
                    let found = std::str::from_utf8(&bytes[open.start..end]).ok().and_then(&read);
                    if let Some(found) = found {
                        print(&bytes[passed..open.start], said);
                        said.push(found);
                        passed = end;
                        self.retries = 0;
                    }
                }
                Step::Broken(place) => {
                    self.open = None;
                    // The object start was text after all, in which a message may begin.
                    self.retries += 1;
                    self.at = if self.retries > RETRIES_MAX {
                        place
                    } else {
                        open.start + 1
                    };
                }
            }
        }
        let kept = self.open.map_or(self.at, |open| open.start);
        if kept - passed > TEXT_BYTES_MAX {
            print(&bytes[passed..kept], said);
            passed = kept;
        }
        let _ = bytes.split_to(passed);
        self.at -= passed;
        if let Some(open) = &mut self.open {
            open.start -= passed;
        }
        if bytes.is_empty() {
            // Release the memory of a long message.
            *bytes = BytesMut::new();
        }
        Ok(())
    }

    /// Passes on everything that is left as text.
    pub(super) fn end(&mut self, bytes: &mut BytesMut, said: &mut Vec<Said>) {
        print(bytes, said);
        bytes.clear();
        (self.at, self.open) = (0, None);
    }
}

/// Continues within an object, from `at`.
fn step(open: &mut Open, bytes: &[u8], at: &mut usize, lines: bool) -> Step {
    while *at < bytes.len() {
        if open.place == Place::Text {
            let Some(found) = memchr3(b'"', b'\\', b'\n', &bytes[*at..]) else {
                *at = bytes.len();
                return Step::More;
            };
            match bytes[*at + found] {
                b'"' => {
                    *at += found + 1;
                    open.place = Place::Behind;
                }
                b'\\' if *at + found + 1 == bytes.len() => {
                    // The escaped character has not arrived; scan the backslash again later.
                    *at += found;
                    return Step::More;
                }
                b'\\' => *at += found + 2,
                // Strings cannot contain line ends.
                _ => return Step::Broken(*at + found),
            }
            continue;
        }
        let byte = bytes[*at];
        open.place = match (byte, open.place) {
            (b'\n', _) if lines => return Step::Broken(*at),
            (b' ' | b'\t' | b'\r' | b'\n', place) => place,
            (b'"', Place::Opened | Place::Value) => Place::Text,
            (b'}', Place::Opened | Place::Behind) | (b']', Place::Value | Place::Behind) => {
                open.depth -= 1;
                if open.depth == 0 {
                    *at += 1;
                    return Step::End(*at);
                }
                Place::Behind
            }
            (b'{', Place::Value) => {
                open.depth += 1;
                Place::Opened
            }
            (b'[', Place::Value) => {
                open.depth += 1;
                Place::Value
            }
            (b',' | b':', Place::Behind) => Place::Value,
            (b'0'..=b'9' | b'-' | b'+' | b'.' | b'E' | b'a'..=b'z', Place::Value | Place::Behind) => {
                Place::Behind
            }
            _ => return Step::Broken(*at),
        };
        *at += 1;
    }
    Step::More
}

/// Passes on text line by line, skipping empty lines.
fn print(text: &[u8], said: &mut Vec<Said>) {
    for line in text.split(|&byte| byte == b'\n') {
        for piece in line.trim_ascii().chunks(TEXT_BYTES_MAX) {
            said.push(Said::Printed(String::from_utf8_lossy(piece).into_owned()));
        }
    }
}
