//! Tests of decoding, however the input is split, and of encoding.

use bytes::BytesMut;
use forebay_wire::{FrameType, Header, RequestParts, ResponseView, flag};
use serde_json::{Value, json};

use super::*;
use crate::Statuses;

const TRUTHFUL: Protocol = Protocol::Wabur {
    statuses: Statuses::Truthful,
};
const AS_WABUR: Protocol = Protocol::Wabur {
    statuses: Statuses::Wabur,
};
const MESSAGE_BYTES_MAX: usize = 4096;

/// The decoded messages in a comparable form: `answer 7: 200 text`, `printed: text`, and so on.
fn heard(protocol: Protocol, pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = Decoder::new(protocol, MESSAGE_BYTES_MAX);
    let mut bytes = BytesMut::new();
    let mut said = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        if let Err(error) = decoder.take(&mut bytes, &mut said) {
            let mut heard = in_words(said);
            heard.push(format!("error: {error}"));
            return heard;
        }
    }
    decoder.end(&mut bytes, &mut said);
    in_words(said)
}

fn in_words(said: Vec<Said>) -> Vec<String> {
    let words = |said| match said {
        Said::Answer(answered) => {
            let to = answered.to.map_or("alone".to_owned(), |to| to.to_string());
            match answered.payload {
                Ok(payload) => {
                    let view = ResponseView::decode(&payload).unwrap();
                    let body = String::from_utf8_lossy(view.body);
                    format!("answer {to}: {} {body}", view.head.status)
                }
                Err(what) => format!("answer {to}: {what}"),
            }
        }
        Said::Call { id, body } => format!("call {id}: {body:?}"),
        Said::Log {
            level,
            message,
            reply,
            ..
        } => format!(
            "log {level:?}: {message}, reply {:?}",
            reply.map(|reply| String::from_utf8(reply).unwrap())
        ),
        Said::Printed(line) => format!("printed: {line}"),
    };
    said.into_iter().map(words).collect()
}

/// Decodes the text in one piece and split everywhere; the result must be the same.
fn in_every_way(protocol: Protocol, text: &str) -> Vec<String> {
    let whole = heard(protocol, &[text.as_bytes()]);
    let bytewise: Vec<_> = text.as_bytes().chunks(1).collect();
    assert_eq!(heard(protocol, &bytewise), whole, "byte by byte: {text:?}");
    for cut in 1..text.len() {
        let (one, two) = text.as_bytes().split_at(cut);
        assert_eq!(heard(protocol, &[one, two]), whole, "cut at {cut}: {text:?}");
    }
    whole
}

fn request(method: &str, path: &str, query: &str, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    RequestParts {
        remaining_ms: 900,
        method: method.as_bytes(),
        path: path.as_bytes(),
        query: query.as_bytes(),
        route: b"/*",
        params: [(&b"name"[..], &b"J\xc3\xbcrgen \"x\""[..])].into_iter(),
        headers: [(&b"x-latin"[..], &b"caf\xe9"[..])].into_iter(),
        peer: b"127.0.0.1",
        id: b"r-1",
        identity: b"",
        body,
    }
    .put(&mut payload);
    payload
}

