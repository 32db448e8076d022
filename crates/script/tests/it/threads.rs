//! Assignment of calls to threads, and calls that no thread runs.

use std::time::Duration;

use forebay_script::{Allow, Failure, Limits};
use forebay_store::{Durability, Key};

use crate::scripts::{Fixture, LIMITS, Request, block_on, get, text, until};

const HANDLER: &str = r"
import { router, sleep, store } from 'forebay';

if (store.get('Flag', 'broken') === true) throw new Error('it was forbidden');
const app = router();
app.get('/hello', () => 'hello');
app.get('/native', () => 'a'.repeat(400_000).indexOf('a'.repeat(200_000) + 'b'));
app.post('/flag', (request) => { store.set('Flag', request.query.get('name'), true); return 'set'; });
app.get('/resumed', async () => {
  await sleep(1);
  store.set('Flag', 'resumed', true);
  while (store.get('Flag', 'go') !== true);
  return 'seen';
});
export default app;
";

fn fixture(limits: Limits) -> Fixture {
    let allow = Allow {
        store: vec!["Flag".into()],
        ..Allow::default()
    };
    Fixture::with(HANDLER, limits, allow)
}

fn flag(name: &str) -> Request<'_> {
    Request {
        method: "POST",
        query: name,
        ..get("/flag")
    }
}

#[test]
fn a_thread_that_goes_on_with_a_call_keeps_no_other_waiting() {
    let fixture = fixture(LIMITS);
    let resumed = fixture.script.call(get("/resumed").payload(), None).unwrap();
    until(|| fixture.stored("Flag", "resumed").is_some());
    assert_eq!(text(&fixture.executor(&flag("name=go")).unwrap()), "set");
    assert_eq!(text(&block_on(resumed).unwrap()), "seen");
}

#[test]
fn who_does_not_wait_any_more_makes_room_though_no_thread_is_free() {
    let limits = Limits {
        executors: 1,
        ..LIMITS
    };
    let fixture = fixture(limits);
    let hello = || fixture.script.call(get("/hello").payload(), None);
    let busy = fixture.script.call(get("/resumed").payload(), None).unwrap();
    until(|| fixture.stored("Flag", "resumed").is_some());
    for _ in 0..3 {
        let waiting: Vec<_> = (1..LIMITS.in_flight_max).map(|_| hello().unwrap()).collect();
        assert!(matches!(hello(), Err(Failure::Busy { .. })));
        drop(waiting);
    }
    assert_eq!(fixture.script.options().counts.read().queued, 0);
    let key = Key::global("Flag").unwrap().child("go").unwrap();
    let mut transaction = fixture.store().begin().unwrap();
    transaction.set(&key, b"true").unwrap();
    transaction.commit(Durability::Relaxed).unwrap();
    assert_eq!(text(&block_on(busy).unwrap()), "seen");
}

#[test]
fn an_engine_runs_its_stop_hooks_when_it_ends() {
    const STOPS: &str = r"
        import { router, store } from 'forebay';
        const app = router();
        app.get('/hello', () => 'hello');
        app.get('/forever', () => { for (;;) {} });
        app.onStop(async () => { await null; store.node('Flag', 'stopped').increment(); });
        export default app;
    ";
    let stopped = |fixture: &Fixture| {
        fixture.script.stop();
        block_on(async { tokio::time::timeout(Duration::from_secs(20), fixture.script.stopped()).await })
            .expect("it ends");
        fixture.stored("Flag", "stopped")
    };
    let with = |limits| {
        let allow = Allow {
            store: vec!["Flag".into()],
            ..Allow::default()
        };
        Fixture::with(STOPS, limits, allow)
    };
    let limits = Limits {
        executors: 1,
        ..LIMITS
    };
    let fixture = with(limits);
    assert_eq!(text(&fixture.executor(&get("/hello")).unwrap()), "hello");
    assert_eq!(stopped(&fixture).as_deref(), Some("1"));

    let limits = Limits {
        isolated: true,
        cpu_max: Duration::from_millis(100),
        ..limits
    };
    let fixture = with(limits);
    assert_eq!(text(&fixture.executor(&get("/hello")).unwrap()), "hello");
    until(|| fixture.stored("Flag", "stopped").as_deref() == Some("1"));
    // The state of an interrupted engine is unknown, so its stop hooks do not run.
    fixture.executor(&get("/forever")).unwrap_err();
    // On a busy machine its thread is abandoned, and the one after it has no engine to end.
    let is_given_up = fixture.script.options().counts.read().given_up > 0;
    let ended = if is_given_up { "1" } else { "2" };
    assert_eq!(stopped(&fixture).as_deref(), Some(ended));
}

#[test]
fn stop_hooks_that_do_not_end_are_stopped() {
    for hook in [
        "for (;;) {}",
        "return new Promise(() => {})",
        "throw new Error('no')",
    ] {
        let limits = Limits {
            cpu_max: Duration::from_millis(50),
            ..LIMITS
        };
        let handler = format!(
            "import {{ store }} from 'forebay'; export default () => 'hello';
             export function onStop() {{ store.set('Flag', 'begun', 1); {hook} }}"
        );
        let allow = Allow {
            store: vec!["Flag".into()],
            ..Allow::default()
        };
        let fixture = Fixture::with(&handler, limits, allow);
        fixture.script.stop();
        let stopped = async { tokio::time::timeout(Duration::from_secs(20), fixture.script.stopped()).await };
        block_on(stopped).expect(hook);
        assert!(fixture.stored("Flag", "begun").is_some(), "{hook}");
    }
}

#[test]
fn calls_for_which_no_thread_can_load_the_script_are_answered() {
    let limits = Limits {
        executors: 1,
        cpu_max: Duration::from_millis(100),
        ..LIMITS
    };
    let fixture = fixture(limits);
    assert_eq!(text(&fixture.executor(&flag("name=broken")).unwrap()), "set");
    fixture.executor(&get("/native")).unwrap_err();
    let waiting: Vec<_> = (0..3)
        .map(|_| fixture.script.call(get("/hello").payload(), None).unwrap())
        .collect();
    for waiting in waiting {
        let answered = block_on(async { tokio::time::timeout(Duration::from_secs(20), waiting).await });
        let failure = answered.expect("it is answered").unwrap_err();
        assert!(
            matches!(&failure, Failure::Broken { reason } if reason.contains("it was forbidden")),
            "{failure}"
        );
    }
}
