//! Reads HTTP/1.1 responses from a stream, however it is split (RFC 9112, 6). Bodies are counted, and kept only on request.

mod framing;
mod known;

use self::framing::{chunk_size, framing, no_head};
pub(crate) use self::known::KnownHead;
use crate::failure::Class;

/// Longest head of a response.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest line of a chunk's size, extensions included.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;
/// Longest trailer section.
const TRAILER_BYTES_MAX: usize = 16 * 1024;
/// Longest body that is kept.
const KEPT_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most fields of a response.
const FIELDS_MAX: usize = 128;

/// A response that has been read to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of head, body and framing, and of interim responses before it.
    pub(crate) wire_bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) keep_alive: bool,
}

/// Result of reading a piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The first `used` bytes of the piece complete a response.
    Whole { used: usize, answer: Answer },
    /// The piece is used up and the response continues.
    Partial,
}

/// Why the received bytes are not a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) class: Class,
    pub(crate) what: &'static str,
}

/// How the body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Framing {
    #[default]
    Nothing,
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before a response, or in its head.
    #[default]
    Head,
    Length(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailer,
}

/// The reader of one connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    state: State,
    answer: Answer,
    /// Start of an incomplete head or line.
    held: Vec<u8>,
    /// Number of bytes of a held head that have been searched for its end.
    searched: usize,
    /// A held head of this length is parsed although it has no end, to find an error in it early.
    parsed_from: usize,
    trailer_bytes: usize,
    /// The body of the current response, if bodies are kept.
    pub(crate) kept: Option<Vec<u8>>,
}

impl Reader {
    /// A reader; `keeps`: whether bodies are kept.
    pub(crate) fn new(keeps: bool) -> Self {
        Self {
            kept: keeps.then(Vec::new),
            ..Self::default()
        }
    }

    /// Whether a response has been received in part.
    pub(crate) fn is_inside(&self) -> bool {
        self.state != State::Head || !self.held.is_empty() || self.answer.wire_bytes > 0
    }

