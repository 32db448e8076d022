//! Invariants for arbitrary client bytes, as functions that panic when one is violated. Called by the fuzz targets in `fuzz/` and, with
//! random bytes, by the tests below.

use std::{
    collections::HashSet,
    net::IpAddr,
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::{
    compression::{AcceptEncoding, Coding},
    conditions::{IF_MATCH, Tags},
    config::{ForwardedField, TrustedProxies},
    failure::Refusal,
    front::{Decoder, Framing, Head, Parsed, Step, forwarded, read_proxy_header},
    policy::cache::Directives,
    target::{
        files::{FileRange, parse_range},
        parameters::parameters,
    },
    traces::Caller,
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
    if let Some(bare) = head.without_login_cookies() {
        let mut names = bare.cookies().map(|(name, _)| name);
        assert!(
            !names.any(forebay_auth::is_login_cookie),
            "handlers see no session"
        );
    }
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

/// Reads the same text as each header field that has a grammar of its own, and as a query.
pub fn request_fields(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let size = bytes.len() as u64;
        if let FileRange::Part { first, last } = parse_range(text, size) {
            assert!(first <= last && last < size, "a part is within its file");
        }
    }
    if let Ok(Tags::These(tags)) = Tags::read(IF_MATCH, bytes) {
        let count = tags.each().inspect(|tag| assert!(tag.quoted.len() >= 2)).count();
        assert!(
            (1..=64).contains(&count),
            "a list has some tags, and not too many"
        );
    }
    let mut names = HashSet::new();
    for parameter in parameters(bytes, "where").flatten() {
        let is_new = names.insert(parameter.name.clone().into_owned());
        assert!(is_new || parameter.name == "where", "a parameter has one value");
    }
    if let Some(head) = head_with("traceparent", bytes)
        && let Some(caller) = Caller::of(&head)
    {
        let ids = format!("-{}-{}-", caller.trace, caller.span);
        let field = head.field("traceparent").expect("it has been read");
        assert_eq!(&field[2..53], ids.as_bytes(), "the ids are those of the caller");
    }
    for (field, name, invented) in [
        (ForwardedField::XForwardedFor, "x-forwarded-for", "192.0.2.66"),
        (ForwardedField::Forwarded, "forwarded", "for=192.0.2.66"),
    ] {
        client_behind_a_proxy(field, name, invented, bytes);
    }
}

/// Finds the client that a proxy names. What the client itself can send stands before that, and must not change it.
fn client_behind_a_proxy(field: ForwardedField, name: &str, invented: &str, bytes: &[u8]) {
    let trusted = TrustedProxies {
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        unix: false,
    };
    let read = |bytes: &[u8]| {
        let head = head_with(name, bytes)?;
        assert_eq!(
            forwarded(&trusted, field, "192.0.2.1", &head),
            None,
            "not trusted"
        );
        let said = forwarded(&trusted, field, "10.0.0.1", &head);
        Some(said.expect("a trusted proxy is believed").client)
    };
    let Some(Some(client)) = read(bytes) else { return };
    let Some(found) = read(&[invented.as_bytes(), b", ", bytes].concat()) else {
        return;
    };
    // If all addresses so far are of trusted proxies, the next one is that of the client.
    let invention: IpAddr = "192.0.2.66".parse().expect("an address");
    let is_next = trusted.contains(Some(client)) && found == Some(invention);
    assert!(is_next || found == Some(client), "{found:?} instead of {client}");
}

/// The head of a request with this field; `None` if the value can be in none.
fn head_with(name: &str, value: &[u8]) -> Option<Head> {
    let text = [
        b"GET / HTTP/1.1\r\nhost: a\r\n",
        name.as_bytes(),
        b":",
        value,
        b"\r\n\r\n",
    ]
    .concat();
    let mut head = Head::default();
    let parsed = head.parse(&text, HEAD_BYTES_MAX).ok()?;
    // A line break in the value has made several fields of it, or ended the head.
    let is_one = parsed == Parsed::Whole(text.len()) && head.fields().count() == 2;
    is_one.then_some(head)
}

/// Reads a header of the PROXY protocol: not a byte more than it has, and nothing unless it is whole.
pub fn proxy_header(bytes: &[u8]) {
    let read = |bytes: &[u8]| {
        let mut rest = bytes;
        let client = {
            let mut reading = pin!(read_proxy_header(&mut rest));
            match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(client) => client.ok()?,
                Poll::Pending => panic!("all bytes are there"),
            }
        };
        Some((client, bytes.len() - rest.len()))
    };
    let Some((client, length)) = read(bytes) else {
        return;
    };
    let end = match bytes {
        [b'P', ..] => memchr::memmem::find(bytes, b"\r\n").map(|at| at + 2),
        _ => Some(16 + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]))),
    };
    assert_eq!(Some(length), end, "it ends where it says");
    assert_eq!(read(&bytes[..length]), Some((client, length)));
    assert_eq!(read(&bytes[..length - 1]), None, "it was whole");
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
    let whole = crate::target::websocket::read_all(input, input.len().max(1), BODY_BYTES_MAX as usize);
    let in_pieces = crate::target::websocket::read_all(input, piece, BODY_BYTES_MAX as usize);
    assert_eq!(whole, in_pieces, "pieces of {piece}");
    for length in whole.0 {
        assert!(length as u64 <= BODY_BYTES_MAX);
    }
}