fn told(protocol: Protocol, payload: &[u8]) -> Value {
    let translated = translated(protocol, payload.to_vec());
    let mut line = Vec::new();
    put_request(protocol, &mut line, 7, &translated);
    let text = std::str::from_utf8(&line).unwrap();
    let text = text.strip_suffix('\n').expect("a message ends with its line");
    assert!(!text.contains(['\n', '\r']), "one line: {text:?}");
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_answer_is_found_with_and_without_its_line_end_and_its_id() {
    for (line, answer) in [
        (r#"{"id":7,"body":"x"}"#, "answer 7: 200 x"),
        (r#" {"id" : "7", "status":"404"} "#, "answer 7: 404 "),
        (r#"{"body":"a\nb\"{\\"}"#, "answer alone: 200 a\nb\"{\\"),
        (r#"{"status":204}"#, "answer alone: 204 "),
        (
            r#"{"id":7,"json":{"a":[1,{"b":"}"}]}}"#,
            r#"answer 7: 200 {"a":[1,{"b":"}"}]}"#,
        ),
        (r#"{"json":null}"#, "answer alone: 200 null"),
        (r#"{"id":7,"body_base64":"aGk="}"#, "answer 7: 200 hi"),
        (r#"{"id":7}"#, "answer 7: 200 "),
        (
            r#"{"id":7,"body":null,"headers":null,"status":null}"#,
            "answer 7: 200 ",
        ),
    ] {
        assert_eq!(in_every_way(Protocol::Jsonl, line), [answer]);
        assert_eq!(in_every_way(Protocol::Jsonl, &format!("{line}\r\n")), [answer]);
    }
}

#[test]
fn headers_are_the_same_in_every_way_that_they_may_be_written() {
    let block = |pairs: &[(&[u8], &[u8])]| {
        let mut block = Vec::new();
        for (name, value) in pairs {
            forebay_wire::put_pair(&mut block, name, value);
        }
        block
    };
    let plain = block(&[
        (b"content-type", b"text/html"),
        (b"x-n", b"\"7\""),
        (b"x-n", b"8"),
    ]);
    let latin = block(&[
        (b"content-type", b"text/html"),
        (b"x-n", b"caf\xe9"),
        (b"x-n", b"8"),
    ]);
    for (json, expected) in [
        (
            r#"[["Content-Type","text/html"],["X-N","\"7\""],["x-n","8"]]"#,
            &plain,
        ),
        (
            r#"[["Content-Type","text/html"],["X-N","\"7\""],["x-n",8]]"#,
            &plain,
        ),
        (r#"{"Content-Type":"text/html","X-N":["\"7\"",8]}"#, &plain),
        (
            r#"[["Content-Type","text/html"],["X-N","caf\u00e9"],["x-n","8"]]"#,
            &latin,
        ),
    ] {
        let mut written = Vec::new();
        assert_eq!(jsonl::put_headers(&mut written, json), Ok(true), "{json}");
        assert_eq!(&written, expected, "{json}");
    }
    assert_eq!(jsonl::put_headers(&mut Vec::new(), r#"[["x","y"]]"#), Ok(false));
    assert!(jsonl::put_headers(&mut Vec::new(), r#"[["x","\u20ac"]]"#).is_err());
}

#[test]
fn texts_are_written_with_the_escapes_that_they_need_and_no_others() {
    for text in [
        "",
        "plain / \u{7f}",
        "a\"b",
        "a\\b",
        "line\nend",
        "\u{1}",
        "J\u{fc}rgen",
    ] {
        let mut written = Vec::new();
        put_text(&mut written, text.as_bytes());
        assert_eq!(String::from_utf8(written).unwrap(), json!(text).to_string());
    }
}

#[test]
fn an_answer_that_cannot_be_used_says_why() {
    for (line, why) in [
        (
            r#"{"id":7,"staus":200}"#,
            "`staus` is no member of an answer; those are id, status, headers, body, json, body_base64",
        ),
        (
            r#"{"id":7,"status":99}"#,
            "its `status` is 99; 200 to 599 are accepted",
        ),
        (
            r#"{"id":7,"body":{}}"#,
            "`body` is not a string; `json` takes any value",
        ),
        (r#"{"id":7,"body":"","json":1}"#, "it has both `body` and `json`"),
        (
            r#"{"id":7,"headers":7}"#,
            "its `headers` are neither an object nor a list of pairs [name, value]",
        ),
        (
            r#"{"id":7,"headers":{"x":true}}"#,
            "its header `x` is neither text nor a number",
        ),
        (
            r#"{"id":7,"headers":{"x":"\u20ac"}}"#,
            "its header `x` has a character that is not Latin-1",
        ),
    ] {
        assert_eq!(
            heard(Protocol::Jsonl, &[line.as_bytes()]),
            [format!("answer 7: {why}")]
        );
    }
    let base64 = heard(Protocol::Jsonl, &[br#"{"id":7,"body_base64":"?"}"#]);
    assert!(
        base64[0].starts_with("answer 7: `body_base64` is not base64"),
        "{base64:?}"
    );
}

#[test]
fn what_is_no_answer_is_output_and_an_answer_behind_it_is_found() {
    for (text, expected) in [
        (
            "loading...\nready\n",
            &["printed: loading...", "printed: ready"][..],
        ),
        ("half a line", &["printed: half a line"]),
        (
            r#"loading...{"id":1,"body":"a"}done{"id":2,"body":"b"}"#,
            &[
                "printed: loading...",
                "answer 1: 200 a",
                "printed: done",
                "answer 2: 200 b",
            ],
        ),
        // Output of consoles and loggers that resembles an answer.
        ("{ a: 1 }\n", &["printed: { a: 1 }"]),
        (
            "{\"level\":30,\"status\":200,\"msg\":\"x\"}\n",
            &["printed: {\"level\":30,\"status\":200,\"msg\":\"x\"}"],
        ),
        (
            "{\"id\":\"x\",\"body\":\"a\"}\n",
            &["printed: {\"id\":\"x\",\"body\":\"a\"}"],
        ),
        ("[1,2]\n3\n\n\n", &["printed: [1,2]", "printed: 3"]),
        (
            "{\"id\":1,\"body\":\"cut\n{\"id\":2,\"body\":\"b\"}\n",
            &["printed: {\"id\":1,\"body\":\"cut", "answer 2: 200 b"],
        ),
        (
            "{\"a\":{\"id\":1,\"body\":\"b\"}\n",
            &["printed: {\"a\":", "answer 1: 200 b"],
        ),
        (
            "{{{{\"id\":1,\"body\":\"b\"}\n",
            &["printed: {{{", "answer 1: 200 b"],
        ),
        (
            "\"quoted {\" {\"id\":1}\n",
            &["printed: \"quoted {\"", "answer 1: 200 "],
        ),
    ] {
        assert_eq!(in_every_way(Protocol::Jsonl, text), expected, "{text:?}");
    }
}

#[test]
fn text_without_an_end_is_passed_on_and_a_message_without_an_end_is_an_error() {
    let text = "x".repeat(100_000);
    let lines = heard(Protocol::Jsonl, &[text.as_bytes()]);
    let length: usize = lines.iter().map(|line| line.len() - "printed: ".len()).sum();
    assert_eq!(length, text.len(), "nothing is lost");
    let message = [b"hello\n{\"id\":1,\"body\":\"", text.as_bytes()].concat();
    for pieces in [vec![&message[..]], message.chunks(1000).collect()] {
        assert_eq!(
            heard(Protocol::Jsonl, &pieces),
            [
                "printed: hello",
                "error: worker has written a message of more than 4096 bytes (message_bytes_max)"
            ]
        );
    }
}

#[test]
fn openings_that_begin_nothing_cost_little() {
    // Each of them could be the beginning of a message until the end is seen.
    let text = "{\"a\":".repeat(600) + "!\n";
    assert_eq!(heard(Protocol::Jsonl, &[text.as_bytes()]).len(), 1);
    let after = text + "{\"id\":1}\n";
    let heard = heard(Protocol::Jsonl, &[after.as_bytes()]);
    assert_eq!(heard.last().map(String::as_str), Some("answer 1: 200 "));
}

#[test]
fn a_call_is_told_from_an_answer() {
    for (protocol, text, call) in [
        (
            Protocol::Jsonl,
            r#"{"call":"c1","tql":{"where":11,"select":"$"}}"#,
            r#"call "c1": Ok("{\"where\":11,\"select\":\"$\"}")"#,
        ),
        (
            Protocol::Jsonl,
            r#"{"call":3}"#,
            r#"call 3: Err("the call has no `tql`")"#,
        ),
        (
            TRUTHFUL,
            r#"{"rid":"1","api":3,"body":{"where":11}}"#,
            r#"call "1": Ok("{\"where\":11}")"#,
        ),
        (
            TRUTHFUL,
            r#"{"rid":"1","api":3}"#,
            r#"call "1": Err("No body in request.")"#,
        ),
    ] {
        assert_eq!(in_every_way(protocol, text), [call]);
    }
}

#[test]
fn messages_of_wabur_are_a_stream_with_line_ends_anywhere() {
    let pretty = "{\n  \"rid\": \"7.r-1\",\n  \"api\": 2,\n  \"body\": {\n    \"code\": 0\n  }\n}";
    let compact = r#"{"rid":"8.r-2","api":2,"body":[1]}"#;
    assert_eq!(
        in_every_way(TRUTHFUL, &format!("{pretty}{compact}{pretty}\nputs\n")),
        [
            "answer 7: 200 {     \"code\": 0   }",
            "answer 8: 200 [1]",
            "answer 7: 200 {     \"code\": 0   }",
            "printed: puts",
        ]
    );
}

#[test]
fn messages_of_wabur_that_mean_nothing_here_are_output() {
    for text in [
        r#"{"rid":"1","api":1,"body":{}}"#,
        r#"{"rid":"x","api":2,"body":{}}"#,
        r#"{"rid":7,"api":2,"body":{}}"#,
        r#"{"api":2,"body":{}}"#,
        r#"{"rid":"1","api":"2","body":{}}"#,
        r#"{"rid":"1","api":99}"#,
        r#"{"code":0}"#,
    ] {
        assert_eq!(heard(TRUTHFUL, &[text.as_bytes()]), [format!("printed: {text}")]);
    }
    assert_eq!(
        heard(TRUTHFUL, &[br#"{"rid":"7.r","api":2}"#]),
        ["answer 7: it has no body"]
    );
}

#[test]
fn lines_for_the_log_are_taken_and_answered() {
    for (text, log) in [
        (
            r#"{"rid":"4","api":5,"body":{"level":"WARN","message":"low","at":7}}"#,
            r#"log Warn: low, reply Some("{\"rid\":\"4\",\"api\":6,\"body\":{\"code\":0}}\n")"#,
        ),
        (r#"{"api":5,"body":"hello"}"#, "log Info: hello, reply None"),
        (
            r#"{"rid":"4","api":6,"body":{"x":1}}"#,
            r#"log Info: {"x":1}, reply None"#,
        ),
        (r#"{"api":5}"#, "log Info: null, reply None"),
    ] {
        assert_eq!(heard(TRUTHFUL, &[text.as_bytes()]), [log]);
    }
}

#[test]
fn errors_of_wabur_controllers_have_a_status() {
    let error = r#"{"rid":"7.r","api":2,"body":{"code":-1,"error":"E: x","backtrace":["a.rb:1"]}}"#;
    assert_eq!(
        heard(TRUTHFUL, &[error.as_bytes()]),
        [r#"answer 7: 500 {"code":-1,"error":"E: x"}"#]
    );
    assert_eq!(
        heard(AS_WABUR, &[error.as_bytes()]),
        [r#"answer 7: 500 {"code":-1,"error":"E: x","backtrace":["a.rb:1"]}"#]
    );
    for (code, truthful) in [(17, 409), (166, 404), (3, 500)] {
        let text = format!(r#"{{"rid":"7.r","api":2,"body":{{"code":{code},"error":"x"}}}}"#);
        let of = |protocol| heard(protocol, &[text.as_bytes()])[0][..13].to_owned();
        assert_eq!(of(TRUTHFUL), format!("answer 7: {truthful}"));
        assert_eq!(of(AS_WABUR), "answer 7: 500");
    }
    for body in [r#"{"code":0,"error":"x"}"#, r#"{"code":-1}"#, "[]", "null", "7"] {
        let text = format!(r#"{{"rid":"7.r","api":2,"body":{body}}}"#);
        assert_eq!(
            heard(TRUTHFUL, &[text.as_bytes()]),
            [format!("answer 7: 200 {body}")]
        );
    }
    let told = r#"{"rid":"7.r","api":2,"body":"<p>","status":201,"headers":[["Content-Type","text/html"]]}"#;
    assert_eq!(heard(TRUTHFUL, &[told.as_bytes()]), ["answer 7: 201 <p>"]);
}

#[test]
fn a_request_is_told_in_one_line() {
    assert_eq!(
        told(Protocol::Jsonl, &request("POST", "/a%20b", "x=1", b"two\nlines")),
        json!({
            "id": 7, "method": "POST", "path": "/a%20b", "query": "x=1", "route": "/*", "peer": "127.0.0.1", "request_id": "r-1", "remaining_ms": 900,
            "params": {"name": "J\u{fc}rgen \"x\""},
            "headers": [["x-latin", "caf\u{e9}"]],
            "body": "two\nlines",
        })
    );
    let binary = told(Protocol::Jsonl, &request("POST", "/", "", b"\xff\x00"));
    assert_eq!(
        (&binary["body_base64"], binary.get("body")),
        (&json!("/wA="), None)
    );
}

#[test]
fn a_translated_job_keeps_its_requests_id_and_takes_the_time_that_is_left() {
    for protocol in [Protocol::Jsonl, TRUTHFUL] {
        let mut job = translated(protocol, request("GET", "/", "", b""));
        forebay_wire::set_remaining_ms(&mut job, 12);
        let view = RequestView::decode(&job).unwrap();
        assert_eq!((view.id, view.remaining_ms), (&b"r-1"[..], 12));
        let mut line = Vec::new();
        put_request(protocol, &mut line, 8, &job);
        let told: Value = serde_json::from_slice(&line).unwrap();
        let number = if protocol == Protocol::Jsonl {
            assert_eq!(told["remaining_ms"], 12);
            &told["id"]
        } else {
            &told["rid"]
        };
        assert!(*number == json!(8) || *number == json!("8.r-1"), "{told}");
    }
}

#[test]
fn a_query_of_very_many_names_is_told_at_once() {
    // With a linear search per name, this many names would take minutes.
    let query: Vec<String> = (0..300_000).map(|name| format!("{name:x}=1")).collect();
    let told = told(TRUTHFUL, &request("GET", "/", &query.join("&"), b""));
    assert_eq!(told["body"]["query"].as_object().unwrap().len(), query.len());
}

#[test]
fn a_request_is_told_as_wabur_has_it() {
    assert_eq!(
        told(
            TRUTHFUL,
            &request(
                "PUT",
                "/v1/Article/",
                "num=3&name=a+b%26&num=4&flag",
                b"{\"a\":\r\n 1}"
            )
        ),
        json!({"rid": "7.r-1", "api": 1, "body": {
            "op": "NEW", "path": ["v1", "Article"],
            "query": {"num": "4", "name": "a b&", "flag": ""}, "content": {"a": 1},
        }})
    );
    for (method, op) in [
        ("GET", "GET"),
        ("HEAD", "GET"),
        ("POST", "MOD"),
        ("DELETE", "DEL"),
        ("PATCH", "PATCH"),
    ] {
        let told = told(TRUTHFUL, &request(method, "/v1/a%2Fb/%zz/+", "", b""));
        assert_eq!(
            told["body"],
            json!({"op": op, "path": ["v1", "a/b", "%zz", "+"]}),
            "{method}"
        );
    }
    assert_eq!(check_body(TRUTHFUL, b""), Ok(()));
    assert_eq!(check_body(TRUTHFUL, b" [1] "), Ok(()));
    assert_eq!(check_body(Protocol::Jsonl, b"{"), Ok(()));
    let error = check_body(TRUTHFUL, b"{a}").unwrap_err();
    assert!(error.starts_with("body is not JSON: "), "{error}");
    let error = check_body(TRUTHFUL, b"{\"a\":\"\xF0e\"}").unwrap_err();
    assert!(error.starts_with("body is not UTF-8: "), "{error}");
}

#[test]
fn answers_to_calls_and_words_of_farewell_are_lines() {
    let line = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut line = Vec::new();
        put(&mut line);
        String::from_utf8(line).unwrap()
    };
    let body = b"{\"code\":0,\n\"ref\":1}";
    assert_eq!(
        line(&|out| put_return(Protocol::Jsonl, out, "\"c1\"", body)),
        "{\"call\":\"c1\",\"result\":{\"code\":0, \"ref\":1}}\n"
    );
    assert_eq!(
        line(&|out| put_return(TRUTHFUL, out, "\"1\"", body)),
        "{\"rid\":\"1\",\"api\":4,\"body\":{\"code\":0, \"ref\":1}}\n"
    );
    assert_eq!(
        line(&|out| put_stop(TRUTHFUL, out, 15)),
        "{\"rid\":\"0\",\"api\":-15}\n"
    );
    assert_eq!(line(&|out| put_stop(Protocol::Jsonl, out, 15)), "");
}

/// Reads a file of golden messages.
fn vector(name: &str) -> Value {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/vectors/messages");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Pairs of texts, as bytes: Latin-1 for header values.
fn pairs_of(list: &Value, encode: impl Fn(&str) -> Vec<u8>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = list.as_array().unwrap().iter();
    pairs
        .map(|pair| {
            (
                pair[0].as_str().unwrap().into(),
                encode(pair[1].as_str().unwrap()),
            )
        })
        .collect()
}

#[test]
fn golden_requests_are_told_and_golden_answers_are_understood() {
    let vector = vector("jsonl.json");
    let latin1 = |text: &str| text.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    for told_as in vector["requests"].as_array().unwrap() {
        let request = &told_as["request"];
        let text = |name: &str| request[name].as_str().unwrap().as_bytes();
        let (params, headers) = (
            pairs_of(&request["params"], |text| text.into()),
            pairs_of(&request["headers"], latin1),
        );
        let mut payload = Vec::new();
        RequestParts {
            remaining_ms: 900,
            method: text("method"),
            path: text("path"),
            query: text("query"),
            route: text("route"),
            params: params.iter().map(|(name, value)| (&name[..], &value[..])),
            headers: headers.iter().map(|(name, value)| (&name[..], &value[..])),
            peer: text("peer"),
            id: text("id"),
            identity: request["identity"].as_str().unwrap_or_default().as_bytes(),
            body: &bytes_of(request["body_hex"].as_str().unwrap()),
        }
        .put(&mut payload);
        assert_eq!(told(Protocol::Jsonl, &payload), told_as["line"]);
    }
    for understood in vector["answers"].as_array().unwrap() {
        let (line, expected) = (understood["line"].as_str().unwrap(), &understood["answer"]);
        let members: Members<'_> = serde_json::from_str(line).unwrap();
        let Some(Said::Answer(answered)) = jsonl::read(&members, line) else {
            panic!("an answer: {line}");
        };
        let payload = answered.payload.unwrap();
        let view = ResponseView::decode(&payload).unwrap();
        let body = match &expected["body_hex"] {
            Value::String(hex) => bytes_of(hex),
            _ => expected["body"].as_str().unwrap().into(),
        };
        let mut headers = Vec::new();
        for (name, value) in pairs_of(&expected["headers"], latin1) {
            forebay_wire::put_pair(&mut headers, &name, &value);
        }
        assert_eq!((view.body, view.headers), (&body[..], &headers[..]), "{line}");
        assert_eq!(json!(view.head.status), expected["status"], "{line}");
        // A content type among the headers takes precedence over the one implied by the body.
        assert_eq!(json!(view.head.content as u8), expected["content"], "{line}");
    }
}

#[test]
fn golden_calls_are_understood_and_golden_results_are_told() {
    let mut calls = 0;
    for script in vector("wabur.json")["scripts"].as_array().unwrap() {
        for exchange in script["exchanges"].as_array().unwrap() {
            let (send, expect) = (&exchange["send"], &exchange["expect"]);
            if expect["api"] == 3 {
                let text = expect.to_string();
                let said = read(TRUTHFUL, &text);
                let Some(Said::Call { id, body: Ok(body) }) = said else {
                    panic!("a call: {text}");
                };
                assert_eq!(
                    (id, serde_json::from_str::<Value>(&body).unwrap()),
                    (expect["rid"].to_string(), expect["body"].clone())
                );
                calls += 1;
            }
            if send["api"] == 4 {
                let mut line = Vec::new();
                put_return(
                    TRUTHFUL,
                    &mut line,
                    &send["rid"].to_string(),
                    send["body"].to_string().as_bytes(),
                );
                assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), *send);
            }
        }
    }
    assert!(calls >= 12, "the scripts call: {calls}");
}

/// Frames and printed lines found in these pieces.
fn resynced(pieces: &[&[u8]]) -> Vec<String> {
    let mut resync = Resync::new(7);
    let mut bytes = BytesMut::new();
    let mut found = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        while let Some(piece) = resync.next(&mut bytes) {
            found.push(match piece {
                Piece::Frame(header, payload) => {
                    format!(
                        "{:?} {}: {}",
                        header.kind,
                        header.job,
                        String::from_utf8_lossy(&payload)
                    )
                }
                Piece::Printed(line) => format!("printed: {line}"),
            });
        }
    }
    while let Some(line) = resync.end(&mut bytes) {
        found.push(format!("printed: {line}"));
    }
    found
}

fn frame(kind: FrameType, generation: u16, job: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        flags: flag::END,
        generation,
        job,
        slot: 0,
    };
    let mut bytes = Vec::new();
    forebay_wire::put_frame(&mut bytes, &header, payload);
    bytes
}

#[test]
fn frames_are_told_from_what_is_printed_between_them_however_it_is_cut() {
    let answer = |job, body: &[u8]| frame(FrameType::Body, 7, job, body);
    let stream = [
        b"starting\n\n".to_vec(),
        frame(FrameType::Ready, 7, 0, b""),
        answer(1, b"one\ntwo"),
        b"half a line".to_vec(),
        answer(2, b""),
        answer(3, b"three"),
        // Frames of another generation, of a type that no worker sends, and with an impossible job.
        frame(FrameType::Body, 8, 1, b"not ours"),
        b"\n".to_vec(),
        frame(FrameType::Request, 7, 1, b"not a worker's"),
        b"\nlast words".to_vec(),
    ]
    .concat();
    let whole = resynced(&[&stream]);
    assert_eq!(
        whole[..6],
        [
            "printed: starting",
            "Ready 0: ",
            "Body 1: one\ntwo",
            "printed: half a line",
            "Body 2: ",
            "Body 3: three",
        ]
    );
    assert_eq!(whole.last().map(String::as_str), Some("printed: last words"));
    assert!(
        whole[6].contains("not ours") && whole[7].contains("not a worker's"),
        "{whole:?}"
    );
    let bytewise: Vec<_> = stream.chunks(1).collect();
    assert_eq!(resynced(&bytewise), whole);
    for cut in 1..stream.len() {
        let (one, two) = stream.split_at(cut);
        assert_eq!(resynced(&[one, two]), whole, "cut at {cut}");
    }
}

#[test]
fn text_between_frames_needs_no_memory() {
    let mut stream = vec![b'x'; 100_000];
    stream.extend(frame(FrameType::Body, 7, 1, b"found"));
    let found = resynced(&[&stream]);
    assert_eq!(found.last().map(String::as_str), Some("Body 1: found"));
    let length: usize = found[..found.len() - 1]
        .iter()
        .map(|line| line.len() - "printed: ".len())
        .sum();
    assert_eq!(length, 100_000, "nothing of it is lost");
}
