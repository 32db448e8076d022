//! A running server is replaced by a new process: nothing is lost, and whatever does not work changes nothing.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use forebay_testkit::{Folder, Load, Process, Server, Setup, command, program, wait_for, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    http2::{self, connect, running, until, whole},
    support::{ONE_WORKER, Runtime, node},
    websockets::{self, CLOSE, Socket},
};

const HERE: &str = "[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n";
const ECHO: &str = "export default async (request) => await request.bytes();";

/// The last process of a chain of upgrades, ended with the test: it is no child of the test.
pub(crate) struct Successor(Process);

impl Drop for Successor {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Upgrades, and waits until the process before has ended.
pub(crate) fn upgrade(server: &Server) -> Successor {
    let before = server.serving();
    let output = server.command(&["upgrade"]);
    assert!(output.status.success(), "{}", said(&output));
    let after = server.serving();
    assert_ne!(after, before, "another process answers");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).split(", ").last(),
        Some(&*format!("now process {}\n", after.pid))
    );
    let after = Successor(after);
    wait_until("the process before to end", || !before.is_alive());
    after
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Points a link to another program, at once.
fn link(path: &Path, program: &Path) {
    let fresh = path.with_extension("fresh");
    symlink(program, &fresh).expect("a link can be made");
    fs::rename(fresh, path).expect("it can be put in place");
}

/// A program that is no server.
fn script(folder: &Folder, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be made executable");
    path
}

#[test]
fn upgrades_under_load_lose_no_request_and_no_connection() {
    let server = node(ECHO, "workers = { min = 1, max = 1 }").admin().start();
    wait_until("the pool to answer", || server.post("/", b"x").status == 200);
    let load = Load::on(&server, "/").connections(16);
    let running = load.start();
    // Beside it, each request on a connection of its own: some always wait to be accepted.
    let ended = AtomicBool::new(false);
    let last = thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            let mut answered = 0;
            while !ended.load(Ordering::Relaxed) {
                assert_eq!(server.get("/here").text(), "here");
                answered += 1;
            }
            answered
        });
        let config = server.folder().read("forebay.toml").expect("it was written");
        let mut last = upgrade(&server);
        // With fewer threads than sockets, and with more.
        for threads in [1, 3] {
            let threads = config.replace("threads = 2", &format!("threads = {threads}"));
            server.folder().write("forebay.toml", threads);
            last = upgrade(&server);
            // New connections are spread over all sockets.
            for _ in 0..20 {
                assert_eq!(server.get("/here").text(), "here");
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert!(connecting.join().expect("every request is answered") > 0);
        last
    });
    load.end();
    let report = running.join().expect("the load does not panic");
    report.assert_each_answered(&[200]);
    assert!(report.with_status(200) > 0, "{report}");
    last.0.signal(Signal::TERM);
    wait_until("the last process to end", || !last.0.is_alive());
}

#[test]
fn a_connection_that_seems_idle_gets_its_next_answer_and_is_told_that_it_is_the_last() {
    let server = Setup::new(HERE).admin().start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/here").header("connection"), None);
    let before = server.process();
    let output = server.command(&["upgrade"]);
    assert!(output.status.success(), "{}", said(&output));
    let _after = Successor(server.serving());
    let last = idle.get("/here");
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    idle.ends();
    wait_until("the process before to end", || !before.is_alive());
}

/// Whether a request was answered; otherwise a GOAWAY came before it began, and it belongs on another connection (RFC 9113, 6.8).
async fn is_answered(response: h2::client::ResponseFuture) -> bool {
    match response.await {
        Ok(response) => {
            assert_eq!(whole(response).await, b"done");
            true
        }
        Err(error) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => false,
        Err(error) => panic!("it is not answered: {error}"),
    }
}

