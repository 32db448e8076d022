//! Requests and responses of every kind between front end and host.

use forebay_testkit::{Client, Folder, Process, Setup, wait_until};

use super::{Nats, PATIENT, announce, config, front, host, host_id, hosts, node, wait_for_hosts};
use crate::{
    support::{ONE_WORKER, TOOLBOX, noted, open, wait_for_note},
    websockets::{CLOSE, Socket},
};

/// Handlers whose bodies are long in both directions.
const BODIES: &str = r"
import { reply, router } from 'forebay';

export default router()
  .post('/count', async (request) => {
    let bytes = 0;
    let sum = 0;
    for await (const piece of request.stream()) {
      bytes += piece.length;
      for (const byte of piece) sum = (sum * 31 + byte) % 1_000_003;
    }
    return { bytes, sum };
  })
  .get('/pieces/:count', ({ params }) =>
    reply((async function* () {
      for (let piece = 0; piece < Number(params.count); piece++) yield Buffer.alloc(65_536, piece);
    })()))
  .get('/told', (request, ctx) => ({
    method: request.method, path: request.path, query: request.query.get('a'), ip: request.ip, id: request.id,
    trace: request.headers.get('traceparent'), user: request.user ?? null, left: ctx.remaining(),
  }));
";

/// An application that answers with trailers, and takes connections over.
const APPLICATION: &str = r"
import { createServer } from 'node:http';

const server = createServer(async (request, response) => {
  response.setHeader('trailer', 'x-from');
  for await (const piece of request) response.write(piece);
  response.addTrailers({ 'x-from': `${request.trailers['x-from']} at ${request.socket.remotePort}` });
  response.end('.');
});
server.on('upgrade', (request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n');
  socket.pipe(socket);
});
server.listen(3000);
";

#[test]
fn a_request_runs_on_a_host_and_its_answer_comes_back() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "");
    let host = host(&nats, TOOLBOX, "");
    wait_for_hosts(&front, 1);
    let pid = front.get("/pid").text().parse().expect("a process id");
    let worker = Process::with_pid(pid).expect("it has just answered");
    assert!(
        host.workers().contains(&worker),
        "the worker is a child of the host"
    );
    assert!(front.workers().is_empty(), "the front end has no workers");
    let echoed = front.post("/echo", b"a body");
    assert_eq!(echoed.status, 200);
    assert_eq!(echoed.text(), "a body");
    assert_eq!(front.get("/here").text(), "here");
    assert_eq!(front.get("/throw").status, 500);
    let status = front.command(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert!(
        status.contains(machine.trim()),
        "the host is shown as a worker: {status}"
    );
}

#[test]
fn what_is_told_about_a_request_reaches_the_handler() {
    let nats = Nats::start();
    let keys = "[auth.jobs.tokens.nightly]\ntoken = \"TOKEN\"\nscopes = [\"read\"]\n\
                [[route]]\npath = \"/told\"\npool = \"api\"\nauth = [\"jobs\"]\ndeadline = \"20s\"\n";
    let with_token = || node(&nats.url(), BODIES, keys).env("TOKEN", "not-for-the-log");
    let front = with_token().start();
    let _host = with_token().work_on("api").start();
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/told").status, 401);
    let mut client = front.connect();
    client.send(
        "GET /told?a=b HTTP/1.1\r\nhost: test\r\nx-request-id: abc\r\nauthorization: Bearer not-for-the-log\r\n\
         traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n",
    );
    let told = client.response().json();
    assert_eq!(told["method"], "GET", "{told}");
    assert_eq!(told["path"], "/told", "{told}");
    assert_eq!(told["query"], "b", "{told}");
    assert_eq!(told["ip"], "127.0.0.1", "{told}");
    assert_eq!(told["id"], "abc", "{told}");
    assert_eq!(told["user"]["subject"], "nightly", "{told}");
    assert_eq!(told["user"]["scopes"][0], "read", "{told}");
    let left = told["left"].as_f64().expect("a number");
    assert!(
        (1.0..=20_000.0).contains(&left),
        "the route's deadline, not that of the host: {told}"
    );
    let trace = told["trace"].as_str().expect("a trace");
    assert!(trace.contains("0af7651916cd43dd8448eb211c80319c"), "{told}");
}

