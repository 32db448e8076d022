//! Reloads while the server runs: nothing is lost, and an invalid configuration changes nothing.

use std::{collections::BTreeSet, fs, path::Path};

use forebay_testkit::{Client, Load, Response, Server, Setup, wait_until};

use crate::support::{ONE_WORKER, Runtime, TOOLBOX, metric, node, open, wait_for_note, wait_until_ready};

const ECHO: &str = "export default async (request) => request.bytes();";

fn saying(word: &str) -> String {
    format!("export default () => '{word}';")
}

/// Makes the server reload, and waits for the result.
pub(crate) fn reload(server: &Server) -> Response {
    let mut control = server.control();
    control.request("POST", "/reload");
    control.response()
}

fn pids(server: &Server) -> BTreeSet<u32> {
    server.workers().iter().map(|worker| worker.pid).collect()
}

#[test]
fn reloads_under_load_fail_no_request() {
    const WORKERS: &str = "workers = { min = 2, max = 2 }";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(ECHO, WORKERS).admin().start();
        wait_until("the pool to answer", || server.post("/", b"x").status == 200);
        let before = pids(&server);
        let load = Load::on(&server, "/").connections(16);
        let running = load.start();
        let answered = || metric(&server, "forebay_requests_total{route=\"/*\",class=\"2xx\"}");
        for number in 1..=5 {
            let seen = answered();
            let reloaded = reload(&server);
            assert_eq!(reloaded.status, 200, "{}", reloaded.text());
            assert_eq!(reloaded.json()["generation"], number + 1);
            wait_until("more load", || answered() > seen + 200);
        }
        load.end();
        let report = running.join().expect("the load does not panic");
        assert_eq!(report.with_status(200), report.sent, "{runtime:?}: {report}");
        assert!(report.foreign.is_empty(), "{runtime:?}: {report}");
        wait_until("the old workers to end", || {
            let now = pids(&server);
            now.len() == 2 && now.is_disjoint(&before)
        });
        // Counters continue: the requests of the load and the first one.
        let counted = |name| metric(&server, name);
        let answered = report.sent as u64 + 1;
        wait_until("the counts of old pools to be kept", || {
            counted("forebay_pool_jobs_answered_total{pool=\"api\"}") == answered
        });
        assert_eq!(
            counted("forebay_requests_total{route=\"/*\",class=\"2xx\"}"),
            answered
        );
        assert_eq!(counted("forebay_pool_run_seconds_count{pool=\"api\"}"), answered);
        assert_eq!(counted("forebay_pool_workers_started_total{pool=\"api\"}"), 12);
        assert_eq!(counted("forebay_generation"), 6);
    }
}

#[test]
fn a_request_ends_with_the_handler_it_began_with() {
    let server = node(TOOLBOX, ONE_WORKER)
        // Most threads never see a request, and must release the old pool all the same.
        .threads(16)
        .server("drain_max = \"10m\"")
        .admin()
        .start();
    wait_until_ready(&server);
    let old = pids(&server);
    let mut held = server.connect();
    held.request("GET", "/hold/gate/a");
    wait_for_note(&server, "begin a");
    let mut waiting = server.connect();
    waiting.request("GET", "/hold/gate/b");
    wait_until("the second to wait", || {
        metric(&server, "forebay_pool_jobs_accepted_total{pool=\"api\"}") >= 3
    });
    server.folder().write("api.mjs", saying("new"));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.get("/pid").text(), "new");
    let status = server.admin().get("/status").json();
    assert_eq!(
        status["retiring"][0]["workers"][0]["pid"],
        *old.first().expect("it has a worker")
    );
    open(&server, "gate");
    for (client, name) in [(&mut held, "a"), (&mut waiting, "b")] {
        let answer = client.response();
        assert_eq!(
            (answer.status, answer.text().split(' ').next()),
            (200, Some(name))
        );
        assert_eq!(
            client.get("/pid").text(),
            "new",
            "the next request on the same connection"
        );
    }
    wait_until("the old worker to end", || pids(&server).is_disjoint(&old));
}

#[test]
fn an_old_request_delays_nothing_and_is_cut_off_after_drain_max() {
    let server = node(TOOLBOX, ONE_WORKER)
        .server("drain_max = \"300ms\"")
        .admin()
        .start();
    wait_until_ready(&server);
    let old = pids(&server);
    let mut spinning = server.connect();
    spinning.request("GET", "/spin");
    wait_for_note(&server, "begin spin");
    server.folder().write("api.mjs", saying("new"));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.get("/").text(), "new");
    assert_eq!(spinning.response().status, 503);
    wait_until("the old worker to end", || pids(&server).is_disjoint(&old));
}

