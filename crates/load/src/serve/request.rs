//! Reads requests from what a connection has brought. A head that was read before is known again by its bytes.

use std::rc::Rc;

use super::{answer, path::Action, stats::Tally};

/// Longest head of a request.
pub(super) const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Longest body that is sent back.
pub(super) const ECHO_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest line of a chunk's size, and of all trailers together.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;
/// Most fields of a request.
const FIELDS_MAX: usize = 128;

/// What a head asks for.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are what a head says, each on its own"
)]
pub(super) struct Asked {
    /// The head itself.
    pub(super) head: Box<[u8]>,
    pub(super) action: Action,
    /// Where it is counted; `None` for what is not.
    pub(super) place: Option<usize>,
    pub(super) head_only: bool,
    /// The connection may carry further requests.
    pub(super) keep_alive: bool,
    /// The client speaks HTTP/1.0: it knows no chunks, and has to be told that the connection stays.
    pub(super) old: bool,
    pub(super) expects_continue: bool,
    pub(super) body: Framing,
    /// The whole answer, where it is always the same.
    pub(super) fixed: Option<Box<[u8]>>,
}

/// How the body of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// Why something is no request.
pub(super) type Malformed = &'static str;

/// Reads heads.
#[derive(Debug, Default)]
pub(super) struct Heads {
    recent: Option<Rc<Asked>>,
}

impl Heads {
    /// Reads the head at the start of `bytes`. `None`: it has not come to its end.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        count_in: impl FnOnce(&str) -> usize,
    ) -> Result<Option<Rc<Asked>>, Malformed> {
        if let Some(recent) = &self.recent
            && bytes.starts_with(&recent.head)
        {
            return Ok(Some(recent.clone()));
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => {
                let asked = Rc::new(asked(&request, &bytes[..length], count_in)?);
                self.recent = Some(asked.clone());
                Ok(Some(asked))
            }
            Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => Ok(None),
            Ok(_) => Err("the head of the request is longer than 32 KiB"),
            Err(_) => Err("this is not the head of an HTTP/1 request"),
        }
    }
}

