//! Traces of requests, metrics and the log, as an OpenTelemetry collector receives them.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use forebay_testkit::{Response, Server, Setup, wait_until};
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// One post to the collector.
#[derive(Clone, Debug)]
struct Post {
    /// Request line and fields.
    head: Vec<String>,
    body: Value,
}

/// A collector in this process.
struct Collector {
    address: SocketAddr,
    posts: Arc<Mutex<Vec<Post>>>,
}

impl Collector {
    /// Answers the posts in their order with these statuses and bodies, and all further ones with the last.
    fn start(answers: &'static [(u16, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let posts = Arc::new(Mutex::new(Vec::new()));
        let kept = posts.clone();
        let answered = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (kept, answered) = (kept.clone(), answered.clone());
                let connection = connection.expect("a connection");
                thread::spawn(move || {
                    collect(&connection, &kept, || {
                        let at = answered.fetch_add(1, Ordering::Relaxed);
                        answers[at.min(answers.len() - 1)]
                    });
                });
            }
        });
        Self { address, posts }
    }

    fn posts(&self) -> Vec<Post> {
        self.posts.lock().expect("nobody panics with it").clone()
    }

    /// The posts to this path.
    fn posts_to(&self, path: &str) -> Vec<Post> {
        let line = format!("POST {path} HTTP/1.1");
        let posts = self.posts().into_iter();
        posts.filter(|post| post.head[0] == line).collect()
    }

    /// All spans of all posts.
    fn spans(&self) -> Vec<Value> {
        let posts = self.posts_to("/v1/traces");
        posts.iter().flat_map(|post| spans(&post.body)).collect()
    }

    /// All log records, each with its scope's name.
    fn log_records(&self) -> Vec<(String, Value)> {
        let posts = self.posts_to("/v1/logs");
        let scopes = posts
            .iter()
            .flat_map(|post| list(&post.body["resourceLogs"][0]["scopeLogs"]));
        let of_scope = |scope: &Value| {
            let name = scope["scope"]["name"].as_str().expect("it has a name").to_owned();
            let records = list(&scope["logRecords"]).to_vec();
            records.into_iter().map(move |record| (name.clone(), record))
        };
        scopes.flat_map(of_scope).collect()
    }
}

/// Reads posts until the connection ends. It may end in the middle of a head.
fn collect(stream: &TcpStream, kept: &Mutex<Vec<Post>>, answer: impl Fn() -> (u16, &'static str)) {
    let mut input = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.expect("the body has a length").parse().expect("a number");
        let mut body = vec![0; length];
        if input.read_exact(&mut body).is_err() {
            return;
        }
        let body = serde_json::from_slice(&body).expect("the body is JSON");
        kept.lock()
            .expect("nobody panics with it")
            .push(Post { head, body });
        let (status, body) = answer();
        let length = body.len();
        let text =
            format!("HTTP/1.1 {status} So\r\nretry-after: 0\r\ncontent-length: {length}\r\n\r\n{body}");
        if (&mut &*stream).write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn spans(body: &Value) -> Vec<Value> {
    list(&body["resourceSpans"][0]["scopeSpans"][0]["spans"]).to_vec()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// An attribute of an object that has attributes, as text.
fn attribute<'a>(of: &'a Value, key: &str) -> &'a str {
    let all = of["attributes"].as_array().expect("there are attributes");
    let found = all.iter().find(|attribute| attribute["key"] == key);
    let value = found.map(|attribute| &attribute["value"]);
    let value = value.and_then(|value| value["stringValue"].as_str().or(value["intValue"].as_str()));
    value.unwrap_or_default()
}

fn setup(collector: SocketAddr, keys: &str) -> Setup {
    Setup::new(&format!(
        "[trace]\notlp = \"http://{collector}/\"\n{keys}\n\
         [script.s]\nhandler = \"s.mjs\"\non = \"executor\"\n\
         [[route]]\npath = \"/here/:name\"\nrespond = {{ text = \"here\" }}\n\
         [[route]]\npath = \"/script\"\nscript = \"s\"\n"
    ))
    .file("s.mjs", "export default () => 'script';")
    .admin()
}

/// Sends a request with a parent trace.
fn traced(server: &Server, target: &str, parent: &str) -> Response {
    let mut client = server.connect();
    client.send(format!(
        "GET {target} HTTP/1.1\r\nhost: shop.example\r\ntraceparent: {parent}\r\ntracestate: shop=1\r\n\r\n"
    ));
    client.response()
}

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

/// The number of spans with this outcome.
fn counted(server: &Server, outcome: &str) -> u64 {
    counted_of(server, "forebay_trace_spans_total", outcome)
}

fn counted_of(server: &Server, family: &str, outcome: &str) -> u64 {
    let metrics = server.admin().get("/metrics");
    let series = format!("{family}{{outcome=\"{outcome}\"}} ");
    let found = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(series.as_str()));
    found.expect("it is counted").parse().expect("a number")
}