#[test]
fn long_bodies_stream_both_ways_through_a_broker_that_takes_short_messages() {
    let folder = Folder::new();
    folder.write("nats.conf", "max_payload: 4096\n");
    let file = folder.path().join("nats.conf");
    let nats = Nats::with(&["--config", file.to_str().expect("a plain path")]);
    let front = node(&nats.url(), BODIES, "")
        .server("body_bytes_max = \"8MiB\"")
        .start();
    let _host = host(&nats, BODIES, "");
    wait_for_hosts(&front, 1);
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at * 7 % 251) as u8).collect();
    let sum = body
        .iter()
        .fold(0u64, |sum, &byte| (sum * 31 + u64::from(byte)) % 1_000_003);
    let counted = front.post("/count", &body).json();
    assert_eq!(counted["bytes"], body.len(), "{counted}");
    assert_eq!(counted["sum"], sum, "{counted}");
    let pieces = front.get("/pieces/50");
    assert!(pieces.whole);
    assert_eq!(pieces.body.len(), 50 * 65_536);
    let in_order = pieces.body.chunks(65_536).enumerate();
    assert!(
        in_order
            .into_iter()
            .all(|(at, piece)| piece.iter().all(|byte| usize::from(*byte) == at))
    );
}

#[test]
fn a_client_that_leaves_aborts_its_handler_on_the_host() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, PATIENT);
    let host = host(&nats, TOOLBOX, PATIENT);
    wait_for_hosts(&front, 1);
    let mut client = front.connect();
    client.request("GET", "/wait/gate/left");
    wait_for_note(&host, "begin left");
    drop(client);
    wait_for_note(&host, "abort left");
    assert_eq!(front.get("/pid").status, 200, "the host goes on");
}

#[test]
fn limits_hold_on_whichever_side_they_are_written() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "run_timeout = \"300ms\"");
    let host = host(&nats, TOOLBOX, "run_timeout = \"20s\"");
    wait_for_hosts(&front, 1);
    wait_until("a worker", || front.get("/pid").status == 200);
    let late = front.get("/wait/gate/front");
    assert_eq!(
        (late.status, late.detail().contains("run_timeout")),
        (504, true),
        "{}",
        late.detail()
    );
    wait_for_note(&host, "abort front");
    assert_eq!(
        hosts(&front, "ready").len(),
        1,
        "the host is no worker that is stopped"
    );
    assert_eq!(front.get("/exit/3").status, 502, "a process that dies on a host");
    // Its replacement may take longer to start than the front end lets a job run.
    wait_until("another worker", || front.get("/pid").status == 200);
}

#[test]
fn websockets_and_rooms_work_through_a_host() {
    let handlers = include_str!("../handlers/websockets.mjs");
    let nats = Nats::start();
    let front = front(&nats, handlers, ONE_WORKER);
    let mut host = host(&nats, handlers, ONE_WORKER);
    wait_for_hosts(&front, 1);
    let mut echo = Socket::open(&front, "/echo");
    for message in ["one", "two"] {
        echo.send(message);
        assert_eq!(echo.receive().text(), message);
    }
    let mut one = Socket::open(&front, "/room/a");
    let mut other = Socket::open(&front, "/room/a");
    for socket in [&mut one, &mut other] {
        assert!(socket.receive().text().starts_with("joined "));
    }
    one.send("hello");
    assert_eq!(one.receive().text(), "done");
    assert_eq!(other.receive().text(), "hello");
    // A client that does not read costs itself its WebSocket, not the host its link.
    let mut slow = Socket::open(&front, "/room/b");
    assert!(slow.receive().text().starts_with("joined "));
    let mut publisher = front.connect();
    for _ in 0..300 {
        publisher.post("/room/b", "x".repeat(65_536).as_bytes());
        assert_eq!(publisher.response().status, 204);
    }
    let last = std::iter::repeat_with(|| slow.receive()).find(|frame| frame.opcode == CLOSE);
    assert_eq!(last.expect("it comes").code(), 1008);
    assert_eq!(hosts(&front, "ready"), [1], "the first link is there");
    // A host that drains closes them as a server that stops does.
    host.terminate();
    assert_eq!(echo.receive().code(), 1012);
    assert!(host.wait().success());
}

