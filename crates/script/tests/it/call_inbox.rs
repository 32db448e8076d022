//! Scripts that wait: for timers, other servers, or the client.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use forebay_script::{Allow, Awaited, Body, Failure, Limits, Next, Stream};

use crate::scripts::{Fixture, LIMITS, Request, block_on, get, text, until};

const HANDLER: &str = r"
import { reply, router, sleep } from 'forebay';

const app = router();
const seen = [];
app.get('/seen', () => seen);
app.get('/sleeps', async () => { await sleep(1); return 'slept'; });
app.get('/timer', () => new Promise((resolve) => setTimeout(resolve, 1, 'timer')));
app.get('/spins-by-turns', async () => { for (;;) { const until = performance.now() + 30; while (performance.now() < until); await sleep(1); } });
app.get('/many', () => { for (let i = 0; i < 2000; i++) setTimeout(() => {}, 100_000); return 'never'; });
app.get('/late', () => { setTimeout(() => seen.push('late'), 20); return 'early'; });
app.get('/signal', async (request, ctx) => {
  ctx.signal.addEventListener('abort', () => seen.push(ctx.signal.reason.name + ': ' + ctx.signal.reason.message));
  try { await sleep(1_000_000); } catch (error) { seen.push('woken: ' + error.name); throw error; }
});
app.get('/at-once', async function* () {});
app.get('/pieces', () => (async function* () { yield 'a'; yield new Uint8Array([98]); })());
app.get('/slow', () => (async function* () { for (let i = 0; i < 3; i++) { yield `${i}`; await sleep(1); } })());
app.get('/breaks-at-once', () => (async function* () { yield 'a'; throw new Error('broken'); })());
app.get('/breaks-later', () => (async function* () { yield 'a'; await sleep(1); throw new Error('broken'); })());
app.get('/endless', () => (async function* () {
  try { for (let i = 0; ; i++) { seen.push(i); yield new Uint8Array(100_000); } } finally { seen.push('returned'); }
})());
app.get('/sleeping-stream', () => (async function* () {
  try { yield 'a'; await sleep(1_000_000); } finally { seen.push('returned'); }
})());
app.get('/stuck-stream', () => reply({ [Symbol.asyncIterator]: () => ({
  next: () => new Promise(() => {}),
  async return() { seen.push('returned'); },
}) }));
app.get('/web-stream', () => new Response(new ReadableStream({
  async pull(c) { await sleep(1); c.enqueue(new TextEncoder().encode('w')); c.close(); },
}), { status: 201 }));
app.get('/fetch', async (request) => {
  const response = await fetch(request.query.get('url'), { headers: { 'x-a': 'b' } });
  return { status: response.status, text: await response.text(), url: response.url, redirected: response.redirected };
});
app.get('/fetch-error', async (request) => {
  try { return await (await fetch(request.query.get('url'))).text(); } catch (error) { return `${error.name}: ${error.message}`; }
});
app.get('/post', async (request) => (await fetch(request.query.get('url'), { method: 'POST', body: JSON.stringify({ a: 1 }) })).text());
app.get('/passes-on', (request) => fetch(request.query.get('url'), null));
app.get('/too-many', async (request) => {
  for (let i = 0; i < 20; i++) try { await fetch(request.query.get('url')); } catch (error) { return `${i} ${error.message}`; }
});
app.get('/gives-up', async (request) => {
  try { await fetch(request.query.get('url'), { signal: AbortSignal.timeout(10) }); } catch (error) { return error.name; }
});
export default app;
";

fn fixture() -> Fixture {
    Fixture::new(HANDLER)
}

/// Waits until the script has recorded this.
fn noted(fixture: &Fixture, right: &str) {
    until(|| text(&fixture.executor(&get("/seen")).unwrap()) == right);
}

#[test]
fn what_waits_goes_on() {
    let fixture = fixture();
    for (path, right) in [("/sleeps", "slept"), ("/timer", "timer")] {
        assert_eq!(text(&fixture.executor(&get(path)).unwrap()), right);
        assert!(
            fixture.io().call(&get(path)).is_none(),
            "an I/O thread waits for nothing"
        );
    }
}