#[test]
fn a_request_is_a_span_of_its_callers_trace_and_what_was_done_for_it_are_its_children() {
    let collector = Collector::start(&[(200, "{}")]);
    let setup = setup(
        collector.address,
        "service = \"shop\"\nheaders = { Authorization = \"Bearer ${COLLECTOR_TOKEN}\" }",
    );
    let mut server = setup.env("COLLECTOR_TOKEN", "secret").start();
    assert_eq!(traced(&server, "/script?card=1234", &parent("01")).status, 200);
    assert_eq!(
        traced(&server, "/here/bob", &parent("00")).status,
        200,
        "it is not sampled"
    );
    server.terminate();
    assert!(server.wait().success());
    let posts = collector.posts();
    assert_eq!(posts.len(), 1, "what waits is posted before the server ends");
    let head = &posts[0].head;
    assert_eq!(head[0], "POST /v1/traces HTTP/1.1");
    for field in ["content-type: application/json", "authorization: Bearer secret"] {
        assert!(head.iter().any(|line| line == field), "{field} in {head:?}");
    }
    let resource = &posts[0].body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), "shop");
    let spans = spans(&posts[0].body);
    let server_spans: Vec<_> = spans.iter().filter(|span| span["kind"] == 2).collect();
    let [request] = server_spans[..] else {
        panic!("one request is sampled: {spans:?}");
    };
    assert_eq!(
        (
            &request["traceId"],
            &request["parentSpanId"],
            &request["traceState"],
            &request["name"]
        ),
        (
            &TRACE.into(),
            &CALLER.into(),
            &"shop=1".into(),
            &"GET /script".into()
        )
    );
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/script"),
        ("url.path", "/script"),
        ("server.address", "shop.example"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "6"),
    ] {
        assert_eq!(attribute(request, key), value, "{key}");
    }
    assert!(
        !posts[0].body.to_string().contains("1234"),
        "a query is nobody's business"
    );
    let nanos = |span: &Value, key: &str| {
        span[key]
            .as_str()
            .expect("a text")
            .parse::<u64>()
            .expect("a number")
    };
    let (begun, until) = (
        nanos(request, "startTimeUnixNano"),
        nanos(request, "endTimeUnixNano"),
    );
    let children: Vec<_> = spans.iter().filter(|span| span["kind"] != 2).collect();
    for name in ["front", "queue", "running", "write"] {
        let child = children.iter().find(|span| span["name"] == name);
        let child = child.unwrap_or_else(|| panic!("{name} in {spans:?}"));
        assert_eq!(
            (&child["traceId"], &child["parentSpanId"]),
            (&TRACE.into(), &request["spanId"])
        );
        let (from, to) = (nanos(child, "startTimeUnixNano"), nanos(child, "endTimeUnixNano"));
        assert!(begun <= from && from <= to && to <= until, "{child} in {request}");
    }
    let mut ids: Vec<_> = spans.iter().map(|span| span["spanId"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "no two spans have one id");
}

#[test]
fn requests_without_a_parent_or_with_one_that_is_none_are_drawn_by_lot() {
    for (share, expected) in [("0", 0), ("1.0", 3)] {
        let collector = Collector::start(&[(200, "")]);
        let mut server = setup(collector.address, &format!("share = {share}")).start();
        server.get("/here/bob");
        traced(&server, "/here/bob", "00-no-parent-01");
        traced(
            &server,
            "/here/bob",
            &parent("01").replace(CALLER, "0000000000000000"),
        );
        traced(&server, "/here/bob", &parent("01"));
        server.terminate();
        assert!(server.wait().success());
        let spans = collector.spans();
        let own: Vec<_> = spans
            .iter()
            .filter(|span| span["kind"] == 2 && span["traceId"] != TRACE)
            .collect();
        assert_eq!(own.len(), expected, "{spans:?}");
        assert!(
            own.iter()
                .all(|span| span["parentSpanId"].is_null() && span["traceState"].is_null())
        );
        assert!(
            spans.iter().any(|span| span["traceId"] == TRACE),
            "who asks is sampled: {spans:?}"
        );
    }
}