#[test]
fn upgrades_lose_no_request_of_http_2_and_end_its_connections() {
    let code = "
        import { existsSync } from 'node:fs';
        export default async (request) => {
            const isDone = () => new URL(request.url).pathname !== '/slow' || existsSync('released');
            while (!isDone()) await new Promise((done) => setTimeout(done, 5));
            return 'done';
        };";
    let server = node(code, "workers = { min = 1, max = 1 }\nconcurrency = 10")
        .admin()
        .start();
    wait_until("the pool to answer", || server.get("/").status == 200);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        // Requests one after the other, on a connection as long as it takes any.
        let asking = scope.spawn(|| {
            let mut connections = 0;
            http2::run(async {
                while !ended.load(Ordering::Relaxed) {
                    let mut client = connect(server.address()).await;
                    connections += 1;
                    while !ended.load(Ordering::Relaxed) {
                        let Ok(ready) = client.ready().await else { break };
                        client = ready;
                        let Ok((response, _)) = client.send_request(http2::get("/"), true) else {
                            break;
                        };
                        if !is_answered(response).await {
                            break;
                        }
                    }
                }
            });
            connections
        });
        let before = server.serving();
        let mut last = None;
        http2::run(async {
            let mut client = connect(server.address()).await;
            let (slow, _) = client
                .send_request(http2::get("/slow"), true)
                .expect("it is sent");
            until("it runs", || running(&server) >= 1).await;
            let output = server.command(&["upgrade"]);
            assert!(output.status.success(), "{}", said(&output));
            last = Some(Successor(server.serving()));
            // Its response is of the process before, which takes no more requests on this connection once it has begun to stop.
            server.folder().write("released", "");
            assert_eq!(whole(slow.await.expect("it is answered")).await, b"done");
            while let Ok(ready) = client.ready().await {
                client = ready;
                let Ok((response, _)) = client.send_request(http2::get("/"), true) else {
                    break;
                };
                if !is_answered(response).await {
                    break;
                }
            }
        });
        wait_until("the process before to end", || !before.is_alive());
        assert_eq!(server.get("/").text(), "done");
        ended.store(true, Ordering::Relaxed);
        assert!(asking.join().expect("every request is answered") > 1);
    });
}

#[test]
fn an_upgrade_closes_websockets_and_ends_event_streams_so_that_they_come_back_to_the_new_process() {
    let server = Runtime::Node
        .pool(websockets::HANDLERS, ONE_WORKER)
        .admin()
        .start();
    let mut socket = Socket::open(&server, "/echo");
    socket.send("before");
    assert_eq!(socket.receive().text(), "before");
    let mut stream = server.connect();
    stream.request("GET", "/events");
    assert_eq!(stream.head().expect("a head").status, 200);
    let before = server.serving();
    let output = server.command(&["upgrade"]);
    assert!(output.status.success(), "{}", said(&output));
    let _after = Successor(server.serving());
    let close = socket.receive();
    assert_eq!(close.code(), 1001);
    let mut again = Socket::open(&server, "/echo");
    again.send("after");
    assert_eq!(again.receive().text(), "after");
    socket.send_frame(CLOSE, true, &close.payload);
    socket.ends();
    stream.read_until("0\r\n\r\n");
    wait_until("the process before to end", || !before.is_alive());
    again.send("still");
    assert_eq!(again.receive().text(), "still");
}

#[test]
fn a_program_that_does_not_become_ready_changes_nothing() {
    let folder = Folder::new();
    let path = folder.path().join("forebay");
    link(&path, program());
    let server = node(ECHO, "workers = { min = 1, max = 1 }")
        .server("upgrade_timeout = \"20s\"")
        .program(path.clone())
        .admin()
        .start();
    wait_until("the pool to answer", || server.post("/", b"x").status == 200);
    let refused = |reason: &str| {
        let output = server.command(&["upgrade"]);
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert!(said.contains(reason), "{said}");
        assert_eq!(server.serving(), server.process(), "{reason}");
        assert_eq!(server.post("/", b"x").status, 200);
        server.wait_for_log(&["upgrade failed, this process continues"]);
    };
    fs::remove_file(&path).expect("it is there");
    refused("No such file or directory");
    link(&path, &script(&folder, "failing", "exit 7"));
    refused("exited before it was ready (exit status: 7)");
    link(
        &path,
        &script(&folder, "talking", "echo '{\"message\":\"hello\"}' >&0; exec cat"),
    );
    refused("unknown message");
    link(&path, program());
    server.folder().write("api.mjs", "export default 1;");
    refused("pool `api` does not start");
    server.folder().write("api.mjs", ECHO);
    server.reconfigure("[[route]]\npath = \"/x\"\npool = \"none\"\n");
    refused("none");
    server.reconfigure(HERE);
    let _after = upgrade(&server);
    assert_eq!(server.get("/here").text(), "here");
}

#[test]
fn a_program_that_hangs_is_ended_after_the_limit() {
    let folder = Folder::new();
    let path = folder.path().join("forebay");
    link(&path, program());
    let server = Setup::new(HERE)
        .server("upgrade_timeout = \"300ms\"")
        .program(path.clone())
        .admin()
        .start();
    link(&path, &script(&folder, "hanging", "exec sleep 1000"));
    let output = server.command(&["upgrade"]);
    let said = said(&output);
    assert!(
        said.contains("was not ready within 300ms (server.upgrade_timeout)"),
        "{said}"
    );
    assert!(Process::children_of(server.process().pid).is_empty());
    assert_eq!(server.get("/here").text(), "here");
}

