//! Connections that go over to another protocol.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use forebay_testkit::{Client, bun};

use super::{answers, before, detail, proxy, read_head, upstream};

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
