//! Commands that talk to a running server.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use forebay_testkit::{Folder, wait_until};
use rustix::process::Signal;

use crate::run::{Serving, ended, forebay, run};

const CONFIG: &str = "[pool.api]\nhandler = \"api.mjs\"\nworkers = { min = 1, max = 1 }\n[[route]]\npath = \"/api\"\npool = \"api\"\n";

fn app() -> Folder {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    folder.write(
        "api.mjs",
        "export default (request, ctx) => { ctx.log.warn('asked'); return 'one'; };",
    );
    folder
}

#[test]
fn status_tells_people_and_programs_about_pools_and_workers() {
    let folder = app();
    let serving = Serving::start(folder.path(), &[]);
    serving.get("/api");
    let pid = serving.workers(1)[0].pid.to_string();
    let told = serving.run(&["status"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    let row = |first: &str| {
        let line = told
            .out
            .lines()
            .find(|line| line.starts_with(first))
            .unwrap_or_else(|| panic!("{}", told.out));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("api   ready")[..5], ["api", "ready", "1/1", "0/1024", "1"]);
    assert!(
        told.out
            .lines()
            .any(|line| line.contains(&pid) && line.contains("MiB")),
        "{}",
        told.out
    );
    assert_eq!(row("/api")[1], "1", "{}", told.out);
    let json: serde_json::Value = serde_json::from_str(&serving.run(&["status", "--json"]).out).unwrap();
    assert_eq!(json["pools"][0]["workers"][0]["pid"].to_string(), pid);
}

#[test]
fn resize_changes_the_number_of_workers() {
    let folder = app();
    let serving = Serving::start(folder.path(), &[]);
    let told = serving.run(&["pool", "resize", "api", "3"]);
    assert_eq!(
        (told.code, told.out.as_str()),
        (0, "pool api resized to 3 workers\n")
    );
    serving.workers(3);
    let refused = serving.run(&["pool", "resize", "apy", "3"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .starts_with("error: the server refuses: there is no pool `apy`"),
        "{refused:?}"
    );
}

#[test]
fn reload_puts_changes_in_force_and_applies_the_options_of_serve_again() {
    let folder = app();
    let serving = Serving::start(folder.path(), &["--workers", "2"]);
    assert_eq!(serving.get("/api").text(), "one");
    folder.write("api.mjs", "export default () => 'two';");
    let told = serving.run(&["reload"]);
    assert_eq!((told.code, told.out.as_str()), (0, "reloaded\n"));
    assert_eq!(serving.get("/api").text(), "two");
    serving.workers(2);
}

#[test]
fn a_reload_of_a_bad_configuration_is_refused_with_its_problems() {
    let folder = app();
    let serving = Serving::start(folder.path(), &[]);
    folder.write("forebay.toml", format!("{CONFIG}bogus = 1\n"));
    let refused = serving.run(&["reload"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.starts_with("error: the server refuses: "),
        "{refused:?}"
    );
    assert!(
        refused.err.contains("forebay.toml:7: route.bogus: no such key"),
        "{refused:?}"
    );
    assert_eq!(serving.get("/api").text(), "one");
}

#[test]
fn logs_are_json_for_programs_and_only_as_grave_as_asked() {
    let folder = app();
    let serving = Serving::start(folder.path(), &[]);
    serving.get("/api");
    wait_until("the handler's warning", || {
        serving.run(&["logs", "--level", "warn"]).out.contains("asked")
    });
    let warnings = serving.run(&["logs", "--level", "warn"]).out;
    for line in warnings.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["level"], "WARN", "{line}");
    }
    assert!(serving.run(&["logs"]).out.contains("worker ready"));
}

#[test]
fn logs_follow_what_is_logged_until_the_server_ends_and_then_say_so() {
    let folder = app();
    let mut serving = Serving::start(folder.path(), &[]);
    serving.get("/api");
    let mut following = forebay(folder.path(), &["logs", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(following.stdout.take().unwrap()).lines();
    told.find(|line| line.as_ref().unwrap().contains("asked"))
        .expect("what was logged before")
        .unwrap();
    serving.get("/api");
    told.find(|line| line.as_ref().unwrap().contains("asked"))
        .expect("what is logged now")
        .unwrap();
    serving.process().signal(Signal::TERM);
    serving.wait();
    let ended = ended(&following.wait_with_output().unwrap());
    assert_eq!(ended.code, 4);
    assert!(
        ended.err.starts_with("error: the server at ")
            && ended.err.ends_with(
                " has ended
"
            ),
        "{ended:?}"
    );
}

#[test]
fn status_follows_with_a_report_each_second_until_the_server_ends() {
    let folder = app();
    let mut serving = Serving::start(folder.path(), &[]);
    let mut following = forebay(folder.path(), &["status", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(following.stdout.take().unwrap()).lines();
    for report in 1..=2 {
        told.find(|line| line.as_ref().unwrap().starts_with("forebay 0.1.0, pid "))
            .unwrap_or_else(|| panic!("report {report}"))
            .unwrap();
    }
    serving.process().signal(Signal::TERM);
    serving.wait();
    let ended = ended(&following.wait_with_output().unwrap());
    assert_eq!(ended.code, 4, "{ended:?}");
}

#[test]
fn a_named_socket_is_asked_whatever_the_folder() {
    let folder = app();
    let serving = Serving::start(folder.path(), &[]);
    let elsewhere = Folder::new();
    let socket = folder.path().join("forebay.sock");
    let told = run(
        elsewhere.path(),
        &["status", "--socket", socket.to_str().unwrap()],
    );
    assert_eq!(told.code, 0, "{told:?}");
    drop(serving);
}
