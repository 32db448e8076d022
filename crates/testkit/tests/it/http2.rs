//! HTTP/2, over TLS and in plain text, asked by curl and by a client that misbehaves.

use std::{future::poll_fn, net::SocketAddr, process::Output, time::Duration};

use bytes::Bytes;
use forebay_testkit::{Server, Setup, wait_until};
use h2::{Reason, client::SendRequest};
use http::{Request, Response};
use tokio::net::TcpStream;

use crate::support::{ONE_WORKER, metric, node};

const ROUTES: &str = r#"
[script.echo]
handler = "echo.mjs"

[[route]]
path = "/here"
methods = ["GET"]
respond = { text = "here" }

[[route]]
path = "/echo"
script = "echo"
body_bytes_max = "16MiB"

[[route]]
path = "/files/*"
files = "public"
"#;

fn large() -> Vec<u8> {
    (0..5_000_000_u32).map(|at| (at % 251) as u8).collect()
}

fn setup() -> Setup {
    let echo = "export default (request) => request.method === 'POST' ? request.bytes() : { cookie: request.headers.get('cookie'), host: request.headers.get('host') };";
    Setup::new(ROUTES)
        .file("echo.mjs", echo)
        .file("public/large.bin", large())
        .file("public/empty.bin", "")
}

/// curl with HTTP/2 and no questions.
fn curl(server: &Server, path: &str, options: &[&str]) -> Output {
    let url = format!("http://{}{path}", server.address());
    let output = forebay_testkit::curl(["--http2-prior-knowledge", &url].iter().chain(options));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn text(server: &Server, path: &str, options: &[&str]) -> String {
    String::from_utf8(curl(server, path, options).stdout).expect("text")
}

#[test]
fn every_kind_of_response_arrives_as_with_http_1() {
    let server = setup().start();
    let version = ["--write-out", " %{http_version} %{response_code}"];
    assert_eq!(text(&server, "/here", &version), "here 2 200");
    assert!(text(&server, "/none", &version).ends_with(" 2 404"));
    let head = text(&server, "/files/large.bin", &["--head"]);
    assert!(
        head.contains("content-length: 5000000\r\n") && head.starts_with("HTTP/2 200"),
        "{head}"
    );
    assert!(
        !head.contains("connection:") && !head.contains("transfer-encoding"),
        "{head}"
    );
    let head = text(&server, "/files/empty.bin", &["--head"]);
    assert!(head.contains("content-length: 0\r\n"), "{head}");
    assert!(curl(&server, "/files/large.bin", &[]).stdout == large());
    let file = server.folder().path().join("public/large.bin");
    let sent = format!("@{}", file.display());
    assert!(curl(&server, "/echo", &["--data-binary", &sent]).stdout == large());
    // Without a length, and with cookies in several fields.
    let chunked = ["--header", "transfer-encoding: chunked", "--data-binary", "abc"];
    assert_eq!(text(&server, "/echo", &chunked), "abc");
    let cookies = [
        "--header",
        "cookie: a=1",
        "--header",
        "cookie: b=2",
        "--header",
        "host: example.org",
    ];
    assert_eq!(
        text(&server, "/echo", &cookies),
        "{\"cookie\":\"a=1; b=2\",\"host\":\"example.org\"}"
    );
    let options = text(&server, "/here", &["--request", "OPTIONS", "--include"]);
    assert!(options.contains("allow: "), "{options}");
}

#[test]
fn a_worker_streams_in_both_directions() {
    let code = "
        import { router } from 'forebay';
        const app = router();
        app.post('/count', async (request) => {
          let bytes = 0;
          for await (const piece of request.stream()) bytes += piece.length;
          return { bytes };
        });
        app.get('/stream', async function* () { for (let n = 0; n < 1000; n++) yield `${n}\\n`; });
        export default app;
    ";
    let server = node(code, ONE_WORKER)
        .server("body_bytes_max = \"16MiB\"")
        .file("large.bin", large())
        .start();
    wait_until("the pool", || server.get("/stream").status == 200);
    let file = server.folder().path().join("large.bin");
    let sent = format!("@{}", file.display());
    assert_eq!(
        text(&server, "/count", &["--data-binary", &sent]),
        "{\"bytes\":5000000}"
    );
    let lines = text(&server, "/stream", &[]);
    assert_eq!((lines.lines().count(), lines.lines().last()), (1000, Some("999")));
}

/// Runs a test's client.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let limited = tokio::time::timeout(Duration::from_mins(1), test);
        limited.await.expect("the test ends in time");
    });
}

