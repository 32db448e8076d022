//! Requests and responses of `node:http` behind the server: what they tell, back-pressure, aborts and errors.

use std::time::Duration;

use forebay_testkit::{PATIENCE, wait_until};
use serde_json::json;

use super::{application, application_with, get_with, send};
use crate::support::{Runtime, noted, open};

/// A server of `node:http` that does what each path names.
const SERVER: &str = r"
    import { appendFileSync } from 'node:fs';
    import { IncomingMessage, ServerResponse, createServer } from 'node:http';

    const note = (line) => appendFileSync('ran', `${line}\n`);
    const events = (request, response) => {
      for (const name of ['aborted', 'close', 'error', 'end']) request.on(name, (error) => note(`request ${name} ${error?.code ?? ''}`));
      for (const name of ['finish', 'close', 'drain', 'error']) response.on(name, () => note(`response ${name} ${response.writableFinished}`));
      request.socket.on('close', () => note('socket close'));
    };
    let breaking;
    const routes = {
      '/facts': (request, response) => {
        const { method, url, httpVersion, complete, headers, rawHeaders, socket } = request;
        const { remoteAddress, remoteFamily, encrypted, destroyed, writable } = socket;
        response.setHeader('x-a', ['1', '2']);
        response.setHeader('X-Mixed', 'Case');
        response.appendHeader('x-more', 'a');
        response.appendHeader('x-more', 'b');
        const before = { headersSent: response.headersSent, has: response.hasHeader('X-MIXED'), names: response.getHeaderNames() };
        response.writeEarlyHints({ link: '</style.css>; rel=preload' });
        response.writeContinue();
        response.writeProcessing();
        response.writeHead(202, 'Fine', { 'x-head': 'yes' });
        let refused;
        try { response.setHeader('x-late', 'no'); } catch (error) { refused = error.code; }
        const kinds = [request instanceof IncomingMessage, response instanceof ServerResponse, response.req === request];
        response.end(JSON.stringify({
          method, url, httpVersion, complete, host: headers.host, raw: rawHeaders.slice(0, 2), kinds,
          socket: { remoteAddress, remoteFamily, encrypted, destroyed, writable, same: request.connection === response.socket },
          before, refused, after: { headersSent: response.headersSent, writableEnded: response.writableEnded },
        }));
      },
      '/body': async (request, response) => {
        const pieces = [];
        for await (const piece of request) pieces.push(piece);
        const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
        response.end(JSON.stringify({ bytes: Buffer.concat(pieces).length, length, coding, complete: request.complete }));
      },
      '/unread': (request, response) => response.end('not read'),
      '/pieces': (request, response) => {
        response.write('one ');
        response.write(Buffer.from('two '));
        response.write('dGhyZWU=', 'base64');
        response.end(' four', () => note('end called'));
        events(request, response);
      },
      '/empty': (request, response) => response.writeHead(204).end(),
      '/list': (request, response) => response.writeHead(200, ['x-b', '1', 'x-c', '2']).end(),
      '/large': (request, response) => response.end('x'.repeat(3 << 20)),
      '/flushed': (request, response) => {
        events(request, response);
        response.flushHeaders();
      },
      '/endless': async (request, response) => {
        events(request, response);
        let sent = 0;
        while (!response.destroyed) {
          const goesOn = response.write(Buffer.alloc(65536));
          note(`sent ${++sent}`);
          if (!goesOn) await new Promise((resolve) => response.once('drain', resolve).once('close', resolve));
        }
      },
      '/waits': (request, response) => events(request, response),
      '/break': (request, response) => {
        breaking.destroy(new Error('broken'));
        response.end();
      },
      '/breaks': (request, response) => {
        response.write('begun');
        breaking = response;
      },
      '/destroys': (request, response) => request.socket.destroy(),
      '/times': (request, response) => {
        response.setTimeout(20, () => response.writeHead(503).end('timed out'));
      },
      '/throws': () => { throw new Error('thrown'); },
      '/rejects': async () => { throw new Error('rejected'); },
      '/status': (request, response) => { response.statusCode = 700; response.end(); },
    };
    const listener = (request, response) => routes[request.url.split('?')[0]](request, response);
    export default Object.assign(listener, { toString: () => '(request, response) => response.end()' });
