//! Scripts with a store.

use std::time::Duration;

use forebay_script::{Allow, Limits};

use crate::scripts::{Fixture, LIMITS, Request, get, outcome, text};

const HANDLER: &str = r"
import { rest, tql } from 'forebay/records';
import { StoreError, router, store } from 'forebay';

const app = router();
const articles = rest({ kinds: { Article: true, Secret: true }, prefix: '' });
app.all('/Article', articles);
app.all('/Article/:ref', articles);
app.all('/Secret/:ref', articles);
app.get('/titles', () => tql({ where: ['EQ', 'kind', `'Article`], select: 'title', sort: 'title' }).results);
app.get('/secret', () => {
  try {
    return store.get('Secret', 1);
  } catch (error) {
    return [error instanceof StoreError, error.code];
  }
});
app.post('/transfer', () =>
  store.transaction(() => {
    store.set('Article', 'total', 1);
    throw new TypeError('no');
  }),
);
app.get('/total', () => ({ total: store.get('Article', 'total') ?? null }));
app.post('/spins', () => store.transaction(() => { store.set('Article', 'total', 2); for (;;) {} }));
app.get('/writes', () => { store.set('Article', 'seen', true); return { written: true }; });
export default app;
";

fn fixture() -> Fixture {
    let limits = Limits {
        cpu_max: Duration::from_millis(300),
        ..LIMITS
    };
    let allow = Allow {
        store: vec!["Article".into()],
        ..Allow::default()
    };
    Fixture::with(HANDLER, limits, allow)
}

fn send<'a>(method: &'a str, path: &'a str, body: &'a str) -> Request<'a> {
    Request {
        method,
        path,
        body: body.as_bytes(),
        ..Request::default()
    }
}

#[test]
fn records_are_made_by_executors_and_read_on_io_threads() {
    let fixture = fixture();
    let mut io = fixture.io();
    for (title, made) in [("one", r#"{"code":0,"ref":1}"#), ("two", r#"{"code":0,"ref":2}"#)] {
        let body = format!(r#"{{"kind":"Article","title":"{title}"}}"#);
        let answer = fixture.executor(&send("PUT", "/Article", &body)).unwrap();
        assert_eq!(outcome(&answer), (201, made));
        assert!(answer.commit > 0, "the answer waits for the disk");
    }
    let expected = r#"{"code":0,"results":[{"id":2,"data":{"kind":"Article","title":"two"}}]}"#;
    for _ in 0..3 {
        assert_eq!(text(&io.call(&get("/Article/2")).unwrap()), expected);
        assert_eq!(text(&fixture.executor(&get("/Article/2")).unwrap()), expected);
    }
    assert_eq!(text(&io.call(&get("/titles")).unwrap()), r#"["one","two"]"#);
    assert_eq!(io.call(&get("/Article/9")).unwrap().status, 404);
}

#[test]
fn what_writes_is_done_by_an_executor_and_what_fails_is_rolled_back() {
    let fixture = fixture();
    let mut io = fixture.io();
    assert!(io.call(&get("/writes")).is_none());
    assert_eq!(
        text(&fixture.executor(&get("/writes")).unwrap()),
        r#"{"written":true}"#
    );
    assert_eq!(
        fixture.executor(&send("POST", "/transfer", "")).unwrap().status,
        500
    );
    assert!(fixture.executor(&send("POST", "/spins", "")).is_err());
    // Nobody waits for a transaction that was stopped in the middle.
    assert_eq!(
        fixture.executor(&send("PUT", "/Article", "{}")).unwrap().status,
        201
    );
    assert_eq!(
        text(&fixture.executor(&get("/total")).unwrap()),
        r#"{"total":null}"#
    );
}

#[test]
fn globals_that_are_not_allowed_are_out_of_reach() {
    let fixture = fixture();
    assert_eq!(
        text(&fixture.executor(&get("/secret")).unwrap()),
        r#"[true,"not_allowed"]"#
    );
    assert_eq!(fixture.executor(&get("/Secret/1")).unwrap().status, 500);
}
