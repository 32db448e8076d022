//! One file of handlers as a script, on either kind of thread, and in pools of Node and of Bun: the same requests, the same responses.

use forebay_testkit::{Response, Server, Setup, blocks, wait_until};

const SUITE: &str = include_str!("handlers/suite.ts");
const FETCH: &str = include_str!("handlers/suite-fetch.ts");

/// Number of times that every request is made: with `on = "auto"` the last ones are answered by I/O threads.
const ROUNDS: usize = 6;

/// A place in which a handler runs.
#[derive(Clone, Copy, Debug)]
enum Place {
    Pool(&'static str),
    Script(&'static str),
}

impl Place {
    const OTHERS: [Self; 4] = [
        Self::Script("executor"),
        Self::Script("io"),
        Self::Script("auto"),
        Self::Pool("bun"),
    ];

    fn start(self, source: &str) -> Server {
        let (section, route) = match self {
            Self::Pool(runtime) => (
                format!(
                    "[pool.s]\nhandler = \"suite.ts\"\nruntime = \"{runtime}\"\nworkers = {{ min = 1, max = 1 }}"
                ),
                "pool = \"s\"",
            ),
            Self::Script(on) => (
                format!("[script.s]\nhandler = \"suite.ts\"\non = \"{on}\"\nallow = {{ store = [\"*\"] }}"),
                "script = \"s\"",
            ),
        };
        Setup::new(&format!(
            "[store]\n{section}\n[[route]]\npath = \"/*\"\n{route}\n[[route]]\npath = \"/two/:a/*\"\n{route}\n"
        ))
        .file("suite.ts", source)
        .start()
    }
}

/// A complete request, except for its end.
struct Request {
    method: &'static str,
    target: &'static str,
    headers: &'static str,
    body: &'static [u8],
}

const fn with(
    method: &'static str,
    target: &'static str,
    headers: &'static str,
    body: &'static [u8],
) -> Request {
    Request {
        method,
        target,
        headers,
        body,
    }
}

const fn get(target: &'static str) -> Request {
    with("GET", target, "", b"")
}

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";
const MULTIPART: &str = "content-type: multipart/form-data; boundary=XX\r\n";
const PARTS: &[u8] = b"--XX\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n\xc3\xa9 1\r\n--XX\r\ncontent-disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\ncontent-type: text/plain\r\n\r\nhello\r\nyou\r\n--XX--\r\n";

const REQUESTS: &[Request] = &[
    get("/"),
    get("/items/7"),
    get("/items/first"),
    get("/items/a%20b%2Fc"),
    get("/items/%c3%a9"),
    get("/files/a/b%20c/d.txt"),
    get("/two/1/2"),
    get("/nowhere"),
    with("POST", "/items/7", "", b""),
    with("OPTIONS", "/items/7", "", b""),
    with("HEAD", "/items/7", "", b""),
    with("HEAD", "/reply/string", "", b""),
    with("HEAD", "/stream/later", "", b""),
    with("HEAD", "/stream/at-once", "", b""),
    with("PATCH", "/any", "", b""),
    with("GET", "/any", "", b""),
    with("PUT", "/put/3", "", b"text \xc3\xa9"),
    with("DELETE", "/gone", "", b""),
    get("/query?a=1&b=x+y&a=%C3%A9&c&d=%ff%&=e"),
    get("/query"),
    get("/query?b=%3F?&a"),
    with(
        "GET",
        "/headers",
        "X-Multi: 1\r\nx-multi: 2\r\nx-latin: \u{e9}\r\ncookie: a=1\r\n",
        b"",
    ),
    with(
        "GET",
        "/cookies",
        "cookie: a=1; b=%20x; c=\"q\"; a=2; d=%zz\r\n",
        b"",
    ),
    with("POST", "/json", "", b"{\"a\":[1,2.50,\"\\u00e9\"]}"),
    with("POST", "/json", "", b"{\"a\":"),
    with("POST", "/json", "", b""),
    with("POST", "/text", "", b"\xc3\xa9\xff\xf0\x9f\x98\x80\0"),
    with("POST", "/text", "", b""),
    with("POST", "/bytes", "", b"\0\x01\xff"),
    with("POST", "/sum", "", b"abc"),
    with("POST", "/sum", "", b""),
    with("POST", "/twice", "", b"x"),
    with("POST", "/messages/add", "", b"{\"a\":1,\"b\":2.5}"),
    with("POST", "/messages/later", "", b""),
    with("POST", "/messages/later", "", b"[1]"),
    with("POST", "/messages/nothing", "", b""),
    with("POST", "/messages/parts", "", b"3"),
    with("POST", "/messages/atOnce", "", b"2"),
    with("POST", "/messages/refuses", "", b"1"),
    with("POST", "/messages/throws", "", b"1"),
    with("POST", "/messages/unknown%20one", "", b"1"),
    with("POST", "/messages/add", "", b"{"),
    get("/messages/add"),
    with("POST", "/form", FORM, b"a=b+c%21&a=%C3%A9&d"),
    with("POST", "/form", MULTIPART, PARTS),
    with("POST", "/form", MULTIPART, b"--XX\r\nbroken"),
    with("POST", "/form", "content-type: text/plain\r\n", b"a"),
    get("/reply/object"),
    get("/reply/array"),
    get("/reply/null-prototype"),
    get("/reply/string"),
    get("/reply/empty"),
    get("/reply/number"),
    get("/reply/boolean"),
    get("/reply/undefined"),
    get("/reply/bytes"),
    get("/reply/buffer"),
    get("/reply/promise"),
    get("/reply/json"),
    get("/reply/text"),
    get("/reply/redirect"),
    get("/reply/typed"),
    get("/reply/not-modified"),
    get("/reply/map"),
    get("/reply/headers"),
    get("/reply/response"),
    get("/reply/response-json"),
    get("/reply/response-empty"),
    get("/reply/response-bytes"),
    get("/reply/response-of-response"),
    get("/reply/class"),
    get("/error/http"),
    get("/error/extra"),
    get("/error/plain"),
    get("/error/later"),
    get("/error/value"),
    get("/error/cycle"),
    get("/error/bigint"),
    get("/error/symbol"),
    get("/error/header"),
    get("/error/status"),
    get("/stream/at-once"),
    get("/stream/later"),
    get("/stream/web"),
    get("/stream/long"),
    get("/stream/empty"),
    get("/stream/fails"),
    get("/stream/events"),
    get("/ctx"),
    get("/web"),
    get("/store/a"),
    with("POST", "/store/a", "", b""),
    with("POST", "/store/7", "", b""),
    get("/store/a"),
    with("POST", "/rolled-back", "", b""),
    get("/store/x"),
    with("DELETE", "/store/7", "", b""),
    get("/store/7"),
];

const FETCH_REQUESTS: &[Request] = &[
    get("/text?a=1"),
    with("DELETE", "/text", "", b""),
    with("HEAD", "/text", "", b""),
    with("POST", "/echo", "content-type: text/x\r\n", b"\0\xff"),
    with("POST", "/json", "", b"[1]"),
    with("POST", "/json", "", b"["),
    with("POST", "/form", FORM, b"a=1&b=%20"),
    get("/redirect"),
    get("/fails"),
    get("/nowhere"),
];

/// The responses to the requests, round by round.
fn answers(server: &Server, requests: &[Request]) -> Vec<Response> {
    let mut client = server.connect();
    let mut answers = Vec::new();
    for round in 0..ROUNDS {
        for (at, request) in requests.iter().enumerate() {
            let length = match (request.method, request.body.len()) {
                ("GET" | "HEAD" | "DELETE" | "OPTIONS", 0) => String::new(),
                (_, length) => format!("content-length: {length}\r\n"),
            };
            // Characters up to U+00FF, each a byte.
            let headers: Vec<u8> = request.headers.chars().map(|character| character as u8).collect();
            let mut bytes = format!(
                "{} {} HTTP/1.1\r\nhost: suite.example\r\nx-request-id: suite-{round}-{at}\r\n{length}",
                request.method, request.target
            )
            .into_bytes();
            bytes.extend([&headers, &b"\r\n"[..], request.body].concat());
            client.send(bytes);
            answers.push(client.response_to(request.method));
        }
    }
    answers
}

/// The length of a stream's body, or chunks: a stream that has ended before its head goes out has a length, and another one has not.
const DELIMITED: &str = "delimited";

fn line(request: &Request, answer: &Response, is_bun: bool) -> String {
    let is_stream = request.target.starts_with("/stream/") && request.method != "HEAD";
    let length = answer.body.len().to_string();
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| name != "date")
        .map(|(name, value)| match name.as_str() {
            "content-length" if is_stream && *value == length => DELIMITED.to_owned(),
            "transfer-encoding" if is_stream && value == "chunked" => DELIMITED.to_owned(),
            _ => format!("{name}: {value}"),
        })
        .collect();
    // Where a field stands depends on how the body is delimited.
    if is_stream {
        headers.sort();
    }
    if is_bun {
        // Bun's `Headers` have cookies last, and its `Response.json` names a charset: these belong to Bun.
        let own = |field: &mut String| *field = field.replace("json;charset=utf-8", "json");
        headers.iter_mut().for_each(own);
        headers.sort();
    }
    let body = String::from_utf8_lossy(&answer.body);
    let (method, target, status) = (request.method, request.target, answer.status);
    format!("{method} {target} -> {status} [{}] {body}", headers.join(", "))
}

fn all_answer_alike(source: &str, requests: &[Request]) {
    let node = Place::Pool("node").start(source);
    let given = answers(&node, requests);
    for place in Place::OTHERS {
        let is_bun = matches!(place, Place::Pool("bun"));
        let found = answers(&place.start(source), requests);
        let lines = |answers: &[Response]| -> Vec<String> {
            let requests = requests.iter().cycle();
            requests
                .zip(answers)
                .map(|(request, answer)| line(request, answer, is_bun))
                .collect()
        };
        let differences: Vec<String> = lines(&found)
            .iter()
            .zip(lines(&given))
            .filter(|(found, right)| *found != right)
            .map(|(found, right)| format!("{found}\nand not\n{right}"))
            .collect();
        assert!(
            differences.is_empty(),
            "{place:?}: {} answers differ:\n{}",
            differences.len(),
            differences.join("\n")
        );
    }
}

#[test]
fn scripts_and_pools_answer_byte_by_byte_alike() {
    all_answer_alike(SUITE, REQUESTS);
}

#[test]
fn a_handler_in_the_webs_form_answers_alike_everywhere() {
    all_answer_alike(FETCH, FETCH_REQUESTS);
}

#[test]
fn the_script_of_the_guide_answers_as_the_guide_says() {
    let guide = include_str!("../../../../docs/guide/scripts.md");
    let block = |language: &str| blocks(guide, language)[0].to_owned();
    // Ports are allocated dynamically, so the script fetches from a second server.
    let elsewhere = Setup::new(&block("toml")).file("greet.ts", block("ts")).start();
    let there = |text: String| text.replace("127.0.0.1:8080", &elsewhere.address().to_string());
    let server = Setup::new(&there(block("toml")))
        .file("greet.ts", there(block("ts")))
        .start();
    let console = block("console");
    let mut exchanges = console.split("$ curl ").skip(1).peekable();
    assert!(exchanges.peek().is_some(), "the guide asks something");
    for exchange in exchanges {
        let (command, answer) = exchange.split_once('\n').expect("a command and its answer");
        let path = command.split("127.0.0.1:8080").nth(1).expect("an address");
        assert_eq!(server.get(path).text().trim_end(), answer.trim_end(), "{command}");
    }
    let nobody = server.get("/greet/nobody");
    assert_eq!((nobody.status, nobody.detail()), (404, "nobody is there".into()));
}

fn script(source: &str) -> Server {
    Setup::new("[script.s]\nhandler = \"s.mjs\"\nexecutors = 1\n[[route]]\npath = \"/*\"\nscript = \"s\"\n")
        .file("s.mjs", source)
        .start()
}

#[test]
fn what_a_script_writes_and_whom_nobody_heard_is_in_the_log() {
    let server = script(
        "const circle = { list: [1, 'two'] }; circle.self = circle;
         export default () => {
             console.log('%s has %d%%', 'a', 3, circle, new Map([[1, -0]]));
             console.warn('x'.repeat(100_000));
             Promise.reject(new Error('lost'));
             Promise.reject(new Error('found')).catch(() => {});
             return 'written';
         };",
    );
    assert_eq!(server.get("/").text(), "written");
    server.wait_for_log(&[
        "INFO",
        "a has 3% { list: [ 1, 'two' ], self: [Circular *1] } Map(1) { 1 => -0 }",
    ]);
    server.wait_for_log(&["WARN", "x... (cut: it had 100000 characters)"]);
    server.wait_for_log(&[
        "ERROR",
        "a promise was rejected, and nobody handles it: Error: lost",
    ]);
    let log = server.log();
    assert_eq!(log.matches("a promise was rejected").count(), 1, "{log}");
}

#[test]
fn a_stream_ends_with_its_client() {
    let server = script(
        "let ended = false;
         export default (request) => request.path === '/ended' ? { ended } : (async function* () {
             try { for (;;) yield new Uint8Array(50_000); } finally { ended = true; }
         })();",
    );
    let mut client = server.connect();
    client.request("GET", "/");
    assert!(!client.some_bytes().is_empty());
    assert_eq!(server.get("/ended").text(), r#"{"ended":false}"#);
    drop(client);
    wait_until("the script to notice it", || {
        server.get("/ended").text() == r#"{"ended":true}"#
    });
}
