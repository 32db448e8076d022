//! What is known about connections, and about the beginnings of answers.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use forebay_load::{Session, request::Version, target::Address};

use crate::{
    peer::{Peer, request},
    rig::{beside_others, closed, failures, lane, millis, parts, plan, requests, run, server},
    tls_peer::{self, Authority},
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn first_bytes_are_told_apart_from_whole_answers() {
    let _floor = beside_others();
    let (accepted, brisk, done) = (
        AtomicU64::new(0),
        AtomicU64::new(0),
        Arc::new(AtomicBool::new(false)),
    );
    let told = done.clone();
    // The first connection gets its answers in halves. Between them the other one asks twice, so that the first half has been read.
    let peer = Peer::start(move |mut stream: TcpStream| {
        if accepted.fetch_add(1, Ordering::SeqCst) > 0 {
            while request(&mut stream) {
                brisk.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(OK);
            }
            return;
        }
        let (head, body) = OK.split_at(OK.len() - 2);
        while request(&mut stream) {
            let _ = stream.write_all(head);
            let seen = brisk.load(Ordering::SeqCst);
            while brisk.load(Ordering::SeqCst) < seen + 2 && !told.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let _ = stream.write_all(body);
        }
    });
    let mut session = Session::start(plan(&peer.address(), "/")).unwrap();
    let stop = session.stopper();
    let mut measured = session.measure(closed(2), millis(60_000), &mut |stretch| {
        stop.store(stretch.total.in_pieces >= 3, Ordering::Relaxed);
    });
    done.store(true, Ordering::SeqCst);
    measured.absorb(&session.finish());
    let total = &measured.total;
    assert!(
        total.in_pieces >= 3 && total.in_pieces < total.answers,
        "{total:?}"
    );
    let first = total.first_bytes();
    assert_eq!(first.len(), total.answers, "every answer has a first byte");
    assert!(first.mean() < total.latency.mean());
}

#[test]
fn answers_that_come_whole_have_their_latency_as_first_byte() {
    let server = server();
    let measured = run(plan(server.address(), "/"), closed(4), requests(500));
    assert_eq!(measured.total.in_pieces, 0);
    assert_eq!(measured.total.first_bytes(), measured.total.latency);
}

#[test]
fn a_request_without_an_answer_has_no_first_byte() {
    let server = server();
    let mut plan = plan(server.address(), "/fault/never?p=0.5");
    plan.timeout = std::time::Duration::from_millis(100);
    let total = run(plan, closed(4), requests(40)).total;
    assert_eq!(total.latency.len(), 40);
    assert_eq!(total.first_bytes().len(), total.answers);
    assert!(
        total.first_bytes().max() < 100_000_000,
        "none of those that timed out"
    );
}

#[test]
fn handshakes_are_the_part_of_an_opening_that_tls_took() {
    let authority = Authority::new();
    let served = Arc::default();
    let peer = tls_peer::Peer::tls(
        authority.localhost().server(&[&rustls::version::TLS13]),
        tls_peer::answer_all(10, &served),
    );
    let lane = peer.lane(tls_peer::secure(&authority.trusted()), &tls_peer::get());
    let (measured, _) = tls_peer::run(tls_peer::plan(lane), 3, requests(30));
    let total = &measured.total;
    assert_eq!(
        (total.handshakes.len(), total.connecting.len(), total.connects),
        (3, 3, 3)
    );
    assert!(
        total.handshakes.min() > 0 && total.handshakes.max() <= total.connecting.max(),
        "{:?} of {:?}",
        (total.handshakes.min(), total.handshakes.max()),
        (total.connecting.min(), total.connecting.max())
    );

    let server = server();
    let plain = run(plan(server.address(), "/"), closed(2), requests(10));
    assert_eq!(plain.total.handshakes.len(), 0);
}

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
        let mut plan = plan(&peer.address(), "/");
        plan.lanes = vec![lane(&peer.address(), &parts)];
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
    let address = Address::Tcp(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let measured = run(plan(&address, "/"), closed(3), requests(9));
    assert_eq!((measured.total.connects_failed, measured.total.connects), (9, 0));
}
