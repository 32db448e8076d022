//! Where the time of a request goes, as `forebay explain` tells it.

use std::process::Output;

use forebay_testkit::{Client, Load, Postgres, Server, Setup, blocks, wait_for};
use serde_json::Value;

use crate::{
    control::order,
    support::{ONE_WORKER, TOOLBOX, node, wait_until_ready},
};

/// Requests a row repeatedly, all at once.
const ROWS: &str = "
import { router } from 'forebay';
import { sql } from 'forebay/sql';
const app = router();
for (const source of ['main', 'blocking']) {
  const rows = async ({ query }) => {
    const statements = Array.from({ length: Number(query.get('queries')) }, () => ['select 1 as one, pg_sleep(0.02)', []]);
    return (await sql[source].pipeline(statements)).length;
  };
  app.get(`/${source}`, rows).post(`/${source}`, rows);
}
export default app;
";

fn with_database() -> Server {
    let url = Postgres::shared().url();
    Setup::new(&format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\nconnections_max = 8\n[sql.blocking]\nurl = \"{url}\"\ndriver = \"blocking\"\nconnections_max = 8\n\
         [script.rows]\nhandler = \"rows.mjs\"\nallow = {{ sql = [\"main\", \"blocking\"] }}\n\
         [[route]]\npath = \"/one\"\nmethods = [\"GET\"]\nsql = {{ source = \"main\", query = \"select 1 as one\", result = \"row\" }}\n\
         [[route]]\npath = \"/*\"\nscript = \"rows\"\n"
    ))
    .file("rows.mjs", ROWS)
    .admin()
    .start()
}

pub(crate) fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).expect("it is UTF-8")
}

pub(crate) fn explained(server: &Server, target: &str) -> Value {
    let url = format!("{}{target}", server.urls()[0]);
    let text = stdout(&server.command(&["explain", "--json", &url]));
    serde_json::from_str(&text).expect("it is JSON")
}

pub(crate) fn spans<'a>(told: &'a Value, kind: &str) -> Vec<&'a Value> {
    let spans = told["spans"].as_array().expect("there are spans");
    spans.iter().filter(|span| span["kind"] == kind).collect()
}

pub(crate) fn us(span: &Value, member: &str) -> f64 {
    span[member]
        .as_f64()
        .unwrap_or_else(|| panic!("{member} of {span}"))
}

pub(crate) fn end(span: &Value) -> f64 {
    us(span, "from_us") + us(span, "took_us")
}

/// Every span lies within its request, and the parts of each add up to it. Times have a resolution of a tenth of a microsecond.
pub(crate) fn assert_adds_up(told: &Value) {
    let total = us(told, "total_us");
    for span in told["spans"].as_array().expect("there are spans") {
        assert!(end(span) <= total + 0.3, "{span} of {total}");
        if let Some(parts) = span["parts"].as_array() {
            let sum: f64 = parts.iter().map(|part| us(part, "took_us")).sum();
            assert!((sum - us(span, "took_us")).abs() < 1.0, "{span}");
        }
    }
}

#[test]
fn statements_that_are_in_flight_together_are_told_one_by_one() {
    let server = with_database();
    for (source, waits) in [("main", 1), ("blocking", 0)] {
        let told = explained(&server, &format!("/{source}?queries=5"));
        assert_eq!(
            (&told["status"], &told["method"]),
            (&Value::from(200), &Value::from("GET"))
        );
        assert_eq!(told["target"], format!("/{source}?queries=5"));
        assert_adds_up(&told);
        let statements = spans(&told, "statement");
        assert_eq!(statements.len(), 5, "{told}");
        let last_begun = statements
            .iter()
            .map(|span| us(span, "from_us"))
            .fold(0.0, f64::max);
        let first_over = statements.iter().map(|span| end(span)).fold(f64::MAX, f64::min);
        assert!(
            last_begun < first_over,
            "{source}: they were in flight together: {told}"
        );
        for statement in &statements {
            assert_eq!(statement["detail"], "select 1 as one, pg_sleep(0.02)");
            let server_us: f64 = statement["parts"]
                .as_array()
                .expect("it has parts")
                .iter()
                // A thread that is held up by others learns late that everything is sent.
                .filter(|part| ["send", "server"].contains(&part["name"].as_str().unwrap_or_default()))
                .map(|part| us(part, "took_us"))
                .sum();
            assert!(
                server_us >= 19_000.0,
                "each sleeps for 20 ms on the server: {statement}"
            );
        }
        assert!(
            spans(&told, "running").len() > waits,
            "the script ran before and after: {told}"
        );
        assert!(us(spans(&told, "handler")[0], "took_us") >= 20_000.0);
        assert_eq!((spans(&told, "front").len(), spans(&told, "write").len()), (1, 1));
    }
    let told = explained(&server, "/one");
    assert_eq!(
        (spans(&told, "statement").len(), spans(&told, "handler").len()),
        (1, 0)
    );
}

#[test]
fn a_job_of_a_pool_is_told_with_its_queue_and_its_handlers_time() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let url = format!("{}/block/40", server.urls()[0]);
    let told = stdout(&server.command(&["explain", "--json", "-m", "POST", &url]));
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_adds_up(&told);
    let running = spans(&told, "running");
    assert!(us(running[0], "took_us") >= 39_000.0, "{told}");
    assert_eq!(running[0]["detail"], "api");
    assert!(us(spans(&told, "handler")[0], "took_us") >= us(running[0], "took_us"));
    assert_eq!(spans(&told, "queue").len(), 1);
    let text = stdout(&server.command(&["explain", "-m", "POST", &url]));
    for part in ["POST /block/40: 200 with", "FROM", "█", " running ", " %  code "] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_body_method_and_headers_are_sent_as_asked() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let url = format!("{}/echo", server.urls()[0]);
    let told = stdout(&server.command(&[
        "explain",
        "--json",
        "--data",
        "hello",
        "-H",
        "x-request-id: mine",
        &url,
    ]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["method"], &told["request_id"]),
        (&"POST".into(), &"mine".into())
    );
    assert_eq!((&told["status"], &told["bytes"]), (&200.into(), &5.into()));
}