/// Waits for a state of the server, while the connection goes on.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Jobs that have been accepted and are not over.
pub(crate) fn running(server: &Server) -> u64 {
    let jobs = |what: &str| metric(server, &format!("forebay_pool_jobs_{what}_total{{pool=\"api\"}}"));
    jobs("accepted").saturating_sub(jobs("answered") + jobs("cancelled"))
}

/// A connection, which is driven beside the test.
pub(crate) async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    // A stream that is not read keeps its own window, and not all of the connection's.
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(1 << 20);
    let (client, connection) = builder.handshake(stream).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    client.ready().await.expect("it takes requests")
}

pub(crate) fn get(path: &str) -> Request<()> {
    Request::get(format!("http://localhost{path}"))
        .body(())
        .expect("a request")
}

pub(crate) async fn whole(response: Response<h2::RecvStream>) -> Vec<u8> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("it arrives");
        body.flow_control()
            .release_capacity(piece.len())
            .expect("it was received");
        bytes.extend_from_slice(&piece);
    }
    bytes
}

#[test]
fn a_slow_reader_of_one_stream_holds_nobody_up() {
    let server = setup().start();
    run(async {
        let mut client = connect(server.address()).await;
        // Its body is not taken until all others have theirs.
        let (slow, _) = client
            .send_request(get("/files/large.bin"), true)
            .expect("it is sent");
        let slow = slow.await.expect("its head comes");
        for _ in 0..300 {
            client = client.ready().await.expect("there is room for another");
            let (response, _) = client.send_request(get("/here"), true).expect("it is sent");
            assert_eq!(whole(response.await.expect("it is answered")).await, b"here");
        }
        assert!(whole(slow).await == large());
    });
}

#[test]
fn requests_of_one_connection_are_answered_at_the_same_time() {
    let code =
        "export default async () => { await new Promise((done) => setTimeout(done, 300)); return 'slow'; };";
    let server = node(code, "workers = { min = 1, max = 1 }\nconcurrency = 100").start();
    wait_until("the pool", || server.get("/").status == 200);
    run(async {
        let mut client = connect(server.address()).await;
        let mut responses = Vec::new();
        let begun = std::time::Instant::now();
        for _ in 0..100 {
            client = client.ready().await.expect("there is room for another");
            responses.push(client.send_request(get("/"), true).expect("it is sent").0);
        }
        for response in responses {
            assert_eq!(whole(response.await.expect("it is answered")).await, b"slow");
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "one after the other takes 30 s"
        );
    });
}

#[test]
fn limits_hold_as_with_http_1() {
    let code = "export default async (request) => { await request.bytes(); await new Promise(() => {}); };";
    let server = node(code, ONE_WORKER)
        .server("body_bytes_max = 1000\ndeadline = \"2s\"\nheader_bytes_max = \"4KiB\"")
        .start();
    run(async {
        let mut client = connect(server.address()).await;
        let post = || Request::post("http://localhost/").body(()).expect("a request");
        // More than is allowed, without saying so.
        let (response, mut body) = client.send_request(post(), false).expect("it is sent");
        body.send_data(Bytes::from(vec![0; 2000]), false)
            .expect("there is room");
        assert_eq!(response.await.expect("it is answered").status(), 413);
        client = client.ready().await.expect("the connection goes on");
        let (response, _) = client.send_request(get("/"), true).expect("it is sent");
        assert_eq!(
            response.await.expect("it is answered").status(),
            504,
            "the deadline"
        );
        client = client.ready().await.expect("the connection goes on");
        let mut long = get("/");
        long.headers_mut()
            .insert("x-long", "x".repeat(5000).parse().expect("a value"));
        let (response, _) = client.send_request(long, true).expect("it is sent");
        assert_eq!(response.await.expect("it is answered").status(), 431);
    });
}