#[test]
fn a_collector_that_is_down_costs_no_request_anything_and_what_it_misses_is_counted() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it listens")
    };
    let mut server = setup(address, "queue_max = 20").start();
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(client.get("/here/bob").status, 200);
    }
    wait_until("spans to be dropped", || counted(&server, "dropped") > 0);
    wait_until("a batch to fail", || counted(&server, "failed") > 0);
    assert_eq!(counted(&server, "sent"), 0);
    assert_eq!(client.get("/here/bob").status, 200);
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn a_collector_that_never_answers_holds_no_server_up_that_stops() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut server = setup(listener.local_addr().expect("it listens"), "").start();
    server.get("/here/bob");
    server.terminate();
    assert!(server.wait().success());
    assert!(
        server.log().contains("the collector is too slow"),
        "{}",
        server.log()
    );
}

#[test]
fn a_batch_is_posted_again_to_a_collector_that_may_take_it_later() {
    let collector = Collector::start(&[(503, ""), (429, ""), (200, "{}")]);
    let server = setup(collector.address, "").start();
    server.get("/here/bob");
    wait_until("the spans to be taken", || counted(&server, "sent") > 0);
    let posts = collector.posts();
    assert_eq!(posts.len(), 3);
    assert!(
        posts
            .iter()
            .all(|post| spans(&post.body) == spans(&posts[0].body))
    );
    assert_eq!((counted(&server, "failed"), counted(&server, "dropped")), (0, 0));
}

#[test]
fn the_log_says_once_that_spans_are_refused_and_once_that_they_are_taken_again() {
    let refused = r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no room"}}"#;
    let answers: &'static [(u16, &str)] =
        Box::leak(Box::new([(400, ""), (200, refused), (400, ""), (200, "{}")]));
    let collector = Collector::start(answers);
    let server = setup(collector.address, "").start();
    for posts in 1..=4 {
        server.get("/here/bob");
        wait_until("a post", || collector.posts().len() == posts);
        wait_until("it to be counted", || {
            let all = counted(&server, "sent") + counted(&server, "failed");
            all == collector.spans().len() as u64
        });
    }
    server.wait_for_log(&["the collector takes spans again"]);
    let log = server.log();
    assert!(log.contains("it has answered with 400"), "{log}");
    assert_eq!(log.matches("does not take spans").count(), 1, "{log}");
    let spans_of = |at: usize| spans(&collector.posts()[at].body).len() as u64;
    assert_eq!(counted(&server, "failed"), spans_of(0) + 1 + spans_of(2));
}

#[test]
fn a_server_without_a_collector_counts_no_spans_and_a_wrong_one_is_refused() {
    let server = Setup::new("[[route]]\npath = \"/\"\nrespond = { text = \"here\" }\n")
        .admin()
        .start();
    server.get("/");
    assert!(
        !server
            .admin()
            .get("/metrics")
            .text()
            .contains("forebay_trace_spans_total{")
    );
    for (keys, expected) in [
        (
            "otlp = \"collector:4318\"",
            "trace.otlp: what is written there is no address",
        ),
        (
            "otlp = \"http://c\"\nshare = 1.5",
            "trace.share: found 1.5, expected a number from 0 to 1",
        ),
        (
            "otlp = \"http://c\"\nheaders = { Host = \"d\" }",
            "trace.headers.Host: the server sets this header itself",
        ),
        ("share = 0.5", "trace.otlp: missing"),
        (
            "otlp = \"http://c\"\nmetrics_interval = \"10ms\"",
            "trace.metrics_interval: found \"10ms\"",
        ),
    ] {
        server.reconfigure(&format!("[trace]\n{keys}\n"));
        let checked = server.command(&["check"]);
        let said =
            String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert!(said.contains(expected), "{expected} in {said}");
    }
}

