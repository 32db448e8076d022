//! Scripts that wait for other writers or for locks.

use std::time::{Duration, Instant};

use forebay_script::{Allow, Failure, Limits};
use forebay_store::Key;

use crate::scripts::{Fixture, LIMITS, Request, block_on, get, text, until};

const HANDLER: &str = r"
import { router, sleep, store } from 'forebay';

const app = router();
const lock = store.node('Note', 'lock');
app.get('/hello', () => 'hello');
app.get('/native', () => 'a'.repeat(400_000).indexOf('a'.repeat(200_000) + 'b'));
app.post('/set', () => { store.set('Note', 'set', true); return 'set'; });
app.post('/transaction', () => store.transaction(() => { store.set('Note', 'set', true); return 'set'; }));
app.get('/sleeps', async () => { await sleep(1_000_000); return 'slept'; });
app.get('/lock-and-spin', () => { lock.lock(); lock.lock(); for (;;) {} });
app.get('/lock-and-return', () => lock.lock() && lock.lock());
app.get('/lock-and-fail', () => { lock.lock(); throw new Error('no'); });
app.get('/lock-and-sleep', async () => { lock.lock(); await sleep(1_000_000); });
app.get('/try', () => { const locked = lock.lock(0); if (locked) lock.unlock(); return { locked }; });
app.get('/wait', () => ({ locked: lock.lock() }));
export default app;
";

fn fixture(limits: Limits) -> Fixture {
    let allow = Allow {
        store: vec!["Note".into()],
        ..Allow::default()
    };
    Fixture::with(HANDLER, limits, allow)
}

/// Limits with which a hang is noticed long before the call's time limit, or the other way round.
const IMPATIENT: Limits = Limits {
    cpu_max: Duration::from_millis(100),
    ..LIMITS
};

fn post(path: &str) -> Request<'_> {
    Request {
        method: "POST",
        ..get(path)
    }
}

#[test]
fn to_wait_for_another_who_writes_is_not_to_hang() {
    let fixture = fixture(Limits {
        executors: 4,
        ..IMPATIENT
    });
    let other = fixture.store().begin().unwrap();
    let waiting: Vec<_> = ["/set", "/transaction"]
        .map(|path| fixture.script.call(post(path).payload(), None).unwrap())
        .into();
    // This one begins later, and is found to hang.
    assert!(fixture.executor(&get("/native")).is_err());
    drop(other);
    for waiting in waiting {
        assert_eq!(text(&block_on(waiting).unwrap()), "set");
    }
}

#[test]
fn what_was_stopped_while_it_waited_writes_nothing_afterwards() {
    let limits = Limits {
        time_max: Duration::from_millis(300),
        executors: 1,
        ..LIMITS
    };
    for path in ["/set", "/transaction"] {
        let fixture = fixture(limits);
        let other = fixture.store().begin().unwrap();
        let failure = fixture.executor(&post(path)).unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::Time {
                    limit: "time_max",
                    ..
                }
            ),
            "{path}: {failure}"
        );
        drop(other);
        // Writers are served in the order of asking, so its turn has come and gone.
        drop(fixture.store().begin().unwrap());
        assert_eq!(fixture.stored("Note", "set"), None, "{path}");
        assert_eq!(text(&fixture.executor(&post(path)).unwrap()), "set");
    }
}

#[test]
fn locks_end_with_their_call_whatever_its_end() {
    let limits = Limits {
        executors: 1,
        ..IMPATIENT
    };
    let fixture = fixture(limits);
    // While it sleeps, the engine in which the others run stays.
    let sleeping = fixture.script.call(get("/sleeps").payload(), None).unwrap();
    let key = Key::global("Note").unwrap().child("lock").unwrap();
    let mut other = fixture.store().locks().unwrap();
    for path in ["/lock-and-return", "/lock-and-fail", "/lock-and-spin"] {
        let _ = fixture.executor(&get(path));
        // On a busy machine the thread of the spinning call is abandoned, and ends a little later.
        assert!(other.lock(&key, Some(Duration::from_secs(10))).unwrap(), "{path}");
        assert!(other.unlock(&key).unwrap());
    }
    let locked = fixture
        .script
        .call(get("/lock-and-sleep").payload(), None)
        .unwrap();
    until(|| !other.lock(&key, Some(Duration::ZERO)).unwrap() || !other.unlock(&key).unwrap());
    drop(locked);
    assert!(other.lock(&key, Some(Duration::from_secs(10))).unwrap());
    drop(sleeping);
}

#[test]
fn to_wait_for_a_lock_ends_with_the_time_of_the_call() {
    let limits = Limits {
        time_max: Duration::from_millis(300),
        executors: 1,
        ..LIMITS
    };
    let fixture = fixture(limits);
    let key = Key::global("Note").unwrap().child("lock").unwrap();
    let mut other = fixture.store().locks().unwrap();
    assert!(other.lock(&key, None).unwrap());
    let failure = fixture.executor(&get("/wait")).unwrap_err();
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
    let deadline = Some(Instant::now() + Duration::from_millis(100));
    let call = fixture.script.call(get("/wait").payload(), deadline).unwrap();
    assert_eq!(block_on(call).unwrap_err(), Failure::DeadlinePassed);
    assert!(other.unlock(&key).unwrap());
    assert_eq!(
        text(&fixture.executor(&get("/try")).unwrap()),
        r#"{"locked":true}"#
    );
}
