//! HTTP/2 against a server that is not ours: counts, answers in any order, and everything that can end early.

use std::{
    io::{Read as _, Write as _},
    sync::Arc,
    time::Duration,
};

use forebay_load::{
    Plan, Url,
    expect::Check,
    failure::Class,
    plan::{Pace, PlanError},
    request::{Grammar, Order, Parts, Requests, Scenario},
    tls::Version,
};

use crate::{
    h2_peer::{Manner, Seen, Server, message},
    tls_peer::{
        Authority, Peer, body, example, failures, get, plan, post, read_request, requests, run,
        run_until_failure,
    },
};

fn in_turn(paths: &[&str]) -> Requests {
    let messages = paths.iter().map(|path| (message(path).into(), 1));
    Requests::several(messages.collect(), Order::InTurn).unwrap()
}

#[test]
fn what_is_counted_is_what_the_server_counts() {
    let server = Server::start(Manner::default());
    for pipeline in [1, 16] {
        let before = (
            Seen::get(&server.seen.answered),
            Seen::get(&server.seen.connections),
        );
        let mut plan = plan(server.get("/bytes/100"));
        plan.threads = 2;
        plan.pipeline = pipeline;
        let (stretch, _) = run(plan, 4, requests(3_000));
        assert_eq!(
            (failures(&stretch), &stretch.total.statuses),
            (vec![], &vec![(200, 3_000)]),
            "{:?}",
            stretch.examples
        );
        assert_eq!(
            (
                stretch.total.sent,
                stretch.total.connects,
                stretch.total.body_bytes_in
            ),
            (3_000, 4, 300_000)
        );
        assert_eq!(Seen::get(&server.seen.answered) - before.0, 3_000);
        assert_eq!(Seen::get(&server.seen.connections) - before.1, 4);
        assert_eq!(stretch.total.latency.len(), 3_000);
    }
}

#[test]
fn answers_out_of_order_belong_to_their_own_requests() {
    let server = Server::start(Manner::default());
    let mut plan = plan(server.lane(in_turn(&["/slow/40", "/bytes/5", "/bytes/5", "/bytes/5"])));
    plan.pipeline = 8;
    let (stretch, _) = run(plan, 1, requests(160));
    assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 160));
    let slow = stretch.total.latency.count_between(40_000_000, u64::MAX);
    assert!(slow >= 40, "only {slow} of 40 slow answers have their latency");
    assert!(
        stretch.total.latency.min() < 40_000_000,
        "a fast answer does not wait for a slow one"
    );
}

#[test]
fn tls_carries_it_when_both_sides_choose_it() {
    let authority = Authority::new();
    let mut config = authority.localhost().server(&[&rustls::version::TLS13]);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = Server::start(Manner {
        tls: Some(Arc::new(config.clone())),
        ..Manner::default()
    });
    let tls = || {
        Some(
            authority
                .trusted()
                .load(true)
                .unwrap()
                .for_host("localhost")
                .unwrap(),
        )
    };
    let mut lane = server.get("/bytes/20000");
    lane.link.tls = tls();
    let mut secured = plan(lane);
    secured.pipeline = 10;
    let (stretch, negotiated) = run(secured, 3, requests(1_000));
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 1_000),
        "{:?}",
        stretch.examples
    );
    assert_eq!(
        (Seen::get(&server.seen.answered), stretch.total.body_bytes_in),
        (1_000, 20_000_000)
    );
    let negotiated = negotiated.unwrap();
    assert_eq!(
        (negotiated.version, negotiated.alpn.as_deref()),
        ("TLSv1.3", Some("h2"))
    );
    assert_eq!(Version::parse("1.3"), Some(Version::Tls13));

    // One that knows no ALPN at all.
    config.alpn_protocols.clear();
    let other = Peer::tls(config, |_| {});
    let mut lane = other.lane(forebay_load::plan::Link::default(), &get());
    lane.link.http2 = true;
    lane.link.tls = tls();
    let stretch = run_until_failure(plan(lane));
    assert!(
        example(&stretch, Class::Tls).contains("does not offer HTTP/2"),
        "{:?}",
        stretch.examples
    );
}

#[test]
fn a_reset_loses_one_request_and_no_other() {
    let server = Server::start(Manner::default());
    for (path, why, class) in [
        ("/reset/7", "REFUSED_STREAM", Class::Reset),
        ("/torn/3000", "INTERNAL_ERROR", Class::Reset),
        ("/lie/10", "content-length is 11, the body has 10", Class::Framing),
    ] {
        let mut plan = plan(server.lane(in_turn(&["/bytes/10", path, "/bytes/3000"])));
        plan.pipeline = 9;
        let (stretch, _) = run(plan, 2, requests(900));
        assert_eq!(
            (stretch.total.answers, failures(&stretch)),
            (600, vec![(class, 300)]),
            "{path}: {:?}",
            stretch.examples
        );
        assert!(example(&stretch, class).contains(why), "{:?}", stretch.examples);
        assert_eq!((stretch.total.sent, stretch.total.connects), (900, 2));
    }
    assert_eq!(Seen::get(&server.seen.requests), 2_700);
    assert_eq!(Seen::get(&server.seen.resets), 600);
}

