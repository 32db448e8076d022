//! Connections that last: they hold no slot, have limits of their own, and end with their worker, with the server, or by themselves.

use std::collections::BTreeSet;

use forebay_testkit::{Client, Server, wait_until};
use serde_json::json;

use super::{CLOSE, PING, PONG, Socket, TEXT, pool, request};
use crate::{
    reload::reload,
    support::{ONE_WORKER, Runtime},
};

const TWO_WORKERS: &str = "workers = { min = 2, max = 2 }\n";

/// An event stream, and its head.
fn events(server: &Server, lines: &str) -> (Client, forebay_testkit::Response) {
    let mut client = server.connect();
    client.send(format!("GET /events HTTP/1.1\r\nhost: test\r\n{lines}\r\n"));
    let head = client.head().expect("a head");
    (client, head)
}

fn wait_for_both(server: &Server) {
    wait_until("both workers to be ready", || {
        server.log().matches("worker ready").count() == 2
    });
}

#[test]
fn streams_and_sockets_hold_no_slot_and_have_no_time_limit() {
    for runtime in Runtime::BOTH {
        let keys = format!("{ONE_WORKER}\nrun_timeout = \"200ms\"\n");
        let server = pool(runtime, &keys).start();
        let mut streams: Vec<_> = (0..5)
            .map(|_| events(&server, "last-event-id: 7\r\n").0)
            .collect();
        let mut sockets: Vec<_> = (0..5).map(|_| Socket::open(&server, "/echo")).collect();
        for stream in &mut streams {
            let first = stream.read_until("\n\n");
            assert!(
                first.contains("event: start\nid: 1\nretry: 500\ndata: {\"last\":\"7\"}\n\n"),
                "{first}"
            );
        }
        assert_eq!(server.get("/open").json(), 5, "{runtime:?}");
        // Whatever is slow has had its time by now.
        assert_eq!(server.get("/silence-of-nobody").status, 404);
        let mut slow = Socket::open(&server, "/slowly");
        for _ in 0..6 {
            slow.send("first");
        }
        for _ in 0..6 {
            assert_eq!(slow.receive().text(), "first");
        }
        for socket in &mut sockets {
            socket.send("still here");
            assert_eq!(socket.receive().text(), "still here");
        }
        // One stream is left by its client, the others end by themselves.
        drop(streams.pop());
        wait_until("the generator of the client that left is ended", || {
            server.get("/open").json() == 4
        });
        assert_eq!(server.post("/release", b"").status, 204);
        for stream in &mut streams {
            let rest = stream.read_until("\r\n0\r\n\r\n");
            assert!(rest.contains("data: two\ndata: lines\n\n"), "{rest}");
        }
        assert_eq!(server.get("/open").json(), 0);
    }
}

#[test]
fn an_event_stream_has_its_headers_and_says_that_it_lives() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    let (_, head) = events(&server, "");
    assert_eq!(
        (head.header("content-type"), head.header("cache-control")),
        (Some("text/event-stream"), Some("no-store"))
    );
    let mut client = server.connect();
    client.request("GET", "/silence");
    let head = client.head().expect("a head");
    assert_eq!((head.status, head.header("x-own")), (201, Some("yes")));
    client.read_until(":\n\n");
    client.read_until(":\n\n");
    let broken = server.get("/broken");
    assert_eq!(broken.status, 500);
    server.wait_for_log(&["the event of an event is one line"]);
}

#[test]
fn rooms_reach_across_workers() {
    let server = pool(Runtime::Node, TWO_WORKERS).start();
    wait_for_both(&server);
    let mut sockets: Vec<_> = (0..4).map(|_| Socket::open(&server, "/room/a")).collect();
    let pids: BTreeSet<_> = sockets
        .iter_mut()
        .map(|socket| socket.receive().text().to_owned())
        .collect();
    assert_eq!(pids.len(), 2, "workers get connections in turn");
    let mut elsewhere = Socket::open(&server, "/room/b");
    elsewhere.receive();
    sockets[0].send("from the first");
    assert_eq!(sockets[0].receive().text(), "done", "it does not hear itself");
    for socket in &mut sockets[1..] {
        assert_eq!(socket.receive().text(), "from the first");
    }
    sockets[1].send("leave");
    assert_eq!(sockets[1].receive().text(), "done");
    assert_eq!(server.post("/room/a", &[0, 255]).status, 204);
    for at in [0, 2, 3] {
        assert_eq!(sockets[at].receive().payload, [0, 255]);
    }
    // Who is gone can still say so.
    sockets.pop();
    for at in [0, 2] {
        assert_eq!(sockets[at].receive().text(), "left with 1006");
    }
    // Neither the other room nor who has left it has heard anything.
    for socket in [&mut elsewhere, &mut sockets[1]] {
        socket.send_frame(PING, true, b"");
        assert_eq!(socket.receive().opcode, PONG);
    }
}

