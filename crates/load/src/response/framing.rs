//! Body framing, as the head of a response defines it.

use super::{Broken, Class, Framing};

/// Why something is no head that is read.
pub(super) fn no_head(error: httparse::Error) -> Broken {
    match error {
        httparse::Error::TooManyHeaders => Broken {
            class: Class::OverLong,
            what: "the answer has more than 128 header fields",
        },
        _ => Broken {
            class: Class::Malformed,
            what: "what came is not the head of an HTTP/1 answer",
        },
    }
}

pub(super) fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    digits.iter().try_fold(0, |size, &digit| {
        Some(size << 4 | u64::from((digit as char).to_digit(16)?))
    })
}

/// How the body of a response ends, and whether another may follow (RFC 9112, 6.3 and 9.3).
pub(super) fn framing(response: &httparse::Response<'_, '_>) -> Result<(Framing, bool), Broken> {
    let broken = |what| Broken {
        class: Class::Framing,
        what,
    };
    let mut keep_alive = response.version == Some(1);
    let (mut length, mut chunked) = (None, false);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let number = decimal(field.value).ok_or(broken("content-length is not a decimal number"))?;
            if length.is_some_and(|known| known != number) {
                return Err(broken("there are two different content-lengths"));
            }
            length = Some(number);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err(broken("the transfer coding is not chunked"));
            }
            chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for option in field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    keep_alive = false;
                } else if option.eq_ignore_ascii_case(b"keep-alive") && response.version == Some(0) {
                    keep_alive = true;
                }
            }
        }
    }
    match (chunked, length) {
        (true, Some(_)) => Err(broken("there are both a content-length and a transfer-encoding")),
        (true, None) => Ok((Framing::Chunked, keep_alive)),
        (false, Some(0)) => Ok((Framing::Nothing, keep_alive)),
        (false, Some(length)) => Ok((Framing::Length(length), keep_alive)),
        (false, None) => Ok((Framing::UntilClose, keep_alive)),
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
