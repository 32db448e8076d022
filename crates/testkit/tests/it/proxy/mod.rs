//! Routes with `proxy`: requests that other servers answer, well and badly.

mod faults;
mod tunnels;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use forebay_testkit::{Server, Setup, command};
use serde_json::Value;

use crate::{
    certificates::{for_name, issuer},
    reload::reload,
    support::{Runtime, node},
};

/// Answers with what it has been asked for.
const MIRROR: &str = r"
import { router, reply } from 'forebay';

const mirror = async (request) => ({
  method: request.method,
  path: request.path,
  query: [...request.query],
  headers: [...request.headers],
  body: await request.text(),
});
export default router()
  .get('/teapot', () => reply('short and stout', { status: 418, headers: { 'x-handle': 'a', connection: 'x-handle' } }))
  .post('/echo', async (request) => reply(await request.bytes(), { headers: { 'content-type': 'text/x' } }))
  .get('/stream', async function* () { yield 'a'; yield 'b'.repeat(70000); yield 'c'; })
  .all('/*', mirror);
";

/// A server that passes everything on to servers of these addresses.
fn proxy(servers: &[String], keys: &str, route: &str) -> Setup {
    Setup::new(&format!(
        "[proxy.app]\nservers = {servers:?}\n{keys}\n[[route]]\npath = \"/*\"\nproxy = \"app\"\n{route}\n"
    ))
}

/// A server that passes everything on to another one.
fn before(address: SocketAddr) -> Server {
    proxy(&[format!("http://{address}")], "", "body_bytes_max = \"64MiB\"").start()
}

/// A server that does with each connection what it is told to; it ends with the test.
fn upstream(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads a head and returns its lines.
fn read_head(stream: &mut impl std::io::BufRead) -> Vec<String> {
    let lines = stream.lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).collect()
}

/// A server that answers every request with these bytes and then closes the connection.
pub(crate) fn answers(bytes: &'static [u8]) -> SocketAddr {
    upstream(move |mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = stream.write_all(bytes);
    })
}

fn detail(server: &Server, target: &str) -> (u16, String) {
    let answer = server.get(target);
    (answer.status, answer.detail())
}

#[test]
fn requests_and_responses_pass_over_every_transport() {
    let authority = issuer("authority");
    let (certificate, key) = for_name(&authority, "localhost", 2020..2100);
    let config = "
        [tls.up]
        cert = \"up.pem\"
        key = \"up.key\"
        [pool.api]
        handler = \"api.mjs\"
        [[route]]
        path = \"/*\"
        pool = \"api\"
    ";
    let upstream = Setup::new(config)
        .listen("\"127.0.0.1:0\", \"unix:up.socket\", \"https://127.0.0.1:0\"")
        .server("body_bytes_max = \"64MiB\"")
        .file("api.mjs", MIRROR)
        .file("up.pem", certificate.pem())
        .file("up.key", key.serialize_pem())
        .start();
    let urls = upstream.urls();
    let port = urls[2].rsplit(':').next().expect("a port");
    let large: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    for address in [
        urls[0].clone(),
        urls[0].replace("http:", "h2c:"),
        format!("unix:{}", upstream.folder().path().join("up.socket").display()),
        format!("https://localhost:{port}"),
    ] {
        let server = proxy(
            std::slice::from_ref(&address),
            "ca = \"ca.pem\"",
            "body_bytes_max = \"64MiB\"",
        )
        .file("ca.pem", authority.pem())
        .start();
        let mut client = server.connect();
        for _ in 0..3 {
            let answer = client.get("/a%20b?x=1&y");
            assert_eq!(answer.status, 200, "{address}");
            let seen = answer.json();
            assert_eq!(
                (&seen["method"], &seen["path"]),
                (&"GET".into(), &"/a%20b".into()),
                "{address}"
            );
            assert_eq!(seen["query"], serde_json::json!([["x", "1"], ["y", ""]]));
        }
        let answer = client.get("/teapot");
        assert_eq!(
            (answer.status, answer.text()),
            (418, "short and stout"),
            "{address}"
        );
        client.post("/echo", &large);
        let answer = client.response();
        assert!(answer.body == large, "{address}: {} bytes", answer.body.len());
        assert_eq!(answer.header("content-type"), Some("text/x"));
        let answer = client.get("/stream");
        assert_eq!(
            (answer.header("content-length"), answer.body.len()),
            (None, 70002)
        );
        client.send(
            "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        );
        assert_eq!(client.response().text(), "hello", "{address}");
        client.request("HEAD", "/teapot");
        let answer = client.response_to("HEAD");
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (418, Some("15")),
            "{address}"
        );
        assert_eq!(client.get("/nowhere").status, 200);
    }
}

