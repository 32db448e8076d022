//! The generator's counts are those of the server: every reported figure is true.

use std::time::{Duration, Instant};

use forebay_load::{
    Session,
    engine::Stretch,
    failure::Class,
    plan::{Lane, Load, Pace},
    request::{Grammar, Requests, Template},
};

use forebay_testkit::http_target::{Server, Stats};

use crate::rig::{
    FOREVER, beside_others, closed, failures, lane, millis, parts, plan, plan_of, requests, run, server,
    server_with,
};

/// Every request was written once, read once, answered once and counted once.
fn agree(measured: &Stretch, server: Server) -> Stats {
    // Connections that were opened and not used may still wait to be accepted when the run ends.
    let patience = Instant::now() + FOREVER;
    while server.stats().accepted < measured.total.connects && Instant::now() < patience {
        std::thread::yield_now();
    }
    let stats = server.stop();
    let total = &measured.total;
    assert_eq!(failures(measured), [], "{:?}", measured.examples);
    assert_eq!(total.sent, stats.total.received, "requests");
    assert_eq!(total.answers, stats.total.answered, "answers");
    assert_eq!(total.sent, total.answers, "every request is answered");
    assert_eq!(total.latency.len(), total.answers, "every answer has its latency");
    assert_eq!(
        total.statuses.iter().map(|(_, count)| count).sum::<u64>(),
        total.answers
    );
    assert_eq!(total.connects, stats.accepted, "connections");
    assert_eq!(total.connecting.len(), total.connects);
    stats
}

#[test]
pub(crate) fn a_number_of_requests_is_sent_exactly() {
    for (threads, connections, pipeline, number) in [
        (1, 1, 1, 1),
        (1, 3, 1, 1000),
        (2, 8, 1, 10_007),
        (3, 16, 16, 20_011),
        (4, 2, 7, 999),
        (2, 64, 3, 40),
    ] {
        let server = server_with(2);
        let mut plan = plan(server.address(), "/");
        (plan.threads, plan.pipeline) = (threads, pipeline);
        let measured = run(plan, closed(connections), requests(number));
        let stats = agree(&measured, server);
        assert_eq!(
            stats.total.answered, number,
            "{threads} threads, {connections} connections, {pipeline} at once"
        );
        assert!(stats.accepted <= connections as u64);
    }
}

#[test]
pub(crate) fn a_run_of_some_time_counts_what_the_server_counts() {
    for pipeline in [1, 2, 16] {
        let server = server_with(2);
        let mut plan = plan(server.address(), "/bytes/100");
        (plan.threads, plan.pipeline) = (2, pipeline);
        let measured = run(plan, closed(10), millis(150));
        let stats = agree(&measured, server);
        assert_eq!(stats.accepted, 10, "each connection is kept");
        assert_eq!(measured.total.body_bytes_in, 100 * measured.total.answers);
        assert!(measured.seconds() >= 0.15);
    }
}

#[test]
pub(crate) fn warm_up_measurement_and_what_comes_after_are_all_there_is() {
    let _floor = beside_others();
    let server = server();
    let mut plan = plan(server.address(), "/");
    (plan.threads, plan.pipeline) = (2, 4);
    let mut session = Session::start(plan).unwrap();
    let going = |ms| millis(ms).and_on();
    let warm_up = session.measure(closed(8), going(60), &mut |_| {});
    let first = session.measure(closed(8), going(60), &mut |_| {});
    let second = session.measure(closed(4), requests(500), &mut |_| {});
    let third = session.measure(closed(8), millis(60), &mut |_| {});
    let mut all = session.between().clone();
    all.absorb(&session.finish());
    for part in [&warm_up, &first, &second, &third] {
        assert!(part.total.answers > 0);
        all.absorb(part);
    }
    agree(&all, server);
}

#[test]
pub(crate) fn connections_without_keep_alive_carry_one_request_each() {
    let server = server_with(2);
    let mut parts = parts("/");
    parts.keep_alive = false;
    let mut plan = plan_of(vec![lane(server.address(), &parts)]);
    (plan.threads, plan.keep_alive) = (2, false);
    let measured = run(plan, closed(7), requests(800));
    let stats = agree(&measured, server);
    assert_eq!(stats.total.answered, 800);
    // The last ones may be opened before the last request is sent elsewhere.
    assert!((800..807).contains(&stats.accepted), "{}", stats.accepted);
}

#[test]
pub(crate) fn a_server_that_announces_its_close_costs_a_connection_and_nothing_else() {
    let server = server();
    let measured = run(plan(server.address(), "/close"), closed(3), requests(300));
    let stats = agree(&measured, server);
    assert_eq!(stats.total.answered, 300);
    assert!((300..303).contains(&stats.accepted), "{}", stats.accepted);
}

