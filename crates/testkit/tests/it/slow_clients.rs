//! Clients that send or receive slowly: no worker waits for them, and the wait for them is limited.

use forebay_testkit::{Client, Server, wait_until};

use crate::support::{ONE_WORKER, Runtime, metric, node, open};

const HANDLER: &str = r"
    import { existsSync } from 'node:fs';
    import { reply, router } from 'forebay';

    const bytes = (length) => {
      const body = Buffer.alloc(length);
      for (let at = 0; at + 4 <= length; at += 4096) body.writeUInt32LE(at, at);
      return body;
    };
    export default router()
      .get('/pid', () => String(process.pid))
      .get('/whole/:length', ({ params }) => bytes(Number(params.length)))
      .post('/echo', async (request) => reply(await request.bytes()))
      .get('/dies', () => {
        async function* pieces() {
          yield bytes(30 << 20);
          while (!existsSync('gate')) await new Promise((next) => setTimeout(next, 2));
          process.exit(1);
        }
        return reply(pieces(), { headers: { 'content-length': String(64 << 20) } });
      })
      .get('/stream', () => {
        async function* pieces() {
          for (;;) yield bytes(64 << 10);
        }
        return reply(pieces());
      });
";

fn assert_whole(body: &[u8], length: usize) {
    assert_eq!(body.len(), length);
    for at in (0..length - 4).step_by(4096) {
        let found = u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(found as usize, at);
    }
}

/// Waits until no data is held for any client.
fn wait_until_nothing_is_kept(server: &Server) {
    wait_until("nothing to be kept", || {
        metric(server, "forebay_kept_memory_bytes") + metric(server, "forebay_kept_files_bytes") == 0
    });
}

fn ask_and_take_nothing(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.request("GET", path);
    client
}

#[test]
fn an_answer_that_its_client_does_not_take_holds_no_worker() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(HANDLER, ONE_WORKER).admin().start();
        let mut slow: Vec<_> = [2 << 20, 30 << 20, 5 << 20]
            .map(|length| (length, ask_and_take_nothing(&server, &format!("/whole/{length}"))))
            .into();
        assert_eq!(server.get("/pid").status, 200, "{runtime:?}");
        for (length, client) in &mut slow {
            assert_whole(&client.response().body, *length);
        }
        wait_until_nothing_is_kept(&server);
    }
}

#[test]
fn a_long_answer_is_in_a_file_and_not_in_memory_and_is_gone_with_its_client() {
    const LENGTH: usize = 200 << 20;
    let server = node(HANDLER, ONE_WORKER)
        .server("answer_spool_max = \"300MiB\"")
        .admin()
        .start();
    assert_eq!(server.get("/pid").status, 200);
    let mut slow = ask_and_take_nothing(&server, &format!("/whole/{LENGTH}"));
    wait_until("most to be kept", || {
        metric(&server, "forebay_kept_files_bytes") > 150 << 20
    });
    assert_eq!(server.get("/pid").status, 200);
    assert!(
        server.process().rss_bytes() < 120 << 20,
        "{}",
        server.process().rss_bytes()
    );
    assert_whole(&slow.response().body, LENGTH);
    let leaving = ask_and_take_nothing(&server, &format!("/whole/{LENGTH}"));
    wait_until("most to be kept", || {
        metric(&server, "forebay_kept_files_bytes") > 150 << 20
    });
    drop(leaving);
    wait_until_nothing_is_kept(&server);
}

#[test]
fn what_cannot_be_kept_waits_at_its_worker_and_comes_whole() {
    const LENGTH: usize = 30 << 20;
    for (keys, variables) in [
        ("answer_spool_max = 0", &[][..]),
        ("answer_buffer_max = 0", &[]),
        ("buffers_max = 0", &[("TMPDIR", "/nowhere")]),
        ("", &[("TMPDIR", "/nowhere")]),
    ] {
        let mut setup = node(HANDLER, ONE_WORKER).server(keys).admin();
        for (name, value) in variables {
            setup = setup.env(name, value);
        }
        let server = setup.start();
        assert_eq!(server.get("/pid").status, 200);
        let mut slow = ask_and_take_nothing(&server, &format!("/whole/{LENGTH}"));
        if !variables.is_empty() {
            server.wait_for_log(&["cannot be kept in a temporary file"]);
        }
        assert_whole(&slow.response().body, LENGTH);
        assert_eq!(server.get("/pid").status, 200, "{keys}");
        wait_until_nothing_is_kept(&server);
    }
}

#[test]
fn an_answer_whose_worker_dies_while_it_is_kept_is_not_taken_for_a_whole_one() {
    let server = node(HANDLER, ONE_WORKER).admin().start();
    let mut client = ask_and_take_nothing(&server, "/dies");
    wait_until("much to be kept", || {
        metric(&server, "forebay_kept_files_bytes") > 20 << 20
    });
    open(&server, "gate");
    assert!(!client.try_response("GET").is_ok_and(|response| response.whole));
    assert_eq!(server.get("/pid").status, 200);
    wait_until_nothing_is_kept(&server);
}

