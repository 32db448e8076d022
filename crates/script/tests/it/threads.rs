//! Which thread does a call.

use forebay_script::{Allow, Limits};

use crate::scripts::{Fixture, LIMITS, Request, block_on, get, text, until};

const HANDLER: &str = r"
import { router, sleep, store } from 'forebay';

const app = router();
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