#[test]
fn a_client_cannot_have_its_request_traced_nor_read_what_was() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let mut control = server.control();
    let traced = |control: &mut Client, token: &str| {
        let header = format!("GET /here HTTP/1.1\r\nhost: test\r\nforebay-trace: {token}\r\n\r\n");
        let mut client = server.connect();
        client.send(header);
        let answer = client.response();
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("span"));
        order(control, "GET", &format!("/traces/{token}"), "").status
    };
    // Invented tokens, with and without a real one outstanding.
    let invented = "0123456789abcdef0123456789abcdef";
    assert_eq!(traced(&mut control, invented), 404);
    let admitted = order(&mut control, "POST", "/traces", "").json();
    let token = admitted["token"].as_str().expect("there is one").to_owned();
    assert_eq!(traced(&mut control, invented), 404);
    assert_eq!(traced(&mut control, &token[..31]), 404);
    assert_eq!(
        order(&mut control, "GET", &format!("/traces/{token}"), "").status,
        202,
        "none of these requests was meant"
    );
    // A token is good for one request, which is reported once.
    assert_eq!(
        wait_for("the request", || Some(traced(&mut control, &token))
            .filter(|&status| status == 200)),
        200
    );
    assert_eq!(traced(&mut control, &token), 404);
    // Neither the routes nor the admin listener offer any of this.
    for path in ["/traces", "/samples", "/samples/1"] {
        assert_eq!(server.get(path).status, 404);
        assert_eq!(server.admin().get(path).status, 404);
    }
}

#[test]
fn requests_that_others_send_are_sampled_by_route() {
    let server = with_database();
    explained(&server, "/main?queries=1");
    let load = Load::on(&server, "/main?queries=3")
        .connections(2)
        .requests(1_000_000);
    let running = load.start();
    let page = server.folder().path().join("explain.html");
    let page_name = page.to_str().expect("it is UTF-8");
    let words = ["explain", "--route", "/*", "--for", "1s", "--html", page_name];
    let text = stdout(&server.command(&words));
    for part in ["/*: ", "3.0 statements each", "PHASE", "sql server", "\nall "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = stdout(&server.command(&["explain", "--route", "all", "--for", "500ms", "--json"]));
    load.end();
    running.join().expect("the load ends");
    let json: Value = serde_json::from_str(&json).unwrap();
    let route = &json["routes"][0];
    let phases = route["phases"].as_object().expect("there are phases").values();
    let sum: f64 = phases.map(|figures| us(figures, "mean_us")).sum();
    let mean = us(&route["total"], "mean_us");
    assert!(
        (sum - mean).abs() < 1.0,
        "the phases add up to the whole: {sum} of {mean}"
    );
    assert!(
        us(&route["phases"]["sql server"], "mean_us") >= 19_000.0,
        "{route}"
    );
    let page = std::fs::read_to_string(page).expect("the page is written");
    assert!(page.contains("The median request") && !page.contains("<script"));

    let unknown = server.command(&["explain", "--route", "/nope", "--for", "1s"]);
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        error.contains("there is no route `/nope`; there are: GET /one, /*"),
        "{error}"
    );
    let mut control = server.control();
    for (body, status) in [
        ("{\"for_ms\": 0}", 400),
        ("{\"for_ms\": 600001}", 400),
        ("{\"for_ms\": \"1s\"}", 400),
        ("{\"every\": 2}", 400),
        ("{\"for_ms\": 600000}", 200),
        ("{\"for_ms\": 1}", 409),
    ] {
        assert_eq!(
            order(&mut control, "POST", "/samples", body).status,
            status,
            "{body}"
        );
    }
}

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let server = node(TOOLBOX, ONE_WORKER).admin().start();
    wait_until_ready(&server);
    let guide = include_str!("../../../../docs/guide/explain.md");
    let mut commands = 0;
    for block in blocks(guide, "console") {
        for command in block.lines().filter_map(|line| line.strip_prefix("$ forebay ")) {
            let mut here = command.replace("http://127.0.0.1:8080", &server.urls()[0]);
            for time in ["10s", "3s", "30s"] {
                here = here.replace(&format!("--for {time}"), "--for 100ms");
            }
            for route in ["--route /queries", "profile /helloworld", "profile /users/:id"] {
                let (word, _) = route.split_once(' ').expect("two words");
                here = here.replace(route, &format!("{word} '/*'"));
            }
            for file in ["explain.html", "profile.html", "profile.folded"] {
                let whole = server.folder().path().join(file);
                here = here.replace(file, whole.to_str().expect("UTF-8"));
            }
            let words = words(&here);
            stdout(&server.command(&words.iter().map(String::as_str).collect::<Vec<_>>()));
            commands += 1;
        }
    }
    assert_eq!(commands, 7);
}

/// Words of a shell's line, which may be in single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        for (count, word) in (if at % 2 == 1 {
            vec![part]
        } else {
            part.split(' ').collect()
        })
        .into_iter()
        .enumerate()
        {
            if count > 0 {
                words.push(String::new());
            }
            words.last_mut().expect("there is one").push_str(word);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
