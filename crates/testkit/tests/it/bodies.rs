//! Bodies in both directions: every byte arrives, at the pace of the slower side.

use std::{
    thread,
    time::{Duration, Instant},
};

use forebay_testkit::{Client, Server, wait_until};

use crate::support::{ONE_WORKER, Runtime, node, noted, wait_for_note};

/// Responds with the body: as a whole, streamed as it arrives, or through the web's Request and Response.
const ECHO: &str = r"
    import { router, reply } from 'forebay';
    const typed = (request) => ({ headers: { 'content-type': request.headers.get('content-type') ?? 'application/x-none' } });
    export default router()
        .post('/bytes', async (request) => reply(await request.bytes(), typed(request)))
        .post('/stream', (request) => reply(request.stream(), typed(request)))
        .post('/pieces', (request) => reply((async function* () { for await (const piece of request.stream()) yield piece; })(), typed(request)))
        .post('/response', async (request) => new Response(await request.bytes(), typed(request)))
        .post('/text', async (request) => await request.text())
        .post('/json', async (request) => await request.json())
        .post('/sum', async (request) => {
            let bytes = 0, sum = 0;
            for await (const piece of request.stream()) {
                bytes += piece.length;
                for (const byte of piece) sum = (sum + byte) | 0;
            }
            return { bytes, sum };
        })
        .post('/ignored', () => 'not read');
";

fn echo(runtime: Runtime) -> Server {
    runtime
        .pool(ECHO, ONE_WORKER)
        .server("body_bytes_max = \"64MiB\"")
        .start()
}

/// Every byte value, then bytes without a pattern.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let random = std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    (0..=255).chain(random).take(length).collect()
}