#[test]
fn a_client_that_takes_nothing_from_its_rooms_is_closed_and_nobody_else() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    let mut slow = Socket::open(&server, "/room/a");
    slow.receive();
    let mut fast = Socket::open(&server, "/room/a");
    fast.receive();
    let message = vec![b'x'; 64 * 1024];
    // The kernel holds some megabytes for the slow client.
    let left = (0..400).find_map(|_| {
        assert_eq!(server.post("/room/a", &message).status, 204);
        let frame = fast.receive();
        (frame.payload.len() != message.len()).then_some(frame)
    });
    assert_eq!(left.expect("the slow client leaves").text(), "left with 1008");
    server.wait_for_log(&["WebSocket is closed", "takes its messages too slowly"]);
    let last = loop {
        let frame = slow.receive();
        if frame.opcode == CLOSE {
            break frame;
        }
    };
    assert_eq!(last.code(), 1008);
}

#[test]
fn a_socket_in_too_many_rooms_is_closed() {
    let server = pool(Runtime::Node, ONE_WORKER).start();
    assert_eq!(Socket::open(&server, "/rooms/256").receive().text(), "joined");
    let mut socket = Socket::open(&server, "/rooms/257");
    assert_eq!(socket.receive().code(), 1011);
    server.wait_for_log(&["may be in 256 rooms"]);
}

#[test]
fn limits_of_number_rate_and_silence_hold() {
    let keys = format!(
        "{ONE_WORKER}\nconnections_max = 2\nwebsocket = {{ messages_per_second_max = 3, idle_timeout = \"400ms\", message_bytes_max = \"2KiB\" }}\n"
    );
    let server = pool(Runtime::Node, &keys).start();
    let mut first = Socket::open(&server, "/echo");
    let (stream, _) = events(&server, "");
    let mut third = server.connect();
    third.send(request("/echo", ""));
    let refused = third.response();
    assert_eq!(refused.status, 503);
    assert!(
        refused.detail().contains("connections_max"),
        "{}",
        refused.detail()
    );
    let refused = server.get("/events");
    assert_eq!(refused.status, 503);
    drop(stream);
    wait_until("the client that left is noticed", || {
        server.get("/open").json() == 0
    });
    // A client that answers pings stays, one that does not is given up.
    let mut second = Socket::open(&server, "/echo");
    for _ in 0..3 {
        assert_eq!(first.receive().opcode, PING);
        first.send_frame(PONG, true, b"");
    }
    assert_eq!(second.receive().opcode, PING);
    second.ends();
    for _ in 0..20 {
        let _ = first.client.try_send(&super::frame(TEXT, true, b"much"));
    }
    let close = loop {
        let frame = first.receive();
        if frame.opcode == CLOSE {
            break frame;
        }
    };
    assert_eq!(close.code(), 1008);
    server.wait_for_log(&["messages_per_second_max"]);
    // The limit of length is for the handler's messages, too.
    assert_eq!(Socket::open(&server, "/send/2048").receive().payload.len(), 2048);
    assert_eq!(Socket::open(&server, "/send/300000").receive().code(), 1009);
}

#[test]
fn a_worker_that_dies_closes_its_own_sockets_and_nobody_elses() {
    let server = pool(Runtime::Node, TWO_WORKERS).start();
    wait_for_both(&server);
    let workers = server.wait_for_workers(2);
    let mut sockets: Vec<_> = (0..4).map(|_| Socket::open(&server, "/room/a")).collect();
    let dying = workers[0];
    let on_it: Vec<bool> = sockets
        .iter_mut()
        .map(|socket| socket.receive().text() == format!("joined {}", dying.pid))
        .collect();
    assert_eq!(on_it.iter().filter(|on_it| **on_it).count(), 2);
    dying.kill();
    let (gone, mut rest): (Vec<_>, Vec<_>) = sockets.into_iter().zip(on_it).partition(|(_, on_it)| *on_it);
    for (mut socket, _) in gone {
        assert_eq!(socket.receive().code(), 1012);
        socket.send_frame(CLOSE, true, &1012u16.to_be_bytes());
        socket.ends();
    }
    for (socket, _) in &mut rest {
        socket.send("leave");
        assert_eq!(socket.receive().text(), "done");
    }
}

#[test]
fn a_drain_closes_sockets_and_ends_streams() {
    for runtime in Runtime::BOTH {
        let mut server = pool(runtime, ONE_WORKER).start();
        let mut socket = Socket::open(&server, "/echo");
        let (mut stream, _) = events(&server, "");
        stream.read_until("\n\n");
        server.terminate();
        let close = socket.receive();
        assert_eq!(close.code(), 1001, "{runtime:?}");
        socket.send_frame(CLOSE, true, &close.payload);
        socket.ends();
        stream.read_until("0\r\n\r\n");
        assert!(server.wait().success());
    }
}

#[test]
fn a_reload_moves_connections_to_the_new_workers() {
    let server = pool(Runtime::Node, ONE_WORKER).admin().start();
    let mut socket = Socket::open(&server, "/hello");
    let before = socket.receive().text().to_owned();
    let (mut stream, _) = events(&server, "");
    stream.read_until("\n\n");
    assert_eq!(reload(&server).status, 200);
    assert_eq!(socket.receive().code(), 1012);
    stream.read_until("0\r\n\r\n");
    let mut again = Socket::open(&server, "/hello");
    let hello: serde_json::Value = serde_json::from_str(again.receive().text()).expect("JSON");
    assert_ne!(
        hello["pid"],
        serde_json::from_str::<serde_json::Value>(&before).expect("JSON")["pid"]
    );
    assert_eq!(hello["data"], json!(null));
}
