//! Scripts that exceed their limits.

use std::time::Duration;

use forebay_script::{Allow, Failure, Limits};

use crate::scripts::{Fixture, LIMITS, Request, get, text, until};

const HANDLER: &str = r"
import { router } from 'forebay';

const app = router();
app.get('/hello', () => ({ hello: 'world' }));
app.get('/spin', () => { for (;;) {} });
app.get('/catches', () => { for (;;) { try { for (;;) {} } catch {} finally { continue; } } });
app.get('/spins-later', async () => { await null; for (;;) {} });
app.get('/allocates', () => { const all = []; for (;;) all.push(new Array(1000).fill(all.length)); });
app.get('/gigabyte', () => 'x'.repeat(1 << 29));
app.get('/long', () => 'x'.repeat(3 << 20));
app.get('/recurses', () => { const f = () => f() + 1; return f(); });
app.get('/never', () => new Promise(() => {}));
app.get('/native', () => 'a'.repeat(400_000).indexOf('a'.repeat(200_000) + 'b'));
const most = 'x'.repeat(1 << 20);
const greedy = {
  pad: () => 'x'.padEnd(2 ** 30 - 1, 'ab'),
  join: () => new Array(1 << 20).join(most),
  stringify: () => JSON.stringify(new Array(2000).fill(most)),
  replace: () => most.replace(/x/g, most),
  concatenate: () => { let all = most; for (;;) all += all; },
  regex: () => /^(a+)+$/.test('a'.repeat(40) + 'b'),
  split: () => { const all = []; for (;;) all.push(most.split('')); },
  sort: () => Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 300_007).sort((a, b) => Math.sin(a) - Math.sin(b)),
  sort_natively: () => { for (;;) new Float64Array(500_000).map((_, i) => Math.sin(i)).sort(); },
  power: () => String(7n ** 3_000_000n),
  shift: () => 1n << 4_000_000_000n,
  buffer: () => new ArrayBuffer(2 ** 31),
  getter: () => ({ get a() { for (;;) {} } }),
  getter_of_element: () => [Object.defineProperty([], 0, { get() { for (;;) {} } })],
  to_json: () => ({ toJSON() { for (;;) {} } }),
  keys: () => ({ a: new Proxy({}, { ownKeys() { for (;;) {} } }) }),
  proxy: () => new Proxy({}, { getPrototypeOf() { for (;;) {} } }),
  then: () => ({ __proto__: { get then() { for (;;) {} } } }),
  headers: () => new Response('', { headers: { get a() { for (;;) {} } } }),
  sparse: () => { const all = []; all.length = 2 ** 32 - 1; return all; },
  nested: () => { let all = []; for (let i = 0; i < 200_000; i++) all = [all]; return all; },
  clone: () => { let all = []; for (let i = 0; i < 200_000; i++) all = [all]; return structuredClone(all) && 1n; },
  jobs: () => { const again = () => Promise.resolve().then(again); return again(); },
  microtasks: () => { const again = () => queueMicrotask(again); again(); return new Promise(() => {}); },
  errors: () => { const f = () => { try { f(); } finally { f(); } }; f(); },
  names: () => { const all = {}; for (let i = 0; ; i++) all['name' + i] = i; },
};
app.get('/greedy', () => Object.keys(greedy));
app.get('/greedy/:how', ({ params }) => greedy[params.how]());
export default app;
";

fn small() -> Fixture {
    let limits = Limits {
        io_cpu_max: Duration::from_millis(20),
        cpu_max: Duration::from_millis(100),
        time_max: Duration::from_millis(300),
        memory_max: 16 << 20,
        output_max: 2 << 20,
        ..LIMITS
    };
    Fixture::with(HANDLER, limits, Allow::default())
}

#[test]
fn what_loops_is_stopped_and_the_next_is_answered() {
    let fixture = small();
    for path in ["/spin", "/catches", "/spins-later"] {
        let failure = fixture.executor(&get(path)).unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::Time {
                    limit: "cpu_max",
                    limit_ms: 100
                }
            ),
            "{path}: {failure}"
        );
        assert_eq!(
            text(&fixture.executor(&get("/hello")).unwrap()),
            r#"{"hello":"world"}"#
        );
    }
}

