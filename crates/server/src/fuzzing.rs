//! Invariants for arbitrary client bytes, as functions that panic when one is violated. Called by the fuzz targets in `fuzz/` and, with
//! random bytes, by the tests below.

use crate::{
    compression::{AcceptEncoding, Coding},
    failure::Refusal,
    front::{Decoder, Framing, Head, Parsed, Step},
    policy::cache::Directives,
};
use forebay_router::{Outcome, Router, Rule};

/// Size limit for parsed heads.
const HEAD_BYTES_MAX: usize = 4096;
/// Size limit for parsed bodies.
const BODY_BYTES_MAX: u64 = 10_000;

/// Parses a request head. The result must not depend on how the bytes are split, and an accepted head must be unambiguous.
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

/// Reads the codings that a client accepts. Only what the list names, or `*`, is accepted.
pub fn accept_encoding(bytes: &[u8]) {
    let accepted = AcceptEncoding::parse(bytes);
    let list = bytes.to_ascii_lowercase();
    let mut before = None;
    for coding in accepted.preferred(Coding::ALL) {
        assert_ne!(before.replace(coding), Some(coding), "each is named once");
        let names = |name: &str| memchr::memmem::find(&list, name.as_bytes()).is_some();
        assert!(names(coding.name()) || names("*"), "{coding:?}");
    }
}

/// Reads the value of `Cache-Control`. A second line that says the same changes nothing.
pub fn cache_control(bytes: &[u8]) {
    let mut once = Directives::default();
    once.read(bytes);
    let mut twice = once;
    twice.read(bytes);
    assert_eq!(once, twice);
}

/// Finds the route of a path. An application that decodes the whole path must see it below the pattern that matched, and never below
/// another route that guards a subtree. Encoded slashes are exempt: such applications do not receive them.
pub fn request_path(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else {
        return;
    };
    let rule = |path: &str| Rule {
        methods: Vec::new(),
        host: None,
        path: path.to_owned(),
        target: (),
    };
    let rules = ["/py/*", "/py/admin/*", "/py/:name", "/other"];
    let Ok(router) = Router::compile(rules.map(rule).into()) else {
        unreachable!("the rules are good")
    };
    let Outcome::Found(found) = router.find("GET", "", path) else {
        return;
    };
    let decoded = percent_decoded(path.as_bytes());
    let decoded = std::str::from_utf8(&decoded).expect("what is found is UTF-8 once decoded");
    assert!(!decoded.contains('\0') && decoded.starts_with('/'));
    if path.to_ascii_lowercase().contains("%2f") {
        return;
    }
    assert!(
        !decoded.split('/').any(|segment| matches!(segment, "." | "..")),
        "{path}"
    );
    match found.pattern {
        "/py/*" => assert!(
            decoded.starts_with("/py/") && !decoded.starts_with("/py/admin/"),
            "{path}"
        ),
        "/py/admin/*" => assert!(decoded.starts_with("/py/admin/"), "{path}"),
        "/other" => assert_eq!(decoded, "/other"),
        _ => assert!(
            decoded.starts_with("/py/") && !decoded[4..].contains('/'),
            "{path}"
        ),
    }
}

/// Decodes a path as WSGI and ASGI servers do; invalid escapes stay as they are.
fn percent_decoded(mut bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    while let [first, rest @ ..] = bytes {
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes = match (first, byte) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                &rest[2..]
            }
            _ => {
                decoded.push(*first);
                rest
            }
        };
    }
    decoded
}

/// Decodes a request body. The first two input bytes choose its framing and the size of the pieces; the pieces must not change the result.
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

/// Parses a hook's XML. The result must be arguments of bounded size, or an error.
pub fn hook_xml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match forebay_workflow::rengine::read_xml(text) {
        Ok(arguments) => {
            let written = serde_json::Value::from(arguments).to_string();
            // A control character becomes six bytes; an element's name and text add a few more.
            assert!(written.len() <= 16 * bytes.len() + 64, "arguments are bounded");
        }
        Err(what) => assert!(!what.is_empty()),
    }
}

/// Reads the frames of a WebSocket's client. How the bytes are split, which the first one says, must not matter, and no message may be longer
/// than allowed.
pub fn websocket(bytes: &[u8]) {
    let [piece, input @ ..] = bytes else { return };
    let piece = usize::from(*piece).max(1);
    let whole = crate::target::pool::read_websocket(input, input.len().max(1), BODY_BYTES_MAX as usize);
    let in_pieces = crate::target::pool::read_websocket(input, piece, BODY_BYTES_MAX as usize);
    assert_eq!(whole, in_pieces, "pieces of {piece}");
    for length in whole.0 {
        assert!(length as u64 <= BODY_BYTES_MAX);
    }
}

/// The decoded body, the number of input bytes it used, and whether it is complete.
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

    proptest! {
        #[test]
        fn any_list_of_codings_is_read(list in near(&["gzip", "x-gzip", "BR", "zstd", "identity", "*", ",", ";", "q=", "Q=0", "1", "0.", "001", " "])) {
            accept_encoding(&list);
        }
    }

    proptest! {
        #[test]
        fn any_list_of_cache_directives_is_read(list in near(&["no-store", "private", "MAX-AGE", "max-age=", "s-maxage=", "=", "\"", "\\", ",", " ", "1", "60", "-", "99999999999999999999"])) {
            cache_control(&list);
        }
    }

    proptest! {
        #[test]
        fn any_path_leads_below_its_pattern(path in near(&["/", "py", "admin", "%2f", "%2F", "%2e", ".", "..", "%61", "%c0%af", "%", "a", ";", "\\", "%5c", "other", "%25"])) {
            request_path(&path);
        }
    }

    proptest! {
        /// Frames with every opcode and bit, masked by zeros so that lengths and texts stay.
        #[test]
        fn any_frames_are_read_alike(
            piece in any::<u8>(),
            frames in proptest::collection::vec((any::<u8>(), 0u8..140, proptest::collection::vec(any::<u8>(), 0..140)), 0..6),
        ) {
            let mut bytes = vec![piece];
            for (first, length, payload) in frames {
                bytes.extend([first, 0x80 | length.min(127), 0, 0, 0, 0]);
                bytes.extend(payload);
            }
            websocket(&bytes);
        }
    }

    /// Heads close to valid ones; purely random bytes would be rejected at the first byte.
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
