//! Which thread does a call, and what becomes of those that no thread does.

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