#[test]
fn what_takes_too_much_memory_is_stopped_and_the_next_is_answered() {
    let limits = Limits {
        memory_max: 16 << 20,
        output_max: 2 << 20,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    for path in ["/allocates", "/gigabyte"] {
        let failure = fixture.executor(&get(path)).unwrap_err();
        assert!(matches!(failure, Failure::Memory { .. }), "{path}: {failure}");
        assert_eq!(
            text(&fixture.executor(&get("/hello")).unwrap()),
            r#"{"hello":"world"}"#
        );
    }
    let failure = fixture.executor(&get("/long")).unwrap_err();
    assert!(matches!(failure, Failure::Output { .. }), "{failure}");
    assert_eq!(fixture.executor(&get("/recurses")).unwrap().status, 500);
    assert_eq!(fixture.executor(&get("/hello")).unwrap().status, 200);
}

#[test]
fn what_waits_for_ever_comes_to_an_end() {
    let fixture = small();
    let failure = fixture.executor(&get("/never")).unwrap_err();
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
}

#[test]
fn what_cannot_be_stopped_costs_its_thread() {
    let fixture = small();
    let failure = fixture.executor(&get("/native")).unwrap_err();
    assert!(
        matches!(failure, Failure::Time { limit: "cpu_max", .. }),
        "{failure}"
    );
    for _ in 0..4 {
        assert_eq!(fixture.executor(&get("/hello")).unwrap().status, 200);
    }
}

#[test]
fn on_an_io_thread_it_is_left_to_an_executor() {
    let fixture = small();
    for path in [
        "/spin",
        "/catches",
        "/spins-later",
        "/allocates",
        "/gigabyte",
        "/long",
        "/never",
    ] {
        let mut io = fixture.io();
        assert!(io.call(&get(path)).is_none(), "{path}");
        // If the engine is created anew, that happens a little later.
        until(|| io.call(&get("/hello")).is_some());
    }
}

#[test]
fn a_thread_that_others_wait_for_loads_no_script_for_long_and_none_again_and_again() {
    for slow in [
        "let sum = 0; for (let i = 0; i < 2_000_000; i++) sum += i;",
        "'a'.repeat(40_000).indexOf('a'.repeat(20_000) + 'b');",
    ] {
        let handler = format!("{slow}\nexport default () => 'loaded';");
        let fixture = Fixture::new(&handler);
        assert!(fixture.io().call(&get("/")).is_none(), "{slow}");
        assert_eq!(text(&fixture.executor(&get("/")).unwrap()), "loaded");
    }
    let fixture = small();
    let mut io = fixture.io();
    assert!(io.call(&get("/hello")).is_some());
    assert!(io.call(&get("/spin")).is_none());
    assert!(io.call(&get("/hello")).is_none(), "the engine was made just now");
}

#[test]
fn beyond_the_most_calls_the_next_is_refused() {
    let fixture = small();
    let waiting: Vec<_> = (0..LIMITS.in_flight_max)
        .map(|_| fixture.script.call(payload("/never"), None).unwrap())
        .collect();
    let refused = fixture.script.call(payload("/hello"), None).unwrap_err();
    assert_eq!(
        refused,
        Failure::Busy {
            in_flight_max: LIMITS.in_flight_max
        }
    );
    drop(waiting);
    until(|| fixture.executor(&get("/hello")).is_ok());
}

#[test]
fn beyond_the_most_bytes_of_requests_the_next_is_refused() {
    let limits = Limits {
        executors: 1,
        queue_bytes_max: 64 << 10,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let long = |bytes| Request {
        method: "GET",
        path: "/never",
        body: &LONG[..bytes],
        ..Request::default()
    };
    // A lone call may exceed the byte limit.
    let alone = fixture.script.call(long(100_000).payload(), None).unwrap();
    let refused = fixture.script.call(long(0).payload(), None).unwrap_err();
    assert!(
        matches!(
            refused,
            Failure::BytesFull {
                queue_bytes_max: 65_536,
                ..
            }
        ),
        "{refused}"
    );
    let refused = || fixture.script.options().counts.read().refused;
    assert_eq!(refused(), 1);
    drop(alone);
    until(|| fixture.executor(&get("/hello")).is_ok());
    let before = refused();
    let waiting = fixture.script.call(long(50_000).payload(), None).unwrap();
    fixture.script.call(long(20_000).payload(), None).unwrap_err();
    assert_eq!(fixture.executor(&get("/hello")).unwrap().status, 200);
    assert_eq!(refused(), before + 1);
    drop(waiting);
}

static LONG: [u8; 100_000] = [b'x'; 100_000];

fn payload(path: &str) -> Vec<u8> {
    get(path).payload()
}

#[test]
fn whatever_it_takes_too_much_of_it_is_stopped_and_the_next_is_answered() {
    let fixture = Fixture::with(
        HANDLER,
        Limits {
            cpu_max: Duration::from_millis(100),
            memory_max: 16 << 20,
            output_max: 2 << 20,
            ..LIMITS
        },
        Allow::default(),
    );
    let names = text(&fixture.executor(&get("/greedy")).unwrap()).to_owned();
    let names: Vec<_> = names.trim_matches(['[', ']']).split(',').collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let path = format!("/greedy/{}", name.trim_matches('"'));
        match fixture.executor(&get(&path)) {
            Ok(answer) => assert!(answer.is_fault, "{path}: {}", answer.status),
            Err(Failure::Time { limit: "cpu_max", .. } | Failure::Memory { .. } | Failure::Output { .. }) => {
            }
            Err(failure) => panic!("{path}: {failure}"),
        }
        assert_eq!(
            text(&fixture.executor(&get("/hello")).unwrap()),
            r#"{"hello":"world"}"#,
            "{path}"
        );
    }
}