#[test]
fn the_server_behind_learns_who_asks_and_only_from_this_one() {
    let upstream = node(MIRROR, "").start();
    let server = before(upstream.address());
    let mut client = server.connect();
    client.send(
        "GET / HTTP/1.1\r\nhost: shop.example\r\nx-forwarded-for: 6.6.6.6\r\nforwarded: for=6.6.6.6\r\n\
         x-forwarded-proto: https\r\nx-forwarded-host: evil\r\nx-real-ip: 6.6.6.6\r\nx-request-id: r1\r\n\
         connection: x-secret, content-length\r\nx-secret: 1\r\nx-kept: 2\r\nte: trailers\r\n\
         x_forwarded_for: 6.6.6.6\r\nx_forwarded_proto: https\r\n\r\n",
    );
    let seen = client.response().json();
    let headers: Vec<(String, String)> = serde_json::from_value(seen["headers"].clone()).expect("pairs");
    let value = |name: &str| {
        let mut found = headers.iter().filter(|(found, _)| found == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice");
        value
    };
    for (name, expected) in [
        ("host", Some("shop.example")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-host", Some("shop.example")),
        ("x-request-id", Some("r1")),
        ("x-kept", Some("2")),
        ("forwarded", None),
        ("x-real-ip", None),
        ("x-secret", None),
        ("x_forwarded_for", None),
        ("x_forwarded_proto", None),
        ("te", None),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
}

#[test]
fn a_path_can_be_another_one_behind() {
    let upstream = node(MIRROR, "").start();
    let config = format!(
        "[proxy.app]\nservers = [\"http://{0}\"]\nhost = \"inner\"\n\
         [[route]]\npath = \"/old/*\"\nproxy = \"app\"\nupstream_path = \"/\"\n\
         [[route]]\npath = \"/v1/*\"\nproxy = \"app\"\nupstream_path = \"/api/v2/\"\n",
        upstream.address()
    );
    let server = Setup::new(&config).start();
    for (asked, path) in [
        ("/old/a/b%2Fc?q=1", "/a/b%2Fc"),
        ("/v1/x", "/api/v2/x"),
        ("/old/", "/"),
    ] {
        let seen = server.get(asked).json();
        assert_eq!(seen["path"], path, "{asked}");
        assert!(
            seen["headers"]
                .as_array()
                .expect("pairs")
                .contains(&serde_json::json!(["host", "inner"]))
        );
    }
    assert_eq!(server.get("/older").status, 404);
}

#[test]
fn a_server_may_answer_before_it_has_read_the_request() {
    let early = upstream(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        read_head(&mut reader);
        let _ =
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno");
        // It reads on, as a server does that wants its answer to arrive.
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
    });
    let server = before(early);
    for _ in 0..3 {
        let mut client = server.connect();
        let mut sender = client.another_half();
        let sending = thread::spawn(move || {
            let body = vec![b'x'; 20_000_000];
            let length = body.len();
            sender.send(format!(
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
            ));
            // The connection ends before everything has been sent.
            let _ = sender.try_send(&body);
        });
        let answer = client.response();
        assert_eq!((answer.status, answer.text()), (403, "no"));
        sending.join().expect("it ends");
    }
}

#[test]
fn request_and_response_flow_at_the_same_time() {
    let echo = upstream(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        read_head(&mut reader);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .expect("it is read");
        // Each chunk of the request is one of the response.
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).expect("a chunk");
            let length = usize::from_str_radix(size.trim(), 16).expect("its length");
            let mut data = vec![0; length + 2];
            reader.read_exact(&mut data).expect("its bytes");
            stream.write_all(size.as_bytes()).expect("it is read");
            stream.write_all(&data).expect("it is read");
            if length == 0 {
                return;
            }
        }
    });
    let server = before(echo);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    let head = client.head().expect("the head comes before the body is whole");
    assert_eq!(head.status, 200);
    let mut seen = Vec::new();
    for piece in ["first", "second", "third"] {
        if piece != "first" {
            client.send(format!("{:x}\r\n{piece}\r\n", piece.len()));
        }
        while !String::from_utf8_lossy(&seen).contains(piece) {
            seen.extend(client.some_bytes());
        }
    }
    client.send("0\r\n\r\n");
    while !seen.ends_with(b"0\r\n\r\n") {
        seen.extend(client.some_bytes());
    }
}