#[test]
fn only_one_upgrade_runs_at_a_time_and_a_stop_ends_it() {
    let folder = Folder::new();
    let path = folder.path().join("forebay");
    link(&path, program());
    let mut server = Setup::new(HERE).program(path.clone()).admin().start();
    link(&path, &script(&folder, "hanging", "exec sleep 1000"));
    server.process().signal(Signal::USR2);
    let hanging = wait_for("the new process", || {
        Process::children_of(server.process().pid).first().copied()
    });
    let output = server.command(&["upgrade"]);
    let said = said(&output);
    assert!(
        said.contains(&format!(
            "an upgrade to process {} is already in progress",
            hanging.pid
        )),
        "{said}"
    );
    server.terminate();
    assert!(server.wait().success());
    assert!(!hanging.is_alive());
    server.wait_for_log(&["upgrade failed", "the server is stopping"]);
}

#[test]
fn the_new_process_has_the_sockets_the_control_socket_and_the_store() {
    let config = format!(
        "[store]\n[store.access]\nOpen = {{ read = \"public\", write = \"public\" }}\n[[route]]\npath = \"/store/*\"\nstore = {{}}\n{HERE}"
    );
    let server = Setup::new(&config)
        .listen("\"127.0.0.1:0\", \"unix:here.sock\"")
        .admin()
        .start();
    let put = |number: u32| {
        let mut client = server.connect();
        client.send(format!(
            "PUT /store/Open/{number} HTTP/1.1\r\nhost: test\r\ncontent-length: 1\r\n\r\n{number}"
        ));
        assert!(client.response().status < 300);
    };
    put(1);
    let first = upgrade(&server);
    put(2);
    let lock = fs::read_to_string(server.folder().path().join("forebay-store/server.lock"));
    if let Ok(lock) = lock {
        assert_eq!(lock.trim(), first.0.pid.to_string());
    }
    let second = upgrade(&server);
    for number in [1, 2] {
        assert_eq!(
            server.get(&format!("/store/Open/{number}")).text(),
            number.to_string()
        );
    }
    let unix = server.folder().path().join("here.sock");
    assert_eq!(forebay_testkit::Client::unix(&unix).get("/here").text(), "here");
    assert_eq!(server.admin().get("/health/ready").status, 200);
    let status: Value = server.control().get("/status").json();
    assert_eq!(status["pid"], second.0.pid);
    assert_eq!(status["state"], "serving");
    // The files go with the last process, not with those before it.
    assert!(unix.exists());
    second.0.signal(Signal::TERM);
    wait_until("the last process to end", || !second.0.is_alive());
    for name in ["here.sock", "admin.sock", "control.sock"] {
        assert!(!server.folder().path().join(name).exists(), "{name}");
    }
}

#[test]
fn storms_of_signals_leave_a_server_that_serves() {
    let server = Setup::new(HERE).admin().start();
    let load = Load::on(&server, "/here").connections(2);
    let running = load.start();
    let current = || server.serving();
    for round in 0..4 {
        let process = current();
        for _ in 0..200 {
            process.signal(Signal::HUP);
            process.signal(Signal::USR1);
            if round % 2 == 1 {
                process.signal(Signal::USR2);
            }
        }
        if round % 2 == 1 {
            wait_until("another process to serve", || current() != process);
        }
        assert_eq!(server.get("/here").text(), "here");
    }
    load.end();
    let report = running.join().expect("the load does not panic");
    assert_eq!((report.unanswered, report.turned_away), (0, 0), "{report}");
    // An upgrade that a late signal has begun may still be under way.
    let last = wait_for("the last process to end", || {
        let last = current();
        for _ in 0..20 {
            last.signal(Signal::TERM);
        }
        wait_until("a process to end", || !last.is_alive());
        std::os::unix::net::UnixStream::connect(server.folder().path().join("control.sock"))
            .is_err()
            .then_some(last)
    });
    assert!(!last.is_alive());
}

#[test]
fn an_upgrade_without_its_predecessor_is_no_server() {
    let server = Setup::new(HERE).start();
    let output = command(&["serve", "-c"])
        .arg(server.folder().path().join("forebay.toml"))
        .env("FOREBAY_UPGRADE_FROM", "1234567")
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains(
            "process 1234567, which this one was started to replace (FOREBAY_UPGRADE_FROM), has exited"
        ),
        "{}",
        said(&output)
    );
    assert_eq!(server.get("/here").text(), "here");
}
