//! A whole request as it goes over the wire, out of a file. Everything that a server would stumble over is said before the run: a head
//! without an end, or a length that is not that of the body.

use super::parts::{Parts, RequestError, Version, check_path, check_text, check_token};
use crate::response::{KnownHead, Read, Reader};

/// Why bytes are no request.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RawError {
    /// The first line says something else.
    #[error("line 1: found `{line}`, expected a request line such as `GET /path HTTP/1.1`")]
    RequestLine {
        /// The line.
        line: String,
    },
    /// A version that is not spoken.
    #[error("line 1: found the version `{version}`, expected HTTP/1.1")]
    Version {
        /// The version.
        version: String,
    },
    /// Nothing says where the head ends.
    #[error("its head has no end: an empty line must follow the last header")]
    NoEnd,
    /// A line of the head is not text.
    #[error("line {line} is not UTF-8 text")]
    NotText {
        /// From 1.
        line: usize,
    },
    /// A line of the head that is no field.
    #[error("line {line}: found `{text}`, expected a header such as `Accept: text/html`")]
    Field {
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A part that no request can have.
    #[error("line {line}")]
    Part {
        /// From 1.
        line: usize,
        /// What is wrong.
        #[source]
        source: RequestError,
    },
    /// A Content-Length that is none, or not the only one.
    #[error("found Content-Length `{text}`, expected one number of bytes")]
    Length {
        /// Its value.
        text: String,
    },
    /// A body of another length.
    #[error(
        "Content-Length says {stated}, the body has {found} bytes, line ends at its end included; leave the header out to have it stated"
    )]
    OtherLength {
        /// What is stated.
        stated: u64,
        /// What there is.
        found: u64,
    },
    /// A transfer coding whose body is not in it.
    #[error("Transfer-Encoding says `{coding}`, {what}")]
    Coding {
        /// What is stated.
        coding: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl Parts {
    /// Reads a request as it goes over the wire: request line, fields, an empty line, and the rest is its body. Lines of the head may end
    /// with a line feed alone. A Content-Length or a chunked body must be right; without either the length is stated when it is sent.
    pub fn parse(bytes: &[u8]) -> Result<Self, RawError> {
        let mut rest = bytes;
        let mut number = 0;
        let mut line = || {
            number += 1;
            let at = memchr::memchr(b'\n', rest).ok_or(RawError::NoEnd)?;
            let line = rest[..at].strip_suffix(b"\r").unwrap_or(&rest[..at]);
            rest = &rest[at + 1..];
            let text = std::str::from_utf8(line).map_err(|_| RawError::NotText { line: number })?;
            Ok::<_, RawError>((number, text))
        };
        let (_, first) = line()?;
        let [method, path, version] = first.split(' ').collect::<Vec<_>>()[..] else {
            return Err(RawError::RequestLine {
                line: first.to_owned(),
            });
        };
        if version != "HTTP/1.1" {
            let version = version.to_owned();
            return Err(RawError::Version { version });
        }
        let in_line = |line| move |source| RawError::Part { line, source };
        check_token("method", method).map_err(in_line(1))?;
        check_path(path).map_err(in_line(1))?;
        let mut fields = Vec::new();
        loop {
            let (number, text) = line()?;
            if text.is_empty() {
                break;
            }
            let (name, value) = text
                .split_once(':')
                .filter(|(name, _)| !name.is_empty() && !name.ends_with([' ', '\t']))
                .ok_or_else(|| RawError::Field {
                    line: number,
                    text: text.to_owned(),
                })?;
            check_token("header name", name).map_err(in_line(number))?;
            check_text(name, value).map_err(in_line(number))?;
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
        let parts = Self {
            method: method.to_owned(),
            path_and_query: path.to_owned(),
            fields,
            body: rest.to_vec(),
            keep_alive: true,
            version: Version::Http11,
        };
        parts.check_framing()?;
        Ok(parts)
    }

    fn check_framing(&self) -> Result<(), RawError> {
        let values = |name: &'static str| {
            let is_it = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
            self.fields.iter().filter(is_it).map(|(_, value)| value.as_str())
        };
        let lengths: Vec<_> = values("content-length").collect();
        let codings: Vec<_> = values("transfer-encoding").collect();
        let digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let stated = match lengths[..] {
            [one] => one.parse::<u64>().ok().filter(|_| digits(&one)),
            _ => None,
        };
        let found = self.body.len() as u64;
        match stated {
            Some(stated) if stated != found => return Err(RawError::OtherLength { stated, found }),
            None if !lengths.is_empty() => {
                let text = lengths.join(", ");
                return Err(RawError::Length { text });
            }
            _ => {}
        }
        let coding = codings.join(", ");
        let wrong = |what| {
            let coding = coding.clone();
            Err(RawError::Coding { coding, what })
        };
        match coding.as_str() {
            "" => Ok(()),
            _ if stated.is_some() => wrong("and there is a Content-Length: there can be only one of them"),
            coding if !coding.eq_ignore_ascii_case("chunked") => wrong("expected chunked"),
            _ if !is_chunked(&self.body) => wrong(
                "but the body is not chunks up to one of size 0 and an empty line, and nothing behind it",
            ),
            _ => Ok(()),
        }
    }
}

/// Whether a body is chunks to its end. Answers have the same, so their reader knows.
fn is_chunked(body: &[u8]) -> bool {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = [HEAD, body].concat();
    let read = Reader::new(false).read(&answer, false, &mut KnownHead::default());
    matches!(read, Ok(Read::Whole { used, .. }) if used == answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stays_as_it_is_written() {
        let whole =
            "POST /a?b=c HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\nx-id: 2\r\nContent-Length: 5\r\n\r\nhel\n\n";
        let message = Parts::parse(whole.as_bytes()).unwrap().message().unwrap();
        assert_eq!(String::from_utf8(message.bytes.into()).unwrap(), whole);
        let bare = Parts::parse(b"PUT / HTTP/1.1\nHost:h\n\n\xff\0").unwrap();
        assert_eq!(
            *bare.message().unwrap().bytes,
            *b"PUT / HTTP/1.1\r\nHost: h\r\ncontent-length: 2\r\n\r\n\xff\0"
        );
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        let message = Parts::parse(chunked.as_bytes()).unwrap().message().unwrap();
        assert_eq!(*message.bytes, *chunked.as_bytes());
    }

    #[test]
    fn what_a_server_would_stumble_over_is_refused() {
        for (request, says) in [
            ("", "its head has no end"),
            (
                "GET / HTTP/1.1\r\nHost: h\r\n",
                "an empty line must follow the last header",
            ),
            (
                "GET /\r\n\r\n",
                "line 1: found `GET /`, expected a request line such as",
            ),
            (
                "GET / HTTP/1.0\r\n\r\n",
                "found the version `HTTP/1.0`, expected HTTP/1.1",
            ),
            ("G@T / HTTP/1.1\r\n\r\n", "line 1"),
            (
                "GET / HTTP/1.1\r\nHost h\r\n\r\n",
                "line 2: found `Host h`, expected a header",
            ),
            ("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "line 3"),
            ("GET / HTTP/1.1\r\nA: b\0\r\n\r\n", "line 2"),
            (
                "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\n",
                "Content-Length says 5, the body has 6 bytes, line ends at its end included",
            ),
            (
                "GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
                "the body has 0 bytes",
            ),
            (
                "GET / HTTP/1.1\r\nContent-Length: +0\r\n\r\n",
                "found Content-Length `+0`",
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
                "found Content-Length `1, 1`, expected one number",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
                "the body is not chunks up to one of size 0",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
                "nothing behind it",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
                "says `gzip`, expected chunked",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                "there can be only one of them",
            ),
        ] {
            let error = Parts::parse(request.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{request:?}: {error}");
        }
    }
}
