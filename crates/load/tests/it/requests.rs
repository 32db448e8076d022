//! Requests that are not always the same, as the other side sees them: placeholders, scenarios, and what is expected of answers.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use forebay_load::{
    Plan, Url,
    expect::{Check, Expect, FirstLength},
    failure::Class,
    plan::{Arrivals, Lane, Load, Pace},
    request::{Grammar, Order, Requests, Scenario},
    target::Address,
};
use serde_json::json;

use crate::rig::{FOREVER, closed, example, failures, parts, plan, requests, run, server};

/// A server that answers each request as it is told, and remembers all of them.
struct Peer {
    address: Address,
    seen: Arc<Mutex<Vec<String>>>,
}

/// The answer to the request with this number; an empty one closes the connection.
type Answer = fn(&str, usize) -> String;

impl Peer {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = log.clone();
                std::thread::spawn(move || serve(stream.unwrap(), answer, &log));
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn lines(&self) -> Vec<String> {
        let line = |request: &String| request.lines().next().unwrap().to_owned();
        self.seen().iter().map(line).collect()
    }

    fn run(&self, requests_sent: Requests, connections: usize, number: u64) -> forebay_load::engine::Stretch {
        let mut plan = Plan::new(vec![Lane::new(self.address.clone(), requests_sent)]);
        plan.timeout = FOREVER;
        run(plan, closed(connections), requests(number))
    }
}

/// Takes requests with a Content-Length or without a body.
fn serve(mut stream: TcpStream, answer: Answer, log: &Mutex<Vec<String>>) {
    let mut held = String::new();
    let mut piece = [0; 4096];
    loop {
        while let Some(length) = whole(&held) {
            let request: String = held.drain(..length).collect();
            let number = {
                let mut log = log.lock().unwrap();
                log.push(request.clone());
                log.len() - 1
            };
            let text = answer(&request, number);
            if text.is_empty() {
                return;
            }
            stream.write_all(text.as_bytes()).unwrap();
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => held.push_str(std::str::from_utf8(&piece[..read]).unwrap()),
        }
    }
}

/// The length of the first request once it is there.
fn whole(held: &str) -> Option<usize> {
    let head = held.find("\r\n\r\n")? + 4;
    let length = held[..head].split("content-length: ").nth(1);
    let length: usize = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    (held.len() >= head + length).then_some(head + length)
}

fn ok(fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn scenario(steps: &serde_json::Value) -> Requests {
    let url = Url::parse("http://localhost/").unwrap();
    let scenario = Scenario::parse(&steps.to_string(), &url, &parts("/"), &Grammar::braces());
    Requests::scenario(scenario.unwrap())
}

#[test]
fn every_request_has_a_number_of_its_own_over_threads_lanes_and_pipelines() {
    let peer = Peer::start(|_, _| ok("", ""));
    let mut parts = parts("/{{counter}}");
    parts.method = "POST".into();
    parts.body = b"{{counter}}-{{random 1 100000}}".to_vec();
    let sent = Requests::one(&parts, &Grammar::braces()).unwrap();
    let lane = || Lane::new(peer.address.clone(), sent.clone());
    let mut plan = Plan::new(vec![lane(), lane()]);
    (plan.threads, plan.pipeline, plan.timeout) = (2, 4, FOREVER);
    let measured = run(plan, closed(4), requests(400));
    assert_eq!(failures(&measured), [], "{:?}", measured.examples);
    let number = |request: &String| {
        let path = request.split(' ').nth(1).unwrap()[1..].to_owned();
        let body = request.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!(
            body.split('-').next(),
            Some(path.as_str()),
            "one number within a request"
        );
        path
    };
    let mut numbers: Vec<_> = peer.seen().iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 400);
}

#[test]
fn each_connection_is_a_user_with_values_and_cookies_of_its_own() {
    let peer = Peer::start(|request, number| {
        if request.starts_with("POST /login ") {
            return ok(
                &format!("set-cookie: session=s{number}\r\n"),
                &format!("{{\"token\": \"t{number}\"}}"),
            );
        }
        ok("", "{}")
    });
    let steps = json!([
        {"method": "POST", "path": "/login", "extract": {"token": "$.token"}},
        {"path": "/a", "headers": {"authorization": "{{token}}"}},
        {"path": "/b?t={{token}}"},
    ]);
    let measured = peer.run(scenario(&steps), 3, 90);
    assert_eq!(failures(&measured), [], "{:?}", measured.examples);
    let seen = peer.seen();
    assert_eq!(seen.len(), 90);
    let logins: Vec<_> = seen
        .iter()
        .enumerate()
        .filter(|(_, request)| request.starts_with("POST /login "))
        .collect();
    for (number, request) in &logins {
        assert!(!request.contains("cookie"), "a new pass has no cookies");
        let visit = seen
            .iter()
            .filter(|request| request.contains(&format!("cookie: session=s{number}\r\n")));
        let visit: Vec<_> = visit.collect();
        let token = [
            format!("authorization: t{number}\r\n"),
            format!("/b?t=t{number} "),
        ];
        assert!(
            visit.len() <= 2
                && visit
                    .iter()
                    .zip(&token)
                    .all(|(request, token)| request.contains(token)),
            "{visit:?}"
        );
    }
    assert!(logins.len() >= 30, "{} passes", logins.len());
}