#[test]
fn connections_are_kept_and_one_that_the_server_closes_is_not_missed() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    // Ten requests a connection, then it is closed without a word.
    let server = before(upstream(move |mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        for _ in 0..10 {
            if read_head(&mut reader).is_empty() {
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    }));
    let mut client = server.connect();
    for number in 0..100 {
        let method = if number % 2 == 0 { "GET" } else { "DELETE" };
        client.request(method, "/");
        assert_eq!(client.response().text(), "ok", "request {number}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 10);
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let (sender, left) = mpsc::channel();
    let slow = upstream(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        read_head(&mut reader);
        sender.send("asked").expect("the test waits");
        let _ = stream.read(&mut [0]);
        let _ = sender.send("left");
    });
    let server = before(slow);
    let mut client = server.connect();
    client.request("GET", "/");
    assert_eq!(left.recv_timeout(Duration::from_secs(20)), Ok("asked"));
    drop(client);
    assert_eq!(left.recv_timeout(Duration::from_secs(20)), Ok("left"));
}

#[test]
fn a_body_whose_client_leaves_is_never_whole() {
    let (sender, received) = mpsc::channel();
    let server = before(upstream(move |mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = sender.send(String::from_utf8_lossy(&all).into_owned());
    }));
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    thread::spawn(move || {
        // The first piece has to be on its way.
        let _ = client.is_readable_within(Duration::from_millis(300));
        drop(client);
    });
    let received = received
        .recv_timeout(Duration::from_secs(20))
        .expect("the connection is closed");
    assert!(
        received.contains("hello") && !received.contains("\r\n0\r\n"),
        "{received}"
    );
}

#[test]
fn a_reload_forgets_nothing_of_servers_that_stay() {
    let there = node(MIRROR, "").start();
    let config = format!(
        "[proxy.app]\nservers = [\"http://{}\"]\n[[route]]\npath = \"/*\"\nproxy = \"app\"\n",
        there.address()
    );
    let server = Setup::new(&config).admin().start();
    for _ in 0..3 {
        assert_eq!(server.get("/").status, 200);
    }
    let requests = || server.admin().get("/status").json()["proxies"][0]["servers"][0]["requests"].clone();
    assert_eq!(requests(), 3);
    server.reconfigure(&format!(
        "{config}\n[[route]]\npath = \"/new\"\nrespond = {{ text = \"new\" }}\n"
    ));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.get("/new").text(), "new");
    assert_eq!(requests(), 3);
    server.reconfigure(&config.replace("[[route]]", "in_flight_max = 7\n[[route]]"));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(requests(), 0, "other settings are another group");
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn the_access_log_says_which_server_answered_and_how_long_it_took() {
    let there = node(MIRROR, "").start();
    let config = format!(
        "[log]\naccess = true\nformat = \"json\"\n[proxy.app]\nservers = [\"http://{}\"]\n[[route]]\npath = \"/*\"\nproxy = \"app\"\n",
        there.address()
    );
    let server = Setup::new(&config).start();
    assert_eq!(server.get("/logged").status, 200);
    let line = server.wait_for_log(&["/logged", "forebay::access"]);
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(line["upstream"], format!("http://{}", there.address()));
    assert!(
        line["upstream_duration_us"].as_u64().expect("a number")
            <= line["duration_us"].as_u64().expect("a number")
    );
}

#[test]
fn a_stopping_server_finishes_what_it_passes_on() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let held = upstream(move |mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = wait.lock().expect("no panic").recv();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    });
    let mut server = before(held);
    let mut client = server.connect();
    client.request("GET", "/");
    server.terminate();
    server.wait_for_log(&["stopping"]);
    go.send(()).expect("it waits");
    assert_eq!(client.response().text(), "ok");
    assert!(server.wait().success());
}

#[test]
fn a_client_of_http2_is_passed_on_too() {
    let upstream = Runtime::Node.pool(MIRROR, "").start();
    let server = before(upstream.address());
    let url = |path: &str| format!("http://{}{path}", server.address());
    let curl = |arguments: &[&str]| {
        forebay_testkit::curl(["--http2-prior-knowledge"].iter().chain(arguments)).stdout
    };
    assert_eq!(curl(&[&url("/teapot")]), b"short and stout");
    assert_eq!(curl(&["--data-binary", "hello", &url("/echo")]), b"hello");
    assert_eq!(curl(&[&url("/stream")]).len(), 70002);
    // Upgrades are of HTTP/1.1.
    let seen: Value = serde_json::from_slice(&curl(&["-H", "upgrade: chat", &url("/")])).expect("JSON");
    assert!(!seen["headers"].to_string().contains("chat"), "{seen}");
}

