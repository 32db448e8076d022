//! What `forebay load` sends, as the other side gets it byte by byte.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use forebay_testkit::Folder;
use rustix::process::Signal;

use crate::{
    load::{calibration, json},
    run::{Ended, run},
};

/// A server that keeps all requests, and answers each as it is told.
struct Recorder {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    folder: Folder,
}

/// The answer to a request.
type Answer = fn(&str) -> Vec<u8>;

fn hello(_: &str) -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi".to_vec()
}

impl Recorder {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log) = (stream.unwrap(), log.clone());
                std::thread::spawn(move || serve(stream, answer, &log));
            }
        });
        Self {
            address,
            seen,
            folder: Folder::new(),
        }
    }

    /// Runs `forebay load` with a line, whose words are apart by spaces; `HOST` in it is this server.
    fn load(&self, line: &str) -> Ended {
        let line = line.replace("HOST", &format!("http://{}", self.address));
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        run(self.folder.path(), &words)
    }

    /// The same; what was sent. Nothing may fail.
    fn sent(&self, line: &str) -> Vec<String> {
        let ended = self.load(&format!("{line} --json --quiet"));
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(report["requests"]["failed"], 0, "{line}: {ended:?}");
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// Takes requests with a Content-Length or without a body.
fn serve(mut stream: TcpStream, answer: Answer, log: &Mutex<Vec<String>>) {
    let (mut held, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(length) = whole(&held) {
            let request: Vec<u8> = held.drain(..length).collect();
            let request = String::from_utf8_lossy(&request).into_owned();
            log.lock().unwrap().push(request.clone());
            if stream.write_all(&answer(&request)).is_err() {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => held.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
}

/// The length of the first request, if it is all there.
fn whole(held: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(held).to_ascii_lowercase();
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head].split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
    (held.len() >= head + length).then_some(head + length)
}

/// What follows the head.
fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

/// The first line without the version.
fn line(request: &str) -> &str {
    request.split(" HTTP/1.1").next().unwrap()
}

#[test]
fn a_raw_request_goes_over_the_wire_as_it_stands() {
    let recorder = Recorder::start(hello);
    let raw = "PATCH /a?b HTTP/1.1\r\nHost: elsewhere\r\nX-Id: 7\r\nContent-Length: 3\r\n\r\na\nb";
    recorder.folder.write("raw.txt", raw);
    assert_eq!(
        recorder.sent("HOST/other --raw-request raw.txt -n 2 -c 1"),
        [raw; 2]
    );
    let more = recorder.sent("HOST --raw-request raw.txt -H X-More=1 -n 1 -c 1");
    assert!(
        more[0].contains("Content-Length: 3\r\nX-More: 1\r\n\r\na\nb"),
        "{more:?}"
    );
    let closing = recorder.sent("HOST --raw-request raw.txt --no-keepalive -n 1 -c 1");
    assert!(closing[0].contains("\r\nconnection: close\r\n"), "{closing:?}");
    let counted = "GET /${sequence} HTTP/1.1\r\nHost: h\r\n\r\n";
    recorder.folder.write("counted.txt", counted);
    let plain = recorder.sent("HOST --raw-request counted.txt -n 1 -c 1");
    assert_eq!(plain, [counted]);
}

#[test]
fn each_line_of_a_file_is_the_body_of_a_request() {
    let recorder = Recorder::start(hello);
    recorder
        .folder
        .write("lines", "{\"a\":1}\r\n\nlonger, than {{counter}}\n");
    let sent = recorder.sent("HOST/{{counter}} --template --body-lines lines -n 3 -c 1");
    let bodies: Vec<_> = sent.iter().map(|request| body(request)).collect();
    assert_eq!(bodies, ["{\"a\":1}", "longer, than {{counter}}", "{\"a\":1}"]);
    assert_eq!(line(&sent[2]), "POST /3");
    let sent = recorder.sent("HOST --body-lines lines --shuffle -m PUT -n 64 -c 1");
    let long = sent.iter().filter(|request| body(request).len() > 10).count();
    assert!((8..56).contains(&long), "{long} of 64");
    assert!(sent.iter().all(|request| line(request) == "PUT /"));
}

#[test]
fn vegetas_targets_are_sent() {
    let recorder = Recorder::start(hello);
    recorder.folder.write("body", "from a file");
    let own = recorder.address;
    let targets = format!(
        "GET http://ann:secret@{own}/one\nX-Id: 1\n\nPUT http://{own}/two\n@body\n\n{{\"method\": \"POST\", \"url\": \"http://{own}/three\", \
         \"body\": \"aGk=\", \"header\": {{\"X-Id\": [\"3\"]}}}}\n"
    );
    recorder.folder.write("targets", targets);
    let sent = recorder.sent("--urls targets -n 3 -c 1");
    let lines: Vec<_> = sent
        .iter()
        .map(|request| (line(request), body(request)))
        .collect();
    assert_eq!(
        lines,
        [
            ("GET /one", ""),
            ("PUT /two", "from a file"),
            ("POST /three", "hi")
        ]
    );
    assert!(
        sent[0].contains("authorization: Basic YW5uOnNlY3JldA==\r\nX-Id: 1\r\n"),
        "{sent:?}"
    );
}

const LOG: &str = r#"1.2.3.4 - - [10/Oct/2000:13:55:37 -0700] "GET /late HTTP/1.1" 200 2326 "-" "browser"
1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "POST /first HTTP/1.1" 200 2326
1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "-" 408 0
1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET /second?a HTTP/1.0" 200 2326
"#;

#[test]
fn an_access_log_is_sent_in_its_order_or_at_its_times() {
    let recorder = Recorder::start(hello);
    recorder.folder.write("log", LOG);
    let lines = |sent: &[String]| {
        sent.iter()
            .map(|request| line(request).to_owned())
            .collect::<Vec<_>>()
    };
    let ended = recorder.load("HOST --access-log log -n 4 -c 1");
    assert!(
        ended
            .err
            .contains("1 lines of log are left out: they are no requests"),
        "{ended:?}"
    );
    let sent = std::mem::take(&mut *recorder.seen.lock().unwrap());
    assert_eq!(
        lines(&sent),
        ["GET /late", "POST /first", "GET /second?a", "GET /late"]
    );
    for threads in [1, 2] {
        let sent = recorder.sent(&format!(
            "HOST --access-log log --replay --replay-speed 5x -c 2 -t {threads}"
        ));
        assert_eq!(lines(&sent), ["POST /first", "GET /second?a", "GET /late"]);
    }
    recorder.folder.write("trace", "100\tPUT /b\n0\t/a\n100.5\t/c\n");
    let ended = recorder.load("HOST --urls trace --replay -c 1 --json --quiet");
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["run"]["arrivals"], "trace", "{report}");
    let asked = report["run"]["asked_per_second"].as_f64().unwrap();
    assert!((19.0..21.0).contains(&asked), "{report}");
    // The last one is due 100.5 ms after the first: whatever the machine does, it cannot have been over earlier.
    assert!(report["seconds"].as_f64().unwrap() >= 0.1, "{report}");
    assert_eq!(
        lines(&recorder.seen.lock().unwrap()),
        ["GET /a", "PUT /b", "GET /c"]
    );
}

#[test]
fn bodies_are_looked_at_uncompressed_and_redirects_are_followed() {
    // `hello` as gzip writes it.
    const HELLO: [u8; 25] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0,
    ];
    let recorder = Recorder::start(|request| {
        if request.starts_with("GET /old ") {
            return b"HTTP/1.1 301 Moved\r\nlocation: /new\r\ncontent-length: 0\r\n\r\n".to_vec();
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
            HELLO.len()
        );
        [head.as_bytes(), &HELLO].concat()
    });
    let line =
        "HOST/old --compressed --follow-redirects 2 --expect-body equals:hello --expect-status 200 -c 1";
    let sent = recorder.sent(&format!("{line} -n 4"));
    assert!(
        sent.iter()
            .all(|request| request.contains("accept-encoding: gzip, br, zstd, deflate\r\n"))
    );
    assert_eq!(
        sent.iter().map(|request| self::line(request)).collect::<Vec<_>>(),
        ["GET /old", "GET /new", "GET /old", "GET /new"]
    );
    let told = recorder.load(&format!("{line} -n 4"));
    assert!(told.out.contains("2 followed"), "{told:?}");
    let plain = recorder.load("HOST --expect-body length:5 -n 4 -c 1 --json");
    let report: serde_json::Value = serde_json::from_str(&plain.out).unwrap();
    assert_eq!(
        report["requests"]["failed"], 4,
        "without the option a body is what came: {plain:?}"
    );
    recorder.sent("HOST --compressed --expect-body length:5 -n 4 -c 1");
}

#[test]
fn requests_are_signed() {
    let recorder = Recorder::start(hello);
    let sign = "--aws-sigv4 aws:amz:eu-west-1:execute-api --user KEY:SECRET";
    for (line, count) in [
        (format!("HOST/a?b {sign} -n 3 -c 1"), 3),
        (format!("HOST/{{{{counter}}}} --template {sign} -n 2 -c 1"), 2),
    ] {
        let sent = recorder.sent(&line);
        assert_eq!(sent.len(), count);
        for request in &sent {
            let proof = request
                .split("authorization: AWS4-HMAC-SHA256 Credential=KEY/")
                .nth(1)
                .unwrap();
            assert!(
                proof.contains(
                    "/eu-west-1/execute-api/aws4_request, SignedHeaders=host;x-amz-date, Signature="
                ),
                "{request}"
            );
            assert!(
                !request.contains("Basic") && request.matches("x-amz-date: ").count() == 1,
                "{request}"
            );
        }
    }
}

#[test]
fn one_request_and_its_answer_are_shown() {
    let recorder =
        Recorder::start(|_| b"HTTP/1.1 200 OK\r\nX-Own: 1\r\ncontent-length: 4\r\n\r\nhi\x00\n".to_vec());
    let shown = recorder.load("HOST/a --debug -b x");
    assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{shown:?}");
    let host = recorder.address;
    let sent = format!("POST /a HTTP/1.1\nhost: {host}\ncontent-length: 1\n\nx\n");
    assert!(shown.out.contains(&sent), "{shown:?}");
    assert!(
        shown
            .out
            .contains("HTTP/1.1 200 OK\nX-Own: 1\ncontent-length: 4\n\nhi\\x00\n"),
        "{shown:?}"
    );
    assert_eq!(recorder.seen.lock().unwrap().len(), 1);
    let cut = Recorder::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi".to_vec());
    let shown = cut.load("HOST --debug --timeout 200ms");
    assert!(
        shown
            .out
            .contains("--- the answer is not whole: no whole answer within the time-out"),
        "{shown:?}"
    );
}

#[test]
fn requests_that_would_be_wrong_are_refused_before_a_connection_is_made() {
    let recorder = Recorder::start(hello);
    let file = |name: &str, content: &str| recorder.folder.write(name, content);
    file("long.txt", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nfour");
    file("plain", "/a\n");
    file("empty", "\r\n\n");
    file("open.txt", "GET / HTTP/1.1\r\nHost: h\r\n");
    for (line, complaint) in [
        (
            "--raw-request long.txt",
            "long.txt: Content-Length says 3, the body has 4 bytes",
        ),
        ("--raw-request open.txt", "open.txt: its head has no end"),
        ("--raw-request open.txt -m PUT", "cannot be used with"),
        ("--urls plain --replay", "line 1: nothing says when this is due"),
        ("--access-log plain", "none of the 1 lines is a request"),
        ("--har plain --replay", "--replay needs --access-log or --urls"),
        ("--body-lines empty", "empty: there is no line in it"),
        ("--body-lines empty -b x", "cannot be used with"),
        ("--raw-request nowhere", "cannot read nowhere"),
    ] {
        let ended = recorder.load(&format!("HOST {line}"));
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{line}: {ended:?}");
        assert!(ended.err.contains(complaint), "{line}: {ended:?}");
    }
    assert!(recorder.seen.lock().unwrap().is_empty());
}

#[test]
fn requests_come_from_templates_lists_recordings_scenarios_and_files() {
    let folder = Folder::new();
    let mut serving = calibration();
    let address = serving.address();
    folder.write("users.csv", "size\n7\n8\n");
    folder.write("urls.txt", "/bytes/21\n/bytes/22\nPOST /echo\n");
    folder.write("body", "x=1");
    let entry = |path: &str| {
        format!(r#"{{"request": {{"method": "GET", "url": "http://{address}{path}", "headers": []}}}}"#)
    };
    let elsewhere = r#"{"request": {"method": "GET", "url": "http://192.0.2.1/", "headers": []}}"#;
    folder.write(
        "shop.har",
        format!(
            r#"{{"log": {{"entries": [{}, {elsewhere}]}}}}"#,
            entry("/bytes/31")
        ),
    );
    folder.write(
        "shop.json",
        r#"[{"method": "POST", "path": "/echo", "body": {"size": 41}, "extract": {"size": {"json": "$.size"}}},
            {"path": "/bytes/{{size}}"}]"#,
    );
    folder.write("raw.txt", "GET /bytes/51 HTTP/1.1\r\nX-Id: 5\r\n\r\n");
    let load = |line: &str, count: u64| {
        let line = line.replace("HOST:PORT", &address.to_string());
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(folder.path(), &[&words[..], &["--json"]].concat());
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["total"], count, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["failed"], 0, "{line}: {ended:?}");
        ended.err
    };
    load("http://HOST:PORT/bytes/{{counter}} --template -n 3 -c 1", 3);
    load(
        "http://HOST:PORT/bytes/{{csv.size}} --template --csv-data users.csv -n 4 -c 1",
        4,
    );
    load(
        "http://HOST:PORT/echo -F name=Rob -F file=@body --expect-body ~Rob -n 2 -c 1",
        2,
    );
    load(
        "http://HOST:PORT/echo -b hello --chunked --cookie a=1 --user ann:x --expect-body hello -n 1 -c 1",
        1,
    );
    load(
        "http://HOST:PORT/bytes/61 --expect-header content-length:61 --bind 127.0.0.1 --ipv4 -n 1 -c 1",
        1,
    );
    load("http://HOST:PORT/ --urls urls.txt -n 6 -c 1", 6);
    let told = load("http://HOST:PORT/ --har shop.har -n 2 -c 1", 2);
    assert!(
        told.contains("1 requests of shop.har are left out: they go to other servers"),
        "{told}"
    );
    load("http://HOST:PORT/ --requests shop.json -n 4 -c 1", 4);
    let hose = [
        "load",
        "hose",
        "-r",
        "raw.txt",
        "-d",
        "0.1",
        "-c",
        "2",
        "-k",
        &address.to_string(),
    ];
    let hosed = run(folder.path(), &hose);
    assert_eq!(hosed.code, 0, "{hosed:?}");
    serving.process().signal(Signal::INT);
    serving.wait();
    let printed = serving.printed();
    let counted: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    for (path, count) in [
        ("/bytes/1", 1),
        ("/bytes/2", 1),
        ("/bytes/7", 2),
        ("/bytes/8", 2),
        ("/bytes/21", 2),
        ("/bytes/22", 2),
        ("/echo", 7),
        ("/bytes/31", 2),
        ("/bytes/41", 2),
    ] {
        assert_eq!(counted["paths"][path]["answered"], count, "{path}: {printed}");
    }
    assert!(
        counted["paths"]["/bytes/51"]["answered"].as_u64().unwrap() > 0,
        "{printed}"
    );
}

#[test]
fn requests_that_cannot_be_sent_are_refused() {
    let folder = Folder::new();
    folder.write("empty", "");
    folder.write("wrong.json", "{\"steps\": [{\"pth\": \"/\"}]}");
    for (words, complaint) in [
        (&["http://127.0.0.1:9/{{cuonter}}", "--template"][..], "cuonter"),
        (
            &["http://127.0.0.1:9/", "--csv-data", "empty"],
            "--csv-data needs --template",
        ),
        (
            &["http://127.0.0.1:9/", "--shuffle"],
            "--shuffle needs --urls, --har, --access-log or --body-lines",
        ),
        (
            &["http://127.0.0.1:9/", "--urls", "empty"],
            "there is no request in it",
        ),
        (&["http://127.0.0.1:9/", "--har", "empty"], "not a HAR file"),
        (&["http://127.0.0.1:9/", "--requests", "wrong.json"], "pth"),
        (
            &["http://127.0.0.1:9/", "--urls", "nowhere"],
            "cannot read nowhere",
        ),
        (&["http://127.0.0.1:9/", "-F", "name"], "form field"),
        (
            &["http://127.0.0.1:9/", "--cacert", "empty"],
            "certificates need https",
        ),
        (&["https://127.0.0.1:9/", "--cacert", "empty"], "empty"),
    ] {
        let ended = run(folder.path(), &[&["load"], words].concat());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains(complaint), "{words:?}: {ended:?}");
    }
}
