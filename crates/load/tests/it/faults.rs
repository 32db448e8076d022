//! Every mistake of a server is counted in a class of its own, with an example, and the run continues to its end.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    thread,
    time::Duration,
};

use forebay_load::{
    Plan,
    engine::Stretch,
    failure::Class,
    plan::{Load, Pace},
};

use crate::{
    peer::{Peer, answering, request, reset_on_drop},
    rig::{
        closed, example, failures, lane, millis, parts, plan, plan_of, requests, run, server, server_with,
    },
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const TIMEOUT: Duration = Duration::from_millis(150);

fn impatient(address: SocketAddr, path: &str) -> Plan {
    let mut plan = plan(address, path);
    (plan.timeout, plan.connect_timeout) = (TIMEOUT, TIMEOUT);
    plan
}

/// All requests failed in one way.
fn all_failed(measured: &Stretch, class: Class, number: u64) {
    assert_eq!(failures(measured), [(class, number)], "{:?}", measured.examples);
    assert!(!example(measured, class).is_empty());
    assert_eq!(measured.total.answers, 0);
}

/// Every request that was sent was either answered or is among the failures.
fn nothing_is_lost(measured: &Stretch, number: u64) {
    let total = &measured.total;
    assert_eq!(
        total.answers + total.failures.total(),
        number,
        "{:?}",
        failures(measured)
    );
    for (class, _) in total.failures.iter() {
        assert!(!example(measured, class).is_empty());
    }
}

#[test]
pub(crate) fn each_fault_has_its_class() {
    let server = server();
    for (path, class) in [
        ("/fault/reset", Class::Reset),
        ("/fault/silent", Class::ClosedEarly),
        ("/fault/truncate", Class::Truncated),
        ("/fault/half-head", Class::Truncated),
        ("/fault/garbage", Class::Malformed),
        ("/fault/bad-chunk", Class::Malformed),
        ("/fault/two-lengths", Class::Framing),
        ("/fault/overlong-head", Class::OverLong),
        ("/fault/never", Class::Timeout),
        ("/fault/slow?bytes_per_s=20", Class::Timeout),
    ] {
        let measured = run(impatient(server.address(), path), closed(2), requests(6));
        all_failed(&measured, class, 6);
        assert_eq!(server.stats().path(path).received, 6, "{path}");
    }
}

#[test]
pub(crate) fn what_is_odd_but_right_is_no_failure() {
    let server = server();
    for path in [
        "/fault/interim",
        "/fault/slow?bytes_per_s=1000000",
        "/chunked/0",
        "/status/304",
    ] {
        let measured = run(plan(server.address(), path), closed(2), requests(10));
        assert_eq!(failures(&measured), [], "{path}: {:?}", measured.examples);
        assert_eq!(measured.total.answers, 10, "{path}");
    }
}

#[test]
pub(crate) fn an_answer_that_nobody_asked_for_is_a_failure_beside_the_answer() {
    let server = server();
    let measured = run(
        plan(server.address(), "/fault/unsolicited"),
        closed(2),
        requests(10),
    );
    assert_eq!(failures(&measured), [(Class::Unsolicited, 10)]);
    assert_eq!(measured.total.answers, 10);
}

#[test]
pub(crate) fn with_faults_now_and_then_every_request_has_its_end() {
    const FAULTS: [&str; 8] = [
        "reset",
        "silent",
        "truncate",
        "half-head",
        "garbage",
        "bad-chunk",
        "two-lengths",
        "never",
    ];
    // Most of their time is time-outs.
    thread::scope(|scope| {
        for (pipeline, fault) in [1, 8]
            .into_iter()
            .flat_map(|pipeline| FAULTS.map(|fault| (pipeline, fault)))
        {
            scope.spawn(move || {
                let server = server_with(2);
                let mut plan = impatient(server.address(), &format!("/fault/{fault}?p=0.02"));
                (plan.threads, plan.pipeline) = (2, pipeline);
                let measured = run(plan, closed(16), requests(1000));
                nothing_is_lost(&measured, 1000);
                assert_eq!(measured.total.sent, 1000);
                assert!(
                    measured.total.answers > 0 && measured.total.failures.total() > 0,
                    "{fault}"
                );
            });
        }
    });
}

#[test]
pub(crate) fn where_nobody_listens_every_attempt_counts_and_the_run_ends() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let measured = run(plan(address, "/"), closed(3), requests(9));
    all_failed(&measured, Class::ConnectRefused, 9);
    assert!(example(&measured, Class::ConnectRefused).contains(&address.to_string()));
    assert_eq!(measured.total.sent, 0);
}