";

#[test]
fn requests_and_responses_tell_what_node_tells() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER).start();
        let mut client = server.connect();
        let answer = get_with(&mut client, "/facts?q=%20", "X-Sent: yes");
        assert_eq!(answer.status, 202);
        assert_eq!(
            answer.json(),
            json!({
                "method": "GET", "url": "/facts?q=%20", "httpVersion": "1.1", "complete": true, "host": "a", "raw": ["host", "a"],
                "kinds": [true, true, true],
                "socket": {
                    "remoteAddress": "127.0.0.1", "remoteFamily": "IPv4", "encrypted": false, "destroyed": false, "writable": true, "same": true,
                },
                "before": {"headersSent": false, "has": true, "names": ["x-a", "x-mixed", "x-more"]},
                "refused": "ERR_HTTP_HEADERS_SENT",
                "after": {"headersSent": true, "writableEnded": false},
            }),
            "{runtime:?}"
        );
        let values = |name| {
            let found = answer.headers.iter().filter(move |(field, _)| field == name);
            found.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(values("x-a"), ["1", "2"]);
        assert_eq!(values("x-more"), ["a", "b"]);
        assert_eq!((values("x-mixed"), values("x-head")), (vec!["Case"], vec!["yes"]));
        let list = client.get("/list");
        assert_eq!((list.header("x-b"), list.header("x-c")), (Some("1"), Some("2")));
        let empty = client.get("/empty");
        assert_eq!((empty.status, empty.header("content-length")), (204, None));
        client.request("HEAD", "/pieces");
        let head = client.response_to("HEAD");
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, None),
            "{runtime:?}"
        );
        assert_eq!(client.get("/large").body.len(), 3 << 20);
    }
}

#[test]
fn a_response_in_pieces_ends_with_its_events() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER).start();
        assert_eq!(server.get("/pieces").text(), "one two three four", "{runtime:?}");
        let expected = [
            "end called",
            "response finish true",
            "response close true",
            "socket close",
        ];
        wait_until("the events", || noted(&server).len() >= 6);
        let notes = noted(&server);
        let of_response: Vec<_> = notes.iter().filter(|line| !line.starts_with("request")).collect();
        assert_eq!(of_response, expected, "{runtime:?}");
        assert!(
            notes.contains(&"request end ".to_owned()),
            "{runtime:?}: {notes:?}"
        );
    }
}

#[test]
fn bodies_are_read_as_they_were_sent() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER).start();
        let mut client = server.connect();
        for bytes in [0, 5, 65_536, 1_000_000] {
            let answer = send(&mut client, "POST", "/body", "text/plain", &vec![b'x'; bytes]);
            let length = bytes.to_string();
            assert_eq!(
                answer.json(),
                json!({"bytes": bytes, "length": length, "complete": true}),
                "{runtime:?}"
            );
        }
        client.send(
            "POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        );
        assert_eq!(
            client.response().json(),
            json!({"bytes": 3, "coding": "chunked", "complete": true}),
            "{runtime:?}"
        );
        client.send("POST /body HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        assert_eq!(client.head().expect("a head").status, 100);
        client.send("abc");
        assert_eq!(client.response().json()["bytes"], 3);
        let unread = send(
            &mut client,
            "POST",
            "/unread",
            "text/plain",
            &vec![b'x'; 1_000_000],
        );
        assert_eq!(unread.text(), "not read", "{runtime:?}");
    }
}

/// Longer than all buffers between a client and an application.
const LENGTH: usize = 64 << 20;

#[test]
fn a_body_that_nobody_reads_is_not_taken_from_its_client() {
    let source = "import { createServer } from 'node:http';
        import { existsSync } from 'node:fs';
        createServer(async (request, response) => {
            while (!existsSync('gate')) await new Promise((resolve) => setTimeout(resolve, 2));
            let bytes = 0;
            for await (const piece of request) bytes += piece.length;
            response.end(String(bytes));
        }).listen(3000);";
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", source)
            .server("body_bytes_max = \"128MiB\"")
            .start();
        let mut client = server.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {LENGTH}\r\n\r\n"
        ));
        let piece = vec![0; 1 << 20];
        client.set_patience(Duration::from_millis(500));
        let mut sent = 0;
        while client.try_send(&piece).is_ok() {
            sent += piece.len();
            assert!(sent < LENGTH, "{runtime:?}: all of it was taken");
        }
        open(&server, "gate");
    }
}

