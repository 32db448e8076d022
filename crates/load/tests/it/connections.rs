//! Counts of connections.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};

use forebay_load::{
    Session,
    plan::{Engine, Load, Pace},
    request::Version,
};

use crate::{
    io_uring::is_granted,
    peer::{Peer, request},
    rig::{beside_others, closed, failures, lane, millis, parts, plan, requests, run, server},
};

#[test]
fn what_the_warm_up_left_is_told() {
    let _floor = beside_others();
    let server = server();
    let mut plan = plan(server.address(), "/");
    (plan.threads, plan.pipeline) = (2, 4);
    let mut session = Session::start(plan).unwrap();
    let warm_up = session.measure(closed(8), millis(50).and_on(), &mut |_| {});
    assert_eq!((warm_up.total.held, warm_up.total.under_way), (0, 0));
    assert_eq!(warm_up.total.connects, 8);
    let mut measured = session.measure(closed(8), requests(500), &mut |_| {});
    measured.absorb(&session.finish());
    let total = &measured.total;
    assert_eq!(failures(&measured), []);
    assert_eq!((total.held, total.connects), (8, 0));
    assert_eq!(total.sent, 500);
    assert_eq!(total.answers, total.sent + total.under_way);
}

#[test]
fn answers_of_http_1_0_end_with_their_connection_unless_they_say_otherwise() {
    for (answer, accepted) in [
        (&b"HTTP/1.0 200 OK\r\n\r\nto the end"[..], 8),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 10\r\n\r\nto the end", 8),
        (
            b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 10\r\n\r\nto the end",
            2,
        ),
    ] {
        let keeps = accepted == 2;
        let peer = Peer::start(
            move |mut stream: TcpStream| {
                while request(&mut stream) && stream.write_all(answer).is_ok() && keeps {}
            },
        );
        let mut parts = parts("/");
        parts.version = Version::Http10;
        let mut plan = plan(peer.address(), "/");
        plan.lanes = vec![lane(peer.address(), &parts)];
        let measured = run(plan, closed(2), requests(8));
        assert_eq!(failures(&measured), [], "{:?}", measured.examples);
        assert_eq!(measured.total.body_bytes_in, 80);
        // The last request may go out on one connection while the other is being opened.
        let opened = measured.total.connects;
        assert!(
            (accepted..=accepted + 1).contains(&opened),
            "{opened} of {accepted}"
        );
    }
}

#[test]
fn attempts_to_connect_that_fail_are_counted_as_such() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let measured = run(plan(address, "/"), closed(3), requests(9));
    assert_eq!((measured.total.connects_failed, measured.total.connects), (9, 0));
}

#[test]
fn io_uring_is_chosen_where_many_answers_come_at_once() {
    let server = server();
    let chosen = |connections, pace, keep_alive| {
        let mut plan = plan(server.address(), "/");
        (plan.threads, plan.keep_alive, plan.engine) = (2, keep_alive, Engine::Auto);
        plan.settle_engine(Load { connections, pace }).unwrap();
        plan.engine
    };
    let open = Pace::Open { per_second: 1.0 };
    for (connections, pace, keep_alive) in [
        (31, Pace::Closed, true),
        (64, open, true),
        (64, Pace::Closed, false),
    ] {
        assert_eq!(chosen(connections, pace, keep_alive), Engine::Epoll);
    }
    let mut asked_for = plan(server.address(), "/");
    asked_for.engine = Engine::IoUring;
    let many = if is_granted(asked_for.settle_engine(closed(1))) {
        Engine::IoUring
    } else {
        Engine::Epoll
    };
    assert_eq!(chosen(32, Pace::Closed, true), many);
}
