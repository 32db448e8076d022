//! The admin listener: what the server reports about itself.

use std::{collections::BTreeSet, fs, net::TcpListener, os::unix::fs::PermissionsExt as _, process::Command};

use forebay_testkit::{Client, Setup, wait_for, wait_until};

use crate::support::{ONE_WORKER, TOOLBOX, fake, metric, node, open, wait_for_note, wait_until_ready};

#[test]
fn a_server_is_ready_once_its_pools_are() {
    let source = "import { existsSync } from 'node:fs';
        while (!existsSync('gate')) await new Promise((next) => setTimeout(next, 2));
        export default () => 'ready';";
    let server = node(source, ONE_WORKER).admin().start();
    let mut admin = server.admin();
    assert_eq!(admin.get("/health/live").status, 200);
    let not_yet = admin.get("/health/ready");
    assert_eq!(not_yet.status, 503);
    assert_eq!(not_yet.json()["pools"]["api"]["state"], "starting");
    assert_eq!(admin.get("/health/started").status, 503);
    open(&server, "gate");
    wait_until("the server to be ready", || {
        admin.get("/health/ready").status == 200
    });
    assert_eq!(admin.get("/health/started").json()["started"], true);
    assert_eq!(metric(&server, "forebay_pool_ready{pool=\"api\"}"), 1);
}

#[test]
fn a_pool_that_does_not_start_is_named_with_what_it_said() {
    let source = "throw new Error('the database is away');\nexport default () => 1;";
    let server = node(source, ONE_WORKER).admin().start();
    let mut admin = server.admin();
    wait_until("the pool to fail", || {
        admin.get("/health/ready").json()["pools"]["api"]["state"] == "failing"
    });
    let ready = admin.get("/health/ready");
    assert_eq!(ready.status, 503);
    let reason = ready.json()["pools"]["api"]["reason"].to_string();
    assert!(reason.contains("the database is away"), "{reason}");
    assert_eq!(metric(&server, "forebay_pool_ready{pool=\"api\"}"), 0);
}

#[test]
fn requests_are_counted_by_route_and_class() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let before = metric(&server, "forebay_pool_jobs_faulted_total{pool=\"api\"}");
    let mut client = server.connect();
    for _ in 0..30 {
        assert_eq!(client.get("/here").status, 200);
    }
    assert_eq!(client.get("/throw").status, 500);
    assert_eq!(client.get("/%").status, 400);
    for (series, count) in [
        ("forebay_requests_total{route=\"/here\",class=\"2xx\"}", 30),
        ("forebay_request_duration_seconds_count{route=\"/here\"}", 30),
        (
            "forebay_request_duration_seconds_bucket{route=\"/here\",le=\"+Inf\"}",
            30,
        ),
        ("forebay_requests_total{route=\"/*\",class=\"5xx\"}", 1),
        ("forebay_requests_total{route=\"(none)\",class=\"4xx\"}", 1),
        ("forebay_pool_jobs_faulted_total{pool=\"api\"}", before + 1),
    ] {
        assert_eq!(metric(&server, series), count, "{series}");
    }
    let mut leaving = server.connect();
    leaving.request("GET", "/wait/never/a");
    wait_for_note(&server, "begin a");
    drop(leaving);
    wait_until("the client's leaving to be counted", || {
        metric(&server, "forebay_requests_total{route=\"/*\",class=\"gone\"}") == 1
    });
    assert_eq!(
        metric(&server, "forebay_pool_jobs_cancelled_total{pool=\"api\"}"),
        1
    );
}

#[test]
fn metrics_are_in_the_form_that_prometheus_reads() {
    let server = fake("well", ONE_WORKER).admin().start();
    server.get("/here");
    let metrics = server.admin().get("/metrics");
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let (mut family, mut families, mut last) = ("", BTreeSet::new(), None);
    for line in metrics.text().lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect("a name and a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(families.insert(name), "{name} comes twice");
            family = name;
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let value: f64 = value.parse().expect("a number");
        assert!(series.starts_with(family), "{series} stands under {family}");
        // The buckets of one histogram are cumulative.
        let histogram = series
            .split_once(",le=")
            .map(|(histogram, _)| histogram.to_owned());
        if let Some((of, below)) = &last {
            assert!(histogram.as_ref() != Some(of) || value >= *below, "{line}");
        }
        last = histogram.map(|of| (of, value));
    }
    assert!(families.len() > 25, "{families:?}");
}

