//! Compressed responses, decoded by curl and by Node.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use forebay_testkit::{Client, Response, Server, Setup, wait_until};

use crate::{
    certificates::issuer,
    support::{metric, open},
};

const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];
const PROTOCOLS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

const CONFIG: &str = r#"
[store.access]
Doc = { read = "public", write = "public" }

[script.rows]
handler = "script.mjs"

[pool.api]
handler = "api.mjs"
workers = { min = 1, max = 1 }
concurrency = 200

[[route]]
path = "/respond"
respond = { file = "public/rows.json" }

[[route]]
path = "/files/*"
files = "public"
precompressed = true

[[route]]
path = "/store/*"
store = {}

[[route]]
path = "/script"
script = "rows"

[[route]]
path = "/pool/*"
pool = "api"

[[route]]
path = "/always/*"
pool = "api"
compress = "always"

[[route]]
path = "/off"
respond = { file = "public/rows.json" }
compress = "off"

[[route]]
path = "/fixed"
respond = { file = "public/rows.json" }
headers = { cache-control = "max-age=1, No-Transform" }
"#;

const SCRIPT: &str =
    "export default () => ({ rows: Array.from({ length: 3000 }, (_, id) => ({ id, name: `user ${id}` })) });";

const HANDLER: &str = r"
    import { existsSync, writeFileSync } from 'node:fs';
    import { randomBytes } from 'node:crypto';
    import { reply, router } from 'forebay';

    const rows = Array.from({ length: 3000 }, (_, id) => ({ id, name: `user ${id}` }));
    const opened = async (gate) => { while (!existsSync(gate)) await new Promise((next) => setTimeout(next, 2)); };
    const text = { headers: { 'content-type': 'text/plain' } };
    const app = router();
    for (const at of ['/pool', '/always']) {
      app
        .get(`${at}/rows`, () => rows)
        .get(`${at}/short`, () => reply('short', text))
        .get(`${at}/cookie`, () => reply('x'.repeat(5000), { headers: { 'content-type': 'text/plain', 'set-cookie': 'a=1' } }));
    }
    export default app
      .get('/pool/header/:name/:value', ({ params: { name, value } }) =>
        reply('x'.repeat(5000), { headers: { 'content-type': 'text/plain', [name]: value } }))
      .get('/pool/status/:status', ({ params }) => reply('x'.repeat(5000), { status: Number(params.status), ...text }))
      .get('/pool/stream', () => reply((async function* () { for (let n = 0; n < 100; n++) yield `line ${n}\n`.repeat(1000); })(), text))
      .get('/pool/events', () => reply((async function* () {
        yield 'data: first\n\n';
        await opened('gate');
        yield 'data: second\n\n';
      })(), { headers: { 'content-type': 'text/event-stream' } }))
      .get('/pool/noise', () => reply((async function* () {
        try {
          for (;;) yield randomBytes(48 << 10).toString('base64');
        } finally {
          writeFileSync('left', '');
        }
      })(), text))
      .get('/pool/dies', () => reply((async function* () {
        yield 'line\n'.repeat(20_000);
        await opened('gate');
        process.exit(1);
      })(), text));
";

fn rows() -> String {
    let rows = (0..500).map(|id| format!("{{\"id\":{id},\"name\":\"user {id}\"}}"));
    format!("[{}]", rows.collect::<Vec<_>>().join(","))
}

fn setup(compress: &str) -> Setup {
    let rows = rows();
    let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}")).collect();
    Setup::new(CONFIG)
        .server(&format!("compress = \"{compress}\""))
        .admin()
        .threads(1)
        .file("script.mjs", SCRIPT)
        .file("api.mjs", HANDLER)
        .file("public/rows.json", &rows)
        .file("public/large.txt", lines.join("\n"))
        .file("public/photo.png", &rows)
        .file("public/short.txt", "x".repeat(1023))
        .file("public/empty.txt", "")
        .file("public/page.html", &rows)
        .file("public/page.html.br", "brotli")
}