#[test]
fn what_does_not_check_is_refused_and_all_stays() {
    let server = node(&saying("old"), ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let (before, config) = (
        pids(&server),
        server.folder().read("forebay.toml").expect("it was written"),
    );
    for (config, handler, detail) in [
        (
            config.replace("handler", "handlr"),
            saying("new"),
            "pool.api.handlr",
        ),
        (
            config.replace("threads = 2", "threads = 3"),
            saying("new"),
            "server.threads has changed",
        ),
        (
            config.replace("admin.sock", "other.sock"),
            saying("new"),
            "admin.listen has changed",
        ),
        (
            config.clone() + "[[route]]\npath = \"/x\"\nrespond = { text = \"x\" }\n",
            "throw new Error('no way');\nexport default () => 1;".to_owned(),
            "no way",
        ),
        (
            config.clone(),
            "export default () => {\n  let a = ;\n};".to_owned(),
            "api.mjs:2:11: pool.api: SyntaxError",
        ),
        (
            config.clone(),
            "export const other = 1;".to_owned(),
            "api.mjs:1:1: pool.api: exports no handler",
        ),
    ] {
        server.folder().write("forebay.toml", config);
        server.folder().write("api.mjs", handler);
        let refused = reload(&server);
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.detail().contains(detail), "{}", refused.detail());
        server.wait_for_log(&["\"level\":\"ERROR\"", "not reloaded", detail]);
        assert_eq!(server.get("/").text(), "old");
        wait_until("the new workers to be gone", || pids(&server) == before);
    }
    fs::remove_file(server.folder().path().join("forebay.toml")).expect("it is there");
    let refused = reload(&server);
    assert!(refused.detail().contains("No such file"), "{}", refused.detail());
    assert_eq!(metric(&server, "forebay_reloads_refused_total"), 7);
    assert!(!server.admin().get("/metrics").text().contains("route=\"/x\""));
    assert_eq!(metric(&server, "forebay_generation"), 1);
    server.folder().write("forebay.toml", config);
    server.folder().write("api.mjs", saying("new"));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.get("/").text(), "new");
}

/// The keys that the table of docs/operating/reload.md says cannot change.
fn documented_as_fixed() -> Vec<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/reload.md");
    let document = fs::read_to_string(document).expect("it is there");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let keys = rows.flat_map(|row| row.split(" |").next().unwrap_or_default().split(", "));
    keys.map(|key| key.trim_matches('`').to_owned()).collect()
}

