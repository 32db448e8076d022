//! Invariants that must hold for any bytes from a server, as functions that panic if they do not. Called by the fuzz targets in `fuzz/`, and below with random bytes.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::{kafka, mail, redis::read_reply};

/// Longest reply that is accepted.
const REPLY_BYTES_MAX: usize = 4096;

/// Decodes replies until one is malformed: none exceeds the limit, and each consumes bytes.
pub fn redis_reply(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let before = rest.len();
        let Some(length) = at_once(read_reply(&mut rest, REPLY_BYTES_MAX)) else {
            return;
        };
        assert!(rest.len() < before, "a reply takes bytes");
        // Each invalid byte becomes U+FFFD, which takes three.
        assert!(length <= 3 * REPLY_BYTES_MAX, "a reply is bounded");
    }
}

/// Decodes replies of a Kafka broker: what is kept of them is not much longer than they are.
pub fn kafka_reply(bytes: &[u8]) {
    // The shortest partition has 26 bytes, and the longest name of its leader 255.
    assert!(
        kafka::read_replies(bytes) <= 10 * bytes.len(),
        "names are bounded"
    );
}

/// Decodes replies of a mail server, which errors quote in part and in one line.
pub fn mail_reply(bytes: &[u8]) {
    for length in at_once(mail::read_replies(bytes.to_vec())) {
        assert!(length <= 600, "{length} characters are quoted");
    }
}

/// The outcome of a future that has nothing to wait for.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("all bytes are there"),
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

    /// Parts of the reply about a topic `t`, of which all in order are one.
    const KAFKA_WORDS: &[&[u8]] = &[
        b"\0\0\0\0",
        b"\0\0\0\x01",
        b"\0\0\0\x07",
        b"\0\x01h",
        b"\0\x01t",
        b"\0\0\x23\x84",
        b"\xff\xff",
        b"\0\0",
        b"\0",
        b"\x7f\xff",
    ];
    const MAIL_WORDS: &[&str] = &[
        "220",
        "250",
        "550",
        "-",
        " ",
        "\r\n",
        "\n",
        "STARTTLS",
        "AUTH PLAIN",
        "\u{1b}[2J",
        "\u{e9}",
        "\0",
        "+20",
    ];

    #[test]
    fn the_names_of_leaders_are_no_longer_than_names_may_be() {
        let reply = |host: &[u8]| {
            let length = (host.len() as u16).to_be_bytes();
            let broker = [
                b"\0\0\0\0\0\0\0\x01\0\0\0\x07",
                &length[..],
                host,
                b"\0\0\x23\x84\xff\xff",
            ]
            .concat();
            let topic = b"\xff\xff\0\0\0\0\0\0\0\x01\0\0\0\x01t\0\0\0\0\x02";
            let partition = |number| [&b"\0\0\0\0\0"[..], &[number], b"\0\0\0\x07\0\0\0\0\0\0\0\0"].concat();
            [&broker, &topic[..], &partition(0), &partition(1)].concat()
        };
        assert_eq!(kafka::read_replies(&reply(b"host")), 8);
        assert_eq!(kafka::read_replies(&reply(&[b'h'; 255])), 510);
        assert_eq!(kafka::read_replies(&reply(&[b'h'; 256])), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_replies_of_kafka_or_an_error(words in proptest::collection::vec(proptest::sample::select(KAFKA_WORDS), 0..40)) {
            kafka_reply(&words.concat());
        }

        #[test]
        fn any_bytes_are_replies_of_a_mail_server_or_an_error(words in proptest::collection::vec(proptest::sample::select(MAIL_WORDS), 0..40)) {
            mail_reply(words.concat().as_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_replies_or_an_error(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..32)) {
            redis_reply(words.concat().as_bytes());
        }
    }
}
