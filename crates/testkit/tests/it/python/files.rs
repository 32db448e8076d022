//! Files that applications send.

use forebay_testkit::Setup;

use super::pool;
use crate::support::ONE_WORKER;

const FLASK: &str = r#"
import gzip, io, os
from flask import Flask, Response, request, send_file
app = Flask(__name__)
state = {"closed": 0}

@app.get("/whole")
def whole():
    return send_file("big.bin", conditional=True)

class Closing(io.FileIO):
    pass

def raw(environ, start_response):
    name = environ["PATH_INFO"][len("/raw/"):]
    headers = [("content-type", "application/octet-stream")]
    file = open("big.bin", "rb")
    if name == "rest":
        file.read(1_000_000)
    elif name == "packed":
        with gzip.open("big.gz", "wb", 1) as packed:
            packed.write(file.read(500_000))
        file = gzip.open("big.gz")
    elif name == "memory":
        file = io.BytesIO(file.read(300_000))
    elif name == "small":
        file = open("small.txt", "rb")
    elif name == "changed":
        file = open("own.bin", "w+b")
        file.write(b"x" * 100_000)
        file.seek(10)
    elif name == "wrong":
        headers.append(("content-length", "1000000"))
    start_response("200 OK", headers)
    return environ["wsgi.file_wrapper"](file, 4096)

served = app.wsgi_app
app.wsgi_app = lambda environ, start_response: (raw if environ["PATH_INFO"].startswith("/raw/") else served)(environ, start_response)

@app.get("/open")
def opened():
    return {"files": [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]}
"#;

/// More than the sockets between the server and a client hold.
const BIG_BYTES: usize = 48 << 20;

fn content() -> Vec<u8> {
    (0..BIG_BYTES).map(|at| (at / 251 + at) as u8).collect()
}

fn files(keys: &str) -> Setup {
    pool(FLASK, &format!("{ONE_WORKER}\n{keys}"))
        .file("big.bin", content())
        .file("small.txt", "a small file")
}

#[test]
fn a_file_that_an_application_sends_arrives_whole_in_part_and_only_its_head() {
    let content = content();
    for keys in ["", "concurrency = 4"] {
        let server = files(keys).start();
        let mut client = server.connect();
        let answer = client.get("/whole");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-length"), Some("50331648"));
        assert!(answer.body == content, "the whole file");
        client.request("HEAD", "/whole");
        let head = client.response_to("HEAD");
        assert_eq!(
            (head.header("content-length"), head.body.len()),
            (Some("50331648"), 0)
        );
        client.send("GET /whole HTTP/1.1\r\nHost: x\r\nRange: bytes=1000-299999\r\n\r\n");
        let part = client.response();
        assert_eq!(part.status, 206);
        assert!(part.body == content[1000..300_000], "the part");
        // The worker and the server have closed what they opened.
        let open = client.get("/open").json().to_string();
        assert!(!open.contains("big.bin"), "{open}");
    }
}

#[test]
fn a_wrapped_file_is_what_reading_it_would_give() {
    let content = content();
    for keys in ["", "concurrency = 4"] {
        let server = files(keys).start();
        let changed = vec![b'x'; 99_990];
        for (name, expected) in [
            ("rest", &content[1_000_000..]),
            ("packed", &content[..500_000]),
            ("memory", &content[..300_000]),
            ("small", b"a small file"),
            ("changed", &changed[..]),
        ] {
            let answer = server.get(&format!("/raw/{name}"));
            assert!(
                answer.status == 200 && answer.body == expected,
                "{name}: {} bytes",
                answer.body.len()
            );
        }
        let mut client = server.connect();
        client.request("GET", "/raw/wrong");
        assert!(!client.try_response("GET").is_ok_and(|answer| answer.whole));
        server.wait_for_log(&["the application sent more than the 1000000 bytes of its content-length"]);
    }
}

#[test]
fn a_client_that_reads_a_file_slowly_holds_up_no_worker() {
    let server = files("")
        .server("answer_buffer_max = 0\nanswer_spool_max = 0")
        .start();
    let mut slow = server.connect();
    slow.request("GET", "/whole");
    assert_eq!(slow.head().unwrap().status, 200);
    for _ in 0..3 {
        assert_eq!(server.get("/raw/small").text(), "a small file");
    }
    let mut read = 0;
    while read < BIG_BYTES {
        read += slow.some_bytes().len();
    }
    assert_eq!(read, BIG_BYTES);
    assert_eq!(slow.get("/raw/small").text(), "a small file");
}

#[test]
fn an_asgi_application_may_name_a_file() {
    let app = r#"
from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Route

async def whole(request):
    return FileResponse("big.bin")

app = Starlette(routes=[Route("/whole", whole)])
"#;
    let server = pool(app, ONE_WORKER).file("big.bin", content()).start();
    let answer = server.get("/whole");
    assert!(
        answer.status == 200 && answer.body == content(),
        "{} bytes",
        answer.body.len()
    );
    let mut client = server.connect();
    client.request("HEAD", "/whole");
    assert_eq!(
        client.response_to("HEAD").header("content-length"),
        Some("50331648")
    );
}
