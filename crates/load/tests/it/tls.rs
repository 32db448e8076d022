//! TLS: counts when it works, and errors when it does not.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use forebay_load::{
    failure::Class,
    tls::{Options, TlsError},
};
use rustls::{
    HandshakeKind,
    version::{TLS12, TLS13},
};

use crate::{
    peer::Peer,
    rig::{example, failures, requests},
    tls_peer::{
        Authority, answer_all, get, lane_of, plan, post, read_request, run, run_until_failure, secure, tls,
    },
};

#[test]
fn both_versions_count_what_the_server_counts() {
    let authority = Authority::new();
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let served = Arc::default();
        let peer = tls(authority.localhost().server(&[version]), answer_all(100, &served));
        let mut plan = plan(lane_of(&peer, secure(&authority.trusted()), &get()));
        plan.threads = 2;
        let stretch = run(plan, 4, requests(2_000));
        assert_eq!(
            (failures(&stretch), &stretch.total.statuses),
            (vec![], &vec![(200, 2_000)]),
            "{name}: {:?}",
            stretch.examples
        );
        assert_eq!(
            (
                served.load(Ordering::Relaxed),
                stretch.total.sent,
                stretch.total.connects
            ),
            (2_000, 2_000, 4)
        );
        assert_eq!(stretch.total.body_bytes_in, 200_000);
    }
}

#[test]
fn large_bodies_both_ways_and_pipelined_are_whole() {
    let authority = Authority::new();
    let served = Arc::default();
    let length = 300_000;
    let peer = tls(
        authority.localhost().server(&[&TLS13]),
        answer_all(length, &served),
    );
    let mut plan = plan(lane_of(&peer, secure(&authority.trusted()), &post(length)));
    plan.pipeline = 4;
    let stretch = run(plan, 2, requests(60));
    assert_eq!(failures(&stretch), vec![], "{:?}", stretch.examples);
    assert_eq!((served.load(Ordering::Relaxed), stretch.total.answers), (60, 60));
    assert_eq!(stretch.total.body_bytes_in, 60 * length as u64);
}

#[test]
fn a_server_that_is_not_trusted_is_a_failure_of_tls() {
    let (authority, other) = (Authority::new(), Authority::new());
    let elsewhere = Options {
        server_name: Some("elsewhere.test".into()),
        ..authority.trusted()
    };
    for (identity, options, why) in [
        (authority.localhost(), other.trusted(), "UnknownIssuer"),
        (
            authority.identity("localhost", 2020..2021),
            authority.trusted(),
            "expired",
        ),
        (
            authority.identity("elsewhere.test", 2020..4000),
            authority.trusted(),
            "not valid for name",
        ),
        (authority.localhost(), elsewhere.clone(), "not valid for name"),
    ] {
        let served = Arc::default();
        let peer = tls(identity.server(&[&TLS13]), answer_all(1, &served));
        let stretch = run_until_failure(plan(lane_of(&peer, secure(&options), &get())));
        assert!(
            example(&stretch, Class::Tls).contains(why),
            "{:?}",
            stretch.examples
        );
        assert_eq!(
            (
                stretch.total.sent,
                stretch.total.connects,
                served.load(Ordering::Relaxed)
            ),
            (0, 0, 0)
        );
        // With `insecure`, the request is answered all the same.
        let insecure = Options {
            insecure: true,
            ..options
        };
        let stretch = run(plan(lane_of(&peer, secure(&insecure), &get())), 1, requests(5));
        assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 5), "{why}");
    }
    let served = Arc::default();
    let peer = tls(
        authority.identity("elsewhere.test", 2020..4000).server(&[&TLS12]),
        answer_all(1, &served),
    );
    let stretch = run(plan(lane_of(&peer, secure(&elsewhere), &get())), 1, requests(5));
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 5),
        "the name that was asked for"
    );
}