#[test]
fn a_client_may_send_the_rest_of_a_body_whose_request_is_answered_already() {
    let server = Setup::new("[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n")
        .server("body_bytes_max = 1000")
        .start();
    run(async {
        let mut client = connect(server.address()).await;
        for (length, is_taken) in [(5_000, true), (400_000, false)] {
            let post = Request::post("http://localhost/here").header("content-length", length);
            let post = post.body(()).expect("a request");
            let (response, mut body) = client.send_request(post, false).expect("it is sent");
            let response = response.await.expect("it is answered");
            assert_eq!(response.status(), 413);
            whole(response).await;
            // What the server has said of the stream before is known once this is answered.
            client = client.ready().await.expect("the connection goes on");
            let (other, _) = client.send_request(get("/here"), true).expect("it is sent");
            assert_eq!(whole(other.await.expect("it is answered")).await, b"here");
            client = client.ready().await.expect("the connection goes on");
            body.send_data(Bytes::from(vec![0; length]), is_taken)
                .expect("the stream is open");
            if !is_taken {
                let reset = poll_fn(|cx| body.poll_reset(cx)).await;
                assert_eq!(reset.expect("the connection goes on"), Reason::NO_ERROR);
            }
        }
    });
}

#[test]
fn a_client_that_resets_its_stream_cancels_the_job() {
    let code = "export default async (request, ctx) => { await new Promise((done) => ctx.signal.addEventListener('abort', done)); };";
    let server = node(code, ONE_WORKER).admin().start();
    run(async {
        let mut client = connect(server.address()).await;
        let (response, mut stream) = client.send_request(get("/"), true).expect("it is sent");
        until("it runs", || running(&server) == 1).await;
        stream.send_reset(Reason::CANCEL);
        drop(response);
        until("it ends", || running(&server) == 0).await;
    });
}

#[test]
fn who_resets_without_end_is_sent_away_and_hurts_nobody() {
    let server = setup().admin().start();
    run(async {
        let mut client = connect(server.address()).await;
        for _ in 0..20_000 {
            // The server ends the connection at some point.
            let Ok(ready) = client.clone().ready().await else {
                break;
            };
            client = ready;
            let Ok((_, mut stream)) = client.send_request(get("/files/large.bin"), true) else {
                break;
            };
            stream.send_reset(Reason::CANCEL);
            tokio::task::yield_now().await;
        }
        drop(client);
    });
    assert_eq!(text(&server, "/here", &[]), "here");
    wait_until("its connection to end", || {
        metric(&server, "forebay_connections_open") == 0
    });
}

#[test]
fn a_server_that_stops_answers_what_it_has_accepted() {
    let code =
        "export default async () => { await new Promise((done) => setTimeout(done, 500)); return 'done'; };";
    let mut server = node(code, ONE_WORKER).admin().start();
    wait_until("the pool", || server.get("/").status == 200);
    run(async {
        let mut client = connect(server.address()).await;
        let (response, _) = client.send_request(get("/"), true).expect("it is sent");
        until("it runs", || running(&server) == 1).await;
        server.terminate();
        let response = response.await.expect("it is answered");
        assert_eq!(whole(response).await, b"done");
        client.ready().await.expect_err("no more requests are taken");
    });
    assert!(server.wait().success());
}

#[test]
fn the_access_log_has_the_protocol() {
    let server = setup().argument("--access-log=on").start();
    assert_eq!(text(&server, "/here", &[]), "here");
    server.wait_for_log(&[
        "\"path\":\"/here\"",
        "\"protocol\":\"HTTP/2.0\"",
        "\"status\":200",
        "\"bytes\":4",
    ]);
}