fn asked(
    request: &httparse::Request<'_, '_>,
    head: &[u8],
    count_in: impl FnOnce(&str) -> usize,
) -> Result<Asked, Malformed> {
    let old = request.version == Some(0);
    let (mut keep_alive, mut expects_continue) = (!old, false);
    let (mut length, mut chunked) = (None, false);
    for field in request.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let number = std::str::from_utf8(field.value)
                .ok()
                .and_then(|text| text.parse::<u64>().ok());
            let number = number.ok_or("content-length is not a number")?;
            if length.is_some_and(|known| known != number) {
                return Err("there are two different content-lengths");
            }
            length = Some(number);
        } else if is("transfer-encoding") {
            if !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err("the transfer coding is not chunked");
            }
            chunked = true;
        } else if is("connection") {
            for option in field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                keep_alive &= !option.eq_ignore_ascii_case(b"close");
                keep_alive |= old && option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("expect") {
            expects_continue = field.value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    let body = match (chunked, length) {
        (true, Some(_)) => return Err("there are both a content-length and a transfer-encoding"),
        (true, None) => Framing::Chunked,
        (false, length) => Framing::Length(length.unwrap_or(0)),
    };
    let target = path_of(request.path.unwrap_or("/"));
    let action = Action::of(target);
    let place = match action {
        Action::Stats | Action::Reset => None,
        _ => Some(count_in(target)),
    };
    let mut asked = Asked {
        head: head.into(),
        place,
        head_only: request.method == Some("HEAD"),
        keep_alive: keep_alive && !matches!(action, Action::Close { .. }),
        action,
        old,
        expects_continue,
        body,
        fixed: None,
    };
    asked.fixed = answer::fixed(&asked);
    Ok(asked)
}

/// The path of a target that may be a whole URL, as proxies get it (RFC 9112, 3.2.2).
fn path_of(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target;
    };
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// The body of a request on its way in.
#[derive(Debug)]
pub(super) struct Body {
    state: State,
    /// The start of a line that has not ended.
    line: Vec<u8>,
    /// What has come, if it is to be sent back.
    pub(super) kept: Option<Vec<u8>>,
    pub(super) too_long: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Ended,
}

impl Body {
    pub(super) fn new(framing: Framing, keeps: bool) -> Self {
        Self {
            state: match framing {
                Framing::Length(0) => State::Ended,
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::ChunkSize,
            },
            line: Vec::new(),
            kept: keeps.then(Vec::new),
            too_long: false,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Takes what belongs to the body; returns how much that was.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < bytes.len() && !self.has_ended() {
            let rest = &bytes[at..];
            match self.state {
                State::Length(left) => {
                    let taken = self.keep(rest, left);
                    at += taken as usize;
                    self.state = if left == taken {
                        State::Ended
                    } else {
                        State::Length(left - taken)
                    };
                }
                State::Chunk(left) => {
                    let taken = self.keep(rest, left);
                    at += taken as usize;
                    self.state = if left == taken {
                        State::ChunkEnd
                    } else {
                        State::Chunk(left - taken)
                    };
                }
                State::ChunkSize | State::ChunkEnd | State::Trailers => {
                    let end = memchr::memchr(b'\n', rest);
                    let part = &rest[..end.unwrap_or(rest.len())];
                    if self.line.len() + part.len() > CHUNK_LINE_BYTES_MAX {
                        return Err("a line within the chunks is longer than 4 KiB");
                    }
                    self.line.extend_from_slice(part);
                    at += part.len() + usize::from(end.is_some());
                    if end.is_some() {
                        self.state = self.line_ended()?;
                    }
                }
                State::Ended => {}
            }
        }
        Ok(at)
    }

    fn line_ended(&mut self) -> Result<State, Malformed> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        match self.state {
            State::ChunkSize => {
                let digits = line
                    .split(|&byte| byte == b';')
                    .next()
                    .unwrap_or_default()
                    .trim_ascii();
                let digits = std::str::from_utf8(digits)
                    .ok()
                    .filter(|digits| !digits.starts_with('+'));
                let size = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
                match size.ok_or("a chunk's size is not a hexadecimal number")? {
                    0 => Ok(State::Trailers),
                    size => Ok(State::Chunk(size)),
                }
            }
            State::ChunkEnd if line.is_empty() => Ok(State::ChunkSize),
            State::ChunkEnd => Err("a chunk is longer than its size"),
            _ => Ok(if line.is_empty() {
                State::Ended
            } else {
                State::Trailers
            }),
        }
    }

    fn keep(&mut self, bytes: &[u8], left: u64) -> u64 {
        let taken = left.min(bytes.len() as u64) as usize;
        if let Some(kept) = &mut self.kept {
            if kept.len() + taken > ECHO_BYTES_MAX {
                self.too_long = true;
            } else {
                kept.extend_from_slice(&bytes[..taken]);
            }
        }
        taken as u64
    }
}

/// Counts a path in a worker's tally.
pub(super) fn place_in(tally: &std::sync::Mutex<Tally>) -> impl FnOnce(&str) -> usize {
    |path| {
        tally
            .lock()
            .expect("no worker panics with its tally locked")
            .place(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<Option<Rc<Asked>>, Malformed> {
        Heads::default().read(head.as_bytes(), |_| 7)
    }

    #[test]
    fn a_head_says_what_is_asked_and_how_the_connection_goes_on() {
        for (head, action, keep_alive, body) in [
            (
                "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
                Action::Hello,
                true,
                Framing::Length(0),
            ),
            (
                "GET http://a:1/bytes/5 HTTP/1.1\r\nConnection: Close\r\n\r\n",
                Action::Bytes(5),
                false,
                Framing::Length(0),
            ),
            ("GET / HTTP/1.0\r\n\r\n", Action::Hello, false, Framing::Length(0)),
            (
                "POST /echo HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\n",
                Action::Echo,
                true,
                Framing::Length(3),
            ),
            (
                "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Action::Echo,
                true,
                Framing::Chunked,
            ),
            (
                "GET /close HTTP/1.1\r\n\r\n",
                Action::Close { announced: true },
                false,
                Framing::Length(0),
            ),
        ] {
            let asked = read(head).unwrap().unwrap();
            assert_eq!(
                (&asked.action, asked.keep_alive, asked.body),
                (&action, keep_alive, body),
                "{head}"
            );
            assert_eq!(asked.place, Some(7));
            for end in 0..head.len() {
                assert!(read(&head[..end]).unwrap().is_none(), "{:?}", &head[..end]);
            }
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
        for head in [
            "SSH-2.0\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            &long,
        ] {
            assert!(read(head).is_err(), "{head:.60}");
        }
    }

    #[test]
    fn bodies_are_the_same_in_any_pieces() {
        for (framing, stream, body, rest) in [
            (Framing::Length(5), "helloGET", "hello", 3),
            (
                Framing::Chunked,
                "3;x\r\nhel\r\n2\r\nlo\r\n0\r\nt: v\r\n\r\nGET",
                "hello",
                3,
            ),
        ] {
            for piece in 1..=stream.len() {
                let (mut reader, mut used) = (Body::new(framing, true), 0);
                for part in stream.as_bytes().chunks(piece) {
                    used += reader.take(part).unwrap();
                }
                assert!(reader.has_ended());
                assert_eq!(reader.kept.as_deref(), Some(body.as_bytes()), "pieces of {piece}");
                assert_eq!(used, stream.len() - rest);
            }
        }
        for broken in [
            "x\r\n",
            "+1\r\na\r\n",
            "1\r\nab\r\n",
            "\r\n",
            "11111111111111111\r\n",
        ] {
            assert!(
                Body::new(Framing::Chunked, false)
                    .take(broken.as_bytes())
                    .is_err(),
                "{broken:?}"
            );
        }
    }
}
