//! Scripts that want too much.

use std::time::Duration;

use forebay_script::{Allow, Failure, Limits};

use crate::scripts::{Fixture, LIMITS, get, text, until};

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
        // Where the engine is made anew, that is done a little later.
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

fn payload(path: &str) -> Vec<u8> {
    get(path).payload()
}