/// The decoded body, the number of input bytes it used, and whether it is complete.
fn decode(framing: Framing, input: &[u8], piece: usize) -> Result<(Vec<u8>, usize, bool), Refusal> {
    let mut decoder = Decoder::new(framing);
    decoder.limit(BODY_BYTES_MAX)?;
    let (mut body, mut done, mut arrived) = (Vec::new(), 0, 0);
    loop {
        let used = match decoder.step(&input[done..arrived])? {
            Step::End => return Ok((body, done, true)),
            Step::Data { bytes, used } => {
                body.extend_from_slice(bytes);
                used
            }
            Step::Framing { used } | Step::Trailer { used, .. } => used,
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

    /// Parts of addresses, entity tags, ranges, parents of traces and parameters.
    const FIELD_WORDS: &[&str] = &[
        "192.0.2.1",
        "10.0.0.9",
        "[2001:db8::1]:47",
        "unknown",
        "for=",
        "proto=https",
        ";",
        ",",
        ", ",
        "\"",
        "W/",
        "\"a\"",
        "*",
        "bytes=",
        "-",
        "0",
        "7",
        "99999999999999999999",
        "a=",
        "&",
        "%61",
        "+",
        "%",
        "where=",
        "01",
    ];
    const PROXY_WORDS: &[&str] = &[
        "PROXY ",
        "TCP4 ",
        "TCP6 ",
        "UNKNOWN",
        "192.0.2.1 ",
        "2001:db8::1 ",
        "127.0.0.1 ",
        "1 ",
        "65536 ",
        "443",
        "\r\n",
        "\r",
        "\r\n\r\n\0\r\nQUIT\n",
        "\x21\x11\0\x0c",
        "\x20\0\0\0",
        "\x21\x21\0\x24",
        "\0\0\0\0",
        "aaaaaaaaaaaa",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn fields_of_any_text_mean_one_thing_and_clients_invent_no_address(
            text in near(FIELD_WORDS),
            end in proptest::collection::vec(proptest::sample::select(FIELD_WORDS), 0..3),
        ) {
            request_fields(&text);
            for beginning in ["bytes=0-", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-", "\"a\","] {
                request_fields([beginning, &end.concat()].concat().as_bytes());
            }
        }

        #[test]
        fn any_proxy_header_is_read_whole_or_not_at_all(bytes in near(PROXY_WORDS)) {
            proxy_header(&bytes);
            proxy_header(&[b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", &bytes[..]].concat());
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
