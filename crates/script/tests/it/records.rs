//! Scripts that use a store.

use std::time::Duration;

use forebay_records::{Everything, Settings, create};
use forebay_script::{Allow, Limits};
use forebay_store::Durability;

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
app.get('/last', () => tql({ where: ['AND', ['EQ', 'kind', `'Article`], ['EQ', 'title', 19_999]], select: 'title' }).results);
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
fn a_statement_that_looks_at_many_records_is_left_to_an_executor() {
    let limits = Limits {
        io_cpu_max: Duration::from_millis(5),
        ..LIMITS
    };
    let allow = Allow {
        store: vec!["Article".into()],
        ..Allow::default()
    };
    let fixture = Fixture::with(HANDLER, limits, allow);
    let mut transaction = fixture.store().begin().unwrap();
    for title in 0..20_000 {
        let document = format!(r#"{{"kind":"Article","title":{title}}}"#);
        let settings = Settings::default();
        create(&mut transaction, document.as_bytes(), &settings, &Everything, 0).unwrap();
    }
    transaction.commit(Durability::Relaxed).unwrap();
    assert!(fixture.io().call(&get("/last")).is_none());
    assert_eq!(text(&fixture.executor(&get("/last")).unwrap()), "[19999]");
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
    // A transaction that was interrupted does not block others.
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

const DECLARING: &str = r"
import { records, rest } from 'forebay/records';
import { router } from 'forebay';

const kinds = { Article: true, Secret: true, Own: { read: (call) => call.usual() }, Closed: { create: true } };
const app = router();
app.get('/', () => 'loaded');
app.all('/v1/*', rest({ kinds }));
app.all('/w1/*rest', rest({ kinds, prefix: '/w1', compat: 'wabur' }));
app.all('/wrapped/*', (...call) => rest({ kinds, prefix: '/wrapped' })(...call));
app.all('/taken/*', rest({ kinds, prefix: '/taken' }));
app.get('/taken/Article/1', () => 'another');
app.all('/below/*', rest({ kinds, prefix: '/below' }));
app.all('/below/Article/*', () => 'another');
app.all('/named/*', rest({ kinds, prefix: '/named' }));
app.get('/named/:kind/:ref', () => 'another');
app.put('/put/*', rest({ kinds, prefix: '/put' }));
app.all('/one/*', rest({ kinds, prefix: '/other' }));
export default app;
";

#[test]
fn what_rest_declares_to_read_as_usual_is_read_without_a_call() {
    let allow = Allow {
        store: vec!["Article".into(), "Own".into(), "Closed".into()],
        ..Allow::default()
    };
    let fixture = Fixture::with(DECLARING, LIMITS, allow);
    let mut io = fixture.io();
    let ask = |method, path, body| fixture.executor(&send(method, path, body)).unwrap();
    assert_eq!(
        outcome(&ask("PUT", "/v1/Article", r#"{"title":"one"}"#)),
        (201, r#"{"code":0,"ref":1}"#)
    );
    ask("PUT", "/v1/Own", "{}");
    ask("PUT", "/v1/Closed", "{}");
    let record = r#"{"kind":"Article","title":"one"}"#;
    let whole = format!(r#"{{"code":0,"results":[{{"id":1,"data":{record}}}]}}"#);

    assert_eq!(io.read_declared("/v1/Article/1"), None, "before it is loaded");
    assert_eq!(text(&io.call(&get("/")).unwrap()), "loaded");
    for (path, tagged) in [("/v1/Article/1", "tagged"), ("/w1/Article/1", "plain")] {
        assert_eq!(text(&io.call(&get(path)).unwrap()), whole);
        assert_eq!(
            io.read_declared(path),
            Some(format!("{tagged} {record} in {whole}"))
        );
    }
    for path in [
        // Unusual paths.
        "/v1/Article/2",
        "/v1/Article/01",
        "/v1/Article/",
        "/v1/Article/x",
        "/v1/Article/+1",
        "/v1/Article/00000000000000000001",
        "/v1/Article/99999999999999999999",
        "/v1/Article/1/",
        "/v1/Article",
        "/v1/%41rticle/1",
        "/v1/Nowhere/1",
        // Records that may not be read, or are read in another way.
        "/v1/Secret/1",
        "/v1/Own/2",
        "/v1/Closed/3",
        // Paths that another handler answers, for this path or similar ones.
        "/wrapped/Article/1",
        "/taken/Article/1",
        "/below/Article/1",
        "/named/Article/1",
        "/put/Article/1",
        "/one/Article/1",
        "/other/Article/1",
    ] {
        assert_eq!(io.read_declared(path), None, "{path}");
    }
    ask("DELETE", "/v1/Article/1", "");
    assert_eq!(io.read_declared("/v1/Article/1"), None, "a record that is gone");
}

#[test]
fn a_record_that_is_too_long_for_an_answer_is_left_to_the_script() {
    let limits = Limits {
        output_max: 70,
        ..LIMITS
    };
    let allow = Allow {
        store: vec!["Article".into()],
        ..Allow::default()
    };
    let handler =
        "import { rest } from 'forebay/records'; export default rest({ kinds: { Article: true } });";
    let fixture = Fixture::with(handler, limits, allow);
    let mut io = fixture.io();
    for title in ["", "much longer"] {
        let body = format!(r#"{{"title":"{title}"}}"#);
        assert_eq!(
            fixture
                .executor(&send("PUT", "/v1/Article", &body))
                .unwrap()
                .status,
            201
        );
    }
    assert!(io.call(&get("/v1/Article/1")).is_some());
    assert!(io.read_declared("/v1/Article/1").is_some());
    assert_eq!(io.read_declared("/v1/Article/2"), None);
}

#[test]
fn a_record_that_takes_long_to_put_together_is_left_to_the_script() {
    let allow = Allow {
        store: vec!["Article".into()],
        ..Allow::default()
    };
    let handler =
        "import { rest } from 'forebay/records'; export default rest({ kinds: { Article: true } });";
    let fixture = Fixture::with(handler, LIMITS, allow);
    let mut io = fixture.io();
    for count in [10, 1000] {
        let list = vec![format!("\"{}\"", "x".repeat(400)); count].join(",");
        let body = format!(r#"{{"list":[{list}]}}"#);
        let made = fixture.executor(&send("PUT", "/v1/Article", &body)).unwrap();
        assert_eq!(made.status, 201);
    }
    assert!(io.call(&get("/v1/Article/1")).is_some());
    assert!(io.read_declared("/v1/Article/1").is_some());
    assert_eq!(io.read_declared("/v1/Article/2"), None);
    let answer = fixture.executor(&get("/v1/Article/2")).unwrap();
    assert!(text(&answer).len() > 400_000);
}
