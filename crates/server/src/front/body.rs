//! Finds the end of a request's body: `Content-Length` and chunks (RFC 9112, 6 and 7). Does no I/O; strict about line endings.

use super::head::Framing;
use crate::failure::Refusal;

/// Longest line with a chunk's size and extensions, and longest trailer field.
const LINE_BYTES_MAX: usize = 4096;
/// Limit on all chunk extensions, which are discarded, and trailer fields of one body together.
const BESIDE_BYTES_MAX: usize = 16 * 1024;

/// Removes the framing from a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    state: State,
    taken: u64,
    max: u64,
    /// Bytes of extensions and trailer fields so far.
    beside: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
}

/// Result of one decoding step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Bytes of the body; `used` bytes of input are consumed.
    Data { bytes: &'a [u8], used: usize },
    /// A field behind the last chunk, as it is; `used` bytes are consumed.
    Trailer { line: &'a [u8], used: usize },
    /// Framing only; `used` bytes are consumed. Zero means that more input is needed.
    Framing { used: usize },
    /// The body has ended; no more input is consumed.
    End,
}

impl Decoder {
    /// A decoder for a body of any length.
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            state: match framing {
                Framing::None => State::Done,
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::ChunkSize,
            },
            taken: 0,
            max: u64::MAX,
            beside: 0,
        }
    }

    /// Limits the body to `max` bytes before any of it is read. A longer announced length is refused at once.
    pub(crate) fn limit(&mut self, max: u64) -> Result<(), Refusal> {
        self.max = max;
        match self.state {
            State::Length(length) if length > max => Err(Refusal::BodyTooLarge { body_bytes_max: max }),
            _ => Ok(()),
        }
    }

    pub(crate) fn ended(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes from the start of the input.
    pub(crate) fn step<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, Refusal> {
        match self.state {
            State::Done => Ok(Step::End),
            _ if input.is_empty() => Ok(Step::Framing { used: 0 }),
            State::Length(left) => {
                let bytes = take(input, left);
                let left = left - bytes.len() as u64;
                self.state = if left == 0 {
                    State::Done
                } else {
                    State::Length(left)
                };
                Ok(Step::Data {
                    bytes,
                    used: bytes.len(),
                })
            }
            State::ChunkData(left) => {
                let bytes = take(input, left);
                let left = left - bytes.len() as u64;
                self.state = if left == 0 {
                    State::ChunkEnd
                } else {
                    State::ChunkData(left)
                };
                Ok(Step::Data {
                    bytes,
                    used: bytes.len(),
                })
            }
            State::ChunkEnd => match input {
                [b'\r', b'\n', ..] => {
                    self.state = State::ChunkSize;
                    Ok(Step::Framing { used: 2 })
                }
                [b'\r'] => Ok(Step::Framing { used: 0 }),
                _ => Err(malformed("a chunk is longer than its size")),
            },
            State::ChunkSize => match line(input)? {
                None => Ok(Step::Framing { used: 0 }),
                Some(text) => {
                    self.start_chunk(text)?;
                    Ok(Step::Framing { used: text.len() + 2 })
                }
            },
            State::Trailer => match line(input)? {
                None => Ok(Step::Framing { used: 0 }),
                Some([]) => {
                    self.state = State::Done;
                    Ok(Step::Framing { used: 2 })
                }
                Some(line) => {
                    let used = line.len() + 2;
                    self.count(used)?;
                    Ok(Step::Trailer { line, used })
                }
            },
        }
    }

    /// Counts bytes beside the body.
    fn count(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.beside += bytes;
        if self.beside > BESIDE_BYTES_MAX {
            return Err(malformed("chunk extensions and trailer fields are too long"));
        }
        Ok(())
    }

    fn start_chunk(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let size = line.split(|&byte| byte == b';').next().unwrap_or_default();
        self.count(line.len() - size.len())?;
        let blanks = size
            .iter()
            .rev()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        let size = &size[..size.len() - blanks];
        let valid = !size.is_empty() && size.len() <= 16 && size.iter().all(u8::is_ascii_hexdigit);
        let size = std::str::from_utf8(size)
            .ok()
            .filter(|_| valid)
            .and_then(|size| u64::from_str_radix(size, 16).ok())
            .ok_or(malformed("a chunk's size is not a hexadecimal number"))?;
        self.taken = self.taken.saturating_add(size);
        if self.taken > self.max {
            return Err(Refusal::BodyTooLarge {
                body_bytes_max: self.max,
            });
        }
        self.state = if size == 0 {
            State::Trailer
        } else {
            State::ChunkData(size)
        };
        Ok(())
    }
}