fn serve() -> Server {
    let server = setup("public").start();
    wait_until("the pool", || server.get("/pool/short").status == 200);
    let rows = rows();
    let fields = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n\r\n{rows}",
        rows.len()
    );
    assert_eq!(put(&mut server.connect(), &fields), 201);
    server
}

/// The status of a change to the store's document; `fields` are followed by the body.
fn put(client: &mut Client, fields: &str) -> u16 {
    client.send(format!("PUT /store/Doc/1 HTTP/1.1\r\nhost: a\r\n{fields}"));
    client.response().status
}

/// The coding of a response, and whether it depends on what the client accepts.
fn coding(response: &Response) -> (&str, bool) {
    let varies = response.headers.iter().any(|(name, value)| {
        let mut named = value.split(',').map(str::trim);
        name == "vary" && named.any(|name| name == "accept-encoding")
    });
    (response.header("content-encoding").unwrap_or("none"), varies)
}

/// A response in this coding as curl decodes it, and its head.
fn curl(server: &Server, path: &str, protocol: &str, coding: &str) -> (Vec<u8>, String) {
    let output = forebay_testkit::curl([
        "--compressed",
        "--dump-header",
        "/dev/stderr",
        protocol,
        "--header",
        &format!("accept-encoding: {coding}"),
        &format!("http://{}{path}", server.address()),
    ]);
    let head = String::from_utf8(output.stderr).expect("a head is text");
    assert!(output.status.success(), "{path} {protocol} {coding}: {head}");
    (output.stdout, head)
}

/// Decodes a body with Node; `None`: it is not whole.
fn decode(body: &[u8], coding: &str) -> Option<Vec<u8>> {
    const CODE: &str = "
        const zlib = require('node:zlib');
        const decode = { gzip: zlib.gunzipSync, br: zlib.brotliDecompressSync, zstd: zlib.zstdDecompressSync }[process.argv[1]];
        process.stdout.write(decode(require('node:fs').readFileSync(0)));
    ";
    let mut node = Command::new("node")
        .args(["--eval", CODE, coding])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("Node can be started");
    let mut input = node.stdin.take().expect("it is piped");
    input.write_all(body).expect("Node reads it");
    drop(input);
    let output = node.wait_with_output().expect("Node ends");
    output.status.success().then_some(output.stdout)
}

#[test]
fn whatever_answers_is_compressed_in_every_coding_and_with_both_protocols() {
    let server = serve();
    for path in [
        "/respond",
        "/files/rows.json",
        "/files/large.txt",
        "/store/Doc/1",
        "/script",
        "/pool/rows",
        "/pool/stream",
    ] {
        for protocol in PROTOCOLS {
            let (plain, head) = curl(&server, path, protocol, "identity");
            assert!(!head.contains("content-encoding"), "{head}");
            assert!(plain.len() > 5_000, "{path}");
            for coding in CODINGS {
                let (body, head) = curl(&server, path, protocol, coding);
                assert!(body == plain, "{path} {protocol} {coding}");
                assert!(
                    head.contains(&format!("content-encoding: {coding}\r\n")),
                    "{path} {head}"
                );
                assert!(head.contains("vary: accept-encoding\r\n"), "{path} {head}");
            }
        }
    }
    for coding in CODINGS {
        let counted = |what: &str| {
            let series = format!("forebay_compression_{what}_bytes_total{{coding=\"{coding}\"}}");
            metric(&server, &series)
        };
        let (before, after) = (counted("input"), counted("output"));
        assert!(
            before > 4_000_000 && (1..before / 3).contains(&after),
            "{coding}: {before} {after}"
        );
    }
    // Node decodes the same bodies.
    let mut client = server.connect();
    for coding in CODINGS {
        for path in ["/respond", "/files/large.txt", "/pool/rows"] {
            let plain = client.ask("GET", path, "", "").body;
            let body = client
                .ask("GET", path, &format!("accept-encoding: {coding}\r\n"), "")
                .body;
            assert!(body.len() < plain.len() / 2, "{path}");
            assert!(decode(&body, coding) == Some(plain), "{path} {coding}");
        }
    }
}