#[test]
fn workers_and_servers_behind_are_told_of_the_requests_own_span() {
    let collector = Collector::start(&[(200, "{}")]);
    let behind = Setup::new("[script.s]\nhandler = \"s.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"s\"\n")
        .file("s.mjs", TELLS)
        .start();
    let config = format!(
        "[trace]\notlp = \"http://{}/\"\n[pool.api]\nhandler = \"s.mjs\"\n[proxy.app]\nservers = [\"http://{}\"]\n\
         [[route]]\npath = \"/pool\"\npool = \"api\"\n[[route]]\npath = \"/proxy\"\nproxy = \"app\"\n",
        collector.address,
        behind.address(),
    );
    let mut server = Setup::new(&config).file("s.mjs", TELLS).start();
    let told = |path: &str, parent: &str| -> String {
        let answer = traced(&server, path, parent);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().to_owned()
    };
    let sampled: Vec<_> = ["/pool", "/proxy"].map(|path| told(path, &parent("01"))).into();
    // What is not sampled passes as it is.
    for path in ["/pool", "/proxy"] {
        assert_eq!(told(path, &parent("00")), parent("00"), "{path}");
    }
    let drawn: Vec<_> = ["/pool", "/proxy"].map(|path| told(path, "none")).into();
    server.terminate();
    assert!(server.wait().success());
    let spans = collector.spans();
    for told in sampled.iter().chain(&drawn) {
        let named = spans.iter().find(|span| {
            let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
            span["kind"] == 2 && format!("00-{}-{}-01", text("traceId"), text("spanId")) == *told
        });
        assert!(named.is_some(), "{told} in {spans:?}");
    }
    assert!(sampled.iter().all(|told| told.contains(TRACE)));
    let upstream = spans
        .iter()
        .find(|span| span["name"] == "upstream")
        .expect("its time is a span");
    assert_eq!(
        attribute(upstream, "forebay.detail"),
        format!("http://{}", behind.address())
    );
}

/// A handler that answers with the trace that it belongs to.
const TELLS: &str = "export default (request) => request.headers.get('traceparent') ?? 'none';";

#[test]
fn lines_of_the_log_are_records_that_belong_to_the_traces_of_their_requests() {
    let collector = Collector::start(&[(200, "{}")]);
    let config = format!(
        "[log]\naccess = true\nformat = \"text\"\n[trace]\notlp = \"http://{}/\"\nlogs = true\nservice = \"shop\"\n\
         [pool.api]\nhandler = \"s.mjs\"\n[[route]]\npath = \"/stock\"\npool = \"api\"\n",
        collector.address
    );
    let handler =
        "export default (request, ctx) => { ctx.log.warn('low stock', { left: 1.5 }); return 'pool'; };";
    let mut server = Setup::new(&config).file("s.mjs", handler).start();
    assert_eq!(traced(&server, "/stock", &parent("01")).status, 200);
    assert_eq!(traced(&server, "/stock", &parent("00")).status, 200);
    server.terminate();
    assert!(server.wait().success());
    let posts = collector.posts_to("/v1/logs");
    assert_eq!(
        attribute(&posts[0].body["resourceLogs"][0]["resource"], "service.name"),
        "shop"
    );
    let spans = collector.spans();
    let request = spans
        .iter()
        .find(|span| span["kind"] == 2)
        .expect("one is sampled");
    let records = collector.log_records();
    let of = |scope: &str| -> Vec<&Value> {
        let of_scope = records.iter().filter(|(name, _)| name == scope);
        of_scope.map(|(_, record)| record).collect()
    };
    let access = of("forebay::access");
    let logged = of("forebay::worker");
    let logged: Vec<_> = logged
        .into_iter()
        .filter(|record| record["body"]["stringValue"] == "low stock")
        .collect();
    for of_requests in [&access, &logged] {
        assert_eq!(of_requests.len(), 2, "{records:?}");
        assert_eq!(
            (&of_requests[0]["traceId"], &of_requests[0]["spanId"]),
            (&TRACE.into(), &request["spanId"])
        );
        assert_eq!(of_requests[1]["traceId"], Value::Null, "it is not sampled");
    }
    assert_eq!(access[0]["body"]["stringValue"], "GET /stock");
    assert_eq!(
        (
            access[0]["severityNumber"].as_u64(),
            attribute(access[0], "status")
        ),
        (Some(9), "200")
    );
    assert_eq!(
        (logged[0]["severityText"].as_str(), attribute(logged[0], "pool")),
        (Some("WARN"), "api")
    );
    let texts: Vec<_> = records
        .iter()
        .map(|(_, record)| &record["body"]["stringValue"])
        .collect();
    for text in [
        "worker ready",
        "stopping: requests under way are answered, a second signal ends them now",
    ] {
        assert!(texts.contains(&&text.into()), "{text} in {texts:?}");
    }
}