#[test]
fn the_status_names_every_worker() {
    let server = node(TOOLBOX, "workers = { min = 3, max = 3 }").admin().start();
    wait_until("all workers to be ready", || {
        metric(&server, "forebay_pool_workers{pool=\"api\",phase=\"ready\"}") == 3
    });
    let status = server.admin().get("/status").json();
    let named: BTreeSet<u64> = status["pools"][0]["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|worker| worker["pid"].as_u64())
        .collect();
    let there: BTreeSet<u64> = server
        .workers()
        .iter()
        .map(|worker| u64::from(worker.pid))
        .collect();
    assert_eq!(named, there);
    assert_eq!(status["pid"], server.process().pid);
    assert_eq!(status["state"], "serving");
    assert_eq!(status["listen"][0], server.urls()[0]);
}

#[test]
fn the_admin_listener_only_reads() {
    let server = fake("well", ONE_WORKER).admin().start();
    let mut admin = server.admin();
    for path in ["/health/live", "/metrics", "/status"] {
        admin.request("POST", path);
        let refused = admin.response();
        assert_eq!(
            (refused.status, refused.header("allow")),
            (405, Some("GET, HEAD")),
            "{path}"
        );
    }
    admin.request("POST", "/reload");
    assert_eq!(admin.response().status, 404);
    admin.request("HEAD", "/status");
    assert_eq!(admin.response_to("HEAD").status, 200);
}

#[test]
fn it_answers_while_every_io_thread_and_worker_is_busy() {
    let server = node(TOOLBOX, ONE_WORKER).threads(1).admin().start();
    wait_until_ready(&server);
    let mut spinning = server.connect();
    spinning.request("GET", "/spin");
    wait_for_note(&server, "begin spin");
    let mut admin = server.admin();
    assert_eq!(admin.get("/health/live").status, 200);
    let status = admin.get("/status").json();
    assert_eq!(status["pools"][0]["workers"][0]["in_flight"], 1);
}

const HERE: &str = "[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n";

#[test]
fn idle_connections_do_not_keep_health_from_being_asked_for() {
    let server = Setup::new(HERE).admin().start();
    let mut idle: Vec<Client> = (0..200).map(|_| server.admin()).collect();
    // Half of the idle connections have sent a part of a request.
    for client in idle.iter_mut().step_by(2) {
        // The server may have closed it already.
        let _ = client.try_send(b"GET /health/live HTTP/1.1\r\nhost:");
    }
    for _ in 0..3 {
        assert_eq!(server.admin().get("/health/live").status, 200);
    }
}

#[test]
fn the_admin_listener_answers_under_its_own_names_alone() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let keys = format!("listen = \"127.0.0.1:{port}\"\nhosts = [\"metrics.internal\"]\nsocket = \"off\"");
    let _server = Setup::new(HERE).admin_keys(&keys).start();
    let mut client = Client::tcp(([127, 0, 0, 1], port).into());
    for (host, status) in [
        ("127.0.0.1", 200),
        (&format!("127.0.0.1:{port}"), 200),
        ("[::1]:8081", 200),
        ("10.1.2.3:8081", 200),
        ("localhost", 200),
        ("LocalHost:8081", 200),
        ("Metrics.Internal:8081", 200),
        ("evil.example", 421),
        ("evil.example:8081", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ] {
        for path in ["/health/live", "/status", "/metrics"] {
            client.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"));
            assert_eq!(client.response().status, status, "{host} {path}");
        }
    }
}

#[test]
fn unix_sockets_have_the_permissions_of_the_configuration() {
    let server = Setup::new(HERE)
        .listen("\"unix:web.sock\"")
        .server("unix_mode = \"0620\"")
        .admin_keys("listen = \"unix:admin.sock\"\nunix_mode = \"0606\"\nsocket = \"control.sock\"")
        .start();
    for (name, mode) in [
        ("web.sock", 0o620),
        ("admin.sock", 0o606),
        ("control.sock", 0o600),
    ] {
        let found = fs::metadata(server.folder().path().join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
    }
}

/// The limit of open files of a process: soft and hard.
fn open_files_of(limits: &str) -> Vec<String> {
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .expect("every process has that limit");
    line.split_whitespace()
        .skip(3)
        .take(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_server_takes_as_many_open_files_as_it_may_and_its_workers_what_there_were() {
    let source = "import { readFileSync } from 'node:fs';
        process.stdout.write('limits ' + readFileSync('/proc/self/limits', 'utf8').match(/Max open files +(\\d+)/)[1] + '\\n');
        export default () => 'x';";
    let server = node(source, ONE_WORKER).server("connections_max = 5000").start();
    let program = fs::read_link(format!("/proc/{}/exe", server.process().pid)).unwrap();
    let mut limited = Command::new("sh")
        .args([
            "-c",
            "ulimit -Sn 300 && ulimit -Hn 4000 && exec \"$@\" 2>limited.log",
            "sh",
        ])
        .arg(program)
        .args(["serve", "-c", "forebay.toml"])
        .current_dir(server.folder().path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let limits = wait_for("the limits to be raised", || {
        let limits = fs::read_to_string(format!("/proc/{}/limits", limited.id())).ok()?;
        Some(open_files_of(&limits)).filter(|limits| limits[0] == "4000")
    });
    assert_eq!(limits, ["4000", "4000"]);
    let log = || server.folder().read("limited.log").unwrap_or_default();
    wait_until("the server to say that this is little", || {
        log().contains("4000 files and connections open") && log().contains("server.connections_max 5000")
    });
    let stopped = limited.kill().and_then(|()| limited.wait());
    assert!(stopped.is_ok());
}