#[test]
fn mistakes_in_the_configuration_are_named_with_their_line() {
    for (config, said) in [
        (
            "[proxy.app]\nservers = [\"127.0.0.1:3000\"]\n",
            ":2: proxy.app.servers: found \"127.0.0.1:3000\", expected a server such as",
        ),
        ("[proxy.app]\nservers = []\n", ":2: proxy.app.servers"),
        (
            "[proxy.app]\nservers = [\"http://a\"]\nbalance = \"random\"\n",
            ":3: proxy.app.balance",
        ),
        (
            "[proxy.app]\nservers = [\"http://a\"]\nca = \"no.pem\"\n",
            ":3: proxy.app.ca: there is no file",
        ),
        (
            "[proxy.app]\nservers = [\"http://a\"]\ncheck = { path = \"health\" }\n",
            ":3: proxy.app.check.path: found \"health\", expected a path",
        ),
        (
            "[proxy.app]\nservers = [\"http://a\"]\n[[route]]\npath = \"/\"\nproxy = \"ap\"\n",
            ":5: route.proxy: there is no proxy `ap` (did you mean `app`?)",
        ),
        (
            "[proxy.app]\nservers = [\"http://a\"]\n[[route]]\npath = \"/a\"\nproxy = \"app\"\nupstream_path = \"/\"\n",
            ":6: route.upstream_path: only a route whose path ends with `/*` has it",
        ),
        (
            "[proxy.app]\nservers = [\"http://a\", \"http://a\"]\n",
            ":2: proxy.app.servers: `http://a` is listed twice",
        ),
        (
            "[proxy.app]\nservers = [\"http://a\"]\nhost = \"a b\"\n",
            ":3: proxy.app.host: found \"a b\", expected a host",
        ),
        (
            "[[route]]\npath = \"/a\"\nrespond = {}\nupstream_path = \"/\"\n",
            "only a route with `proxy` has it",
        ),
    ] {
        let folder = forebay_testkit::Folder::new();
        folder.write("forebay.toml", config);
        let output = command(&["check", "-c"])
            .arg(folder.path().join("forebay.toml"))
            .output()
            .expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && errors.contains(said),
            "{config}\n{errors}"
        );
    }
}

/// A server that keeps what it is sent, and answers each request with these bytes.
fn records(bytes: &'static [u8]) -> (SocketAddr, mpsc::Receiver<String>) {
    let (sender, received) = mpsc::channel();
    let address = upstream(move |mut stream| {
        let mut all = Vec::new();
        let mut piece = vec![0; 65536];
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            all.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&all).into_owned();
            // All requests of these tests end with this.
            if text.ends_with("the end")
                || text.ends_with("the end\r\n0\r\n\r\n")
                || text.ends_with("0\r\n\r\n")
            {
                let _ = sender.send(text);
                all.clear();
                let _ = stream.write_all(bytes);
            }
        }
    });
    (address, received)
}

#[test]
fn a_body_arrives_whatever_its_method_and_its_length_are() {
    let (address, received) = records(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let server = before(address);
    let mut client = server.connect();
    for method in ["GET", "DELETE", "POST"] {
        client.send(format!(
            "{method} / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        ));
        client.send("7\r\nthe end\r\n0\r\n\r\n");
        assert_eq!(client.response().text(), "ok", "{method}");
        let sent = received
            .recv_timeout(Duration::from_secs(20))
            .expect("it is sent");
        assert!(sent.starts_with(method) && sent.contains("the end"), "{sent}");
        // One that cannot be whole at first.
        let piece = "x".repeat(100_000);
        client.send(format!(
            "{method} / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        ));
        client.send(format!("{:x}\r\n{piece}the end\r\n0\r\n\r\n", piece.len() + 7));
        assert_eq!(client.response().text(), "ok", "{method}");
        let sent = received
            .recv_timeout(Duration::from_secs(20))
            .expect("it is sent");
        assert!(
            sent.len() > 100_000 && sent.contains("transfer-encoding: chunked"),
            "{method} {}",
            sent.len()
        );
    }
    // A body of no bytes is said to be one.
    let upstream = node(MIRROR, "").start();
    let server = before(upstream.address());
    let mut client = server.connect();
    client.send("POST /none HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    let seen = client.response().json();
    assert!(
        seen["headers"]
            .as_array()
            .expect("pairs")
            .contains(&serde_json::json!(["content-length", "0"]))
    );
}

#[test]
fn a_connection_of_http_1_0_carries_one_request() {
    let (address, received) =
        records(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok");
    let server = before(address);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n7\r\nthe end\r\n0\r\n\r\n",
        );
        assert_eq!(client.response().text(), "ok");
        let sent = received
            .recv_timeout(Duration::from_secs(20))
            .expect("it is sent");
        assert!(
            sent.starts_with("POST / HTTP/1.1\r\n") && sent.contains("the end"),
            "{sent}"
        );
    }
}