#[test]
fn a_response_is_compressed_if_its_client_and_its_type_allow_it() {
    let server = serve();
    let mut client = server.connect();
    for (path, accepted, expected) in [
        // By what the client accepts.
        ("/respond", "gzip, deflate, br, zstd", ("zstd", true)),
        ("/respond", "gzip, br", ("br", true)),
        ("/respond", "gzip, br;q=0.9", ("gzip", true)),
        ("/respond", "br;q=0, gzip;q=0.1, *;q=0", ("gzip", true)),
        ("/respond", "*", ("zstd", true)),
        ("/respond", "identity, gzip;q=0.5", ("none", true)),
        ("/respond", "deflate", ("none", true)),
        ("/respond", "gzip;q=0", ("none", true)),
        ("/files/rows.json", "gzip;q=0.5, br;q=0.6", ("br", true)),
        // A file beside the other, by the same rules, and the file itself where there is none.
        ("/files/page.html", "gzip;q=0.5, br", ("br", true)),
        ("/files/page.html", "gzip, br;q=0", ("gzip", true)),
        // By type and length.
        ("/files/photo.png", "gzip", ("none", true)),
        ("/files/short.txt", "gzip", ("none", true)),
        ("/files/short.txt", "gzip, identity;q=0", ("gzip", true)),
        ("/files/empty.txt", "gzip, identity;q=0", ("none", true)),
        ("/pool/short", "gzip", ("none", true)),
        // By other fields of the response.
        ("/pool/header/x-a/b", "gzip", ("gzip", true)),
        ("/pool/header/content-type/image%2fpng", "gzip", ("none", false)),
        (
            "/pool/header/content-encoding/aes128gcm",
            "gzip",
            ("aes128gcm", false),
        ),
        ("/pool/header/cache-control/no-transform", "gzip", ("none", false)),
        ("/pool/header/content-digest/x", "gzip", ("none", false)),
        ("/pool/header/content-range/x", "gzip", ("none", true)),
        ("/pool/header/vary/*", "gzip", ("gzip", false)),
        // By the status.
        ("/pool/status/404", "gzip", ("gzip", true)),
        ("/pool/status/206", "gzip", ("none", true)),
        // By the keys of the route.
        ("/off", "gzip", ("none", false)),
        ("/fixed", "gzip", ("none", false)),
    ] {
        let response = client.ask("GET", path, &format!("accept-encoding: {accepted}\r\n"), "");
        assert_eq!(coding(&response), expected, "{path} {accepted}");
    }
    assert_eq!(
        client
            .ask("GET", "/files/page.html", "accept-encoding: br\r\n", "")
            .text(),
        "brotli"
    );
    // Lines of one field are one list.
    let lines = "accept-encoding: deflate\r\naccept-encoding: gzip\r\n";
    assert_eq!(coding(&client.ask("GET", "/respond", lines, "")), ("gzip", true));
    // A client of HTTP/1.0 could not tell a body that is cut off.
    let mut old = server.connect();
    old.send("GET /files/large.txt HTTP/1.0\r\naccept-encoding: gzip\r\n\r\n");
    assert_eq!(coding(&old.response()), ("none", true));
    let server = setup("off").start();
    let response = server
        .connect()
        .ask("GET", "/respond", "accept-encoding: gzip\r\n", "");
    assert_eq!(coding(&response), ("none", false));
}