fn malformed(what: &'static str) -> Refusal {
    Refusal::Malformed { what }
}

fn take(input: &[u8], at_most: u64) -> &[u8] {
    let length = usize::try_from(at_most).unwrap_or(usize::MAX).min(input.len());
    &input[..length]
}

/// A line without its CR LF, or `None` until it is complete.
fn line(input: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    match memchr::memchr(b'\n', &input[..input.len().min(LINE_BYTES_MAX)]) {
        // Some programs would end the line at a carriage return inside it.
        Some(at) => match memchr::memchr(b'\r', &input[..at]) {
            Some(end) if end + 1 == at => Ok(Some(&input[..end])),
            Some(_) => Err(malformed("a line has a carriage return within")),
            None => Err(malformed("a line ends without carriage return")),
        },
        None if input.len() >= LINE_BYTES_MAX => Err(malformed("a line of the chunked body is too long")),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes input that arrives in pieces of `piece` bytes; returns the body and what is left of the input.
    fn decode(framing: Framing, max: u64, input: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
        let mut decoder = Decoder::new(framing);
        decoder.limit(max)?;
        let (mut body, mut pending, mut arriving) = (Vec::new(), Vec::new(), input);
        loop {
            let used = match decoder.step(&pending)? {
                Step::End => break,
                Step::Data { bytes, used } => {
                    body.extend_from_slice(bytes);
                    used
                }
                Step::Framing { used } | Step::Trailer { used, .. } => used,
            };
            pending.drain(..used);
            if used == 0 {
                assert!(!arriving.is_empty(), "the body has ended");
                let (now, later) = arriving.split_at(piece.min(arriving.len()));
                pending.extend_from_slice(now);
                arriving = later;
            }
        }
        pending.extend_from_slice(arriving);
        Ok((body, pending))
    }

    #[test]
    fn a_body_is_the_same_however_it_arrives() {
        let chunked = b"5\r\nhello\r\n00B;name=\"v\"\r\n world, all\r\n0\r\nTrailer: x\r\n\r\nGET /";
        for piece in 1..chunked.len() {
            let decoded = decode(Framing::Chunked, 100, chunked, piece).unwrap();
            assert_eq!(
                decoded,
                (b"hello world, all".to_vec(), b"GET /".to_vec()),
                "pieces of {piece}"
            );
            let decoded = decode(Framing::Length(7), 100, b"1234567GET", piece).unwrap();
            assert_eq!(decoded, (b"1234567".to_vec(), b"GET".to_vec()));
        }
    }

    #[test]
    fn framing_that_is_not_exact_is_refused() {
        for (input, what) in [
            (
                &b"5\nhello\r\n0\r\n\r\n"[..],
                "a line ends without carriage return",
            ),
            (b"5\r\r\nhello\r\n", "a line has a carriage return within"),
            (b"5;a\rb\r\nhello\r\n", "a line has a carriage return within"),
            (
                b"5\x0c\r\nhello\r\n",
                "a chunk's size is not a hexadecimal number",
            ),
            (b"5\r\nhello!\r\n", "a chunk is longer than its size"),
            (b"0x5\r\nhello\r\n", "a chunk's size is not a hexadecimal number"),
            (b"-1\r\n", "a chunk's size is not a hexadecimal number"),
            (b"\r\n", "a chunk's size is not a hexadecimal number"),
            (
                b"11111111111111111\r\n",
                "a chunk's size is not a hexadecimal number",
            ),
        ] {
            assert_eq!(
                decode(Framing::Chunked, 100, input, 64),
                Err(malformed(what)),
                "{input:?}"
            );
        }
        let endless = [b'1'; LINE_BYTES_MAX];
        assert_eq!(
            decode(Framing::Chunked, 100, &endless, 64),
            Err(malformed("a line of the chunked body is too long"))
        );
    }

    #[test]
    fn a_body_over_its_limit_is_refused_before_it_is_read() {
        let refusal = Refusal::BodyTooLarge { body_bytes_max: 10 };
        assert_eq!(decode(Framing::Length(11), 10, b"", 1), Err(refusal.clone()));
        assert_eq!(
            decode(Framing::Chunked, 10, b"6\r\nabcdef\r\n5\r\n", 99),
            Err(refusal.clone())
        );
        assert_eq!(
            decode(Framing::Chunked, 10, b"ffffffffffffffff\r\n", 99),
            Err(refusal)
        );
    }
}