fn post_chunked(client: &mut Client, target: &str, body: &[u8], chunk: usize) {
    client.send(format!(
        "POST {target} HTTP/1.1\r\nhost: a\r\ncontent-type: x/y\r\ntransfer-encoding: chunked\r\n\r\n"
    ));
    // The server may respond while the body is sent, so the response must be read meanwhile.
    let mut sending = client.another_half();
    let mut framed = Vec::new();
    for piece in body.chunks(chunk) {
        framed.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        framed.extend_from_slice(piece);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    thread::spawn(move || sending.send(framed));
}

fn post_with_length(client: &mut Client, target: &str, body: Vec<u8>) {
    client.send(format!(
        "POST {target} HTTP/1.1\r\nhost: a\r\ncontent-type: x/y\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    let mut sending = client.another_half();
    thread::spawn(move || sending.send(body));
}

#[test]
fn every_byte_survives_whatever_the_length_and_the_way() {
    const KIB: usize = 1024;
    let lengths = [
        0,
        1,
        256,
        1000,
        16 * KIB,
        64 * KIB - 1,
        64 * KIB,
        64 * KIB + 1,
        256 * KIB - 1,
        256 * KIB + 1,
        KIB * KIB + 3,
    ];
    for runtime in Runtime::BOTH {
        let server = echo(runtime);
        for target in ["/bytes", "/stream", "/pieces", "/response"] {
            let mut client = server.connect();
            for length in lengths {
                let body = bytes(length);
                post_with_length(&mut client, target, body.clone());
                let answer = client.response();
                assert_eq!(
                    answer.status, 200,
                    "{target} with {length} bytes on {runtime:?}: {answer:?}"
                );
                assert!(answer.body == body, "{target} with {length} bytes on {runtime:?}");
                assert_eq!(answer.header("content-type"), Some("x/y"));
                if target == "/bytes" && length <= KIB {
                    assert_eq!(answer.header("content-length"), Some(length.to_string().as_str()));
                }
                let chunk = (length / 7).clamp(1, 50_000);
                post_chunked(&mut client, target, &body, chunk);
                let answer = client.response();
                assert!(
                    answer.body == body,
                    "{target} with chunks of {chunk} of {length} bytes on {runtime:?}"
                );
            }
        }
    }
}

#[test]
fn every_character_survives_as_text_and_as_json() {
    let all: String = (0..=0x10_ffff_u32)
        .step_by(7)
        .filter_map(char::from_u32)
        .collect();
    let text = format!("\u{0}\u{feff}\"\\\u{2028}\u{1f600}\r\n{all}");
    for runtime in Runtime::BOTH {
        let server = echo(runtime);
        let answer = server.post("/text", text.as_bytes());
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(answer.body == text.as_bytes(), "{runtime:?}");
        let json = serde_json::json!({ "text": text, "nested": [1, 2.5, null, true, { "": "" }] });
        let answer = server.post("/json", json.to_string().as_bytes());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(answer.json() == json, "{runtime:?}");
        let broken = server.post("/json", b"{\"a\":");
        assert_eq!(broken.status, 400, "{runtime:?}");
    }
}

#[test]
fn header_values_survive_in_both_directions() {
    let source = r"
        import { reply } from 'forebay';
        export default (request) => reply(JSON.stringify([...request.headers].filter(([name]) => name.startsWith('x-t'))), {
            headers: [['set-cookie', 'a=1'], ['set-cookie', 'b=2'], ['x-back', request.headers.get('x-t') ?? 'none']],
        });
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nhost: a\r\nX-T: one, two;q=\"x\"\r\nconnection: keep-alive\r\nConnection: X-Third\r\nx-third: hop\r\nX-Tab: a\tb\r\n\r\n");
        let answer = client.response();
        let seen = answer.json();
        assert_eq!(
            seen,
            serde_json::json!([["x-t", "one, two;q=\"x\""], ["x-tab", "a\tb"]]),
            "{runtime:?}"
        );
        assert_eq!(answer.header("x-back"), Some("one, two;q=\"x\""));
        let cookies: Vec<_> = answer
            .headers
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!(cookies, ["a=1", "b=2"], "{runtime:?}");
    }
}

#[test]
fn a_large_upload_streams_through_without_being_stored() {
    let body = bytes(20 << 20);
    let sum = body
        .iter()
        .fold(0_i32, |sum, &byte| sum.wrapping_add(i32::from(byte)));
    for runtime in Runtime::BOTH {
        let server = echo(runtime);
        assert_eq!(server.post("/sum", b"x").status, 200);
        let before = server.process().rss_bytes();
        let mut client = server.connect();
        post_with_length(&mut client, "/sum", body.clone());
        let mut most = 0;
        wait_until("the answer", || {
            most = most.max(server.process().rss_bytes());
            client.poll_response().is_some_and(|answer| {
                assert_eq!(
                    answer.json(),
                    serde_json::json!({ "bytes": body.len(), "sum": sum }),
                    "{runtime:?}"
                );
                true
            })
        });
        assert!(
            most < before + (6 << 20),
            "{runtime:?}: {before} bytes became {most}"
        );
    }
}

#[test]
fn a_large_body_goes_there_and_back_at_once() {
    let body = bytes(20 << 20);
    for runtime in Runtime::BOTH {
        let server = echo(runtime);
        let mut client = server.connect();
        for target in ["/stream", "/pieces"] {
            post_with_length(&mut client, target, body.clone());
            assert!(client.response().body == body, "{target} on {runtime:?}");
        }
    }
}

#[test]
fn a_body_that_the_handler_does_not_read_does_not_spoil_the_connection() {
    for runtime in Runtime::BOTH {
        let server = echo(runtime);
        for length in [10, 100_000] {
            let mut client = server.connect();
            post_with_length(&mut client, "/ignored", bytes(length));
            assert_eq!(client.response().text(), "not read");
            client.post("/bytes", b"next");
            assert_eq!(
                client.response().text(),
                "next",
                "after {length} bytes on {runtime:?}"
            );
        }
        // Too long to be skipped: the response arrives all the same, and then the connection ends.
        let mut client = server.connect();
        client.send("POST /ignored HTTP/1.1\r\nhost: a\r\ncontent-length: 60000000\r\n\r\n");
        client.send(bytes(400_000));
        assert_eq!(client.response().text(), "not read");
        client.ends();
    }
}

/// Streams numbers until it is stopped, and notes how many pieces were taken.
const ENDLESS: &str = r"
    import { writeFileSync, appendFileSync } from 'node:fs';
    import { router } from 'forebay';
    const piece = 'x'.repeat(65536);
    export default router()
        .get('/pid', () => String(process.pid))
        .get('/endless', async function* (request, { signal }) {
            appendFileSync('ran', 'begin\n');
            let pieces = 0;
            try {
                for (;;) {
                    yield piece;
                    writeFileSync('pieces', String(++pieces));
                }
            } finally {
                appendFileSync('ran', `end ${signal.aborted}\n`);
            }
        });
";

fn pieces(server: &Server) -> usize {
    server
        .folder()
        .read("pieces")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_slow_reader_slows_the_handler_and_not_the_others() {
    for runtime in Runtime::BOTH {
        let server = runtime
            .pool(ENDLESS, &format!("{ONE_WORKER}\nconcurrency = 4"))
            .start();
        assert_eq!(server.get("/pid").status, 200);
        let before = server.process().rss_bytes();
        let mut slow = server.connect();
        slow.request("GET", "/endless");
        wait_for_note(&server, "begin");
        // The kernel's buffers and the window fill up, and then the handler pauses, while others are served.
        let mut last = (pieces(&server), Instant::now());
        wait_until("the handler to stand still", || {
            assert_eq!(server.get("/pid").status, 200);
            let now = pieces(&server);
            if now != last.0 {
                last = (now, Instant::now());
            }
            last.1.elapsed() > Duration::from_millis(300)
        });
        let after = server.process().rss_bytes();
        assert!(
            after < before + (4 << 20),
            "{runtime:?}: {before} bytes became {after}"
        );
        assert_eq!(slow.head().expect("the answer has begun").status, 200);
        wait_until("the handler to go on", || {
            assert!(!slow.some_bytes().is_empty());
            pieces(&server) > last.0 + 20
        });
    }
}

#[test]
fn a_client_that_leaves_a_stream_ends_it_in_the_handler() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(ENDLESS, ONE_WORKER).start();
        let mut client = server.connect();
        client.request("GET", "/endless");
        assert_eq!(client.head().expect("an answer begins").status, 200);
        drop(client);
        wait_for_note(&server, "end true");
        assert_eq!(
            server.get("/pid").status,
            200,
            "{runtime:?}: its slot is free again"
        );
    }
}