#[test]
fn a_lost_answer_and_a_wrong_one_begin_the_scenario_anew() {
    let peer = Peer::start(|request, number| match number {
        1 => String::new(),
        4 => ok("", "wrong"),
        _ => ok(
            "",
            if request.starts_with("GET /b ") {
                "right"
            } else {
                ""
            },
        ),
    });
    let steps = json!([{"path": "/a"}, {"name": "second", "path": "/b", "expect": {"body": "right"}}, {"path": "/c"}]);
    let measured = peer.run(scenario(&steps), 1, 8);
    let lines: Vec<_> = peer.lines().iter().map(|line| line[5..6].to_owned()).collect();
    // Number 1 is lost, number 4 (`/c`) may say what it likes, and the pass after it is whole.
    assert_eq!(lines.concat(), "ababcabc");
    assert_eq!(failures(&measured), [(Class::ClosedEarly, 1)]);
    assert_eq!((measured.total.passes, measured.total.passes_failed), (2, 1));

    let peer = Peer::start(|_, number| ok("", if number == 1 { "wrong" } else { "right" }));
    let measured = peer.run(scenario(&steps), 1, 5);
    assert_eq!(
        peer.lines().iter().map(|line| &line[5..6]).collect::<String>(),
        "ababc"
    );
    assert_eq!(failures(&measured), [(Class::Mismatch, 1)]);
    assert_eq!((measured.total.passes, measured.total.passes_failed), (1, 1));
    let example = &measured.examples[0].1;
    assert_eq!(
        example,
        "step 2 (second): the body is not the one expected; the body is `wrong`"
    );
}

/// Redirects along a way of three, with a loop and a way out.
fn ways(request: &str, _: usize) -> String {
    let to = |status: u16, fields: &str, location: &str| {
        format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\n{fields}content-length: 0\r\n\r\n")
    };
    match request.split(' ').nth(1).unwrap() {
        "/start" => to(302, "", "/deep/middle?x"),
        "/deep/middle?x" => to(307, "connection: close\r\n", "end"),
        "/loop" => to(301, "", "/loop"),
        "/out" => to(308, "", "http://elsewhere/"),
        "/login" => to(303, "set-cookie: session=7\r\n", "/home"),
        _ => ok("", "here"),
    }
}

#[test]
fn redirects_on_the_same_server_are_followed_on_the_same_connection() {
    for (pace, threads) in [
        (Pace::Closed, 1),
        (Pace::Closed, 2),
        (
            Pace::Open {
                per_second: 2000.0,
                arrivals: Arrivals::Uniform,
            },
            1,
        ),
        (Pace::PerConnection { per_second: 50.0 }, 1),
    ] {
        let peer = Peer::start(ways);
        let mut plan = plan(&peer.address, "/start");
        plan.expect.checks = vec![Check::body("here").unwrap()];
        (plan.follow, plan.threads) = (5, threads);
        let load = Load { connections: 2, pace };
        let measured = run(plan, load, requests(60));
        assert_eq!(failures(&measured), [], "{pace:?}: {:?}", measured.examples);
        assert_eq!(measured.total.answers, 60);
        let lines = peer.lines();
        let count = |path: &str| lines.iter().filter(|line| line.contains(path)).count() as u64;
        let ways = [count("/start "), count("/deep/middle?x "), count("/deep/end ")];
        assert_eq!(measured.total.redirects, ways[0] + ways[1], "{pace:?}");
        // At the end of the run a way may be left on each connection.
        assert!(ways[0] - ways[2] <= 2 && ways[2] >= 18, "{pace:?}: {ways:?}");
    }
}

#[test]
fn a_redirect_that_is_not_followed_has_failed() {
    for (path, sent, redirects, failed, says) in [
        (
            "/loop",
            8,
            6,
            2,
            "more than 3 redirects in a row, the last one to /loop",
        ),
        (
            "/out",
            4,
            0,
            4,
            "a redirect is not followed: it goes to http://elsewhere/",
        ),
    ] {
        let peer = Peer::start(ways);
        let mut plan = plan(&peer.address, path);
        plan.follow = 3;
        let measured = run(plan, closed(1), requests(sent));
        assert_eq!(failures(&measured), [(Class::Status, failed)], "{path}");
        assert_eq!(measured.total.redirects, redirects, "{path}");
        assert_eq!(example(&measured, Class::Status), says);
    }
}