#[test]
fn a_server_that_goes_away_answers_what_it_took() {
    for abruptly in [false, true] {
        let server = Server::start(Manner {
            goes_after: Some(50),
            abruptly,
            ..Manner::default()
        });
        let mut plan = plan(server.get("/bytes/10"));
        plan.pipeline = 8;
        let (stretch, _) = run(plan, 2, requests(1_000));
        assert_eq!(stretch.total.sent, 1_000);
        assert_eq!(
            stretch.total.answers + stretch.total.failures.total(),
            1_000,
            "{:?}",
            failures(&stretch)
        );
        assert!(
            stretch.total.connects > 2,
            "each connection takes some fifty requests"
        );
        if abruptly {
            assert!(stretch.total.answers > 0 && stretch.total.answers <= Seen::get(&server.seen.requests));
            assert!(
                example(&stretch, Class::ClosedEarly).len() > 10,
                "{:?}",
                stretch.examples
            );
        } else {
            assert_eq!(
                stretch.total.answers,
                Seen::get(&server.seen.answered),
                "{:?}",
                failures(&stretch)
            );
        }
    }
}

#[test]
fn bodies_keep_to_the_windows_of_the_server() {
    for window in [1, 1_000, 70_000] {
        let server = Server::start(Manner {
            window: Some(window),
            ..Manner::default()
        });
        let length = if window == 1 { 300 } else { 300_000 };
        let parts = Parts {
            path_and_query: "/bytes/3".into(),
            ..post(length)
        };
        let mut plan = plan(server.lane(Requests::Same(parts.message().unwrap())));
        plan.pipeline = 3;
        let (stretch, _) = run(plan, 2, requests(20));
        assert_eq!(
            (failures(&stretch), stretch.total.answers),
            (vec![], 20),
            "window {window}: {:?}",
            stretch.examples
        );
        assert_eq!(Seen::get(&server.seen.body_bytes), 20 * length as u64);
        assert!(stretch.total.bytes_out > 20 * length as u64);
    }
}

#[test]
fn bodies_beyond_the_windows_of_the_client_arrive() {
    let server = Server::start(Manner::default());
    let length: usize = 100 << 20;
    let (stretch, _) = run(plan(server.get(&format!("/bytes/{length}"))), 1, requests(1));
    assert_eq!(
        (failures(&stretch), stretch.total.body_bytes_in),
        (vec![], length as u64),
        "{:?}",
        stretch.examples
    );
}

#[test]
fn no_more_streams_are_opened_than_the_server_allows() {
    let server = Server::start(Manner {
        streams: Some(3),
        ..Manner::default()
    });
    let mut plan = plan(server.get("/slow/1"));
    plan.pipeline = 50;
    let (stretch, _) = run(plan, 1, requests(60));
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 60),
        "{:?}",
        stretch.examples
    );
    assert!(Seen::get(&server.seen.most) <= 3);
}

#[test]
fn a_late_answer_is_given_up_alone() {
    let server = Server::start(Manner::default());
    let mut plan = plan(server.lane(in_turn(&["/hang/0", "/slow/20", "/slow/20", "/slow/20"])));
    plan.pipeline = 8;
    plan.timeout = Duration::from_millis(400);
    let (stretch, _) = run(plan, 1, requests(16));
    assert_eq!(
        (stretch.total.answers, failures(&stretch)),
        (12, vec![(Class::Timeout, 4)]),
        "{:?}",
        stretch.examples
    );
    assert_eq!((stretch.total.latency.len(), stretch.total.connects), (16, 1));
    assert!(stretch.total.latency.max() >= 400_000_000);
}

#[test]
fn answers_that_do_not_begin_or_stop_in_the_middle_are_given_up_alone() {
    let server = Server::start(Manner::default());
    let mut plan = plan(server.lane(in_turn(&["/slow/20", "/hang/0", "/stop/5", "/slow/20"])));
    plan.pipeline = 8;
    plan.first_byte_timeout = Some(Duration::from_millis(400));
    plan.idle_timeout = Some(Duration::from_millis(300));
    let (stretch, _) = run(plan, 1, requests(16));
    assert_eq!(
        (stretch.total.answers, failures(&stretch)),
        (8, vec![(Class::FirstByteTimeout, 4), (Class::IdleTimeout, 4)]),
        "{:?}",
        stretch.examples
    );
    assert_eq!((stretch.total.latency.len(), stretch.total.connects), (16, 1));
    assert_eq!(Seen::get(&server.seen.resets), 8);
}

