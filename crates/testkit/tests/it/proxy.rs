//! Routes with `proxy`: requests that other servers answer, well and badly.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use forebay_testkit::{Client, Server, Setup, bun, command, wait_for, wait_until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

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
fn answers(bytes: &'static [u8]) -> SocketAddr {
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
fn a_response_that_is_cut_off_is_never_taken_for_a_whole_one() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nabc"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
    ] {
        let server = before(answers(bytes));
        let mut client = server.connect();
        client.request("GET", "/");
        if let Ok(answer) = client.try_response("GET") {
            assert!(!answer.whole || answer.status == 502, "{answer:?}");
        }
        let said = server.wait_for_log(&["forebay::upstream", "cut its response off"]);
        assert!(said.contains("127.0.0.1"), "{said}");
    }
}

#[test]
fn a_response_that_could_be_read_in_two_ways_is_refused() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3, 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nx: a\r\n folded\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nx : a\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/0.9 200 OK\r\n\r\nabc",
    ] {
        let server = before(answers(bytes));
        let (status, detail) = detail(&server, "/");
        let named = detail.contains("is not valid HTTP") || detail.contains("closed the connection");
        assert!(
            status == 502 && named,
            "{:?}: {status} {detail}",
            String::from_utf8_lossy(bytes)
        );
    }
}

#[test]
fn the_head_of_a_response_has_a_bound() {
    let endless = upstream(|mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream
            .write_all(b"x: 0123456789012345678901234567890123456789\r\n")
            .is_ok()
        {}
    });
    let (status, detail) = detail(&before(endless), "/");
    assert!(
        status == 502 && detail.contains("is not valid HTTP"),
        "{status} {detail}"
    );
}

#[test]
fn a_server_may_answer_before_it_has_read_the_request() {
    let early = upstream(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        read_head(&mut reader);
        let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno");
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
fn a_server_that_never_answers_costs_the_deadline_and_no_more() {
    let (sender, given_up) = mpsc::channel();
    let silent = upstream(move |mut stream| {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        let _ = sender.send(());
    });
    let server = proxy(&[format!("http://{silent}")], "", "deadline = \"300ms\"").start();
    let (status, detail) = detail(&server, "/");
    assert_eq!(status, 504);
    assert!(
        detail.contains("had not answered by the request's deadline"),
        "{detail}"
    );
    given_up
        .recv_timeout(Duration::from_secs(20))
        .expect("its connection is closed");
}

#[test]
fn a_server_that_accepts_no_connection_is_given_up() {
    // A full backlog leaves further connections unanswered.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("a free port");
    full.listen(0).expect("it listens");
    let address = full.local_addr().expect("bound").as_socket().expect("an address");
    let _waiting: Vec<TcpStream> = (0..4)
        .filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok())
        .collect();
    let server = proxy(&[format!("http://{address}")], "connect_timeout = \"200ms\"", "").start();
    let (status, detail) = detail(&server, "/");
    assert_eq!(status, 502);
    assert!(
        detail.contains("accepted no connection within 200ms (connect_timeout)"),
        "{detail}"
    );
}

#[test]
fn a_response_that_stalls_is_cut_off() {
    let stalled = upstream(|mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc");
        let _ = stream.read(&mut [0]);
    });
    let server = proxy(&[format!("http://{stalled}")], "read_timeout = \"300ms\"", "").start();
    let mut client = server.connect();
    client.request("GET", "/");
    assert!(client.try_response("GET").is_ok_and(|answer| !answer.whole));
    server.wait_for_log(&["sent nothing for 300ms (read_timeout)"]);
}

#[test]
fn another_server_answers_where_one_cannot_be_reached() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("bound");
    let there = node(MIRROR, "").start();
    let servers = [format!("http://{gone}"), format!("http://{}", there.address())];
    let server = proxy(&servers, "fail_timeout = \"1h\"", "").admin().start();
    let mut client = server.connect();
    for number in 0..20 {
        client.post("/echo", format!("{number}").as_bytes());
        assert_eq!(client.response().text(), number.to_string());
    }
    let status = server.admin().get("/status").json();
    let of: Vec<&Value> = status["proxies"][0]["servers"]
        .as_array()
        .expect("two")
        .iter()
        .collect();
    assert_eq!(
        (&of[0]["up"], &of[1]["up"]),
        (&false.into(), &true.into()),
        "{status}"
    );
    assert_eq!(of[0]["failures"], 3, "it is left alone after fails_max");
    assert_eq!((&of[1]["requests"], &of[1]["failures"]), (&20.into(), &0.into()));
    let metrics = server.admin().get("/metrics");
    let up = format!("forebay_proxy_server_up{{proxy=\"app\",server=\"http://{gone}\"}} 0");
    assert!(metrics.text().contains(&up), "{}", metrics.text());
    server.wait_for_log(&["a server fails and gets no requests for a while"]);
}

