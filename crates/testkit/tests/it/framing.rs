//! Ambiguous or malformed requests: they are rejected, and nothing after them is read.

use forebay_testkit::{Client, Server, Setup};

fn serve() -> Server {
    Setup::new("[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n").start()
}

/// Bytes, and the status of the rejection.
const REFUSED: [(&[u8], u16); 36] = [
    // The body's length in two ways.
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\n", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 5, 5\r\n\r\nhello", 400),
    // Invalid lengths.
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: +5\r\n\r\nhello", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 0x5\r\n\r\nhello", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\n", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\n", 400),
    // Codings that are not supported, or hidden ones.
    (b"GET /here HTTP/1.1\r\nhost: a:80:90\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a:b\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: [::1\r\n\r\n", 400),
    (b"GET http://a:80:90/here HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\n", 501),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /here HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /here HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    // Folded lines, bare line feeds, bare carriage returns.
    (b"GET /here HTTP/1.1\r\nhost: a\r\nx-folded: a\r\n b\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\n host: a\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\nhost: a\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a\nx-b: c\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a\r\nx-b: c\rd\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a\r\nx-b: c\0d\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a\r\n: no name\r\n\r\n", 400),
    // Request lines and hosts.
    (b"GET /here\r\n\r\n", 400),
    (b"GET  /here HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    (b"GET here HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
    (b"GET /here HTTP/1.1\r\nhost: a b/c\r\n\r\n", 400),
    (b"GET /here HTTP/2.0\r\nhost: a\r\n\r\n", 505),
];

#[test]
fn what_could_be_read_in_two_ways_is_refused_and_the_connection_ends() {
    let server = serve();
    for (bytes, status) in REFUSED {
        let mut client = server.connect();
        let mut all = bytes.to_vec();
        all.extend_from_slice(b"GET /here HTTP/1.1\r\nhost: smuggled\r\n\r\n");
        client.send(&all);
        let answer = client.response();
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(answer.status, status, "{text:?} got {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{text:?}");
        client.ends();
    }
    assert_eq!(server.get("/here").text(), "here");
}

#[test]
fn bytes_of_another_protocol_are_refused_or_end_the_connection() {
    let server = serve();
    let mut tls = vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    tls.extend_from_slice(&[0xaa; 512]);
    let all: [&[u8]; 4] = [&tls, &[0; 100], &[0xff; 100], b"SSH-2.0-client\r\n"];
    for bytes in all {
        let mut client = server.connect();
        client.send(bytes);
        client.finish_sending();
        assert_eq!(client.response().status, 400);
        client.ends();
    }
}

#[test]
fn chunks_that_are_not_exact_end_the_request_with_400() {
    let server = crate::support::fake("well", "workers = { min = 1, max = 1 }").start();
    for body in [
        &b"5\nhello\r\n0\r\n\r\n"[..],
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"\r\n5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"11111111111111111\r\n",
        b"g\r\n",
    ] {
        let mut client = server.connect();
        client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(body);
        let answer = client.response();
        assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(body));
        client.ends();
    }
    assert_eq!(server.post("/echo", b"fine").text(), "fine");
}

#[test]
fn what_chunks_say_beside_the_body_is_bounded() {
    let server = crate::support::fake("well", "workers = { min = 1, max = 1 }").start();
    let extension = format!("1;{}\r\nx\r\n", "e".repeat(4000));
    let trailer = format!("t: {}\r\n", "e".repeat(4000));
    for (extensions, trailers) in [(8, 0), (0, 8), (3, 3)] {
        let body = format!(
            "{}0\r\n{}\r\n",
            extension.repeat(extensions),
            trailer.repeat(trailers)
        );
        let mut client = server.connect();
        client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
        // The server stops reading once it has rejected the request.
        let _ = client.try_send(body.as_bytes());
        assert_eq!(client.response().status, 400, "{extensions} {trailers}");
    }
    let mut client = server.connect();
    client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nt: u\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
}

/// Requests with random changes in a few places: whatever happens to each, the server answers the next one.
#[test]
fn damaged_requests_never_end_the_server() {
    let server = serve();
    let whole =
        b"POST /here?a=b HTTP/1.1\r\nhost: example.org\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\
        x-request-id: abc\r\nexpect: 100-continue\r\n\r\nhello";
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..600 {
        let mut bytes = whole.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"\r\n\0: \xff%;,"[random.below(9)]),
            }
        }
        let mut client = server.connect();
        client.send(&bytes);
        client.finish_sending();
        drain(&mut client);
    }
    assert_eq!(server.get("/here").text(), "here");
    assert_eq!(server.log().matches("panicked").count(), 0, "{}", server.log());
}

fn drain(client: &mut Client) {
    while !client.some_bytes().is_empty() {}
}

/// Marsaglia's xorshift: the same bytes in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
