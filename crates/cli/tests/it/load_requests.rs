//! The requests of `forebay load`, as the server receives them byte by byte.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use forebay_testkit::{Folder, http_target};

use crate::{load::json, run::run};

/// A server that records all requests, and answers each with `hi`.
struct Recorder {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    folder: Folder,
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log) = (stream.unwrap(), log.clone());
                std::thread::spawn(move || serve(stream, &log));
            }
        });
        Self {
            address,
            seen,
            folder: Folder::new(),
        }
    }

    /// Runs `forebay load` with a line of words separated by spaces, of which `HOST` stands for this server, and returns the requests. None
    /// may fail.
    fn sent(&self, line: &str) -> Vec<String> {
        let line = line.replace("HOST", &format!("http://{}", self.address));
        let words = ["load", "--json", "--quiet"]
            .into_iter()
            .chain(line.split_whitespace());
        let ended = run(self.folder.path(), &words.collect::<Vec<_>>());
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["failed"], 0, "{line}: {ended:?}");
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// Takes requests with a Content-Length or without a body.
fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>) {
    let (mut held, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(length) = whole(&held) {
            let request: Vec<u8> = held.drain(..length).collect();
            let request = String::from_utf8_lossy(&request).into_owned();
            log.lock().unwrap().push(request);
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => held.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
}

/// The length of the first request, if it is complete.
fn whole(held: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(held).to_ascii_lowercase();
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head].split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
    (held.len() >= head + length).then_some(head + length)
}

/// The body of a request.
fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

/// The first line without the version.
fn line(request: &str) -> &str {
    request.split(" HTTP/1.1").next().unwrap()
}

#[test]
fn each_line_of_a_file_is_the_body_of_a_request() {
    let recorder = Recorder::start();
    recorder
        .folder
        .write("lines", "{\"a\":1}\r\n\nlonger, than {{counter}}\n");
    let sent = recorder.sent("HOST/{{counter}} --template --body-lines lines -n 3 -c 1");
    let bodies: Vec<_> = sent.iter().map(|request| body(request)).collect();
    assert_eq!(bodies, ["{\"a\":1}", "longer, than {{counter}}", "{\"a\":1}"]);
    assert_eq!(line(&sent[2]), "POST /3");
    let sent = recorder.sent("HOST --body-lines lines -m PUT -n 1 -c 1");
    assert_eq!(line(&sent[0]), "PUT /");
}

#[test]
fn requests_come_from_templates_lists_and_files() {
    let folder = Folder::new();
    let server = http_target::Server::start(1);
    folder.write("sizes", "7\n8\n");
    folder.write("urls.txt", "# three\n/bytes/21\n/bytes/22\nPOST /echo\n");
    folder.write("body", "hello");
    let load = |line: &str, count: u64| {
        let line = line.replace("HOST:PORT", &server.address().to_string());
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(folder.path(), &[&words[..], &["--json"]].concat());
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["total"], count, "{line}: {ended:?}");
        assert_eq!(json(&ended)["requests"]["failed"], 0, "{line}: {ended:?}");
    };
    load("http://HOST:PORT/bytes/{{counter}} --template -n 3 -c 1", 3);
    let url = server.url("/bytes/{{line sizes}}");
    let ended = run(folder.path(), &["load", &url, "--template", "-n", "4", "-c", "1"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    load(
        "http://HOST:PORT/echo --body-file body --user ann:x --expect-body hello -n 1 -c 1",
        1,
    );
    load("http://HOST:PORT/ --urls urls.txt -n 6 -c 1", 6);
    let stats = server.stop();
    for (path, count) in [
        ("/bytes/1", 1),
        ("/bytes/2", 1),
        ("/bytes/7", 2),
        ("/bytes/8", 2),
        ("/bytes/21", 2),
        ("/bytes/22", 2),
        ("/echo", 3),
    ] {
        assert_eq!(stats.path(path).answered, count, "{path}: {stats:?}");
    }
}

#[test]
fn requests_that_cannot_be_sent_are_refused() {
    let folder = Folder::new();
    folder.write("empty", "");
    for (line, complaint) in [
        ("http://127.0.0.1:9/{{cuonter}} --template", "cuonter"),
        ("http://127.0.0.1:9/ --urls empty", "there is no request in it"),
        ("http://127.0.0.1:9/ --urls nowhere", "cannot read nowhere"),
        (
            "http://127.0.0.1:9/ --body-lines empty",
            "empty: there is no line in it",
        ),
        (
            "http://127.0.0.1:9/ --body-lines empty -b x",
            "cannot be used with",
        ),
        ("http://127.0.0.1:9/ --cacert empty", "certificates need https"),
        ("https://127.0.0.1:9/ --cacert empty", "empty"),
    ] {
        let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
        let ended = run(folder.path(), &words);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{line}: {ended:?}");
        assert!(ended.err.contains(complaint), "{line}: {ended:?}");
    }
}