#[test]
pub(crate) fn several_requests_are_sent_in_turn() {
    let server = server();
    let paths = ["/bytes/1", "/chunked/20000", "/status/204"];
    let template = |path| Template::new(&parts(path), &Grammar::none()).unwrap();
    let messages = paths.map(template);
    let requests_in_turn = Requests::Several(messages.into());
    let mut plan = plan_of(vec![Lane::new(server.address(), requests_in_turn)]);
    plan.pipeline = 5;
    let measured = run(plan, closed(4), requests(900));
    let stats = agree(&measured, server);
    for path in paths {
        assert_eq!(stats.path(path).answered, 300, "{path}");
    }
    assert_eq!(measured.total.body_bytes_in, 300 * 20_001);
}

#[test]
pub(crate) fn connections_take_lanes_in_turn() {
    let server = server();
    let lanes = ["/bytes/1", "/bytes/2"].map(|path| lane(server.address(), &parts(path)));
    let mut plan = plan_of(lanes.into());
    plan.threads = 2;
    let measured = run(plan, closed(4), millis(60));
    let stats = agree(&measured, server);
    assert!(stats.path("/bytes/1").answered > 0 && stats.path("/bytes/2").answered > 0);
}

#[test]
pub(crate) fn an_answer_to_head_has_no_body_to_wait_for() {
    let server = server();
    let mut parts = parts("/bytes/100000");
    parts.method = "HEAD".into();
    let measured = run(
        plan_of(vec![lane(server.address(), &parts)]),
        closed(2),
        requests(200),
    );
    agree(&measured, server);
    assert_eq!(measured.total.body_bytes_in, 0);
}

#[test]
pub(crate) fn long_requests_and_long_answers_arrive_whole() {
    let server = server();
    let mut parts = parts("/echo");
    parts.method = "POST".into();
    parts.body = vec![b'x'; 1_000_000];
    let mut plan = plan_of(vec![lane(server.address(), &parts)]);
    plan.pipeline = 3;
    let measured = run(plan, closed(3), requests(30));
    agree(&measured, server);
    assert_eq!(measured.total.body_bytes_in, 30_000_000);
}

#[test]
pub(crate) fn answers_of_another_status_are_answers_and_failures() {
    let server = server();
    let measured = run(plan(server.address(), "/status/503"), closed(2), requests(100));
    assert_eq!(failures(&measured), [(Class::Status, 100)]);
    assert_eq!(measured.total.statuses, [(503, 100)]);
    assert_eq!(server.stop().total.answered, 100);
}

#[test]
pub(crate) fn an_open_load_counts_as_exactly_as_a_closed_one() {
    // The last request is due long before it can be sent: requests beyond the number asked for must not be waited for.
    for per_second in [20_000.0, 1e6] {
        let server = server();
        let mut plan = plan(server.address(), "/");
        plan.threads = 2;
        let load = Load {
            connections: 8,
            pace: Pace::Open { per_second },
        };
        let measured = run(plan, load, requests(1500));
        let stats = agree(&measured, server);
        assert_eq!(stats.total.answered, 1500);
        assert_eq!(measured.total.service.as_ref().unwrap().len(), 1500);
    }
}

#[test]
pub(crate) fn an_open_load_of_a_fixed_number_ends_although_more_is_due_and_connections_are_free() {
    let server = server();
    // Far more connections than are needed for twenty requests that are due in the same millisecond.
    let load = Load {
        connections: 64,
        pace: Pace::Open {
            per_second: 1_000_000.0,
        },
    };
    let measured = run(plan(server.address(), "/"), load, requests(20));
    assert_eq!(agree(&measured, server).total.answered, 20);
}

#[test]
pub(crate) fn more_threads_than_connections_do_no_harm() {
    let server = server();
    let mut plan = plan(server.address(), "/");
    plan.threads = 5;
    let measured = run(plan, closed(2), requests(100));
    assert_eq!(agree(&measured, server).total.answered, 100);
}

#[test]
pub(crate) fn stopping_ends_a_measurement_and_keeps_its_counts() {
    let _floor = beside_others();
    let server = server();
    let mut session = Session::start(plan(server.address(), "/")).unwrap();
    let stopper = session.stopper();
    let mut seen = false;
    let mut stretch = session.measure(closed(2), millis(60_000), &mut |stretch| {
        seen |= stretch.total.answers > 0;
        if seen {
            stopper.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(stretch.interrupted && stretch.seconds() < 50.0);
    stretch.absorb(&session.finish());
    agree(&stretch, server);
}

#[test]
pub(crate) fn a_long_run_s_timeline_is_bounded_and_complete() {
    let _floor = beside_others();
    let server = server();
    let mut session = Session::start(plan(server.address(), "/")).unwrap();
    let stretch = session.measure(closed(2), millis(700), &mut |_| {});
    let timeline = &stretch.timeline;
    assert_eq!(
        timeline.slices.iter().map(|slice| slice.answers).sum::<u64>(),
        stretch.total.answers
    );
    let length = Duration::from_nanos(timeline.slice_ns) * timeline.slices.len() as u32;
    assert!(length >= Duration::from_millis(600), "{length:?}");
}