#[test]
fn a_user_takes_cookies_along_a_redirect_and_looks_at_its_end() {
    let peer = Peer::start(ways);
    let steps = json!([
        {"path": "/login", "body": {"user": "ann"}, "expect": {"status": "200", "body": "here"}},
        {"path": "/orders"},
    ]);
    let mut plan = Plan::new(vec![Lane::new(peer.address.clone(), scenario(&steps))]);
    (plan.timeout, plan.follow) = (FOREVER, 1);
    let measured = run(plan, closed(1), requests(6));
    assert_eq!(failures(&measured), [], "{:?}", measured.examples);
    assert_eq!((measured.total.passes, measured.total.redirects), (2, 2));
    let seen = peer.seen();
    let lines: Vec<_> = peer.lines();
    let pass = [
        "POST /login HTTP/1.1",
        "GET /home HTTP/1.1",
        "GET /orders HTTP/1.1",
    ];
    assert_eq!(lines, [pass, pass].concat());
    for request in [&seen[1], &seen[2]] {
        assert!(
            request.contains("cookie: session=7\r\n") && !request.contains("content-"),
            "{request}"
        );
    }
}

#[test]
fn users_outlive_their_connections() {
    let peer = Peer::start(|request, _| {
        let fields = "set-cookie: s=1\r\nconnection: close\r\n";
        assert_eq!(request.starts_with("GET /b "), request.contains("cookie: s=1"));
        ok(fields, "")
    });
    let measured = peer.run(scenario(&json!([{"path": "/a"}, {"path": "/b"}])), 1, 20);
    assert_eq!(failures(&measured), [], "{:?}", measured.examples);
    assert_eq!(peer.lines().iter().filter(|line| line.contains("/b")).count(), 10);
}

#[test]
fn users_think_between_their_requests() {
    let peer = Peer::start(|_, _| ok("", ""));
    let began = std::time::Instant::now();
    let measured = peer.run(scenario(&json!([{"path": "/a", "think_ms": [20, 30]}])), 1, 5);
    assert!(
        began.elapsed() >= Duration::from_millis(80),
        "four times to think"
    );
    assert_eq!(measured.total.answers, 5);
}

#[test]
fn what_answers_must_be_is_counted_where_they_are_not() {
    let check = |path: &str, checks: Vec<Check>, number: u64| {
        let server = server();
        let mut plan = plan(server.address(), path);
        plan.expect = Expect {
            checks,
            ..Expect::default()
        };
        (plan.threads, plan.pipeline) = (2, 3);
        failures(&run(plan, closed(4), requests(number)))
    };
    let long = "x".repeat(1000);
    for (path, text, wrong) in [
        ("/bytes/1000", "length:1000", 0),
        ("/bytes/1000", "length:999", 50),
        ("/chunked/1000", "length:1000", 0),
        ("/bytes/10", &long, 50),
        ("/bytes/10", "regex:^.{10}$", 0),
        ("/bytes/10", "regex:^.{11}$", 50),
    ] {
        let found = check(path, vec![Check::body(text).unwrap()], 50);
        let expected = if wrong > 0 {
            vec![(Class::Mismatch, wrong)]
        } else {
            vec![]
        };
        assert_eq!(found, expected, "{path} {text:.20}");
    }
    assert_eq!(
        check("/", vec![Check::field("content-length: 13").unwrap()], 50),
        []
    );
    assert_eq!(
        check("/", vec![Check::field("x-none").unwrap()], 50),
        [(Class::Mismatch, 50)]
    );
    assert_eq!(
        check("/status/500", vec![Check::body("length:0").unwrap()], 50),
        [(Class::Status, 50)]
    );
}

#[test]
fn answers_of_another_length_than_the_first_are_counted() {
    let server = server();
    let list = ["/bytes/10", "/bytes/20"].map(|path| (parts(path).message().unwrap().into(), 1));
    let mut plan = plan(server.address(), "/");
    plan.lanes[0].requests = Requests::several(list.into(), Order::InTurn).unwrap();
    let first = FirstLength::default();
    plan.expect.checks = vec![Check::LengthOfFirst(first.clone())];
    let measured = run(plan, closed(1), requests(100));
    assert_eq!(failures(&measured), [(Class::Mismatch, 50)]);
    assert_eq!(first.get(), Some(10));
}
