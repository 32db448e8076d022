//! Properties that must hold for any bytes of a server, as functions that panic when they do not. The fuzz target in `fuzz/` calls them,
//! and so do the tests below with random bytes.

use crate::{
    failure::Class,
    response::{KnownHead, Read, Reader},
};

/// Longest input: beyond it a head is too long, and where that is noticed depends on how it is split.
const INPUT_BYTES_MAX: usize = 32 * 1024;

/// A response as the reader's user sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    wire_bytes: u64,
    body_bytes: u64,
    keep_alive: bool,
    body: Vec<u8>,
}

/// How a stream ended for its reader.
#[derive(Debug, PartialEq, Eq)]
enum End {
    BetweenAnswers,
    Inside,
    Broken(Class),
}

/// Reads responses: the first byte says whether they are responses to HEAD, the second how the stream is split. The split must change
/// nothing, no byte may belong to two responses, and the byte counts must add up to the stream.
pub fn response(bytes: &[u8]) {
    let [kind, piece, stream @ ..] = bytes else { return };
    let stream = &stream[..stream.len().min(INPUT_BYTES_MAX)];
    let head_only = kind & 1 == 1;
    let at_once = read(stream, usize::MAX, head_only);
    let in_pieces = read(stream, usize::from(*piece).max(1), head_only);
    assert_eq!(at_once, in_pieces, "pieces of {piece}");
    let (answers, end) = at_once;
    let counted: u64 = answers.iter().map(|answer| answer.wire_bytes).sum();
    assert!(counted <= stream.len() as u64, "more is counted than has come");
    if end == End::BetweenAnswers {
        assert_eq!(counted, stream.len() as u64, "all that has come is counted");
    }
    for answer in &answers {
        assert!((200..=999).contains(&answer.status), "{answer:?}");
        assert_eq!(answer.body_bytes, answer.body.len() as u64);
        assert!(
            answer.body_bytes < answer.wire_bytes,
            "there is a head before the body"
        );
        assert!(answer.body.is_empty() || !head_only && !matches!(answer.status, 204 | 304));
    }
}

fn read(stream: &[u8], piece: usize, head_only: bool) -> (Vec<Seen>, End) {
    let (mut reader, mut known) = (Reader::new(true), KnownHead::default());
    let mut answers = Vec::new();
    let see = |reader: &Reader, answer: crate::response::Answer| Seen {
        status: answer.status,
        wire_bytes: answer.wire_bytes,
        body_bytes: answer.body_bytes,
        keep_alive: answer.keep_alive,
        body: reader.kept.clone().expect("the reader keeps bodies"),
    };
    for mut part in stream.chunks(piece.min(INPUT_BYTES_MAX)) {
        while !part.is_empty() {
            match reader.read(part, head_only, &mut known) {
                Ok(Read::Partial) => break,
                Ok(Read::Whole { used, answer }) => {
                    assert!((1..=part.len()).contains(&used));
                    part = &part[used..];
                    answers.push(see(&reader, answer));
                }
                Err(broken) => {
                    assert!(!broken.what.is_empty());
                    return (answers, End::Broken(broken.class));
                }
            }
        }
    }
    if let Some(answer) = reader.end() {
        assert!(!answer.keep_alive);
        answers.push(see(&reader, answer));
        return (answers, End::BetweenAnswers);
    }
    let end = if let Some(broken) = reader.wrong_head() {
        End::Broken(broken.class)
    } else if reader.is_inside() {
        End::Inside
    } else {
        End::BetweenAnswers
    };
    (answers, end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &[&str] = &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ndate: a\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ndate: b\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ndate: \0\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ndate:  \r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 1\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.0 404 Not Found\r\nconnection: keep-alive\r\n",
        "HTTP/1.1 200\r\n\r\n",
        "Transfer-Encoding: chunked\r\n",
        "content-length: 3\r\n",
        "content-length: 0\r\n",
        "content-length: 18446744073709551615\r\n",
        "date: b\r\n",
        "x:\r\n",
        "\r\n",
        "5\r\nhello\r\n",
        "0\r\n",
        "A;x=y\r\n0123456789\r\n",
        "fffffffffffffff\r\n",
        "ffffffffffffffff\r\n",
        "trailer: x\r\n",
        "abc",
        "\n",
        "\r",
        " ",
        "\t",
        "\0",
        "\u{e9}",
        "1",
    ];

    /// Random bytes fail at their first one; these are close to valid responses.
    fn near() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            12 => proptest::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    #[test]
    fn an_empty_line_before_a_head_that_is_known_by_then_is_no_part_of_it() {
        let answer = b"\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\r";
        response(&[&[0, 2][..], answer, answer].concat());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_answers_are_read_the_same_however_they_arrive(kind: u8, piece in 0u8..40, bytes in near()) {
            response(&[&[kind, piece][..], &bytes].concat());
            let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            response(&[&[kind, piece][..], chunked, &bytes].concat());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            response(&bytes);
        }
    }
}
