//! What must hold for any bytes of a client, as functions that panic when it does not. The fuzz targets in `fuzz/` call them, and the
//! tests below with random bytes.

use crate::{
    failure::Refusal,
    front::{Decoder, Framing, Head, Parsed, Step},
    target::workflow::read_xml,
};

/// Limit of the heads that are read.
const HEAD_BYTES_MAX: usize = 4096;
/// Limit of the bodies that are read.
const BODY_BYTES_MAX: u64 = 10_000;

/// Reads a request's head. However its bytes arrive, it comes to the same end, and a head that is taken is unambiguous.
pub fn http_head(bytes: &[u8]) {
    let mut head = Head::default();
    let whole = head.parse(bytes, HEAD_BYTES_MAX);
    if let Ok(Parsed::Whole(length)) = whole {
        assert!(length <= bytes.len().min(HEAD_BYTES_MAX));
        let text = &bytes[..length];
        assert!(text.ends_with(b"\r\n\r\n"), "a head ends with an empty line");
        check_parts(&head);
    }
    let mut at = 0;
    while at < bytes.len() {
        let early = Head::default().parse(&bytes[..at], HEAD_BYTES_MAX);
        match (&early, &whole) {
            (Ok(Parsed::Partial), _) | (Err(_), Err(_)) => {}
            (Ok(Parsed::Whole(early)), Ok(Parsed::Whole(late))) => assert_eq!(early, late),
            _ => panic!("{at} bytes are {early:?}, all of them {whole:?}"),
        }
        at += 1 + bytes.len() / 64;
    }
}

fn check_parts(head: &Head) {
    assert!(!head.method().is_empty());
    assert!(
        head.path() == "*" || head.path().starts_with('/'),
        "{:?}",
        head.path()
    );
    assert!(!head.path().contains(['?', '#', ' ']));
    assert!(!head.host().contains(['/', '?', ' ']));
    let count = |name: &str| {
        head.fields()
            .filter(|(found, _)| *found == name.as_bytes())
            .count()
    };
    let lengths = count("content-length") + count("transfer-encoding");
    assert!(
        lengths <= 1 && count("host") <= 1,
        "what a head means has one reading"
    );
    assert!(head.framing == Framing::None || lengths == 1);
    for (name, value) in head.fields() {
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(
            !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
            "a field is one line"
        );
        assert!(
            head.field(std::str::from_utf8(name).expect("names are ASCII"))
                .is_some()
        );
    }
}

/// Reads a request's body, of which the first two bytes say how it is framed and in which pieces it arrives. The pieces change nothing.
pub fn http_body(bytes: &[u8]) {
    let [kind, piece, input @ ..] = bytes else { return };
    let framing = match kind {
        0 => Framing::None,
        1..=127 => Framing::Length(u64::from(*kind) * 3),
        _ => Framing::Chunked,
    };
    let at_once = decode(framing, input, usize::MAX);
    let in_pieces = decode(framing, input, usize::from(*piece).max(1));
    assert_eq!(at_once, in_pieces, "pieces of {piece}");
    if let Ok((body, used, ended)) = at_once {
        assert!(body.len() as u64 <= BODY_BYTES_MAX && used <= input.len() && body.len() <= used);
        if let Framing::Length(length) = framing {
            assert_eq!(ended, body.len() as u64 == length);
        }
    }
}

/// Reads the XML of a hook: arguments that are no longer than what they were made of, or an error that says what is wrong.
pub fn hook_xml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match read_xml(text) {
        Ok(arguments) => {
            let written = serde_json::Value::from(arguments).to_string();
            // A control character takes six bytes, and an element's name and text a few more.
            assert!(written.len() <= 16 * bytes.len() + 64, "arguments are bounded");
        }
        Err(what) => assert!(!what.is_empty()),
    }
}

/// The body, how much of the input belongs to it, and whether it has ended.
fn decode(framing: Framing, input: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), Refusal> {
    let mut decoder = Decoder::new(framing, BODY_BYTES_MAX)?;
    let (mut body, mut done, mut arrived) = (Vec::new(), 0, 0);
    loop {
        let used = match decoder.step(&input[done..arrived])? {
            Step::End => return Ok((body, done, true)),
            Step::Data { bytes, used } => {
                body.extend_from_slice(bytes);
                used
            }
            Step::Framing { used } => used,
        };
        done += used;
        if used == 0 {
            if arrived == input.len() {
                return Ok((body, done, decoder.ended()));
            }
            arrived = arrived.saturating_add(piece).min(input.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Random requests are refused at their first byte; these come near to good ones.
    fn near(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            9 => proptest::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    const HEAD_WORDS: &[&str] = &[
        "GET ",
        "POST ",
        "OPTIONS * ",
        "/",
        "/a?b=c ",
        "http://h:1/x?y ",
        "http://h",
        " ",
        "HTTP/1.1\r\n",
        "HTTP/1.0\r\n",
        "GET / HTTP/1.1\r\n",
        "host: a\r\n",
        "Host:b\r\n",
        "content-length: 5\r\n",
        "Content-Length: 0\r\n",
        "transfer-encoding: chunked\r\n",
        "connection: close, x\r\n",
        "expect: 100-continue\r\n",
        "x: y\r\n",
        " folded\r\n",
        "\r\n",
        "\n",
        "\r",
        "\t",
        ":",
        "#",
        "\0",
        "\u{e9}",
    ];
    const BODY_WORDS: &[&str] = &[
        "5\r\nhello\r\n",
        "0\r\n",
        "\r\n",
        "A\r\n",
        "0123456789",
        "1;x=y\r\n",
        "z\r\n",
        "00000001\r\n",
        "ffffffffffffffff\r\n",
        "trailer: x\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ";",
        "a",
    ];

    const XML_WORDS: &[&str] = &[
        "<?xml version=\"1.0\"?>",
        "<a>",
        "</a>",
        "<a b=\"1\">",
        "<a/>",
        "<x:a xmlns:x='u'>",
        "</x:a>",
        "text",
        "&lt;",
        "&#65;",
        "&none;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        "<",
        ">",
        "\"",
        "=",
        "\u{e9}",
        " ",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_head_is_read_the_same_however_it_arrives(bytes in near(HEAD_WORDS)) {
            http_head(&bytes);
            http_head(&[b"GET / HTTP/1.1\r\nhost: a\r\n", &bytes[..], b"\r\n"].concat());
        }

        #[test]
        fn any_xml_is_arguments_or_an_error(bytes in near(XML_WORDS)) {
            hook_xml(&bytes);
            hook_xml(&[b"<a>", &bytes[..], b"</a>"].concat());
        }

        #[test]
        fn any_body_is_read_the_same_however_it_arrives(kind: u8, piece in 0u8..9, bytes in near(BODY_WORDS)) {
            http_body(&[&[kind, piece][..], &bytes].concat());
            http_body(&[&[0xff, piece][..], &bytes].concat());
        }
    }
}