#[test]
fn head_says_what_get_does() {
    let server = serve();
    let mut client = server.connect();
    for (path, expected, length) in [
        ("/respond", "gzip", true),
        ("/files/rows.json", "gzip", false),
        ("/files/large.txt", "gzip", false),
        ("/files/short.txt", "none", true),
        ("/pool/rows", "gzip", false),
        ("/pool/header/x-a/b", "gzip", false),
        ("/pool/short", "none", true),
    ] {
        let field = "accept-encoding: gzip\r\n";
        let head = client.ask("HEAD", path, field, "");
        assert_eq!(coding(&head), (expected, true), "{path}");
        assert_eq!(head.header("content-length").is_some(), length, "{path}");
        let get = client.ask("GET", path, field, "");
        assert_eq!(coding(&get), (expected, true), "{path}");
        assert_eq!(head.header("etag"), get.header("etag"), "{path}");
        if length {
            assert_eq!(
                head.header("content-length"),
                get.header("content-length"),
                "{path}"
            );
        }
        let (_, head) = curl(&server, path, "--http2-prior-knowledge", "gzip");
        assert_eq!(
            head.contains("content-encoding: gzip\r\n"),
            expected == "gzip",
            "{head}"
        );
    }
}

#[test]
fn validators_of_compressed_responses_are_weak_and_still_good() {
    let server = serve();
    let mut client = server.connect();
    for path in ["/files/rows.json", "/store/Doc/1"] {
        let plain = client.ask("GET", path, "", "");
        let strong = plain.header("etag").expect("a tag").to_owned();
        let encoded = client.ask("GET", path, "accept-encoding: gzip\r\n", "");
        let weak = encoded.header("etag").expect("a tag").to_owned();
        assert_eq!(weak, format!("W/{strong}"));
        assert_eq!(encoded.header("accept-ranges"), None);
        for (field, status, tag) in [
            (format!("if-none-match: {weak}"), 304, Some(&weak)),
            (format!("if-none-match: \"a\", {weak}"), 304, Some(&weak)),
            (format!("if-none-match: {strong}"), 304, Some(&strong)),
            ("if-none-match: W/\"a\"".to_owned(), 200, Some(&weak)),
            (format!("if-match: {strong}"), 200, Some(&weak)),
            // Only a strong tag proves that the document is the same.
            (format!("if-match: {weak}"), 412, None),
        ] {
            let response = client.ask("GET", path, &format!("accept-encoding: gzip\r\n{field}\r\n"), "");
            assert_eq!(
                (response.status, response.header("etag")),
                (status, tag.map(String::as_str)),
                "{path} {field}"
            );
            assert!(status == 412 || coding(&response).1, "{path} {field}");
        }
    }
    let tag = client.ask("GET", "/store/Doc/1", "accept-encoding: gzip\r\n", "");
    let tag = tag.header("etag").expect("a tag").to_owned();
    let mut put = |tag: &str| {
        let body = "content-type: application/json\r\ncontent-length: 1\r\n\r\n1";
        put(&mut client, &format!("if-match: {tag}\r\n{body}"))
    };
    assert_eq!(put(&tag), 412);
    assert!((200..300).contains(&put(tag.trim_start_matches("W/"))));
}

#[test]
fn ranges_are_of_the_file_as_it_is() {
    let server = serve();
    let mut client = server.connect();
    let mut ask = |fields: &str| {
        let fields = format!("accept-encoding: gzip\r\nrange: bytes=0-4999\r\n{fields}");
        client.ask("GET", "/files/rows.json", &fields, "")
    };
    let part = ask("");
    assert_eq!((part.status, coding(&part)), (206, ("none", true)));
    assert_eq!(part.text(), &rows()[..5000]);
    let strong = part.header("etag").expect("a tag").to_owned();
    assert!(strong.starts_with('"'));
    // A part can be added to a part of the same bytes only.
    assert_eq!(ask(&format!("if-range: {strong}\r\n")).status, 206);
    let whole = ask(&format!("if-range: W/{strong}\r\n"));
    assert_eq!((whole.status, coding(&whole)), (200, ("gzip", true)));
}