#[test]
pub(crate) fn attempts_to_connect_become_rarer() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let measured = run(plan(address, "/"), closed(1), millis(400));
    // Pauses of 10, 20, 40, 80 and 160 ms: the seventh attempt would be after 630 ms.
    let attempts = measured.total.failures.get(Class::ConnectRefused);
    let most = 2 + (measured.seconds() * 100.0 + 1.0).log2() as u64;
    assert!(
        (2..=most).contains(&attempts),
        "{attempts} attempts in {:.3} s",
        measured.seconds()
    );
}

#[test]
pub(crate) fn a_peer_that_only_accepts_is_not_flooded_with_connections() {
    // Nor where its next request is due before the pause after a failure has ended.
    let paced = Load {
        connections: 1,
        pace: Pace::Open { per_second: 500.0 },
    };
    for load in [closed(1), paced] {
        let peer = Peer::start(|stream| reset_on_drop(&stream));
        let measured = run(plan(peer.address(), "/"), load, millis(400));
        let most = 2 + (measured.seconds() * 100.0 + 1.0).log2() as u64;
        assert!(
            (2..=most).contains(&peer.accepted()),
            "{} in {:.3} s",
            peer.accepted(),
            measured.seconds()
        );
        assert_eq!(measured.total.answers, 0);
        assert!(measured.total.failures.total() >= peer.accepted() - 1);
    }
}

#[test]
pub(crate) fn a_connection_that_cannot_be_made_in_time_has_its_class() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
    // One connection may wait in the accept queue, and the test never accepts it.
    listen(&listener, 0).unwrap();
    let address: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
    let measured = run(impatient(address, "/"), closed(8), requests(16));
    nothing_is_lost(&measured, 16);
    assert!(
        measured.total.failures.get(Class::ConnectTimeout) > 0,
        "{:?}",
        failures(&measured)
    );
    assert!(
        measured.total.failures.get(Class::Timeout) > 0,
        "{:?}",
        failures(&measured)
    );
}

