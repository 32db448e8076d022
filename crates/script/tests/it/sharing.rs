//! Calls of one engine that wait for the same promise.

use std::time::Duration;

use forebay_script::{Allow, Failure, Limits};

use crate::scripts::{Fixture, LIMITS, block_on, get, text};

const HANDLER: &str = r"
import { router, sleep } from 'forebay';

const app = router();
let joined = 0;
let shared;
const late = [];
const gate = Promise.withResolvers();
const others = async () => { while (joined === 0) await sleep(1); };
app.get('/shares', async () => { shared = others().then(() => 7); await shared; return 'first'; });
app.get('/shares-failure', async () => {
  shared = others().then(() => { throw new RangeError('shared'); });
  try { await shared; } catch { return 'first'; }
});
app.get('/opens', async () => { await others(); gate.resolve(8); return 'first'; });
app.get('/wakes', async () => { while (late.length === 0) await sleep(1); late.shift()(9); return 'first'; });
app.get('/fails', async () => { while (late.length === 0) await sleep(1); late.shift()(Promise.reject(new RangeError('late'))); return 'first'; });

const join = (promise) => { joined++; return promise; };
const later = async (value) => { await sleep(1); return String(value); };
app.get('/joins', async () => later(await join(shared)));
app.get('/joins-by-then', () => join(shared).then(later));
app.get('/joins-all', async () => later(await Promise.all([join(shared), shared.then((value) => value + 1), 3])));
app.get('/joins-race', async () => later(await Promise.race([new Promise(() => {}), join(shared)])));
app.get('/joins-failure', async () => { try { await join(shared); } catch (error) { return later(error.name); } });
app.get('/joins-failure-late', () => join(shared).catch((error) => error.name).finally(() => sleep(1)));
app.get('/joins-gate', async () => later(await join(gate.promise)));
app.get('/joins-late', async () => later(await new Promise((resolve) => late.push(resolve))));
app.get('/joins-late-failure', async () => { try { await new Promise((resolve) => late.push(resolve)); } catch (error) { return later(error.name); } });
app.get('/joins-and-spins', async () => { await join(shared); for (;;) {} });
class Own extends Promise {}
app.get('/promises', async () => {
  const said = [];
  const own = new Own((resolve) => resolve(1));
  const pending = new Promise(() => {});
  const { promise, resolve } = Promise.withResolvers();
  resolve(sleep(1).then(() => 'slept'));
  queueMicrotask(() => said.push('micro'));
  await null;
  said.push(own instanceof Own, own.then() instanceof Own, pending instanceof Promise, Promise.resolve(pending) === pending, await promise);
  said.push(await Promise.any([Promise.reject(1), 2]), (await Promise.allSettled([Promise.reject(3)]))[0].reason, Promise.name, Promise.length);
  try { Promise(() => {}); } catch (error) { said.push(error.name); }
  try { new Promise(1); } catch (error) { said.push(error.name); }
  return said;
});
export default app;
";

fn fixture(limits: Limits) -> Fixture {
    let one = Limits {
        executors: 1,
        ..limits
    };
    Fixture::with(HANDLER, one, Allow::default())
}

#[test]
fn who_waits_for_the_promise_of_another_call_goes_on_as_itself() {
    for (first, second, right) in [
        ("/shares", "/joins", "7"),
        ("/shares", "/joins-by-then", "7"),
        ("/shares", "/joins-all", "7,8,3"),
        ("/shares", "/joins-race", "7"),
        ("/shares-failure", "/joins-failure", "RangeError"),
        ("/shares-failure", "/joins-failure-late", "RangeError"),
        ("/opens", "/joins-gate", "8"),
        ("/wakes", "/joins-late", "9"),
        ("/fails", "/joins-late-failure", "RangeError"),
    ] {
        let fixture = fixture(LIMITS);
        // After the first call is answered, its remaining timers count as those of the second.
        let first = fixture.script.call(get(first).payload(), None).unwrap();
        let joined = fixture.executor(&get(second));
        assert_eq!(text(&joined.unwrap()), right, "{second}");
        assert_eq!(text(&block_on(first).unwrap()), "first", "{second}");
    }
}

#[test]
fn what_it_does_then_is_charged_to_itself() {
    let fixture = fixture(Limits {
        cpu_max: Duration::from_millis(300),
        ..LIMITS
    });
    let first = fixture.script.call(get("/shares").payload(), None).unwrap();
    let failure = fixture.executor(&get("/joins-and-spins")).unwrap_err();
    assert!(
        matches!(failure, Failure::Time { limit: "cpu_max", .. }),
        "{failure}"
    );
    assert_eq!(text(&block_on(first).unwrap()), "first");
}

#[test]
fn promises_are_those_of_the_language() {
    let fixture = fixture(LIMITS);
    assert_eq!(
        text(&fixture.executor(&get("/promises")).unwrap()),
        r#"["micro",true,true,true,true,"slept",2,3,"Promise",1,"TypeError","TypeError"]"#
    );
}

const SEEDED: &str = r"
import { router, store } from 'forebay';

const app = router();
let seeded;
const seed = async () => { store.set('Note', 'seed', true); };
app.get('/one', async () => { await (seeded ??= seed()); return 'one'; });
app.get('/two', async () => { await (seeded ??= seed()); return 'two'; });
export default app;
";

#[test]
fn what_could_not_be_done_on_an_io_thread_is_not_what_others_find_there() {
    let allow = Allow {
        store: vec!["Note".into()],
        ..Allow::default()
    };
    let fixture = Fixture::with(SEEDED, LIMITS, allow);
    let mut io = fixture.io();
    assert!(io.call(&get("/one")).is_none());
    let answer = io.call(&get("/two"));
    assert!(answer.is_none(), "{answer:?}");
    assert_eq!(text(&fixture.executor(&get("/two")).unwrap()), "two");
}