#[test]
fn what_may_be_secret_is_compressed_only_if_the_route_says_so() {
    let server = serve();
    let mut client = server.connect();
    for (path, fields, expected) in [
        ("/pool/rows", "", "gzip"),
        ("/pool/rows", "cookie: a=1\r\n", "none"),
        ("/pool/rows", "authorization: Bearer a\r\n", "none"),
        ("/pool/cookie", "", "none"),
        ("/store/Doc/1", "cookie: a=1\r\n", "none"),
        ("/script", "authorization: Basic YTph\r\n", "none"),
        // These are the same for all.
        ("/respond", "cookie: a=1\r\n", "gzip"),
        ("/files/large.txt", "authorization: Bearer a\r\n", "gzip"),
        ("/always/rows", "cookie: a=1\r\n", "gzip"),
        ("/always/cookie", "authorization: Bearer a\r\n", "gzip"),
    ] {
        let response = client.ask("GET", path, &format!("accept-encoding: gzip\r\n{fields}"), "");
        assert_eq!(coding(&response), (expected, true), "{path} {fields}");
    }
    // A certificate identifies its client.
    let server = setup("public")
        .server("client_ca = \"clients.pem\"\nclient_certificates = \"optional\"")
        .file("clients.pem", issuer("clients").pem())
        .start();
    let mut client = server.connect();
    for (path, expected) in [
        ("/script", "none"),
        ("/respond", "gzip"),
        ("/always/rows", "gzip"),
    ] {
        wait_until("the pool", || server.get(path).status == 200);
        let response = client.ask("GET", path, "accept-encoding: gzip\r\n", "");
        assert_eq!(coding(&response).0, expected, "{path}");
    }
}