#[test]
pub(crate) fn a_close_that_was_not_announced_costs_at_most_what_was_under_way() {
    for half in [false, true] {
        let peer = Peer::start(move |mut stream| {
            if request(&mut stream) && stream.write_all(OK).is_ok() && half {
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let measured = run(plan(peer.address(), "/"), closed(4), requests(200));
        nothing_is_lost(&measured, 200);
        assert_eq!(
            measured.total.answers,
            peer.accepted().min(measured.total.answers)
        );
        for (class, _) in measured.total.failures.iter() {
            assert!(matches!(class, Class::ClosedEarly | Class::Reset), "{class:?}");
        }
    }
}

#[test]
pub(crate) fn a_reset_in_the_middle_of_an_answer_is_a_reset() {
    let peer = Peer::start(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(&OK[..OK.len() - 1]);
        reset_on_drop(&stream);
    });
    all_failed(
        &run(plan(peer.address(), "/"), closed(2), requests(6)),
        Class::Reset,
        6,
    );
}

#[test]
pub(crate) fn a_body_without_a_length_ends_with_its_connection() {
    let peer = Peer::start(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nto the end");
    });
    let measured = run(plan(peer.address(), "/"), closed(2), requests(10));
    assert_eq!(failures(&measured), []);
    assert_eq!((measured.total.answers, measured.total.body_bytes_in), (10, 100));
}

#[test]
pub(crate) fn bytes_on_a_connection_that_waits_are_unsolicited() {
    let peer = Peer::start(|mut stream| {
        request(&mut stream);
        let _ = stream.write_all(OK);
        let _ = stream.write_all(b"by the way");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let load = Load {
        connections: 3,
        pace: Pace::Open { per_second: 60.0 },
    };
    let measured = run(plan(peer.address(), "/"), load, requests(3));
    assert_eq!(measured.total.answers, 3);
    let session_may_end_first = measured.total.failures.get(Class::Unsolicited);
    assert!(session_may_end_first <= 3 && session_may_end_first == measured.total.failures.total());
    let measured = run(plan(peer.address(), "/"), load, millis(300));
    assert!(measured.total.failures.get(Class::Unsolicited) >= 3);
}

#[test]
pub(crate) fn another_protocol_is_no_answer() {
    for greeting in [
        &b"SSH-2.0-OpenSSH_9.9\r\n"[..],
        b"220 mail ESMTP\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\0\0\0\0",
    ] {
        let peer = Peer::start(move |mut stream| {
            let _ = stream.write_all(greeting);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        all_failed(
            &run(plan(peer.address(), "/"), closed(1), requests(3)),
            Class::Malformed,
            3,
        );
    }
}

#[test]
pub(crate) fn interim_answers_may_come_in_pieces_but_not_for_ever() {
    let peer = Peer::start(|mut stream| {
        while request(&mut stream) {
            for part in [
                &b"HTTP/1.1 100 Continue\r\n"[..],
                b"\r\nHTTP/1.1 103 Early",
                b" Hints\r\nlink: x\r\n\r\n",
                OK,
            ] {
                let _ = stream.write_all(part);
                let _ = stream.flush();
            }
        }
    });
    let measured = run(plan(peer.address(), "/"), closed(2), requests(50));
    assert_eq!((failures(&measured), measured.total.answers), (vec![], 50));
    let endless = Peer::start(|mut stream| {
        request(&mut stream);
        while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok() {}
    });
    all_failed(
        &run(impatient(endless.address(), "/"), closed(1), requests(2)),
        Class::Timeout,
        2,
    );
}

#[test]
pub(crate) fn a_body_without_end_is_ended_by_the_time_out_however_fast_it_comes() {
    for head in [
        &b"HTTP/1.1 200 OK\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n",
    ] {
        let peer = Peer::start(move |mut stream| {
            request(&mut stream);
            let _ = stream.write_all(head);
            let block = vec![b'x'; 1 << 20];
            while stream.write_all(&block).is_ok() {}
        });
        let measured = run(impatient(peer.address(), "/"), closed(2), requests(4));
        all_failed(&measured, Class::Timeout, 4);
    }
}

#[test]
pub(crate) fn a_peer_that_never_reads_is_ended_by_the_time_out() {
    let peer =
        Peer::start(
            |stream| while stream.take_error().is_ok_and(|error| error.is_none()) && !stopped(&stream) {},
        );
    let mut parts = parts("/");
    (parts.method, parts.body) = ("POST".into(), vec![b'x'; 16 << 20]);
    let mut plan = impatient(peer.address(), "/");
    plan.lanes = vec![lane(peer.address(), &parts)];
    all_failed(&run(plan, closed(1), requests(2)), Class::Timeout, 2);
}

/// Whether the peer has closed the connection; reads nothing.
fn stopped(stream: &std::net::TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut fds, None).is_ok()
        && fds[0]
            .revents()
            .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}

#[test]
pub(crate) fn a_server_that_should_close_and_does_not_is_left() {
    let peer = Peer::start(answering(OK));
    let mut parts = parts("/");
    parts.keep_alive = false;
    let mut plan = plan_of(vec![lane(peer.address(), &parts)]);
    plan.keep_alive = false;
    let measured = run(plan, closed(1), requests(2));
    assert_eq!(
        (failures(&measured), measured.total.answers, peer.accepted()),
        (vec![], 2, 2)
    );
}

#[test]
pub(crate) fn a_time_out_is_a_latency_of_at_least_the_time_out() {
    let server = server();
    let measured = run(
        impatient(server.address(), "/fault/never"),
        closed(4),
        requests(8),
    );
    let latency = &measured.total.latency;
    assert_eq!(latency.len(), 8);
    assert!(
        latency.min() >= TIMEOUT.as_nanos() as u64 * 999 / 1000,
        "{} ns",
        latency.min()
    );
    assert!(latency.value_at_quantile(0.5) < 2 * TIMEOUT.as_nanos() as u64);
}
