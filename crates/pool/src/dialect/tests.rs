//! What is found in what workers write, however it is cut into pieces, and what they are told.

use bytes::BytesMut;
use forebay_wire::{RequestParts, ResponseView};
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

/// What was said, in a form that can be compared: `answer 7: 200 text`, `printed: text`, and so on.
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

/// The same in one piece and cut everywhere.
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
        headers: [
            (&b"x-request-id"[..], &b"r-1"[..]),
            (&b"x-latin"[..], &b"caf\xe9"[..]),
        ]
        .into_iter(),
        peer: b"127.0.0.1",
        body,
    }
    .put(&mut payload);
    payload
}

fn told(protocol: Protocol, payload: &[u8]) -> Value {
    let mut line = Vec::new();
    put_request(protocol, &mut line, 7, payload);
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
        // What consoles and loggers print looks a little like an answer.
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
            "id": 7, "method": "POST", "path": "/a%20b", "query": "x=1", "route": "/*", "peer": "127.0.0.1", "remaining_ms": 900,
            "params": {"name": "J\u{fc}rgen \"x\""},
            "headers": [["x-request-id", "r-1"], ["x-latin", "caf\u{e9}"]],
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
