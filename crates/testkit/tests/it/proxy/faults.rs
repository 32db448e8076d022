//! Servers behind that are slow, broken, hostile or gone, and clients that are.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use forebay_testkit::{Client, Setup, wait_for, wait_until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::{reload::reload, support::node};

use super::{MIRROR, answers, before, detail, proxy, read_head, upstream};

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