#[test]
fn what_waits_goes_on_in_an_engine_of_its_own() {
    let limits = Limits {
        isolated: true,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    for _ in 0..3 {
        assert_eq!(text(&fixture.executor(&get("/sleeps")).unwrap()), "slept");
        assert_eq!(pieces(streamed(&fixture, "/slow")), ("012".into(), true));
        assert_eq!(text(&fixture.executor(&get("/seen")).unwrap()), "[]");
    }
}

#[test]
fn the_time_of_all_steps_of_a_call_counts() {
    let limits = Limits {
        cpu_max: Duration::from_millis(200),
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let failure = fixture.executor(&get("/spins-by-turns")).unwrap_err();
    assert!(
        matches!(failure, Failure::Time { limit: "cpu_max", .. }),
        "{failure}"
    );
}

#[test]
fn a_call_has_so_many_timers_and_they_end_with_it() {
    let fixture = fixture();
    assert_eq!(fixture.executor(&get("/many")).unwrap().status, 500);
    assert_eq!(text(&fixture.executor(&get("/late")).unwrap()), "early");
    // Later than the timer would have fired.
    let mut patience = 0;
    until(|| {
        patience += 1;
        assert_eq!(text(&fixture.executor(&get("/sleeps")).unwrap()), "slept");
        patience == 40
    });
    noted(&fixture, "[]");
}

#[test]
fn who_does_not_wait_any_more_ends_the_call() {
    let limits = Limits {
        executors: 1,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let waiting = fixture.script.call(get("/signal").payload(), None).unwrap();
    noted(&fixture, "[]");
    drop(waiting);
    noted(
        &fixture,
        r#"["AbortError: the client has gone","woken: AbortError"]"#,
    );
}

#[test]
fn a_call_that_lasts_too_long_is_told_so() {
    let limits = Limits {
        executors: 1,
        time_max: Duration::from_millis(300),
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let failure = fixture.executor(&get("/signal")).unwrap_err();
    assert!(
        matches!(
            failure,
            Failure::Time {
                limit: "time_max",
                ..
            }
        ),
        "{failure}"
    );
    noted(
        &fixture,
        r#"["TimeoutError: the deadline has passed","woken: TimeoutError"]"#,
    );
}

/// Checks that a call stays unanswered for some time.
fn stays_unanswered(call: &mut Awaited) {
    let waited = block_on(async { tokio::time::timeout(Duration::from_millis(200), call).await });
    assert!(waited.is_err(), "it waits");
}

#[test]
fn a_thread_has_only_so_many_engines_and_the_next_call_waits() {
    let limits = Limits {
        isolated: true,
        executors: 1,
        engines_max: 2,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let call = |path| fixture.script.call(get(path).payload(), None).unwrap();
    let open = [call("/signal"), call("/signal")];
    let mut next = call("/timer");
    stays_unanswered(&mut next);
    assert_eq!(fixture.script.options().counts.read().engines, 2);
    drop(open);
    assert_eq!(text(&block_on(next).unwrap()), "timer");
}

#[test]
fn a_stream_holds_its_engine_until_it_ends_and_the_next_call_waits() {
    let limits = Limits {
        isolated: true,
        executors: 1,
        engines_max: 2,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let mut streams = [
        streamed(&fixture, "/endless"),
        streamed(&fixture, "/sleeping-stream"),
    ];
    let call = || fixture.script.call(get("/timer").payload(), None).unwrap();
    let mut leaving = call();
    stays_unanswered(&mut leaving);
    let waiting = || {
        let counts = fixture.script.options().counts.read();
        (counts.queued, counts.engines)
    };
    assert_eq!(waiting(), (1, 2));
    // A cancelled call leaves nothing behind.
    drop(leaving);
    assert_eq!(waiting(), (0, 2));
    let next = call();
    assert!(matches!(block_on(self::next(&mut streams[0])), Next::Piece(_)));
    drop(streams);
    assert_eq!(text(&block_on(next).unwrap()), "timer");
}

#[test]
fn the_next_call_waits_when_an_engine_has_as_many_open_as_it_can() {
    let limits = Limits {
        in_flight_max: 5000,
        executors: 1,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let call = |path| fixture.script.call(get(path).payload(), None).unwrap();
    let mut open: Vec<_> = (0..4096).map(|_| call("/signal")).collect();
    until(|| fixture.script.options().counts.read().queued == 0);
    let mut next = call("/timer");
    stays_unanswered(&mut next);
    open.pop();
    assert_eq!(text(&block_on(next).unwrap()), "timer");
    drop(fixture);
}

#[test]
fn a_deadline_that_passes_first_is_what_a_call_is_told() {
    let fixture = fixture();
    let deadline = Some(Instant::now() + Duration::from_millis(30));
    let call = fixture.script.call(get("/signal").payload(), deadline).unwrap();
    assert_eq!(block_on(call).unwrap_err(), Failure::DeadlinePassed);
    let call = fixture.script.call(get("/signal").payload(), deadline).unwrap();
    assert_eq!(block_on(call).unwrap_err(), Failure::DeadlinePassed);
    drop(fixture.script.call(get("/signal").payload(), deadline).unwrap());
    // The later two were not started.
    noted(
        &fixture,
        r#"["TimeoutError: the deadline has passed","woken: TimeoutError"]"#,
    );
    let counted = fixture.script.options().counts.read();
    assert_eq!(
        counted.stopped.iter().find(|(reason, _)| *reason == "deadline"),
        Some(&("deadline", 3))
    );
    assert_eq!(counted.cancelled, 0);
}

async fn next(stream: &mut Stream) -> Next {
    std::future::poll_fn(|cx| stream.poll_next(cx)).await
}

/// The pieces of an answer, and whether it is complete.
fn pieces(mut stream: Stream) -> (String, bool) {
    block_on(async {
        let mut text = String::new();
        loop {
            match next(&mut stream).await {
                Next::Piece(piece) => text += std::str::from_utf8(&piece.bytes).unwrap(),
                Next::End => return (text, true),
                Next::Broken => return (text, false),
            }
        }
    })
}

fn streamed(fixture: &Fixture, path: &str) -> Stream {
    match fixture.executor(&get(path)).unwrap().body {
        Body::Stream(stream) => stream,
        Body::Whole(body) => panic!("{path} is answered at once: {body:?}"),
    }
}

#[test]
fn pieces_that_are_there_at_once_are_one_answer() {
    let fixture = fixture();
    assert_eq!(text(&fixture.executor(&get("/pieces")).unwrap()), "ab");
    assert_eq!(text(&fixture.io().call(&get("/pieces")).unwrap()), "ab");
    assert_eq!(fixture.executor(&get("/breaks-at-once")).unwrap().status, 500);
}

#[test]
fn other_pieces_come_one_by_one() {
    let fixture = fixture();
    assert_eq!(pieces(streamed(&fixture, "/slow")), ("012".into(), true));
    assert_eq!(pieces(streamed(&fixture, "/web-stream")), ("w".into(), true));
    assert_eq!(pieces(streamed(&fixture, "/breaks-later")), ("a".into(), false));
    assert!(fixture.io().call(&get("/slow")).is_none());
}

#[test]
fn the_head_of_a_stream_is_asked_for_alone() {
    let fixture = fixture();
    let request = Request {
        method: "HEAD",
        ..get("/endless")
    };
    let answer = fixture.executor(&request).unwrap();
    let Body::Stream(stream) = answer.body else {
        panic!("it is no stream")
    };
    assert_eq!(pieces(stream), (String::new(), true));
}

#[test]
fn a_stream_waits_for_its_client_and_ends_with_it() {
    let limits = Limits {
        executors: 1,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let mut stream = streamed(&fixture, "/endless");
    // The pieces in transit, in parts of 64 KiB, and no more.
    let seen = || text(&fixture.executor(&get("/seen")).unwrap()).to_owned();
    until(|| seen() == "[0,1,2]");
    assert!(matches!(block_on(next(&mut stream)), Next::Piece(_)));
    drop(stream);
    until(|| seen().ends_with(r#""returned"]"#));
    let stream = streamed(&fixture, "/sleeping-stream");
    drop(stream);
    until(|| seen().matches("returned").count() == 2);
    let stream = streamed(&fixture, "/stuck-stream");
    drop(stream);
    until(|| seen().matches("returned").count() == 3);
}

#[test]
fn time_alone_does_not_end_a_stream() {
    let limits = Limits {
        time_max: Duration::from_millis(200),
        executors: 1,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let mut stream = streamed(&fixture, "/endless");
    // Each of these calls lasts as long as a call may.
    for _ in 0..2 {
        assert!(fixture.executor(&get("/signal")).is_err());
    }
    for _ in 0..20 {
        assert!(matches!(block_on(next(&mut stream)), Next::Piece(_)));
    }
}

/// A server that answers according to the path, and records requests.
struct Elsewhere {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Elsewhere {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (mut connection, noted) = (connection.unwrap(), noted.clone());
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 65_536];
                    let mut length = 0;
                    loop {
                        let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                        let is_whole = request.contains("\r\n\r\n")
                            && (!request.starts_with("POST") || request.ends_with('}'));
                        if is_whole {
                            break;
                        }
                        match connection.read(&mut bytes[length..]) {
                            Ok(0) | Err(_) => return,
                            Ok(more) => length += more,
                        }
                    }
                    let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    let path = request.split(' ').nth(1).unwrap().to_owned();
                    noted.lock().unwrap().push(request);
                    let whole = |status: &str, headers: &str, body: &str| {
                        format!(
                            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
                            body.len()
                        )
                    };
                    let answer = match path.as_str() {
                        "/silent" => {
                            // Waits until the client gives up.
                            let _ = connection.read(&mut bytes);
                            return;
                        }
                        "/long" => whole("200 OK", "", &"x".repeat(70_000)),
                        "/elsewhere" => whole("302 Found", "location: /hello\r\n", ""),
                        "/forbidden" => whole("302 Found", "location: http://other.example/\r\n", ""),
                        "/round" => whole("302 Found", "location: /round\r\n", ""),
                        "/short" => "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".into(),
                        _ => whole("203 So So", "x-b: c\r\ncontent-type: text/x\r\n", "hello"),
                    };
                    let _ = connection.write_all(answer.as_bytes());
                });
            }
        });
        Self { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("url=http://{}{path}", self.address)
    }
}

fn fetching(limits: Limits) -> (Fixture, Elsewhere) {
    let elsewhere = Elsewhere::start();
    let allow = Allow {
        fetch: vec![elsewhere.address.to_string().parse().unwrap()],
        ..Allow::default()
    };
    (Fixture::with(HANDLER, limits, allow), elsewhere)
}

fn asked(fixture: &Fixture, path: &str, query: &str) -> String {
    let answer = fixture.executor(&Request { query, ..get(path) }).unwrap();
    match answer.body {
        Body::Whole(body) => String::from_utf8(body.to_vec()).unwrap(),
        Body::Stream(stream) => pieces(stream).0,
    }
}

#[test]
fn other_servers_are_asked_as_far_as_they_are_allowed() {
    let (fixture, elsewhere) = fetching(LIMITS);
    let url = elsewhere.url("/hello");
    let address = elsewhere.address;
    assert_eq!(
        asked(&fixture, "/fetch", &url),
        format!(r#"{{"status":203,"text":"hello","url":"http://{address}/hello","redirected":false}}"#)
    );
    assert_eq!(
        asked(&fixture, "/fetch", &elsewhere.url("/elsewhere")),
        format!(r#"{{"status":203,"text":"hello","url":"http://{address}/hello","redirected":true}}"#)
    );
    assert_eq!(asked(&fixture, "/post", &url), "hello");
    assert_eq!(asked(&fixture, "/passes-on", &url), "hello");
    let requests = elsewhere.asked.lock().unwrap();
    assert!(requests[0].contains("x-a: b"), "{}", requests[0]);
    assert!(
        requests
            .iter()
            .any(|request| request.starts_with("POST") && request.ends_with("{\"a\":1}")),
        "{requests:?}"
    );
    assert!(
        fixture
            .io()
            .call(&Request {
                query: &url,
                ..get("/fetch")
            })
            .is_none()
    );
    drop(requests);
    for (url, refused) in [
        (
            "url=http://other.example/",
            "`other.example`: its `allow` names 127.0.0.1:",
        ),
        ("url=ftp://other.example/", "`ftp:` is not fetched"),
        (
            &*elsewhere.url("/forbidden"),
            "`other.example`: its `allow` names",
        ),
        (&*elsewhere.url("/round"), "20 redirects were followed"),
        (&*elsewhere.url("/short"), "TypeError: fetching from"),
        ("url=nowhere", "TypeError: Invalid URL"),
    ] {
        let error = asked(&fixture, "/fetch-error", url);
        assert!(error.contains(refused), "{url}: {error}");
    }
}

#[test]
fn fetches_are_limited_in_time_length_and_number() {
    let (fixture, elsewhere) = fetching(Limits {
        fetch_time_max: Duration::from_millis(200),
        fetch_bytes_max: 64 << 10,
        ..LIMITS
    });
    for (path, right) in [
        ("/silent", "has not answered in full after 200ms (fetch_time_max)"),
        ("/long", "is longer than 65536 bytes (fetch_bytes_max)"),
    ] {
        let error = asked(&fixture, "/fetch-error", &elsewhere.url(path));
        assert!(error.contains(right), "{path}: {error}");
    }
    assert_eq!(
        asked(&fixture, "/too-many", &elsewhere.url("/hello")),
        "8 this call has begun 8 fetches already (fetches_max)"
    );
    assert_eq!(
        asked(&fixture, "/gives-up", &elsewhere.url("/silent")),
        "TimeoutError"
    );
}
