//! Requests that are not always the same, as the other side sees them: placeholders, and what is expected of answers.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use crate::peer::Peer;
use crate::rig::{FOREVER, closed, failures, parts, plan, requests, run, server};
use forebay_load::{
    Plan,
    expect::{Check, FirstLength},
    failure::Class,
    plan::Lane,
    request::{Grammar, Requests, Template},
};

/// Takes requests with a Content-Length, and remembers them.
fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let (mut held, mut piece) = (String::new(), [0; 4096]);
    loop {
        while let Some(length) = whole(&held) {
            seen.lock().unwrap().push(held.drain(..length).collect());
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => held.push_str(std::str::from_utf8(&piece[..read]).unwrap()),
        }
    }
}

/// The length of the first request once it is complete.
fn whole(held: &str) -> Option<usize> {
    let head = held.find("\r\n\r\n")? + 4;
    let length = held[..head].split("content-length: ").nth(1);
    let length: usize = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    (held.len() >= head + length).then_some(head + length)
}

#[test]
fn every_request_has_a_number_of_its_own_over_threads_lanes_and_pipelines() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let log = seen.clone();
    let peer = Peer::start(move |stream| serve(stream, &log));
    let mut parts = parts("/{{counter}}");
    parts.method = "POST".into();
    parts.body = b"{{counter}}-{{random 1 100000}}".to_vec();
    let sent = Requests::one(&parts, &Grammar::braces(&|path| std::fs::read(path))).unwrap();
    let lane = || Lane::new(peer.address(), sent.clone());
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
    let mut numbers: Vec<_> = seen.lock().unwrap().iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 400);
}

#[test]
fn what_answers_must_be_is_counted_where_they_are_not() {
    let ten = "x".repeat(10);
    for (path, text, class) in [
        ("/bytes/10", format!("equals:{ten}"), None),
        ("/bytes/11", format!("equals:{ten}"), Some(Class::Mismatch)),
        ("/chunked/1000", format!("~{ten}"), None),
        ("/bytes/9", format!("~{ten}"), Some(Class::Mismatch)),
        ("/status/500", "~".to_owned(), Some(Class::Status)),
    ] {
        let server = server();
        let mut plan = plan(server.address(), path);
        plan.expect.checks = vec![Check::body(&text).unwrap()];
        (plan.threads, plan.pipeline) = (2, 3);
        let found = failures(&run(plan, closed(4), requests(50)));
        let expected: Vec<_> = class.map(|class| (class, 50)).into_iter().collect();
        assert_eq!(found, expected, "{path} {text}");
    }
}

#[test]
fn answers_of_another_length_than_the_first_are_counted() {
    let server = server();
    let list = ["/bytes/10", "/bytes/20"].map(|path| Template::new(&parts(path), &Grammar::none()).unwrap());
    let mut plan = plan(server.address(), "/");
    plan.lanes[0].requests = Requests::Several(list.into());
    plan.expect.checks = vec![Check::LengthOfFirst(FirstLength::default())];
    let measured = run(plan, closed(1), requests(100));
    assert_eq!(failures(&measured), [(Class::Mismatch, 50)]);
}