#[test]
fn what_is_documented_as_fixed_is_refused_by_its_name() {
    let server = node(&saying("old"), ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let before = pids(&server);
    let config = server.folder().read("forebay.toml").expect("it was written");
    let keys = documented_as_fixed();
    for key in &keys {
        let changed = match key.as_str() {
            "server.listen" => config.replace("[\"127.0.0.1:0\"]", "[\"127.0.0.1:0\", \"unix:web.sock\"]"),
            "server.user" => config.replace("threads = 2", "threads = 2\nuser = \"root\""),
            "server.group" => config.replace("threads = 2", "threads = 2\ngroup = \"root\""),
            "server.threads" => config.replace("threads = 2", "threads = 3"),
            "admin.listen" => config.replace("unix:admin.sock", "unix:other.sock"),
            "admin.socket" => config.replace("\"control.sock\"", "\"other.sock\""),
            "log.file" => format!("{config}[log]\nfile = \"log\"\n"),
            "log.format" => format!("{config}[log]\nformat = \"text\"\n"),
            "log.rotate" => format!("{config}[log]\nrotate = {{ keep = 3 }}\n"),
            "store" => format!("{config}[store]\npath = \"data\"\n"),
            "trace" => format!("{config}[trace]\notlp = \"http://127.0.0.1:1\"\n"),
            other => panic!("this test changes no `{other}`"),
        };
        server.folder().write("forebay.toml", changed);
        let refused = reload(&server);
        assert_eq!(refused.status, 422, "{key}: {}", refused.text());
        let detail = refused.detail();
        assert!(detail.contains(&format!("{key} has changed")), "{key}: {detail}");
    }
    assert_eq!(keys.len(), 11);
    assert_eq!(pids(&server), before);
}

#[test]
fn a_reload_ends_a_resize_and_keeps_a_level_until_the_configuration_has_another() {
    let server = node(&saying("x"), ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let mut control = server.control();
    let mut order = |method: &str, path: &str, body: &str| {
        let length = body.len();
        control.send(format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
        assert_eq!(control.response().status, 200, "{method} {path}");
    };
    order("PUT", "/log/level", "{\"level\": \"debug\"}");
    order("POST", "/pools/api/resize", "{\"workers\": 3}");
    server.wait_for_workers(3);
    let level = || server.control().get("/status").json()["log"]["level"].clone();

    order("POST", "/reload", "");
    server.wait_for_workers(1);
    assert_eq!(level(), "debug");

    let config = server.folder().read("forebay.toml").expect("it was written");
    server
        .folder()
        .write("forebay.toml", format!("{config}[log]\nlevel = \"warn\"\n"));
    order("POST", "/reload", "");
    assert_eq!(level(), "warn");
}

#[test]
fn a_server_that_stops_reloads_nothing() {
    let mut server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let mut held = server.connect();
    held.request("GET", "/hold/gate/a");
    wait_for_note(&server, "begin a");
    let mut control = server.control();
    control.request("POST", "/stop");
    assert_eq!(control.response().status, 202);
    let refused = reload(&server);
    assert_eq!(refused.status, 409, "{}", refused.text());
    open(&server, "gate");
    assert_eq!(held.response().status, 200);
    assert!(server.wait().success());
}

#[test]
fn sighup_reloads_routes_and_pools() {
    let server = node(&saying("old"), ONE_WORKER).admin().start();
    wait_until_ready(&server);
    server.reconfigure("[[route]]\npath = \"/only\"\nrespond = { text = \"memory\" }\n");
    server.hang_up();
    wait_until("the new routes", || server.get("/only").text() == "memory");
    assert_eq!(server.get("/").status, 404);
    server.wait_for_workers(0);
    let metrics = server.admin().get("/metrics");
    assert!(!metrics.text().contains("pool=\"api\"") && !metrics.text().contains("route=\"/*\""));
}

#[test]
fn an_open_connection_takes_on_new_limits_with_its_next_request() {
    let server = node(&saying("x"), ONE_WORKER)
        .server("header_bytes_max = \"8KiB\"")
        .admin()
        .start();
    let large = format!(
        "GET /here HTTP/1.1\r\nhost: test\r\nx-long: {}\r\n\r\n",
        "x".repeat(4096)
    );
    let ask = |client: &mut Client| {
        client.send(&large);
        client.response().status
    };
    let mut open = server.connect();
    assert_eq!(ask(&mut open), 200);
    let config = server.folder().read("forebay.toml").expect("it was written");
    server.folder().write(
        "forebay.toml",
        config.replace("header_bytes_max = \"8KiB\"", "header_bytes_max = \"1KiB\""),
    );
    assert_eq!(reload(&server).status, 200);
    assert_eq!(ask(&mut open), 200, "its head is read with the old limit");
    assert_eq!(ask(&mut open), 431, "from then on with the new one");
    assert_eq!(ask(&mut server.connect()), 431);
}

#[test]
fn a_stop_during_a_reload_leaves_nothing_behind() {
    let mut server = node(&saying("old"), ONE_WORKER).admin().start();
    wait_until_ready(&server);
    server.folder().write(
        "api.mjs",
        "await new Promise((ready) => setTimeout(ready, 60_000));\nexport default () => 1;",
    );
    server.hang_up();
    server.wait_for_workers(2);
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn a_response_has_the_fields_of_the_configuration_that_its_request_came_under() {
    let server =
        Setup::new("[script.echo]\nhandler = \"echo.mjs\"\n[[route]]\npath = \"/\"\nscript = \"echo\"\n")
            .file(
                "echo.mjs",
                "export default async (request) => new Response(await request.text())",
            )
            .server("trusted_proxies = [\"127.0.0.1\"]\nhsts = \"1h\"")
            .admin()
            .start();
    let mut client = server.connect();
    client.send(
        "POST / HTTP/1.1\r\nhost: a\r\nx-forwarded-proto: https\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
    );
    client.read_until("100 Continue\r\n\r\n");
    let config = server.folder().read("forebay.toml").expect("it is there");
    server.folder().write("forebay.toml", config.replace("1h", "2h"));
    assert_eq!(reload(&server).status, 200);
    client.send("ok");
    let age = |response: &Response| response.header("strict-transport-security").map(str::to_owned);
    assert_eq!(age(&client.response()).as_deref(), Some("max-age=3600"));
    client.send("GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-proto: https\r\n\r\n");
    assert_eq!(age(&client.response()).as_deref(), Some("max-age=7200"));
}
