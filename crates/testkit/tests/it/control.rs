//! Orders over the control socket, and the log that it shows.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt};

use forebay_testkit::{Client, Response, wait_until};
use serde_json::Value;

use crate::support::{ONE_WORKER, TOOLBOX, fake, node, wait_until_ready};

pub(crate) fn order(client: &mut Client, method: &str, path: &str, body: &str) -> Response {
    client.ask(method, path, "", body)
}

#[test]
fn only_the_servers_user_may_open_the_socket_and_it_goes_with_the_server() {
    let mut server = fake("well", ONE_WORKER).admin().start();
    let socket = server.folder().path().join("control.sock");
    let mode = socket.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.terminate();
    assert!(server.wait().success());
    assert!(!socket.exists() && !server.folder().path().join("admin.sock").exists());
}

#[test]
fn a_pool_is_resized_while_it_runs() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let mut control = server.control();
    let resized = order(&mut control, "POST", "/pools/api/resize", "{\"workers\": 3}");
    assert_eq!(resized.status, 200, "{}", resized.text());
    server.wait_for_workers(3);
    order(
        &mut control,
        "POST",
        "/pools/api/resize",
        "{\"min\": 1, \"max\": 1}",
    );
    server.wait_for_workers(1);
    assert_eq!(server.get("/pid").status, 200);
    let none = order(&mut control, "POST", "/pools/nope/resize", "{\"workers\": 3}");
    assert_eq!(
        (none.status, none.detail().as_str()),
        (404, "there is no pool `nope`; there are: api")
    );
    assert_eq!(
        order(&mut control, "POST", "/pools/api/resize", "{\"workers\": 0}").status,
        400
    );
    for (body, said) in [
        ("[3]", "expected a JSON object with workers, min, max"),
        ("{\"worker\": 3}", "workers, min, max; found `worker`"),
    ] {
        let refused = order(&mut control, "POST", "/pools/api/resize", body);
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.text().contains(said), "{}", refused.text());
    }
}

#[test]
fn the_level_changes_while_the_server_runs() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let mut control = server.control();
    let wrong = order(&mut control, "PUT", "/log/level", "{\"level\": \"loud\"}");
    assert_eq!(wrong.status, 400);
    assert!(!server.log().contains("\"level\":\"DEBUG\""));
    let set = order(
        &mut control,
        "PUT",
        "/log/level",
        "{\"level\": \"info,forebay::pool=debug\"}",
    );
    assert_eq!(set.status, 200, "{}", set.text());
    order(&mut control, "POST", "/pools/api/resize", "{\"workers\": 2}");
    server.wait_for_log(&["\"level\":\"DEBUG\"", "worker started"]);
    assert_eq!(
        control.get("/status").json()["log"]["level"],
        "info,forebay::pool=debug"
    );
}

#[test]
fn recent_events_are_shown_and_further_ones_follow() {
    let source = "export default (request, ctx) => {
        console.error(`seen ${request.path}`);
        ctx.log.error(`grave ${request.path}`);
        return '';
    };";
    let server = node(source, ONE_WORKER).admin().start();
    server.get("/first");
    let mut control = server.control();
    let mut levels_of = |query: &str| -> BTreeSet<String> {
        let answer = control.get(query);
        let events = answer
            .text()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        events
            .map(|event| event["level"].as_str().expect("a level").to_owned())
            .collect()
    };
    let levels = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|&name| name.to_owned()).collect() };
    wait_until("events of three levels", || {
        levels_of("/logs") == levels(&["ERROR", "INFO", "WARN"])
    });
    assert_eq!(levels_of("/logs?level=warn"), levels(&["ERROR", "WARN"]));
    assert_eq!(levels_of("/logs?level=error"), levels(&["ERROR"]));
    assert_eq!(control.get("/logs?level=loud").status, 400);

    let mut following = server.control();
    following.request("GET", "/logs?level=warn&follow=true");
    let mut seen = String::new();
    let mut see = |what: &str| {
        while !seen.contains(what) {
            seen += &String::from_utf8_lossy(&following.some_bytes());
        }
    };
    see("seen /first");
    server.get("/second");
    see("seen /second");
    see("grave /second");
    assert!(!seen.contains("\"level\":\"INFO\""), "{seen}");
}

#[test]
fn clients_that_follow_the_log_leave_room_for_orders() {
    let server = fake("well", ONE_WORKER).admin().start();
    let follow = || {
        let mut client = server.control();
        client.request("GET", "/logs?follow=true");
        let head = client.head().unwrap();
        (head.status, client)
    };
    let following: Vec<_> = (0..16).map(|_| follow()).collect();
    assert!(following.iter().all(|(status, _)| *status == 200));
    assert_eq!(follow().0, 503);
    assert_eq!(server.control().get("/logs").status, 200);
    drop(following);
    wait_until("the places to be free again", || follow().0 == 200);
}

#[test]
fn an_old_client_gets_the_log_without_chunks() {
    let server = fake("well", ONE_WORKER).admin().start();
    wait_until("something to be logged", || {
        !server.control().get("/logs").text().is_empty()
    });
    let mut control = server.control();
    control.send("GET /logs HTTP/1.0\r\n\r\n");
    let head = control.head().unwrap();
    assert_eq!((head.status, head.header("transfer-encoding")), (200, None));
    let lines = control.some_bytes();
    assert!(lines.starts_with(b"{"), "{}", String::from_utf8_lossy(&lines));
}

#[test]
fn the_server_is_stopped_as_by_a_signal() {
    let mut server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let stopping = order(&mut server.control(), "POST", "/stop", "");
    assert_eq!(stopping.status, 202);
    assert!(server.wait().success());
}

#[test]
fn what_is_no_order_is_told_what_is() {
    let server = fake("well", ONE_WORKER).admin().start();
    let mut control = server.control();
    let unknown = control.get("/restart");
    assert_eq!(unknown.status, 404);
    assert!(unknown.detail().contains("POST /reload"), "{}", unknown.detail());
    let refused = control.get("/reload");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
}
