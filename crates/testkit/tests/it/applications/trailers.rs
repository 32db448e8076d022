//! Fields behind bodies, and what applications are told of their clients' connections, with clients of `node:http` and `node:http2`.

use std::process::Command;

use forebay_testkit::Server;
use serde_json::json;

use super::application;
use crate::support::Runtime;

const SERVER: &str = r"
    import { createHash } from 'node:crypto';
    import { createServer } from 'node:http';

    const routes = {
      '/socket': (request, response) => {
        const { remoteAddress, remotePort, encrypted } = request.socket;
        response.end(JSON.stringify({ remoteAddress, remotePort, encrypted }));
      },
      '/echo': async (request, response) => {
        response.setHeader('Trailer', 'X-Digest, X-From');
        const hash = createHash('sha256');
        for await (const piece of request) {
          hash.update(piece);
          response.write(piece);
        }
        response.addTrailers({ 'X-Digest': hash.digest('hex') });
        response.addTrailers([['x-from', request.trailers['x-from'] ?? 'nobody'], ['x-raw', String(request.rawTrailers.length)]]);
        response.end('.');
      },
      '/announced': (request, response) => {
        response.setHeader('trailer', 'x-a');
        response.addTrailers({ 'x-a': ['1', '2'] });
        response.end('whole');
      },
      '/unannounced': (request, response) => {
        response.addTrailers({ 'x-a': '1' });
        response.end('whole');
      },
      '/length': (request, response) => {
        response.writeHead(200, { 'content-length': 2 });
        response.write('a');
        response.addTrailers({ 'x-a': '1' });
        response.end('b');
      },
      '/forbidden': (request, response) => {
        response.write('a');
        response.addTrailers({ 'content-length': '5', 'Set-Cookie': 'a=b', 'transfer-encoding': 'chunked', 'x-a': 'kept' });
        response.end();
      },
      '/wrong': (request, response) => {
        let code;
        try { response.addTrailers({ 'x-a': 'a\r\nx-b: c' }); } catch (error) { code = error.code; }
        response.end(code);
      },
      '/many': (request, response) => {
        response.write('a');
        for (let number = 0; number < 70; number++) response.addTrailers({ [`x-${number}`]: 'x'.repeat(1000) });
        response.end();
      },
    };
    createServer((request, response) => routes[request.url](request, response)).listen(3000);
";

/// Asks over HTTP/1.1 and HTTP/2, with a body in chunks and fields behind it, and prints what it gets.
const CLIENT: &str = r"
    import http from 'node:http';
    import http2 from 'node:http2';

    const [, address] = process.argv;
    const body = 'abc'.repeat(50000);
    const shown = (text, trailers) => [text.length, text.slice(-3), { ...trailers }];
    const http1 = (path, method = 'GET') => new Promise((resolve, reject) => {
      const request = http.request(`http://${address}${path}`, { method }, (response) => {
        let text = '';
        response.setEncoding('latin1').on('data', (piece) => (text += piece));
        response.on('end', () => resolve(shown(text, response.trailers)));
        response.on('error', ({ code }) => resolve(code));
      });
      request.on('error', reject);
      if (method === 'POST') {
        request.setHeader('trailer', 'x-from');
        request.write(body);
        request.addTrailers({ 'X-From': 'Ada', 'content-type': 'text/evil', host: 'evil' });
      }
      request.end();
    });
    const session = http2.connect(`http://${address}`);
    const twice = (path, method = 'GET') => new Promise((resolve, reject) => {
      const stream = session.request({ ':path': path, ':method': method }, { waitForTrailers: method === 'POST', endStream: method === 'GET' });
      let text = '';
      let trailers = {};
      stream.setEncoding('latin1').on('data', (piece) => (text += piece));
      stream.on('trailers', (found) => (trailers = found));
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-from': 'Grace' }));
      stream.on('end', () => resolve(shown(text, trailers)));
      stream.on('error', ({ code }) => resolve(code));
      if (method === 'POST') stream.end(body);
    });
    const results = {};
    for (const [version, ask] of Object.entries({ http1, http2: twice })) {
      results[version] = { post: await ask('/echo', 'POST') };
      for (const path of ['/echo', '/announced', '/unannounced', '/length', '/forbidden', '/wrong', '/many']) results[version][path] = await ask(path);
    }
    session.close();
    console.log(JSON.stringify(results));
";

fn results(server: &Server) -> serde_json::Value {
    let output = Command::new("node")
        .args(["--input-type=module", "-e", CLIENT, &server.address().to_string()])
        .output()
        .expect("Node can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn fields_behind_bodies_pass_in_both_directions_and_versions() {
    const OF_BODY: &str = "a228eb004c6c9d86eb2816e2ceee2e59e82da17288085d055898c6dc06eba088";
    const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER).start();
        let results = results(&server);
        for (version, from, broken) in [
            ("http1", "Ada", json!("ECONNRESET")),
            ("http2", "Grace", json!("ERR_HTTP2_STREAM_ERROR")),
        ] {
            let expected = json!({
                "post": [150_001, "bc.", {"x-digest": OF_BODY, "x-from": from, "x-raw": "2"}],
                "/echo": [1, ".", {"x-digest": OF_NOTHING, "x-from": "nobody", "x-raw": "0"}],
                "/announced": [5, "ole", {"x-a": "1, 2"}],
                "/unannounced": [5, "ole", {}],
                "/length": [2, "ab", {}],
                "/forbidden": [1, "a", {"x-a": "kept"}],
                "/wrong": [16, "HAR", {}],
                "/many": broken,
            });
            assert_eq!(results[version], expected, "{runtime:?} {version}");
        }
        server.wait_for_log(&["trailers of a response have", "at most 65536"]);
        // Behind a body that arrives with its request, and in several pieces.
        let mut client = server.connect();
        let head = "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send(format!("{head}3\r\nabc\r\n0\r\nX-Fr"));
        client.send("om:  Alan \r\nhost: evil\r\n\r\n");
        assert_eq!(
            client.head().expect("a head").header("trailer"),
            Some("X-Digest, X-From")
        );
        let mut seen = String::new();
        while !seen.ends_with("\r\n\r\n") {
            seen.push_str(&String::from_utf8_lossy(&client.some_bytes()));
        }
        assert!(
            seen.contains("\r\n0\r\nx-digest: ") && seen.ends_with("\r\nx-from: Alan\r\nx-raw: 2\r\n\r\n"),
            "{seen}"
        );
        // The connection goes on behind them.
        assert_eq!(client.get("/unannounced").text(), "whole");
        client.send(format!("{head}3\r\nabc\r\n0\r\nx y: z\r\n\r\n"));
        assert_eq!(client.response().status, 400);
    }
}

#[test]
fn the_socket_of_a_request_tells_the_clients_port_and_whether_it_speaks_tls() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", SERVER)
            .server("trusted_proxies = [\"127.0.0.1\"]")
            .start();
        let mut client = server.connect();
        let port = client.local_port();
        assert_eq!(
            client.get("/socket").json(),
            json!({"remoteAddress": "127.0.0.1", "remotePort": port, "encrypted": false}),
            "{runtime:?}"
        );
        // What a proxy tells of its client has no port.
        client.send("GET /socket HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\nx-forwarded-proto: https\r\n\r\n");
        assert_eq!(
            client.response().json(),
            json!({"remoteAddress": "192.0.2.7", "encrypted": true}),
            "{runtime:?}"
        );
    }
}