#[test]
fn with_no_server_left_the_error_names_the_last_one() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("bound");
    let server = before(gone);
    let (status, detail) = detail(&server, "/");
    assert_eq!(status, 502);
    assert!(
        detail.contains(&format!("cannot connect to http://{gone}")),
        "{detail}"
    );
}

#[test]
fn only_what_may_be_done_twice_is_sent_again() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    // The first request of each kind is read, and its connection closed.
    let fickle = upstream(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        read_head(&mut reader);
        if counted.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let servers = [
        format!("http://{fickle}"),
        format!("http://localhost:{}", fickle.port()),
    ];
    let server = proxy(&servers, "fails_max = 0", "").start();
    assert_eq!(server.get("/").text(), "ok");
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    let answer = server.post("/", b"order");
    assert_eq!(answer.status, 502);
    assert!(
        answer
            .detail()
            .contains("closed the connection before it answered"),
        "{}",
        answer.detail()
    );
    assert_eq!(seen.load(Ordering::SeqCst), 3, "the order was sent once");
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
fn a_slow_reader_holds_back_the_server_and_costs_little_memory() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let server = before(upstream(move |mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        let piece = vec![b'x'; 100_000];
        while stream.write_all(&piece).is_ok() {
            counted.fetch_add(100_000, Ordering::SeqCst);
        }
    }));
    assert_eq!(server.get("/here-nothing").status, 200);
    let before_it = server.process().rss_bytes();
    let mut client = server.connect();
    client.request("GET", "/");
    // It is stuck once nothing more is taken for a while.
    let mut last = 0;
    let mut same = 0;
    wait_until("the server behind to be held back", || {
        let now = sent.load(Ordering::SeqCst);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same > 20
    });
    let more = server.process().rss_bytes().saturating_sub(before_it);
    assert!(more < 16 << 20, "{more} bytes more, and {last} were sent");
}

#[test]
fn no_server_gets_more_than_it_may_have() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let held = upstream(move |mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = wait.lock().expect("no panic").recv();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    });
    let server = proxy(&[format!("http://{held}")], "in_flight_max = 2", "")
        .admin()
        .start();
    let mut clients: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.request("GET", "/");
    }
    let in_flight = || server.admin().get("/status").json()["proxies"][0]["servers"][0]["in_flight"].clone();
    wait_until("both to be there", || in_flight() == 2);
    let answer = server.get("/");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert!(
        answer.detail().contains("has 2 requests already (in_flight_max)"),
        "{}",
        answer.detail()
    );
    for _ in 0..2 {
        go.send(()).expect("it waits");
    }
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    wait_until("the places to be free", || in_flight() == 0);
}