#[test]
fn over_tls_the_client_chooses() {
    let authority = crate::certificates::issuer("authority");
    let (certificate, key) = crate::certificates::for_name(&authority, "localhost", 2020..2100);
    let config = format!("[tls.a]\ncert = \"a.pem\"\nkey = \"a.key\"\n{ROUTES}");
    let server = Setup::new(&config)
        .listen("\"https://127.0.0.1:0\"")
        .file("a.pem", certificate.pem())
        .file("a.key", key.serialize_pem())
        .file("echo.mjs", "export default (request) => request.bytes();")
        .file("public/large.bin", large())
        .start();
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let url = format!("{}/files/large.bin", server.urls()[0]);
        let write_out = "%{http_version} %{size_download}";
        let output = [
            "--insecure",
            "--output",
            "/dev/null",
            option,
            "--write-out",
            write_out,
            &url,
        ];
        let output = forebay_testkit::curl(output);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{version} 5000000")
        );
    }
}

#[test]
fn bodies_that_do_not_come_and_methods_of_proxies_are_refused() {
    let server = setup().server("body_timeout = \"300ms\"").start();
    run(async {
        let mut client = connect(server.address()).await;
        let post = Request::post("http://localhost/echo")
            .body(())
            .expect("a request");
        let (response, mut body) = client.send_request(post, false).expect("it is sent");
        body.send_data(Bytes::from("a part"), false)
            .expect("there is room");
        assert_eq!(response.await.expect("it is answered").status(), 408);
        client = client.ready().await.expect("the connection goes on");
        let tunnel = Request::connect("localhost:443").body(()).expect("a request");
        let (response, _) = client.send_request(tunnel, false).expect("it is sent");
        assert_eq!(response.await.expect("it is answered").status(), 400);
    });
}

#[test]
fn a_body_of_another_length_than_its_field_says_is_refused() {
    let server = setup().start();
    run(async {
        for (announced, sent) in [(5, "abc"), (5, "abcdefgh"), (0, "a")] {
            let mut client = connect(server.address()).await;
            let post = Request::post("http://localhost/echo")
                .header("content-length", announced)
                .body(())
                .expect("a request");
            let (response, mut body) = client.send_request(post, false).expect("it is sent");
            // The server may have reset the stream by now.
            let _ = body.send_data(Bytes::from(sent), true);
            let error = response.await.expect_err("it is not answered");
            assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR), "{announced} {sent}");
        }
    });
}

#[test]
fn who_leaves_before_the_answer_is_in_the_access_log() {
    let code = "export default async (request, ctx) => { await new Promise((done) => ctx.signal.addEventListener('abort', done)); };";
    let server = node(code, ONE_WORKER).admin().argument("--access-log=on").start();
    run(async {
        let mut client = connect(server.address()).await;
        let (response, _) = client.send_request(get("/left"), true).expect("it is sent");
        until("it runs", || running(&server) == 1).await;
        drop((response, client));
    });
    server.wait_for_log(&["\"path\":\"/left\"", "\"status\":0"]);
}

#[test]
fn a_feed_of_changes_ends_when_the_server_stops() {
    let config = "[store]\npath = \"data\"\n[store.access]\nPerson = { read = \"public\" }\n[[route]]\npath = \"/store/*\"\nstore = {}\n";
    let mut server = Setup::new(config).server("drain_max = \"10s\"").start();
    run(async {
        let mut client = connect(server.address()).await;
        let (response, _) = client
            .send_request(get("/store:changes"), true)
            .expect("it is sent");
        let mut body = response.await.expect("its head comes").into_body();
        let first = body.data().await.expect("a beat").expect("it arrives");
        assert!(first.starts_with(b":\nid: "), "{first:?}");
        server.terminate();
        assert!(
            body.data()
                .await
                .is_none_or(|piece| piece.is_ok_and(|piece| piece.is_empty()))
        );
    });
    assert!(server.wait().success());
}