#[test]
fn an_upload_that_trickles_in_holds_no_worker() {
    for runtime in Runtime::BOTH {
        let setup = runtime
            .pool(HANDLER, ONE_WORKER)
            .server("body_bytes_max = \"10MiB\"");
        let server = setup.admin().start();
        let body: Vec<u8> = (0..=255).cycle().take(700_000).collect();
        let mut slow = server.connect();
        slow.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 700000\r\n\r\n");
        slow.send(&body[..300_000]);
        let mut chunked = server.connect();
        chunked.send("POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n493e0\r\n");
        chunked.send(&body[..200_000]);
        assert_eq!(server.get("/pid").status, 200, "{runtime:?}");
        slow.send(&body[300_000..]);
        assert!(slow.response().body == body);
        chunked.send(&body[200_000..300_000]);
        chunked.send("\r\n0\r\n\r\n");
        assert!(chunked.response().body == body[..300_000]);
        // A longer one reaches its worker as it arrives.
        let long: Vec<u8> = (0..=255).cycle().take(5 << 20).collect();
        assert!(server.post("/echo", &long).body == long);
        wait_until_nothing_is_kept(&server);
    }
}

#[test]
fn clients_that_crawl_are_given_up() {
    let keys =
        "min_rate = \"16MiB\"\nmin_rate_grace = \"500ms\"\nbody_timeout = \"5m\"\nidle_timeout = \"5m\"";
    let server = node(HANDLER, ONE_WORKER).server(keys).admin().start();
    assert_eq!(server.get("/pid").status, 200);
    let mut upload = server.connect();
    upload.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 700000\r\n\r\nhello");
    let refused = upload.response();
    assert_eq!(refused.status, 408, "{refused:?}");
    assert!(
        refused.detail().contains("slower than 16777216 bytes a second"),
        "{refused:?}"
    );
    for path in ["/whole/31457280", "/stream"] {
        let before = metric(&server, "forebay_connections_too_slow_total");
        let mut download = ask_and_take_nothing(&server, path);
        wait_until("the client to be given up", || {
            metric(&server, "forebay_connections_too_slow_total") == before + 1
        });
        let answer = download.try_response("GET");
        assert!(!answer.is_ok_and(|response| response.whole), "{path}");
    }
    // A client that reads everything available at once may wait for more as long as it likes.
    assert_whole(&server.get("/whole/31457280").body, 30 << 20);
    wait_until_nothing_is_kept(&server);
}

#[test]
fn a_client_that_has_closed_its_sending_side_gets_its_answer_from_every_target() {
    let source = "import { existsSync } from 'node:fs';
        const opened = async () => {
          while (!existsSync('gate')) await new Promise((next) => setTimeout(next, 2));
        };
        const pieces = async function* () {
          yield 'ans';
          await opened();
          yield 'wered';
        };
        export default async (request) => {
          if (request.path === '/pieces') return new Response(ReadableStream.from(pieces()));
          await opened();
          return 'answered';
        };";
    let script = "const later = (text) => new Promise((done) => setTimeout(() => done(text), 30));
        export default (request) => request.path === '/script/text' ? later('answered') : new Response(new ReadableStream({
          async pull(controller) {
            controller.enqueue('ans');
            controller.enqueue(await later('wered'));
            controller.close();
          },
        }));";
    let keys = "workers = { min = 2, max = 2 }
        concurrency = 2
        [script.later]
        handler = \"later.mjs\"
        [[route]]
        path = \"/script/*\"
        script = \"later\"
        [[route]]
        path = \"/memory\"
        respond = { text = \"answered\" }";
    let server = node(source, keys).file("later.mjs", script).admin().start();
    let requests = [
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nok",
        "GET /memory HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /pieces HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /script/text HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /script/pieces HTTP/1.1\r\nhost: a\r\n\r\n",
    ];
    let mut clients = requests.map(|request| {
        let mut client = server.connect();
        client.send(request);
        client.finish_sending();
        client
    });
    wait_until("four requests to run and two to wait", || {
        metric(&server, "forebay_pool_queue_jobs{pool=\"api\"}") == 2
    });
    // Long enough for the server to have seen the end of each.
    for _ in 0..20 {
        assert_eq!(server.admin().get("/health/live").status, 200);
    }
    open(&server, "gate");
    for (client, request) in clients.iter_mut().zip(requests) {
        for _ in request.matches("HTTP/1") {
            assert_eq!(client.response().text(), "answered", "{request}");
        }
        client.ends();
    }
}
