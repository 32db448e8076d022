//! Reports on real runs: every form shows the same figures, and they are the server's.

use forebay_load::{
    Session,
    engine::Until,
    machine::{Machine, Usage},
    plan::{Arrivals, Load, Pace},
    report::{Options, Report, Run, html, json, text},
};
use serde_json::Value;

use crate::rig::{closed, millis, plan, requests, server};
use forebay_testkit::http_target::Server;

fn report(server: &Server, path: &str, load: Load, until: Until) -> Report {
    let mut plan = plan(server.address(), path);
    plan.threads = 2;
    plan.check(load.connections, false).unwrap();
    let run = Run {
        urls: vec![format!("http://localhost{path}")],
        method: "GET".into(),
        threads: 2,
        connections: load.connections,
        pipeline: 1,
        keep_alive: true,
        load: Some(load),
        requests: until.requests,
        ..Run::default()
    };
    let machine = Machine::this();
    let mut session = Session::start(plan).unwrap();
    let before = machine.sample(None).unwrap();
    let measured = session.measure(load, until, &mut |_| {});
    let after = machine.sample(None).unwrap();
    let mut report = Report::new(run, &measured, &session.finish());
    report.usage = Some(Usage::between(&before, &after));
    report.environment = Some(machine.environment());
    report
}

fn every_form_agrees(report: &Report, answered: u64) {
    let options = Options::default();
    let json = json::write(report, &options);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["requests"]["total"], answered);
    // Requests that were due in the last moment and found no free connection have waited, too.
    let unsent = value["errors"]["unanswered"].as_u64().unwrap_or_default();
    let latencies = answered + unsent;
    assert_eq!(value["latency_ms"]["count"], latencies);
    let slices = value["timeline"].as_array().unwrap();
    let in_slices: u64 = slices
        .iter()
        .map(|slice| slice["requests"].as_u64().unwrap())
        .sum();
    // Responses after the end of the measured time belong to no slice.
    assert_eq!(in_slices, (report.per_second * report.seconds).round() as u64);
    let verdict = value["verdict"].as_str().unwrap();
    assert!(text::write(report, &options).contains(&format!("\nVerdict      {verdict}\n")));
    let page = html::write(std::slice::from_ref(report), "", &options);
    assert!(page.contains(&format!("\nVerdict      {verdict}\n")));
}

#[test]
fn every_form_of_a_closed_run_tells_what_the_server_counted() {
    let server = server();
    let report = report(&server, "/", closed(8), requests(20_000));
    assert_eq!(server.stats().path("/").answered, 20_000);
    every_form_agrees(&report, 20_000);
}

#[test]
fn every_form_of_an_open_run_tells_what_the_server_counted() {
    let server = server();
    let load = Load {
        connections: 8,
        pace: Pace::Open {
            per_second: 4_000.0,
            arrivals: Arrivals::Poisson,
        },
    };
    let report = report(&server, "/", load, millis(400));
    let answered = server.stats().path("/").answered;
    assert!(
        report
            .service_ns
            .as_ref()
            .is_some_and(|service| service.len() == answered)
    );
    every_form_agrees(&report, answered);
}