#[test]
fn a_handshake_that_breaks_says_how() {
    let authority = Authority::new();
    let gone = Peer::start(|mut socket| {
        let _ = socket.read(&mut [0; 16]);
    });
    let plain = Peer::start(|mut socket| {
        let _ = socket.read(&mut [0; 4096]);
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    for (peer, why) in [(&gone, "in the handshake"), (&plain, "corrupt message")] {
        let stretch = run_until_failure(plan(lane_of(peer, secure(&authority.trusted()), &get())));
        let told = example(&stretch, Class::Tls);
        assert!(told.contains(why) || told.contains("of the handshake"), "{told}");
        assert_eq!((stretch.total.sent, stretch.total.connects), (0, 0));
    }
}

#[test]
fn a_handshake_that_stalls_ends_with_the_time_to_connect() {
    let authority = Authority::new();
    let peer = Peer::start(|mut socket| {
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let mut plan = plan(lane_of(&peer, secure(&authority.trusted()), &get()));
    plan.connect_timeout = Duration::from_millis(50);
    let stretch = run_until_failure(plan);
    assert!(
        example(&stretch, Class::ConnectTimeout).contains("TLS handshake"),
        "{:?}",
        stretch.examples
    );
}

#[test]
fn an_end_without_close_notify_is_told_from_one_that_was_meant() {
    let authority = Authority::new();
    for (head, says_goodbye, answers, truncated) in [
        ("HTTP/1.1 200 OK\r\n\r\n", true, 4, 0),
        ("HTTP/1.1 200 OK\r\n\r\n", false, 0, 4),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", true, 0, 4),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", false, 0, 4),
        // A complete response needs no closing alert.
        (
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\n",
            false,
            4,
            0,
        ),
    ] {
        let peer = tls(authority.localhost().server(&[&TLS13]), move |stream| {
            if read_request(stream).is_some() {
                stream.write_all(format!("{head}hello").as_bytes()).unwrap();
                if says_goodbye {
                    stream.conn.send_close_notify();
                }
                let _ = stream.flush();
            }
        });
        let stretch = run(
            plan(lane_of(&peer, secure(&authority.trusted()), &get())),
            1,
            requests(4),
        );
        let expected = if truncated > 0 {
            vec![(Class::Truncated, truncated)]
        } else {
            vec![]
        };
        assert_eq!(
            (stretch.total.answers, failures(&stretch)),
            (answers, expected),
            "{head:?} {says_goodbye}"
        );
    }
}

#[test]
fn sessions_are_taken_up_again() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let resumed: Arc<AtomicU64> = Arc::default();
        let counted = resumed.clone();
        let peer = tls(authority.localhost().server(&[version]), move |stream| {
            if read_request(stream).is_some() {
                if stream.conn.handshake_kind() == Some(HandshakeKind::Resumed) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                let _ = stream.write_all(answer);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        let mut plan = plan(lane_of(&peer, secure(&authority.trusted()), &get()));
        plan.keep_alive = false;
        let stretch = run(plan, 1, requests(10));
        assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 10));
        assert_eq!(resumed.load(Ordering::Relaxed), 9, "{version:?}");
    }
}

#[test]
fn files_and_options_are_checked_before_anything_is_opened() {
    let authority = Authority::new();
    authority.folder.write("text.pem", "no certificate\n");
    let error = |name: &str| {
        let options = Options {
            ca: Some(authority.folder.path().join(name)),
            ..Options::default()
        };
        options.load().unwrap_err()
    };
    assert!(matches!(error("missing.pem"), TlsError::Read { .. }));
    let text = error("text.pem").to_string();
    assert!(
        text.contains("a file with `-----BEGIN CERTIFICATE-----` is needed"),
        "{text}"
    );
    let error = authority.trusted().load().unwrap().for_host("a b").unwrap_err();
    assert!(matches!(error, TlsError::Name { .. }), "{error:?}");
}

#[test]
fn answers_that_arrive_together_with_a_fault_are_counted_first() {
    let authority = Authority::new();
    let peer = tls(authority.localhost().server(&[&TLS13]), |stream| {
        if read_request(stream).is_some() {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .unwrap();
            // A record that no key decrypts, in the same write.
            let _ = stream.sock.write_all(&[
                23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
            ]);
            let _ = std::io::copy(&mut stream.sock, &mut std::io::sink());
        }
    });
    let stretch = run(
        plan(lane_of(&peer, secure(&authority.trusted()), &get())),
        1,
        requests(3),
    );
    let tls = stretch.total.failures.get(Class::Tls);
    assert!(
        stretch.total.answers >= 1 && stretch.total.sent == 3 && tls >= 1,
        "{:?} {:?}",
        stretch.total.statuses,
        failures(&stretch)
    );
}