#[test]
fn the_metrics_of_the_admin_listener_are_posted_under_the_same_names() {
    let collector = Collector::start(&[(503, ""), (200, "{}")]);
    let mut server = setup(collector.address, "metrics_interval = \"1s\"\nshare = 0").start();
    assert_eq!(server.get("/here/bob").status, 200);
    let posts = |outcome: &str| counted_of(&server, "forebay_metric_posts_total", outcome);
    wait_until("a post to be taken", || posts("sent") > 0);
    assert_eq!(posts("failed"), 1, "the next post comes in place of a retry");
    let text = server.admin().get("/metrics").text().to_owned();
    server.terminate();
    assert!(server.wait().success());
    let posts = collector.posts_to("/v1/metrics");
    let last = &posts.last().expect("there are posts").body["resourceMetrics"][0];
    let metrics = list(&last["scopeMetrics"][0]["metrics"]);
    let posted: BTreeSet<&str> = metrics
        .iter()
        .filter_map(|metric| metric["name"].as_str())
        .collect();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let exposed: BTreeSet<&str> = samples
        .map(|line| line.split(['{', ' ']).next().expect("a name"))
        .map(|name| {
            let parts = ["_bucket", "_sum", "_count"];
            parts
                .iter()
                .find_map(|part| name.strip_suffix(part))
                .unwrap_or(name)
        })
        .collect();
    assert_eq!(posted, exposed);
    let metric = |name: &str| {
        metrics
            .iter()
            .find(|metric| metric["name"] == name)
            .expect("it is posted")
    };
    let requests = &metric("forebay_requests_total")["sum"];
    assert_eq!(
        (&requests["aggregationTemporality"], &requests["isMonotonic"]),
        (&2.into(), &true.into())
    );
    let of_route = |points: &'_ Value| -> Vec<Value> {
        let points = list(points).iter();
        points
            .filter(|point| attribute(point, "route") == "/here/:name")
            .cloned()
            .collect()
    };
    let points = of_route(&requests["dataPoints"]);
    let answered = points.iter().find(|point| attribute(point, "class") == "2xx");
    assert_eq!(answered.expect("its class is there")["asDouble"], 1.0);
    let duration = metric("forebay_request_duration_seconds");
    assert_eq!(duration["unit"], "s");
    let [duration] = &of_route(&duration["histogram"]["dataPoints"])[..] else {
        panic!("one histogram for each route: {duration}");
    };
    let counts: Vec<_> = list(&duration["bucketCounts"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(counts.len(), list(&duration["explicitBounds"]).len() + 1);
    let sum: u64 = counts
        .iter()
        .map(|count| count.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!((duration["count"].as_str(), sum), (Some("1"), 1));
    assert!(metric("forebay_connections_open")["gauge"]["dataPoints"][0]["startTimeUnixNano"].is_null());
}

#[test]
fn log_records_beyond_their_bound_are_dropped_and_counted_while_the_collector_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let server = Setup::new(&format!(
        "[log]\naccess = true\nfile = \"log\"\n[trace]\notlp = \"http://{address}/\"\nlogs = true\nshare = 0\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
    .admin()
    .start();
    let mut client = server.connect();
    let long = "x".repeat(1000);
    let request =
        format!("GET /here?{long} HTTP/1.1\r\nhost: test\r\nreferer: {long}\r\nuser-agent: {long}\r\n\r\n");
    wait_until("records to be dropped", || {
        for _ in 0..100 {
            client.send(&request);
            assert_eq!(client.response().status, 200);
        }
        counted_of(&server, "forebay_log_records_total", "dropped") > 0
    });
    assert_eq!(counted_of(&server, "forebay_log_records_total", "sent"), 0);
}