#[test]
fn trailers_and_connections_that_are_taken_over_pass_through_a_host() {
    let nats = Nats::start();
    let front = front(&nats, APPLICATION, "");
    let _host = host(&nats, APPLICATION, "");
    wait_for_hosts(&front, 1);
    let until = |client: &mut Client, end: &str| {
        let mut seen = Vec::new();
        while !seen.ends_with(end.as_bytes()) {
            let more = client.some_bytes();
            assert!(
                !more.is_empty(),
                "no {end:?} in {}",
                String::from_utf8_lossy(&seen)
            );
            seen.extend(more);
        }
    };
    let mut client = front.connect();
    client.send(
        "POST / HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\ntrailer: x-from\r\nte: trailers\r\n\r\n\
         3\r\nabc\r\n0\r\nx-from: Ada\r\n\r\n",
    );
    let port = client.local_port();
    until(&mut client, &format!("0\r\nx-from: Ada at {port}\r\n\r\n"));
    let mut client = front.connect();
    client.send("GET / HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    assert_eq!(client.head().expect("a head").status, 101);
    client.send("first");
    until(&mut client, "first");
    client.send("x".repeat(1_000_000));
    client.send("last");
    until(&mut client, "last");
}

#[test]
fn a_job_that_a_full_host_refuses_runs_elsewhere_or_waits() {
    let nats = Nats::start();
    // Longer than the test waits: a host would give a job back that has waited there.
    let keys = &format!("{ONE_WORKER}\nqueue_timeout = \"1m\"");
    let [one, other] = [(); 2].map(|()| front(&nats, TOOLBOX, keys));
    let first = host(&nats, TOOLBOX, keys);
    for front in [&one, &other] {
        wait_for_hosts(front, 1);
    }
    let mut held = one.connect();
    held.request("GET", "/hold/gate/held");
    wait_for_note(&first, "begin held");
    let mut waiting = other.connect();
    waiting.request("GET", "/hold/gate/waiting");
    wait_until("the job waits at its front end", || {
        other.control().get("/status").json()["pools"][0]["queued"] == 1
    });
    // As if the other front end had not heard yet that the host is full.
    announce(&nats, &host_id(&other), 1, 5);
    let second = host(&nats, TOOLBOX, keys);
    wait_for_note(&second, "begin waiting");
    open(&first, "gate");
    open(&second, "gate");
    assert_eq!(held.response().status, 200);
    assert_eq!(waiting.response().status, 200);
    assert!(!noted(&first).contains(&"begin waiting".to_owned()));
}

#[test]
fn workers_of_a_host_send_no_files_by_their_descriptors() {
    let app = "async def app(scope, receive, send):\n    assert scope['type'] == 'http'\n    \
               offered = 'http.response.pathsend' in scope['extensions']\n    \
               await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
               await send({'type': 'http.response.body', 'body': str(offered).encode()})\n";
    let nats = Nats::start();
    let away = config(&nats.url(), "")
        .replace("handler = \"api.mjs\"", "handler = \"app.py:app\"")
        .replace("\"node\"", "\"python\"");
    let setup = |config: &str| Setup::new(config).file("app.py", app).admin();
    let here = setup(&away.replace("at = \"cluster\"", "")).start();
    assert_eq!(here.get("/").text(), "True");
    let front = setup(&away).start();
    let _host = setup(&away).work_on("api").start();
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/").text(), "False");
}