/// curl, which decodes a response as it arrives, and the lines of that.
fn start_curl(
    server: &Server,
    path: &str,
    protocol: &str,
    coding: &str,
) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut curl = Command::new("curl")
        .args([
            "--silent",
            "--no-buffer",
            "--compressed",
            "--max-time",
            "60",
            protocol,
        ])
        .args(["--header", &format!("accept-encoding: {coding}")])
        .arg(format!("http://{}{path}", server.address()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl can be started");
    let output = BufReader::new(curl.stdout.take().expect("it is piped"));
    (curl, output.lines())
}

#[test]
fn events_arrive_when_they_are_sent() {
    for protocol in PROTOCOLS {
        for coding in CODINGS {
            let server = serve();
            let (mut curl, mut lines) = start_curl(&server, "/pool/events", protocol, coding);
            let mut line = || lines.next().map(|line| line.expect("text"));
            // The handler goes on only after the gate has been opened.
            assert_eq!(line().as_deref(), Some("data: first"), "{protocol} {coding}");
            open(&server, "gate");
            assert_eq!(line().as_deref(), Some(""));
            assert_eq!(line().as_deref(), Some("data: second"));
            assert!(curl.wait().expect("curl ends").success());
        }
    }
}

/// Bytes that have been compressed with gzip.
fn compressed(server: &Server) -> u64 {
    metric(server, "forebay_compression_input_bytes_total{coding=\"gzip\"}")
}

fn skipped(server: &Server, reason: &str) -> u64 {
    metric(
        server,
        &format!("forebay_compression_skipped_total{{reason=\"{reason}\"}}"),
    )
}

#[test]
fn a_client_that_takes_nothing_holds_up_the_worker_and_nothing_piles_up() {
    let server = serve();
    let mut slow = server.connect();
    slow.send("GET /pool/noise HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n");
    assert_eq!(coding(&slow.head().expect("a head")), ("gzip", true));
    let (mut last, mut repeats) = (0, 0);
    wait_until("the stream to stand still", || {
        let now = compressed(&server);
        repeats = if now == last && now > 0 { repeats + 1 } else { 0 };
        last = now;
        repeats == 50
    });
    assert!(last < 64 << 20, "what the sockets hold: {last}");
    let memory = server.process().rss_bytes();
    assert!(memory < 120 << 20, "{memory}");
    for _ in 0..100 {
        slow.some_bytes();
    }
    wait_until("the stream to go on", || compressed(&server) > last);
    // A client that leaves ends the job.
    drop(slow);
    wait_until("the job to end", || server.folder().read("left").is_some());
}

#[test]
fn a_body_whose_source_breaks_off_is_cut_off_and_does_not_decode() {
    for coding in CODINGS {
        let server = serve();
        let mut curls = PROTOCOLS.map(|protocol| start_curl(&server, "/pool/dies", protocol, coding));
        let mut client = server.connect();
        client.send(format!(
            "GET /pool/dies HTTP/1.1\r\nhost: a\r\naccept-encoding: {coding}\r\n\r\n"
        ));
        let patience = std::time::Duration::from_secs(20);
        assert!(client.is_readable_within(patience), "it begins");
        for (_, lines) in &mut curls {
            assert_eq!(lines.next().expect("it begins").expect("text"), "line");
        }
        open(&server, "gate");
        let response = client.try_response("GET").expect("it begins");
        assert_eq!(response.header("content-encoding"), Some(coding));
        assert!(!response.whole && !response.body.is_empty());
        // Node takes zstd without an end.
        let decoded = decode(&response.body, coding).filter(|_| coding != "zstd");
        assert!(decoded.is_none(), "{coding}");
        for (mut curl, lines) in curls {
            lines.for_each(drop);
            assert!(!curl.wait().expect("curl ends").success(), "{coding}");
        }
    }
}

#[test]
fn bodies_that_are_compressed_at_a_time_are_limited() {
    let server = serve();
    let begin = || {
        let mut client = server.connect();
        client.send("GET /pool/events HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n");
        let head = client.head().expect("a head");
        (client, coding(&head).0.to_owned())
    };
    // A client that leaves makes room for another one.
    for _ in 0..2 {
        let clients: Vec<_> = (0..64).map(|_| begin()).collect();
        assert!(clients.iter().all(|(_, coding)| coding == "gzip"));
        let before = skipped(&server, "streams");
        assert_eq!(begin().1, "none");
        assert_eq!(skipped(&server, "streams"), before + 1);
        drop(clients);
        wait_until("room", || begin().1 == "gzip");
    }
    open(&server, "gate");
    let mut client = server.connect();
    let events = client.ask("GET", "/pool/events", "", "");
    assert_eq!(events.text(), "data: first\n\ndata: second\n\n");
}

#[test]
fn a_thread_spends_no_more_than_its_share_on_compression() {
    let field = "accept-encoding: gzip\r\n";
    let server = setup("public").server("compress_cpu_max = 0").start();
    wait_until("the pool", || server.get("/pool/short").status == 200);
    let mut client = server.connect();
    for (count, path) in ["/files/rows.json", "/pool/stream", "/files/large.txt"]
        .iter()
        .enumerate()
    {
        assert_eq!(
            coding(&client.ask("GET", path, field, "")),
            ("none", true),
            "{path}"
        );
        assert_eq!(skipped(&server, "cpu"), count as u64 + 1);
    }
    // It costs nothing to send what was compressed before.
    assert_eq!(coding(&client.ask("GET", "/respond", field, "")), ("gzip", true));
    let server = setup("public").server("compress_cpu_max = 0.001").start();
    let mut client = server.connect();
    // A body that has begun becomes whole, if slowly.
    let large = client.ask("GET", "/files/large.txt", field, "");
    assert_eq!(coding(&large), ("gzip", true));
    assert!(decode(&large.body, "gzip") == Some(client.ask("GET", "/files/large.txt", "", "").body));
    // Later responses are not compressed until enough time has passed.
    let mut codings = Vec::new();
    wait_until("both", || {
        codings.push(coding(&client.ask("GET", "/files/rows.json", field, "")).0 == "gzip");
        codings.contains(&true) && codings.contains(&false)
    });
    assert!(skipped(&server, "cpu") > 0);
}
