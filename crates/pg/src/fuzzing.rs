//! Properties that must hold for any bytes from a server, as functions that panic if they do not. Called by the fuzz
//! target in `fuzz/`, and by the tests below with random bytes.

use bytes::BytesMut;

use crate::{
    PgError, ServerUrl,
    protocol::{Conversation, Event, Expected, Startup},
};

/// Longest input, in bytes.
const INPUT_BYTES_MAX: usize = 32 * 1024;

/// Parses the bytes of a server. The first byte selects the state (the start of a connection, or a number of statements
/// in progress), the second the size of the pieces in which the rest arrives. The pieces must not matter, and
/// violations of the protocol must be errors.
pub fn server(bytes: &[u8]) {
    let [kind, piece, stream @ ..] = bytes else { return };
    let stream = &stream[..stream.len().min(INPUT_BYTES_MAX)];
    let piece = usize::from(*piece).max(1);
    if *kind == 0 {
        assert_eq!(
            start(stream, usize::MAX),
            start(stream, piece),
            "pieces of {piece}"
        );
    } else {
        let at_once = answers(stream, usize::MAX, *kind);
        assert_eq!(at_once, answers(stream, piece, *kind), "pieces of {piece}");
        assert!(
            at_once.iter().filter(|seen| seen.starts_with("over")).count() <= usize::from(*kind),
            "no more answers than statements"
        );
    }
}

/// Whether the connection is started; the error if it fails.
fn start(stream: &[u8], piece: usize) -> Result<bool, PgError> {
    let server: ServerUrl = "postgres://u:p@h/d".parse().expect("a URL");
    let (mut received, mut out) = (BytesMut::new(), BytesMut::new());
    let mut startup = Startup::begin(&server, None, None, &mut out)?;
    for part in stream.chunks(piece.min(INPUT_BYTES_MAX)) {
        received.extend_from_slice(part);
        if startup.receive(&mut received, &mut out)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Events that a connection's users see.
fn answers(stream: &[u8], piece: usize, count: u8) -> Vec<String> {
    let mut conversation = Conversation::new();
    for mark in 0..count {
        let expected = match mark % 3 {
            0 => Expected::Description,
            1 => Expected::Rows,
            _ => Expected::Copy,
        };
        conversation.expect(mark, expected);
    }
    let mut received = BytesMut::new();
    let mut seen = Vec::new();
    for part in stream.chunks(piece.min(INPUT_BYTES_MAX)) {
        received.extend_from_slice(part);
        let outcome = conversation.receive(&mut received, |event| {
            seen.push(match event {
                Event::Row(mark, row) => {
                    let values = (0..row.len()).filter_map(|at| row.text(at));
                    assert!(values.map(<[u8]>::len).sum::<usize>() <= row.bytes());
                    format!("row {mark} {row:?}")
                }
                Event::Over(mark, outcome) => format!("over {mark} {outcome:?}"),
                Event::Suspended => "suspended".to_owned(),
                Event::Complete => "complete".to_owned(),
                Event::Copy(said) => format!("copy {said:?}"),
            });
        });
        if let Err(error) = outcome {
            seen.push(error.to_string());
            break;
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::server;

    /// A message, usually of a type that servers send.
    fn message() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![
            8 => proptest::sample::select(&b"ZDTtCE12n3IsSARKN"[..]),
            1 => any::<u8>(),
        ];
        let text = |text: &'static [u8]| Just(text.to_vec());
        let body = prop_oneof![
            2 => text(b""),
            2 => text(b"I"),
            1 => text(b"\0\x01\0\0\0\x01x"),
            1 => text(b"\0\x02\xff\xff\xff\xff\0\0\0\0"),
            1 => text(b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"),
            1 => text(b"INSERT 0 5\0"),
            1 => text(b"SERROR\0C22012\0Mno\0Wunnamed portal parameter $2 = '\xff'\0\0"),
            1 => text(b"SFATAL\0VFATAL\0C57P01\0Mno\0\0"),
            1 => text(b"\0\0\0\x05salt"),
            1 => text(b"\0\0\0\x0aSCRAM-SHA-256\0\0"),
            1 => text(b"\0\0\0\x0br=x,s=eA==,i=4294967295"),
            1 => text(b"\0\0\0\0"),
            2 => proptest::collection::vec(any::<u8>(), 0..12),
        ];
        // The length is wrong now and then.
        (kind, body, prop_oneof![30 => Just(0_u32), 1 => any::<u32>()]).prop_map(|(kind, body, wrong)| {
            let length = (body.len() as u32 + 4).wrapping_add(wrong);
            [&[kind][..], &length.to_be_bytes(), &body].concat()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_any_server_sends_is_read_the_same_however_it_arrives(
            kind in 0_u8..6, piece in 0_u8..40, messages in proptest::collection::vec(message(), 0..16)
        ) {
            server(&[&[kind, piece][..], &messages.concat()].concat());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            server(&bytes);
        }
    }

    #[test]
    fn a_message_that_claims_to_be_too_long_is_refused_before_it_has_come() {
        let mut received = bytes::BytesMut::from(&b"D\x7f\xff\xff\xff"[..]);
        let mut conversation = crate::protocol::Conversation::<()>::new();
        let error = conversation.receive(&mut received, |_| {}).unwrap_err();
        assert!(error.to_string().contains("2147483647 bytes"), "{error}");
        assert!(received.capacity() < 1000);
    }
}