#[test]
fn health_checks_take_a_server_out_and_back_in() {
    let handler = r"
        import { router, reply } from 'forebay';
        import { existsSync } from 'node:fs';
        export default router()
          .get('/health', () => reply('', { status: existsSync('ill') ? 503 : 200 }))
          .get('/*', () => process.env.NAME);
    ";
    let behind = |name: &str| {
        node(
            handler,
            &format!("workers = {{ min = 1, max = 1 }}\nenv = {{ NAME = \"{name}\" }}"),
        )
        .start()
    };
    let (first, second) = (behind("first"), behind("second"));
    let servers = [&first, &second].map(|server| format!("http://{}", server.address()));
    let check = "check = { path = \"/health\", interval = \"50ms\" }";
    let server = proxy(&servers, check, "").start();
    let names = || -> Vec<String> { (0..6).map(|_| server.get("/").text().to_owned()).collect() };
    let both = |names: &[String]| {
        ["first", "second"]
            .iter()
            .all(|name| names.iter().any(|found| found == name))
    };
    wait_until("both to answer", || both(&names()));
    first.folder().write("ill", "");
    server.wait_for_log(&["a server is down", "503"]);
    assert!(names().iter().all(|name| name == "second"));
    second.folder().write("ill", "");
    let answer = wait_for("none to be left", || {
        Some(server.get("/")).filter(|answer| answer.status == 503)
    });
    assert!(
        answer.detail().contains("no server of `app` is up"),
        "{}",
        answer.detail()
    );
    std::fs::remove_file(first.folder().path().join("ill")).expect("it is there");
    std::fs::remove_file(second.folder().path().join("ill")).expect("it is there");
    wait_until("both to be back", || both(&names()));
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

/// A request to go over to another protocol.
fn upgrade(protocol: &str) -> String {
    format!("GET /chat HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: {protocol}\r\n\r\n")
}

#[test]
fn a_connection_can_go_over_to_another_protocol() {
    let echo = upstream(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        let head = read_head(&mut reader);
        let asks = |line: &str| head.iter().any(|found| found.eq_ignore_ascii_case(line));
        if !asks("upgrade: chat") || !asks("connection: upgrade") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain");
            return;
        }
        // The first bytes of the new protocol come with the head.
        let _ = stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\nx-room: 1\r\n\r\nwelcome");
        let _ = std::io::copy(&mut reader, &mut stream);
    });
    let server = before(echo);
    let mut client = server.connect();
    // The client does not wait for the response.
    client.send(format!("{}early", upgrade("chat")));
    let head = client.head().expect("a head");
    assert_eq!(
        (head.status, head.header("upgrade"), head.header("connection")),
        (101, Some("chat"), Some("upgrade"))
    );
    assert_eq!(
        (head.header("x-room"), head.header("content-length")),
        (Some("1"), None)
    );
    let mut seen = Vec::new();
    let mut read_until = |client: &mut Client, end: &str| {
        while !String::from_utf8_lossy(&seen).ends_with(end) {
            seen.extend(client.some_bytes());
        }
        seen.len()
    };
    assert_eq!(read_until(&mut client, "welcomeearly"), 12);
    client.send("later");
    read_until(&mut client, "later");
    let large = "x".repeat(3_000_000) + "end";
    let mut sender = client.another_half();
    let sending = large.clone();
    let sending = thread::spawn(move || sender.send(sending));
    assert_eq!(read_until(&mut client, "end"), 17 + large.len());
    sending.join().expect("it is sent");
    drop(client);
    // HTTP/2 behind the proxy's back is not passed on, nor an upgrade of a request with a body.
    for protocol in ["h2c", "chat, H2C"] {
        let mut client = server.connect();
        client.send(upgrade(protocol));
        assert_eq!(client.response().text(), "plain", "{protocol}");
    }
    let with_body = upgrade("chat").replace("\r\n\r\n", "\r\ncontent-length: 1\r\n\r\nx");
    let mut client = server.connect();
    client.send(with_body);
    assert_eq!(client.response().text(), "plain");
}

#[test]
fn a_tunnel_that_carries_nothing_is_closed() {
    let (sender, closed) = mpsc::channel();
    let silent = upstream(move |mut stream| {
        read_head(&mut BufReader::new(&stream));
        let _ = stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: chat\r\n\r\n");
        let _ = stream.read(&mut [0]);
        let _ = sender.send(());
    });
    let server = proxy(&[format!("http://{silent}")], "tunnel_timeout = \"300ms\"", "").start();
    let mut client = server.connect();
    client.send(upgrade("chat"));
    assert_eq!(client.head().expect("a head").status, 101);
    client.ends();
    closed
        .recv_timeout(Duration::from_secs(20))
        .expect("on both sides");
}

#[test]
fn a_switch_of_protocols_that_nobody_asked_for_is_refused() {
    let server = before(answers(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: chat\r\n\r\nhello",
    ));
    let (status, detail) = detail(&server, "/");
    assert!(status == 502, "{status} {detail}");
}

