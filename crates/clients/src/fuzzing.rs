//! Invariants that must hold for any bytes from a server, as functions that panic if they do not. Called by the fuzz targets in `fuzz/`, and below with random bytes.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::redis::read_reply;

/// Longest reply that is accepted.
const REPLY_BYTES_MAX: usize = 4096;

/// Decodes replies until one is malformed: none exceeds the limit, and each consumes bytes.
pub fn redis_reply(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let before = rest.len();
        let reply = {
            let mut read = pin!(read_reply(&mut rest, REPLY_BYTES_MAX));
            match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(reply) => reply,
                Poll::Pending => panic!("all bytes are there"),
            }
        };
        let Some(length) = reply else { return };
        assert!(rest.len() < before, "a reply takes bytes");
        // Each invalid byte becomes U+FFFD, which takes three.
        assert!(length <= 3 * REPLY_BYTES_MAX, "a reply is bounded");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &[&str] = &[
        "*2\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*9999999999\r\n",
        "$3\r\nabc\r\n",
        "$-1\r\n",
        "$2\r\n",
        "+OK\r\n",
        "-ERR no\r\n",
        ":12\r\n",
        ":-9223372036854775808\r\n",
        ":\r\n",
        "\r\n",
        "\n",
        "$",
        "*",
        "\u{e9}",
        "\0",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_replies_or_an_error(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..32)) {
            redis_reply(words.concat().as_bytes());
        }
    }
}
