//! Invariants for arbitrary output of a worker that speaks a dialect of messages, and for arbitrary requests to it, as functions that panic
//! if one is violated. The fuzz target in `fuzz/` calls them, and so do the tests below with random bytes.

use bytes::BytesMut;
use forebay_wire::{RequestParts, ResponseView};

use crate::{
    Protocol, Statuses,
    dialect::{Decoder, Said, check_body, put_request, put_return, translated},
};

/// Maximum length of a worker's message in these checks.
const MESSAGE_BYTES_MAX: usize = 64;
/// Maximum length of an input: longer lines are passed on in parts whose boundaries depend on how the bytes arrive.
const INPUT_BYTES_MAX: usize = 4096;

fn protocol(kind: u8) -> Protocol {
    match kind % 3 {
        0 => Protocol::Jsonl,
        1 => Protocol::Wabur {
            statuses: Statuses::Truthful,
        },
        _ => Protocol::Wabur {
            statuses: Statuses::Wabur,
        },
    }
}

/// Decodes the output of a worker. The first byte selects the dialect, the second the size of the pieces in which the rest arrives. The
/// piece size must not change the result, the buffer must not exceed one message, and every message must be valid to pass on.
pub fn dialect_output(bytes: &[u8]) {
    let [kind, piece, input @ ..] = bytes else { return };
    if input.len() > INPUT_BYTES_MAX {
        return;
    }
    let protocol = protocol(*kind);
    let at_once = heard(protocol, input, usize::MAX);
    let in_pieces = heard(protocol, input, usize::from(*piece).max(1));
    assert_eq!(at_once, in_pieces, "pieces of {piece}");
}

/// Returns the decoded events as text, and whether decoding ended at a message that is too long.
fn heard(protocol: Protocol, input: &[u8], piece: usize) -> (Vec<String>, bool) {
    let mut decoder = Decoder::new(protocol, MESSAGE_BYTES_MAX);
    let (mut bytes, mut said, mut words) = (BytesMut::new(), Vec::new(), Vec::new());
    let mut overlong = false;
    for piece in input.chunks(piece.min(input.len()).max(1)) {
        bytes.extend_from_slice(piece);
        overlong = decoder.take(&mut bytes, &mut said).is_err();
        words.extend(said.drain(..).map(|one| in_words(protocol, &one)));
        if overlong {
            break;
        }
        let kept = bytes.len();
        assert!(kept <= INPUT_BYTES_MAX, "{kept} bytes are kept");
    }
    if !overlong {
        decoder.end(&mut bytes, &mut said);
        words.extend(said.drain(..).map(|one| in_words(protocol, &one)));
        assert!(bytes.is_empty(), "nothing is kept at the end");
    }
    (words, overlong)
}

fn in_words(protocol: Protocol, said: &Said) -> String {
    match said {
        Said::Answer(answered) => {
            if let Ok(payload) = &answered.payload {
                let view = ResponseView::decode(payload).expect("an answer is a payload");
                assert!((200..=599).contains(&view.head.status), "{said:?}");
            } else {
                assert!(answered.faulted, "{said:?}");
            }
        }
        Said::Call { id, body } => {
            let mut out = Vec::new();
            put_return(protocol, &mut out, id, br#"{"code":0}"#);
            one_line(&out);
            if let Ok(body) = body {
                serde_json::from_str::<serde::de::IgnoredAny>(body).expect("a call asks in JSON");
            }
        }
        Said::Log {
            reply: Some(reply), ..
        } => one_line(reply),
        Said::Log { fields, .. } => {
            if let Some(fields) = fields {
                serde_json::from_str::<serde::de::IgnoredAny>(fields).expect("fields are JSON");
            }
        }
        Said::Printed(line) => assert!(!line.is_empty() && !line.contains('\n'), "{line:?}"),
    }
    format!("{said:?}")
}

/// Encodes a request whose parts are these bytes, separated by zeros. The result must be one line of JSON.
pub fn dialect_request(bytes: &[u8]) {
    let [kind, input @ ..] = bytes else { return };
    let protocol = protocol(*kind);
    let mut parts = input.splitn(6, |&byte| byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (method, path, query, value, peer, body) = (next(), next(), next(), next(), next(), next());
    if check_body(protocol, body).is_err() {
        return;
    }
    let mut payload = Vec::new();
    RequestParts {
        remaining_ms: 1,
        method,
        path,
        query,
        route: b"/*",
        params: [(&b"name"[..], value)].into_iter(),
        headers: [(&b"x-header"[..], value)].into_iter(),
        peer,
        id: value,
        identity: if value.is_empty() { b"" } else { b"{}" },
        body,
    }
    .put(&mut payload);
    let mut line = Vec::new();
    put_request(protocol, &mut line, 7, &translated(protocol, payload));
    one_line(&line);
}

fn one_line(message: &[u8]) {
    let text = std::str::from_utf8(message).expect("a message is text");
    let text = text.strip_suffix('\n').expect("a message ends with its line");
    assert!(!text.contains(['\n', '\r']), "{text:?}");
    serde_json::from_str::<serde::de::IgnoredAny>(text).expect("a message is JSON");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &[&str] = &[
        "{\"id\":7,\"body\":\"x\"}",
        "{\"rid\":\"7.r\",\"api\":2,\"body\":{\"code\":0}}",
        "{\"rid\":\"1\",\"api\":3,\"body\":",
        "{\"rid\":\"1\",\"api\":5,\"body\":\"note\"}",
        "{\"call\":1,\"tql\":",
        "{\"log\":",
        "{\"code\":17,\"error\":\"e\",\"backtrace\":[1]}",
        "\"level\":\"warn\",\"message\":\"m\",\"fields\":{}",
        "\"id\":",
        "\"api\":",
        "\"rid\":",
        "\"body\":",
        "\"json\":",
        "\"body_base64\":\"aGk=\"",
        "\"status\":",
        "\"headers\":[[\"a\",\"b\"]]",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u00",
        "\\ud800",
        "\n",
        "\r\n",
        " ",
        "7",
        "-1",
        "1e999",
        "null",
        "true",
        "\u{e9}",
        "a text that goes on and on, so that a message that has it some times is longer than messages may be",
    ];

    fn near() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            12 => proptest::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(word, 0..32).prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_worker_writes_is_heard_the_same_however_it_arrives(kind: u8, piece in 0u8..9, bytes in near()) {
            dialect_output(&[&[kind, piece][..], &bytes].concat());
        }

        #[test]
        fn whatever_is_asked_is_told_in_one_line(kind: u8, bytes in proptest::collection::vec(any::<u8>(), 0..64), body in near()) {
            dialect_request(&[&[kind][..], &bytes, b"\0\0\0\0\0", &body].concat());
        }
    }
}