#[test]
fn a_websocket_of_bun_talks_with_a_client_of_node() {
    let script = r"
        const server = Bun.serve({
          port: 0, hostname: '127.0.0.1',
          fetch: (request, server) => server.upgrade(request) ? undefined : new Response('no'),
          websocket: { message: (socket, message) => { socket.send(message); } },
        });
        console.log(server.port);
    ";
    let mut bun = Command::new(bun())
        .args(["-e", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("Bun can be started");
    let mut port = String::new();
    BufReader::new(bun.stdout.take().expect("it is piped"))
        .read_line(&mut port)
        .expect("a line");
    let server = before(format!("127.0.0.1:{}", port.trim()).parse().expect("an address"));
    let client = format!(
        "const socket = new WebSocket('ws://{}/room');
         let left = 1000;
         socket.onopen = () => {{ for (let at = 0; at < 1000; at++) socket.send('message ' + at + 'x'.repeat(at * 7)); }};
         socket.onmessage = ({{ data }}) => {{
           const at = 1000 - left;
           if (data !== 'message ' + at + 'x'.repeat(at * 7)) process.exit(3);
           if (--left === 0) socket.close(1000, 'done');
         }};
         socket.onclose = ({{ code }}) => process.exit(code === 1000 && left === 0 ? 0 : 4);",
        server.address()
    );
    let output = Command::new("node")
        .args(["-e", &client])
        .output()
        .expect("Node can be started");
    bun.kill().expect("it runs");
    bun.wait().expect("it ends");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_client_of_http2_is_passed_on_too() {
    let upstream = Runtime::Node.pool(MIRROR, "").start();
    let server = before(upstream.address());
    let url = |path: &str| format!("http://{}{path}", server.address());
    let curl = |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--max-time",
            "20",
            "--http2-prior-knowledge",
        ]);
        command
            .args(arguments)
            .output()
            .expect("curl can be started")
            .stdout
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

#[test]
fn no_request_can_be_hidden_in_another_one() {
    let upstream = Setup::new(
        "[log]\naccess = true\nformat = \"json\"\n[[route]]\npath = \"/*\"\nmethods = [\"GET\", \"POST\"]\nrespond = { text = \"well\" }\n",
    )
    .start();
    let server = before(upstream.address());
    let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
    let length = hidden.len();
    let chunked = format!("0\r\n\r\n{hidden}");
    for (fields, body) in [
        // The length in two ways, or in one that two programs could read differently.
        (
            format!("content-length: {}\r\ntransfer-encoding: chunked", chunked.len()),
            chunked.clone(),
        ),
        (
            format!("transfer-encoding: chunked\r\ncontent-length: {}", chunked.len()),
            chunked.clone(),
        ),
        (
            format!("content-length: 0\r\ncontent-length: {length}"),
            hidden.to_owned(),
        ),
        (format!("content-length: {length}, 0"), hidden.to_owned()),
        (format!("content-length: +{length}"), hidden.to_owned()),
        (format!("content-length: 0x{length:x}"), hidden.to_owned()),
        ("transfer-encoding: xchunked".to_owned(), chunked.clone()),
        ("transfer-encoding: chunked, identity".to_owned(), chunked.clone()),
        (
            "transfer-encoding: identity\r\ntransfer-encoding: chunked".to_owned(),
            chunked.clone(),
        ),
        ("transfer-encoding : chunked".to_owned(), chunked.clone()),
        ("transfer-encoding:\u{b}chunked".to_owned(), chunked.clone()),
        (" transfer-encoding: chunked".to_owned(), chunked.clone()),
        ("x: y\ntransfer-encoding: chunked".to_owned(), chunked.clone()),
        ("x: y\rtransfer-encoding: chunked".to_owned(), chunked.clone()),
        (
            format!("connection: content-length\r\ncontent-length: {length}"),
            hidden.to_owned(),
        ),
        // Chunks that end in another way than they say.
        (
            "transfer-encoding: chunked".to_owned(),
            format!("{length:x};\n{hidden}\r\n0\r\n\r\n"),
        ),
        (
            "transfer-encoding: chunked".to_owned(),
            format!("0{length:x} \r\n{hidden}\r\n0\r\n\r\n"),
        ),
        (
            "transfer-encoding: chunked".to_owned(),
            format!("1\r\nxx{hidden}"),
        ),
        (
            "transfer-encoding: chunked".to_owned(),
            format!("10000000000000000\r\n{hidden}"),
        ),
        (
            "transfer-encoding: chunked".to_owned(),
            format!("0\r\nx: y\n\r\n{hidden}"),
        ),
    ] {
        let mut client = server.connect();
        // Whatever is not refused is one request, whose body this is: the connection ends after it.
        let close = "connection: close\r\n";
        let _ = client
            .try_send(format!("POST /one HTTP/1.1\r\nhost: a\r\n{close}{fields}\r\n\r\n{body}").as_bytes());
        client.finish_sending();
        while client.try_response("POST").is_ok() {}
    }
    // What has arrived behind is in its log once this is.
    assert_eq!(server.get("/last").text(), "well");
    upstream.wait_for_log(&["\"path\":\"/last\""]);
    let log = upstream.log();
    assert!(!log.contains("/hidden"), "{log}");
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

#[test]
fn a_transfer_coding_that_is_not_understood_is_refused() {
    let coded = answers(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let (status, detail) = detail(&before(coded), "/");
    assert!(
        status == 502 && detail.contains("transfer coding"),
        "{status} {detail}"
    );
}

#[test]
fn a_client_that_is_slow_to_send_is_not_the_servers_failure() {
    let well = node(MIRROR, "").start();
    let keys = "fails_max = 1\nfail_timeout = \"1h\"";
    let server = proxy(
        &[format!("http://{}", well.address())],
        keys,
        "deadline = \"300ms\"",
    )
    .admin()
    .start();
    for _ in 0..3 {
        let mut client = server.connect();
        client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nabc");
        assert_eq!(client.response().status, 504);
    }
    let status = server.admin().get("/status").json();
    let of = &status["proxies"][0]["servers"][0];
    assert_eq!(
        (&of["up"], &of["failures"]),
        (&true.into(), &0.into()),
        "{status}"
    );
}

#[test]
fn responses_that_are_cut_off_in_a_row_are_failures_in_a_row() {
    let cut = answers(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nabc");
    let well = node(MIRROR, "").start();
    let servers = [format!("http://{cut}"), format!("http://{}", well.address())];
    let server = proxy(&servers, "fail_timeout = \"1h\"", "").admin().start();
    for _ in 0..20 {
        let mut client = server.connect();
        client.request("GET", "/");
        let _ = client.try_response("GET");
    }
    let status = server.admin().get("/status").json();
    let of = &status["proxies"][0]["servers"][0];
    assert_eq!(
        (&of["up"], &of["failures"]),
        (&false.into(), &3.into()),
        "{status}"
    );
}

#[test]
fn checks_are_requests_of_their_own_that_nothing_else_hears_of() {
    let (sender, hosts) = mpsc::channel();
    // It is well, but closes the connection of every other request.
    let odd = upstream(move |mut stream| {
        let head = read_head(&mut BufReader::new(&stream));
        if head[0].contains("/health") {
            let host = head.iter().find(|line| line.starts_with("host: ")).cloned();
            let _ = sender.send(host.unwrap_or_default());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let well = node(MIRROR, "").start();
    let servers = [format!("http://{odd}"), format!("http://{}", well.address())];
    let keys = "host = \"inner.example\"\nfail_timeout = \"1h\"\ncheck = { path = \"/health\", interval = \"20ms\" }";
    let server = proxy(&servers, keys, "").admin().start();
    for _ in 0..20 {
        assert_eq!(
            hosts
                .recv_timeout(Duration::from_secs(20))
                .expect("it is checked"),
            "host: inner.example"
        );
    }
    let of = || server.admin().get("/status").json()["proxies"][0]["servers"][0].clone();
    assert_eq!(
        (&of()["requests"], &of()["failures"], &of()["up"]),
        (&0.into(), &0.into(), &true.into())
    );
    wait_until("the failures of requests to count", || {
        assert_eq!(server.get("/").status, 200, "the other one answers");
        of()["up"] == false
    });
    for _ in 0..5 {
        hosts
            .recv_timeout(Duration::from_secs(20))
            .expect("it is checked");
    }
    assert_eq!(of()["up"], false, "a check that succeeds does not undo that");
}

#[test]
fn a_reload_ends_the_checks_of_before_though_requests_go_on() {
    let (sender, checked) = mpsc::channel();
    let held = upstream(move |mut stream| {
        let head = read_head(&mut BufReader::new(&stream));
        if head[0].contains("/health") {
            let _ = sender.send(());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        } else {
            let _ = stream.read(&mut [0]);
        }
    });
    let config = format!(
        "[proxy.app]\nservers = [\"http://{held}\"]\ncheck = {{ path = \"/health\", interval = \"20ms\" }}\n\
         [[route]]\npath = \"/*\"\nproxy = \"app\"\n"
    );
    let server = Setup::new(&config).server("deadline = \"10m\"").admin().start();
    let mut waiting = server.connect();
    waiting.request("GET", "/held");
    checked
        .recv_timeout(Duration::from_secs(20))
        .expect("it is checked");
    server.reconfigure("[[route]]\npath = \"/\"\nrespond = { text = \"here\" }\n");
    assert_eq!(reload(&server).status, 200);
    wait_until("no more checks", || {
        while checked.try_recv().is_ok() {}
        checked.recv_timeout(Duration::from_millis(500)).is_err()
    });
}

#[test]
fn slow_readers_of_one_connection_of_http2_hold_up_nobody() {
    let upstream = Setup::new(
        "[[route]]\npath = \"/files/*\"\nfiles = \"public\"\n[[route]]\npath = \"/small\"\nrespond = { text = \"small\" }\n",
    )
    .file("public/large.bin", vec![7; 30_000_000])
    .start();
    let server = proxy(&[format!("h2c://{}", upstream.address())], "", "")
        .threads(1)
        .start();
    let stalled: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.request("GET", "/files/large.bin");
            assert!(client.head().is_ok());
            client
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.get("/small").text(), "small");
    }
    drop(stalled);
}