#[test]
fn pieces_reach_the_client_as_they_are_made() {
    let source = r"
        import { existsSync } from 'node:fs';
        const pause = () => new Promise((resolve) => setTimeout(resolve, 2));
        export default async function* () {
            for (let piece = 0; piece < 5; piece++) {
                yield `data: ${piece}\n\n`;
                while (!existsSync(`gate${piece}`)) await pause();
            }
        }
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        let mut client = server.connect();
        client.request("GET", "/");
        assert_eq!(client.head().expect("an answer begins").status, 200);
        for piece in 0..5 {
            let mut received = String::new();
            while !received.contains(&format!("data: {piece}\n\n")) {
                let bytes = client.some_bytes();
                assert!(!bytes.is_empty(), "{runtime:?}: the stream ends at {received:?}");
                received.push_str(&String::from_utf8_lossy(&bytes));
            }
            server.folder().write(&format!("gate{piece}"), "");
        }
        assert_eq!(client.some_bytes(), b"0\r\n\r\n");
    }
}

#[test]
fn a_stream_that_fails_in_the_middle_is_not_taken_for_a_whole_one() {
    let source =
        "export default async function* () { yield 'begun'; throw new Error('broken in the middle'); }";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        for _ in 0..3 {
            let mut client = server.connect();
            client.request("GET", "/");
            let cut = client
                .try_response("GET")
                .map_or(true, |answer| !answer.whole || answer.status == 500);
            assert!(cut, "{runtime:?}");
        }
        server.wait_for_log(&["broken in the middle"]);
    }
}

#[test]
fn an_upload_whose_client_leaves_ends_in_the_handler() {
    let source = r"
        import { appendFileSync } from 'node:fs';
        const note = (line) => appendFileSync('ran', `${line}\n`);
        export default async (request) => {
            if (request.method === 'GET') return 'fine';
            note('begin');
            try {
                await request.bytes();
            } catch (error) {
                note('failed');
                throw error;
            }
        };
    ";
    let server = node(source, ONE_WORKER).server("body_buffer_max = 0").start();
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 500000\r\n\r\n");
    client.send(bytes(100_000));
    wait_for_note(&server, "begin");
    drop(client);
    wait_for_note(&server, "failed");
    assert_eq!(server.get("/").text(), "fine");
    assert_eq!(noted(&server), ["begin", "failed"]);
}