#[test]
fn a_connection_that_is_cut_loses_what_was_under_way() {
    let server = Server::start(Manner::default());
    let mut plan = plan(server.get("/cut/1000"));
    plan.pipeline = 4;
    let (stretch, _) = run(plan, 1, requests(12));
    let lost: u64 = [Class::Truncated, Class::ClosedEarly, Class::Reset]
        .iter()
        .map(|class| stretch.total.failures.get(*class))
        .sum();
    assert_eq!(
        (stretch.total.answers, stretch.total.sent, lost),
        (0, 12, 12),
        "{:?}",
        failures(&stretch)
    );
}

#[test]
fn a_server_of_http_1_is_known_for_one() {
    let peer = Peer::start(|mut socket| {
        let _ = read_request(&mut socket);
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let mut lane = peer.lane(forebay_load::plan::Link::default(), &get());
    lane.link.http2 = true;
    let stretch = run_until_failure(plan(lane));
    assert!(
        example(&stretch, Class::Malformed).contains("answers in HTTP/1"),
        "{:?}",
        stretch.examples
    );
    assert_eq!((stretch.total.sent, stretch.total.connects), (0, 0));
}

#[test]
fn settings_that_do_not_come_end_with_the_time_to_connect() {
    let peer = Peer::start(|mut socket| {
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let mut lane = peer.lane(forebay_load::plan::Link::default(), &get());
    lane.link.http2 = true;
    let mut plan = plan(lane);
    plan.connect_timeout = Duration::from_millis(50);
    let stretch = run_until_failure(plan);
    assert!(
        example(&stretch, Class::ConnectTimeout).contains("settings"),
        "{:?}",
        stretch.examples
    );
}

/// A frame of HTTP/2 (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Settings that allow so many streams at once.
fn allows(streams: u32) -> Vec<u8> {
    frame(4, 0, 0, &[&[0, 3][..], &streams.to_be_bytes()].concat())
}

/// Reads the client's preface, and frames up to the first head of a request.
fn until_request(socket: &mut std::net::TcpStream) {
    socket.read_exact(&mut [0; 24]).unwrap();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        socket.read_exact(&mut vec![0; length as usize]).unwrap();
        if head[3] == 1 {
            return;
        }
    }
}

/// A plan for HTTP/2 against a peer that plays a server by hand.
fn by_hand(peer: &Peer) -> Plan {
    let mut lane = peer.lane(forebay_load::plan::Link::default(), &get());
    lane.link.http2 = true;
    plan(lane)
}

const SHUT: &str = "its MAX_CONCURRENT_STREAMS is 0";

#[test]
fn a_server_that_allows_no_streams_ends_with_the_time_to_connect() {
    let peer = Peer::start(|mut socket| {
        socket.write_all(&allows(0)).unwrap();
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let mut plan = by_hand(&peer);
    plan.connect_timeout = Duration::from_millis(50);
    let stretch = run_until_failure(plan);
    assert!(
        example(&stretch, Class::ConnectTimeout).contains(SHUT),
        "{:?}",
        stretch.examples
    );
    assert_eq!(stretch.total.sent, 0);
}

#[test]
fn a_server_that_allows_streams_only_later_is_waited_for() {
    let peer = Peer::start(|mut socket| {
        socket.write_all(&allows(0)).unwrap();
        socket.write_all(&allows(1)).unwrap();
        until_request(&mut socket);
        // Status 200 and nothing else, by the static table.
        socket.write_all(&frame(1, 5, 1, &[0x88])).unwrap();
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let (stretch, _) = run(by_hand(&peer), 1, requests(1));
    assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 1));
}

#[test]
fn a_server_that_allows_no_streams_any_more_ends_with_the_time_for_an_answer() {
    let peer = Peer::start(|mut socket| {
        socket.write_all(&allows(100)).unwrap();
        until_request(&mut socket);
        let last = [allows(0), frame(1, 5, 1, &[0x88])].concat();
        socket.write_all(&last).unwrap();
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let mut plan = by_hand(&peer);
    plan.timeout = Duration::from_millis(50);
    let (stretch, _) = run(plan, 1, requests(2));
    assert!(
        example(&stretch, Class::Timeout).contains(SHUT),
        "{:?}",
        stretch.examples
    );
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![(Class::Timeout, 1)], 1)
    );
}

#[test]
fn bodies_and_long_heads_are_looked_into() {
    let server = Server::start(Manner::default());
    let mut right = plan(server.get("/bytes/40000"));
    right.pipeline = 4;
    right.expect.checks.push(Check::Equals(body(40_000)));
    let (stretch, _) = run(right, 2, requests(40));
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 40),
        "{:?}",
        stretch.examples
    );

    let mut wrong = plan(server.get("/bytes/7"));
    wrong.expect.checks.push(Check::Length(8));
    let (stretch, _) = run(wrong, 1, requests(10));
    assert_eq!(failures(&stretch), vec![(Class::Mismatch, 10)]);

    let (stretch, _) = run(plan(server.get("/field/50000")), 1, requests(10));
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 10),
        "{:?}",
        stretch.examples
    );
    assert!(stretch.total.bytes_in > 250_000);

    let (stretch, _) = run(plan(server.get("/field/200000")), 1, requests(3));
    assert_eq!(
        failures(&stretch),
        vec![(Class::OverLong, 3)],
        "{:?}",
        stretch.examples
    );

    let head = Parts {
        method: "HEAD".into(),
        path_and_query: "/bytes/0".into(),
        ..get()
    };
    let (stretch, _) = run(
        plan(server.lane(Requests::Same(head.message().unwrap()))),
        1,
        requests(10),
    );
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 10),
        "{:?}",
        stretch.examples
    );
}