    /// Reads more bytes; `head_only`: the response due is one to HEAD.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        head_only: bool,
        known: &mut KnownHead,
    ) -> Result<Read, Broken> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if rest.is_empty() {
                return Ok(Read::Partial);
            }
            match self.state {
                State::Head => match self.head(rest, head_only, known)? {
                    None => return Ok(Read::Partial),
                    Some(used) => {
                        at += used;
                        if self.state == State::Head {
                            if self.answer.status >= 200 {
                                return Ok(self.whole(at));
                            }
                            // An interim response (RFC 9110, 15.2): the final one follows.
                            self.answer.status = 0;
                        }
                    }
                },
                State::Length(left) => {
                    let taken = left.min(rest.len() as u64);
                    self.take_body(&rest[..taken as usize]);
                    at += taken as usize;
                    self.state = State::Length(left - taken);
                    if left == taken {
                        return Ok(self.whole(at));
                    }
                }
                State::UntilClose => {
                    self.take_body(rest);
                    return Ok(Read::Partial);
                }
                State::ChunkSize => match self.line(
                    rest,
                    CHUNK_LINE_BYTES_MAX,
                    "the line of a chunk's size is too long",
                )? {
                    None => return Ok(Read::Partial),
                    Some(used) => {
                        at += used;
                        let size = chunk_size(&self.held).ok_or(Broken {
                            class: Class::Malformed,
                            what: "a chunk's size is not a hexadecimal number",
                        })?;
                        self.held.clear();
                        self.trailer_bytes = 0;
                        self.state = if size == 0 {
                            State::Trailer
                        } else {
                            State::Chunk(size)
                        };
                    }
                },
                State::Chunk(left) => {
                    let taken = left.min(rest.len() as u64);
                    self.take_body(&rest[..taken as usize]);
                    at += taken as usize;
                    self.state = if left == taken {
                        State::ChunkEnd
                    } else {
                        State::Chunk(left - taken)
                    };
                }
                State::ChunkEnd => match self.line(rest, 2, "a chunk is longer than its size")? {
                    None => return Ok(Read::Partial),
                    Some(used) => {
                        at += used;
                        if !self.held.is_empty() {
                            return Err(Broken {
                                class: Class::Malformed,
                                what: "a chunk is longer than its size",
                            });
                        }
                        self.state = State::ChunkSize;
                    }
                },
                State::Trailer => {
                    let room = TRAILER_BYTES_MAX - self.trailer_bytes;
                    match self.line(rest, room, "the trailer section is too long")? {
                        None => return Ok(Read::Partial),
                        Some(used) => {
                            at += used;
                            self.trailer_bytes += self.held.len();
                            let ended = self.held.is_empty();
                            self.held.clear();
                            if ended {
                                return Ok(self.whole(at));
                            }
                        }
                    }
                }
            }
        }
    }

    /// The error in a head that the end of the stream has cut off, if being cut off is not the only one.
    pub(crate) fn wrong_head(&self) -> Option<Broken> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let parsed = httparse::Response::new(&mut fields).parse(&self.held);
        parsed.err().filter(|_| self.state == State::Head).map(no_head)
    }

    /// Handles the end of the stream. Returns the response that ends with it, if one does.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        if self.state != State::UntilClose {
            return None;
        }
        self.answer.keep_alive = false;
        let answer = self.answer;
        self.restart();
        Some(answer)
    }

    fn whole(&mut self, used: usize) -> Read {
        let answer = self.answer;
        self.restart();
        Read::Whole { used, answer }
    }

    fn restart(&mut self) {
        self.state = State::Head;
        self.answer = Answer::default();
    }

    fn take_body(&mut self, bytes: &[u8]) {
        self.answer.body_bytes += bytes.len() as u64;
        self.answer.wire_bytes += bytes.len() as u64;
        if let Some(kept) = &mut self.kept {
            let room = KEPT_BODY_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Reads a head. `None`: it is incomplete, and all of `bytes` is held.
    fn head(
        &mut self,
        bytes: &[u8],
        head_only: bool,
        known: &mut KnownHead,
    ) -> Result<Option<usize>, Broken> {
        if self.held.is_empty() && known.is_at(bytes) {
            self.begin(
                known.status,
                known.framing,
                known.keep_alive,
                known.bytes.len(),
                head_only,
            );
            return Ok(Some(known.bytes.len()));
        }
        let before = self.held.len();
        let joined: &[u8] = if before == 0 {
            bytes
        } else {
            self.held
                .extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES_MAX + 1 - before)]);
            if !self.is_worth_parsing() {
                return Ok(None);
            }
            &self.held
        };
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        match response.parse(joined) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => {
                let status = response.code.unwrap_or_default();
                let (framing, keep_alive) = framing(&response)?;
                // Empty lines before a head are not part of it, and the next head need not have them.
                let empty_lines = joined.iter().take_while(|byte| b"\r\n".contains(byte)).count();
                known.learn(&joined[empty_lines..length], &response, framing, keep_alive);
                self.held.clear();
                self.searched = 0;
                self.begin(status, framing, keep_alive, length, head_only);
                Ok(Some(length - before))
            }
            Ok(httparse::Status::Partial) if joined.len() <= HEAD_BYTES_MAX => {
                let length = joined.len();
                if before == 0 {
                    self.held.extend_from_slice(bytes);
                }
                self.parsed_from = 2 * length;
                Ok(None)
            }
            Ok(_) => Err(Broken {
                class: Class::OverLong,
                what: "the head of the answer is longer than 64 KiB",
            }),
            Err(error) => Err(no_head(error)),
        }
    }

    /// Whether the held part of a head should be parsed: it may be complete, or has doubled since it was parsed last. Otherwise a head that
    /// arrives byte by byte would be parsed for each of them.
    fn is_worth_parsing(&mut self) -> bool {
        let is_empty = |line: &[u8]| line.is_empty() || line == b"\r";
        if self.held.ends_with(b"\n") && self.held.split(|&byte| byte == b'\n').all(is_empty) {
            // Empty lines before a head do not end it, and are not kept: there may be many.
            self.answer.wire_bytes += self.held.len() as u64;
            self.held.clear();
            self.searched = 0;
            return false;
        }
        let fresh = &self.held[self.searched.saturating_sub(3)..];
        let ends = memchr::memchr_iter(b'\n', fresh).any(|at| {
            let after = &fresh[at + 1..];
            after.starts_with(b"\n") || after.starts_with(b"\r\n")
        });
        self.searched = self.held.len();
        ends || self.held.len() >= self.parsed_from || self.held.len() > HEAD_BYTES_MAX
    }

    fn begin(&mut self, status: u16, framing: Framing, keep_alive: bool, head_bytes: usize, head_only: bool) {
        if let Some(kept) = &mut self.kept {
            kept.clear();
        }
        self.answer.status = status;
        self.answer.wire_bytes += head_bytes as u64;
        self.answer.keep_alive = keep_alive;
        let nothing = head_only || status < 200 || matches!(status, 204 | 304);
        self.state = match framing {
            _ if nothing => State::Head,
            Framing::Nothing | Framing::Length(0) => State::Head,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
    }

    /// Reads a line into `held`, without its end. `None`: it is incomplete.
    fn line(&mut self, bytes: &[u8], max: usize, too_long: &'static str) -> Result<Option<usize>, Broken> {
        let (part, used) = match memchr::memchr(b'\n', bytes) {
            Some(at) => (&bytes[..at], Some(at + 1)),
            None => (bytes, None),
        };
        if self.held.len() + part.len() > max {
            return Err(Broken {
                class: Class::OverLong,
                what: too_long,
            });
        }
        self.held.extend_from_slice(part);
        self.answer.wire_bytes += used.unwrap_or(bytes.len()) as u64;
        if used.is_some() && self.held.last() == Some(&b'\r') {
            self.held.pop();
        }
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a stream in pieces of `piece` bytes; returns the responses, and what ended the stream.
    fn answers(stream: &[u8], piece: usize, head_only: bool) -> (Vec<(u16, u64)>, Result<bool, Class>) {
        let (mut reader, mut known) = (Reader::new(false), KnownHead::default());
        let mut answers = Vec::new();
        for mut part in stream.chunks(piece) {
            loop {
                match reader.read(part, head_only, &mut known) {
                    Ok(Read::Whole { used, answer }) => {
                        answers.push((answer.status, answer.body_bytes));
                        part = &part[used..];
                        if part.is_empty() {
                            break;
                        }
                    }
                    Ok(Read::Partial) => break,
                    Err(broken) => return (answers, Err(broken.class)),
                }
            }
        }
        let inside = reader.is_inside();
        if let Some(broken) = reader.wrong_head() {
            return (answers, Err(broken.class));
        }
        if let Some(answer) = reader.end() {
            answers.push((answer.status, answer.body_bytes));
            return (answers, Ok(false));
        }
        (answers, Ok(inside))
    }

    #[test]
    fn answers_are_the_same_however_the_stream_is_cut() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: a\r\n\r\nhello\
            HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: b\r\n\r\nworld\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nt: v\r\n\r\n\
            HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n\
            HTTP/1.1 200 OK\r\n\r\nuntil the end";
        let expected = vec![(200, 5), (200, 5), (204, 0), (200, 13), (404, 0), (200, 13)];
        for piece in 1..=stream.len() {
            assert_eq!(
                answers(stream, piece, false),
                (expected.clone(), Ok(false)),
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let stream =
            b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n";
        assert_eq!(answers(stream, 1000, true), (vec![(200, 0), (200, 0)], Ok(false)));
    }

    #[test]
    fn what_cannot_be_an_answer_has_a_class() {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(HEAD_BYTES_MAX));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(200));
        for (stream, class) in [
            ("SSH-2.0-OpenSSH\r\n", Class::Malformed),
            ("HTTP/1.1 abc OK\r\n\r\n", Class::Malformed),
            ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Class::Framing),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
                Class::Framing,
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
                Class::Framing,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
                Class::Framing,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
                Class::Malformed,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
                Class::OverLong,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
                Class::Malformed,
            ),
            (&long, Class::OverLong),
            (&many, Class::OverLong),
        ] {
            for piece in [1, 7, 100_000] {
                assert_eq!(
                    answers(stream.as_bytes(), piece, false).1,
                    Err(class),
                    "{stream:.60?} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_is_not_parsed_for_each_of_them() {
        let fields = "x: ".to_owned() + &"y".repeat(60_000);
        let head = format!("\r\n\nHTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: 1\r\n\r\n");
        let (mut reader, mut known) = (Reader::new(false), KnownHead::default());
        let (mut parsed, mut before) = (0, 0);
        for byte in head.as_bytes().chunks(1) {
            assert_eq!(reader.read(byte, false, &mut known), Ok(Read::Partial));
            parsed += u32::from(reader.parsed_from != before);
            before = reader.parsed_from;
        }
        assert!((5..30).contains(&parsed), "{parsed} times");
        assert!(matches!(
            reader.read(b"z", false, &mut known),
            Ok(Read::Whole {
                used: 1,
                answer: Answer {
                    status: 200,
                    body_bytes: 1,
                    ..
                }
            })
        ));
    }

    #[test]
    fn what_is_no_head_is_found_out_before_it_ends() {
        for piece in [1, 3, 100] {
            let garbage = "HTTP/1.1 200 OK\r\nno field\0".to_owned() + &"x".repeat(300);
            assert_eq!(
                answers(garbage.as_bytes(), piece, false).1,
                Err(Class::Malformed),
                "{piece}"
            );
        }
    }

    #[test]
    fn a_stream_that_ends_inside_an_answer_is_known_to() {
        for stream in [
            "HTTP/1.1 2",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        ] {
            assert_eq!(
                answers(stream.as_bytes(), 9, false),
                (vec![], Ok(true)),
                "{stream:?}"
            );
        }
    }

    #[test]
    fn a_head_is_known_again_when_only_values_that_steer_nothing_differ() {
        let head = |date: &str, id: &str, length: &str| {
            format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nX-Id: {id}\r\nContent-Length: {length}\r\n\r\n")
        };
        let (mut reader, mut known) = (Reader::new(false), KnownHead::default());
        for (date, id) in [("one", "aa"), ("two", "aa"), ("two", "bb")] {
            reader
                .read(head(date, id, "0").as_bytes(), false, &mut known)
                .unwrap();
        }
        assert!(known.is_at(head("ten", "zz", "0").as_bytes()));
        assert!(
            !known.is_at(head("ten", "zz", "7").as_bytes()),
            "the length steers"
        );
        assert!(
            !known.is_at(head("t\rn", "zz", "0").as_bytes()),
            "a line may not end elsewhere"
        );
        assert!(
            !known.is_at(head("t\0n", "zz", "0").as_bytes()),
            "what is no value when it is parsed is none here"
        );
        let read = reader
            .read(
                format!("{}1234567", head("six", "cc", "7")).as_bytes(),
                false,
                &mut known,
            )
            .unwrap();
        assert!(matches!(
            read,
            Read::Whole {
                answer: Answer { body_bytes: 7, .. },
                ..
            }
        ));
    }
}