#[test]
fn a_client_that_leaves_ends_request_and_response() {
    for runtime in Runtime::BOTH {
        for path in ["/waits", "/flushed"] {
            let server = application(runtime, "app.mjs", SERVER).start();
            let mut client = server.connect();
            client.request("GET", path);
            if path == "/flushed" {
                assert_eq!(client.head().expect("a head").status, 200);
            } else {
                wait_until("the request to run", || server.log().contains("worker ready"));
                server.connect().get("/empty");
            }
            drop(client);
            for event in [
                "request aborted ",
                "request close ",
                "response close false",
                "socket close",
            ] {
                wait_until(&format!("{event:?} of {path} on {runtime:?}"), || {
                    noted(&server).iter().any(|line| line == event)
                });
            }
            let notes = noted(&server);
            assert!(
                !notes.iter().any(|line| line.starts_with("response finish")),
                "{notes:?}"
            );
            assert_eq!(server.get("/empty").status, 204);
        }
    }
}

#[test]
fn writes_wait_for_a_client_that_does_not_read() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER).start();
        let mut client = server.connect();
        client.request("GET", "/endless");
        client.head().expect("a head");
        let sent = || {
            noted(&server)
                .iter()
                .filter(|line| line.starts_with("sent"))
                .count()
        };
        // The same worker answers others meanwhile, so it had the time to write more.
        wait_until("the writes to stop", || {
            let before = sent();
            let answered = (0..20).all(|_| server.get("/empty").status == 204);
            answered && before > 0 && sent() == before
        });
        let before = sent();
        // The window of the worker, and what the sockets between take.
        assert!(before < 1024, "{runtime:?}: {before} pieces of 64 KiB were taken");
        for _ in 0..256 {
            client.some_bytes();
        }
        wait_until("more to be written", || sent() > before);
        assert!(noted(&server).contains(&"response drain false".to_owned()));
        drop(client);
        wait_until("the end", || {
            noted(&server).contains(&"response close false".to_owned())
        });
    }
}

#[test]
fn errors_of_an_application_reach_only_their_own_client() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER).start();
        let pid = server.wait_for_workers(1)[0];
        for (path, status, line) in [
            ("/throws", 500, "thrown"),
            ("/rejects", 500, "rejected"),
            ("/destroys", 502, "the application has destroyed the connection"),
            (
                "/status",
                500,
                "the status of a response is 200 to 599 behind Forebay, not 700",
            ),
            ("/times", 503, ""),
        ] {
            assert_eq!(server.get(path).status, status, "{path} on {runtime:?}");
            if status == 500 {
                server.wait_for_log(&[line]);
            }
        }
        let mut client = server.connect();
        client.request("GET", "/breaks");
        assert!(client.is_readable_within(PATIENCE), "{runtime:?}");
        assert_eq!(server.get("/break").status, 200);
        let broken = client.try_response("GET").expect("its head has arrived");
        assert_eq!(
            (broken.status, broken.text(), broken.whole),
            (200, "begun", false),
            "{runtime:?}"
        );
        server.wait_for_log(&["the response to /breaks", "broke off"]);
        assert_eq!(server.workers(), [pid], "the worker is the same");
    }
}

#[test]
fn a_response_that_never_ends_is_named_in_the_log() {
    for runtime in Runtime::BOTH {
        let server = application_with(runtime, "app.mjs", SERVER, "run_timeout = \"300ms\"").start();
        wait_until("a worker", || server.get("/empty").status == 204);
        let mut client = server.connect();
        client.request("GET", "/waits");
        assert_eq!(client.response().status, 504);
        server.wait_for_log(&[
            "WARN",
            "GET /waits was not answered in time: the application has not ended its response",
        ]);
        assert_eq!(server.get("/empty").status, 204, "the worker has stayed");
    }
}