#[test]
fn a_scenario_goes_over_streams_as_it_goes_over_http_1() {
    let server = Server::start(Manner::default());
    let steps = r#"[{"path": "/visit/41", "extract": {"next": {"header": "x-next"}}}, {"path": "/own/{{next}}"}, {"path": "/own/7"}]"#;
    let url = Url::parse("http://localhost/").unwrap();
    let scenario = Scenario::parse(steps, &url, &Parts::get(&url), &Grammar::braces()).unwrap();
    let lane = server.lane(Requests::scenario(scenario));
    let mut all = plan(lane);
    (all.pipeline, all.threads) = (4, 2);
    let (stretch, _) = run(all, 3, requests(90));
    // The last step has the cookie of another number, whatever the connection.
    let passes = stretch.total.passes_failed;
    assert_eq!(
        failures(&stretch),
        [(Class::Status, passes)],
        "{:?}",
        stretch.examples
    );
    assert_eq!(
        stretch.total.statuses.iter().map(|(_, count)| count).sum::<u64>(),
        90
    );
    assert!(
        (27..=30).contains(&passes) && stretch.total.passes == 0,
        "{passes}"
    );
    assert!(example(&stretch, Class::Status).contains("step 3: an answer has status 403"));
}

#[test]
fn redirects_are_followed_over_streams() {
    let server = Server::start(Manner::default());
    let mut plan = plan(server.get("/to/7"));
    plan.follow = 1;
    plan.expect.checks.push(Check::Length(7));
    let (stretch, _) = run(plan, 2, requests(40));
    assert_eq!(failures(&stretch), [], "{:?}", stretch.examples);
    // The last two of the forty requests may each be the first half of a pass, one on every connection.
    let redirects = stretch.total.redirects;
    assert!((20..=21).contains(&redirects), "{redirects}");
    assert_eq!(stretch.total.body_bytes_in, 7 * (40 - redirects));
}

#[test]
fn connections_are_made_anew_as_often_as_asked_for() {
    let server = Server::start(Manner::default());
    let mut one = plan(server.get("/bytes/1"));
    one.keep_alive = false;
    let (stretch, _) = run(one, 2, requests(20));
    assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 20));
    // The last request may be sent by one connection while the other is still being made.
    assert!(
        (20..=21).contains(&stretch.total.connects),
        "{}",
        stretch.total.connects
    );

    let mut five = plan(server.get("/bytes/1"));
    five.requests_per_connection = 5;
    five.pipeline = 2;
    let (stretch, _) = run(five, 1, requests(20));
    assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 20));
    assert_eq!(Seen::get(&server.seen.answered), 40);
}

#[test]
fn a_rate_is_kept_over_streams() {
    let server = Server::start(Manner::default());
    let mut plan = plan(server.get("/slow/30"));
    plan.pipeline = 20;
    plan.check(1, false).unwrap();
    let mut session = forebay_load::Session::start(plan).unwrap();
    let load = forebay_load::plan::Load {
        connections: 1,
        pace: Pace::Open {
            per_second: 400.0,
            arrivals: forebay_load::plan::Arrivals::Uniform,
        },
    };
    let mut stretch = session.measure(load, requests(100), &mut |_| {});
    stretch.absorb(&session.finish());
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 100),
        "{:?}",
        stretch.examples
    );
    assert!(
        Seen::get(&server.seen.most) > 1,
        "requests do not wait for one another"
    );
}

#[test]
fn a_request_that_has_no_form_in_http_2_is_refused_before_the_run() {
    let server = Server::start(Manner::default());
    let mut parts = get();
    parts.fields.push(("transfer-encoding".into(), "chunked".into()));
    let plan = plan(server.lane(Requests::Same(parts.message().unwrap())));
    assert!(matches!(plan.check(1, false), Err(PlanError::Http2 { .. })));
}
