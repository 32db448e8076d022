//! The server itself, asked by a plain socket.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use forebay_load::{
    serve::{Options, ServeError, Server},
    target::Address,
};

use crate::rig::{server, server_with};

fn connect(server: &Server) -> TcpStream {
    let Address::Tcp(address) = server.address() else {
        panic!("it listens elsewhere");
    };
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// What comes back on a connection of its own, until its end.
fn talk(server: &Server, text: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(server: &Server, path: &str) -> String {
    talk(
        server,
        &format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
    )
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn every_path_answers_as_it_says() {
    let server = server();
    assert!(get(&server, "/").starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(body(&get(&server, "/")), "Hello, World!");
    for bytes in [0, 1, 100, 40_000, 1_000_000] {
        let answer = get(&server, &format!("/bytes/{bytes}"));
        assert!(answer.contains(&format!("content-length: {bytes}\r\n")));
        assert_eq!(body(&answer).len(), bytes);
    }
    let chunked = get(&server, "/chunked/10000");
    assert!(chunked.contains("transfer-encoding: chunked\r\n") && chunked.ends_with("\r\n0\r\n\r\n"));
    assert!(get(&server, "/status/503").starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    assert!(get(&server, "/nothing").starts_with("HTTP/1.1 404 "));
    assert_eq!(
        body(&talk(
            &server,
            "POST /echo HTTP/1.1\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"
        )),
        "hello"
    );
    let chunks = "POST /echo HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    assert_eq!(body(&talk(&server, chunks)), "hello");
    assert_eq!(
        body(&talk(
            &server,
            "HEAD /bytes/100 HTTP/1.1\r\nconnection: close\r\n\r\n"
        )),
        ""
    );
    assert_eq!(body(&talk(&server, "GET / HTTP/1.0\r\n\r\n")), "Hello, World!");
    assert!(talk(&server, "SSH-2.0\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn pipelined_requests_are_answered_in_order_also_when_one_is_held_back() {
    let server = server();
    let request = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n{more}\r\n");
    let all = [
        request("/bytes/1", ""),
        request("/delay/20", ""),
        request("/bytes/70000", ""),
        request("/status/404", "connection: close\r\n"),
    ];
    let answers = talk(&server, &all.concat());
    let statuses: Vec<_> = answers
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &answers[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "200", "200", "404"]);
    let stats = server.stop();
    assert_eq!(
        (
            stats.total.received,
            stats.total.answered,
            stats.accepted,
            stats.open
        ),
        (4, 4, 1, 0)
    );
    assert_eq!(stats.path("/delay/20").answered, 1);
}

#[test]
fn a_delay_holds_back_its_own_connection_only() {
    let server = server();
    let mut slow = connect(&server);
    slow.write_all(b"GET /delay/60000 HTTP/1.1\r\n\r\n").unwrap();
    while server.stats().path("/delay/60000").received == 0 {
        std::thread::yield_now();
    }
    assert_eq!(body(&get(&server, "/")), "Hello, World!");
    assert_eq!(server.stop().path("/delay/60000").answered, 0);
}

#[test]
fn delays_are_at_least_as_long_as_asked_for() {
    let server = server();
    let began = Instant::now();
    get(&server, "/delay/30.5");
    assert!(began.elapsed() >= Duration::from_micros(30_500));
    assert!(server.stop().service_ns.max() >= 30_000_000);
}

#[test]
fn counts_are_told_as_json_and_can_begin_again() {
    let server = server_with(3);
    for _ in 0..7 {
        get(&server, "/bytes/3?x");
    }
    get(&server, "/fault/never?p=0");
    let stats: serde_json::Value = serde_json::from_str(body(&get(&server, "/stats"))).unwrap();
    assert_eq!(
        stats["paths"]["/bytes/3?x"],
        serde_json::json!({"received": 7, "answered": 7})
    );
    assert_eq!(stats["requests"]["received"], 8);
    assert_eq!(stats["connections"]["accepted"], 9);
    assert_eq!(stats["service_ms"]["count"], 8);
    get(&server, "/reset");
    assert_eq!(server.stats().total.received, 0);
}

#[test]
fn a_stall_holds_back_everything() {
    let server = server_with(2);
    server.stall(Duration::from_millis(50));
    let began = Instant::now();
    while server.stats().stalls == 0 {
        get(&server, "/");
    }
    assert!(
        began.elapsed() >= Duration::from_millis(40),
        "nothing is answered while it stands still"
    );
    let stalled = server.stats().stalled_ns;
    assert!(
        (40_000_000..=50_000_000 + 5_000_000_000).contains(&stalled),
        "{stalled}"
    );
}

#[test]
fn it_listens_on_unix_sockets_and_takes_them_away_again() {
    let path = std::env::temp_dir().join(format!("forebay-load-serve-{}.sock", std::process::id()));
    let options = Options {
        address: Address::Unix(path.clone()),
        ..Options::default()
    };
    let server = Server::start(&options.clone()).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(body(&answer), "Hello, World!");
    assert!(
        matches!(Server::start(&options), Err(ServeError::Listen { .. })),
        "the path is taken"
    );
    drop(server);
    assert!(!path.exists());
}

#[test]
fn impossible_options_are_refused() {
    let options = |threads| Options {
        threads,
        ..Options::default()
    };
    for threads in [0, 1000] {
        assert!(matches!(
            Server::start(&options(threads)),
            Err(ServeError::Threads { .. })
        ));
    }
}

#[test]
fn a_client_that_sends_on_after_the_close_still_gets_its_answer() {
    let server = server();
    let mut stream = connect(&server);
    let rest = "x".repeat(300_000);
    stream
        .write_all(format!("GET /close HTTP/1.1\r\n\r\nGET /{rest}").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("connection: close\r\n"));
    assert_eq!(body(&answer), "Hello, World!");
}
