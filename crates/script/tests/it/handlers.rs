//! Requests as handlers see them, and their responses.

use forebay_script::{Allow, Limits};

use crate::scripts::{Fixture, LIMITS, Request, get, outcome, text, until};

const HANDLER: &str = r#"
import { HttpError, html, json, reply, router, unsafeHtml } from 'forebay';

const app = router();
app.get('/hello', () => ({ hello: 'world' }));
app.get('/text', () => 'grüße 😀 \ud800.');
app.get('/users/:id', (request) => ({ id: request.params.id, ip: request.ip, id2: request.id, agent: request.headers.get('User-Agent') }));
app.get('/nothing', () => null);
app.get('/page', () => html`<p title="${`&<>"'ü😀`}">${[1, [-0.5, null], undefined, false, true, 10n, { toString: () => '<o>' }]}${html`<b>${'<'}</b>`}${unsafeHtml('<i>')}</p>`);
app.get('/circle', () => { const a = []; a.push(a); try { return html`${a}`; } catch (error) { return `${error.name}: ${error.message}`; } });
app.get('/long-page', () => { try { return html`${Array(3000).fill('x'.repeat(4096))}`; } catch (error) { return `${error.name}: ${error.message}`; } });
app.get('/teapot', () => json({ short: true }, { status: 418, headers: { 'x-kind': 'pot', 'set-cookie': ['a=1', 'b=2'] } }));
app.get('/bytes', () => new Uint8Array([1, 2, 255]));
app.get('/missing', () => { throw new HttpError(404, 'no such thing'); });
app.get('/fails', () => { throw new TypeError('secret'); });
app.get('/cycle', () => { const a = {}; a.a = a; return a; });
app.post('/echo', async (request) => reply(await request.text(), { headers: { 'content-type': 'text/x' } }));
app.post('/sum', async (request) => (await request.json()).reduce((a, b) => a + b, 0));
app.post('/size', async (request) => ({ bytes: (await request.bytes()).length }));
app.get('/state', (request, ctx) => { ctx.state.count = (ctx.state.count ?? 0) + 1; return { counts: ctx.state.count > 0 }; });
app.onStart((ctx) => { ctx.state.started = true; });
app.get('/started', (request, ctx) => ({ started: ctx.state.started, remaining: ctx.remaining() === Infinity, deadline: ctx.deadline }));
export default app;
"#;

#[test]
fn executors_and_io_threads_answer_alike() {
    let fixture = Fixture::new(HANDLER);
    let mut io = fixture.io();
    let agent = Request {
        headers: vec![("user-agent", "test/1"), ("user-agent", "2")],
        ..get("/users/a%20b")
    };
    for (request, status, body) in [
        (get("/hello"), 200, r#"{"hello":"world"}"#),
        (get("/text"), 200, "grüße 😀 \u{FFFD}."),
        (
            agent,
            200,
            r#"{"id":"a b","ip":"127.0.0.1","id2":"id-1","agent":"test/1, 2"}"#,
        ),
        (get("/nothing"), 204, ""),
        (
            get("/page"),
            200,
            r#"<p title="&amp;&lt;&gt;&quot;&#39;ü😀">1-0.5true10&lt;o&gt;<b>&lt;</b><i></p>"#,
        ),
        (
            get("/circle"),
            200,
            "RangeError: arrays of HTML are at most 64 in one another",
        ),
        (
            get("/long-page"),
            200,
            "RangeError: HTML has more than 8388608 bytes (output_max)",
        ),
        (get("/teapot"), 418, r#"{"short":true}"#),
        (get("/state"), 200, r#"{"counts":true}"#),
        (
            get("/started"),
            200,
            r#"{"started":true,"remaining":true,"deadline":null}"#,
        ),
        (
            get("/missing"),
            404,
            r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"no such thing","request_id":"id-1"}"#,
        ),
        (
            get("/fails"),
            500,
            r#"{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"the handler failed","request_id":"id-1"}"#,
        ),
        (
            get("/nowhere"),
            404,
            r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"nothing answers /nowhere","request_id":"id-1"}"#,
        ),
    ] {
        let answer = fixture.executor(&request).unwrap();
        assert_eq!(outcome(&answer), (status, body), "{}", request.path);
        let answer = io.call(&request).unwrap();
        assert_eq!(outcome(&answer), (status, body), "{}", request.path);
    }
}

#[test]
fn bodies_come_and_go_as_they_are() {
    let fixture = Fixture::new(HANDLER);
    let post = |path, body| Request {
        method: "POST",
        path,
        body,
        ..Request::default()
    };
    let answer = fixture.executor(&post("/echo", "né\0o".as_bytes())).unwrap();
    assert_eq!(text(&answer), "né\0o");
    assert_eq!(answer.headers, ["content-type", "text/x"]);
    assert_eq!(
        text(&fixture.executor(&post("/sum", b"[1,2,3.5]")).unwrap()),
        "6.5"
    );
    assert_eq!(fixture.executor(&post("/sum", b"[1,")).unwrap().status, 400);
    assert_eq!(
        text(&fixture.executor(&post("/size", &vec![0xff; 70_000])).unwrap()),
        r#"{"bytes":70000}"#
    );
    let answer = fixture.executor(&get("/teapot")).unwrap();
    assert_eq!(
        answer.headers,
        ["x-kind", "pot", "set-cookie", "a=1", "set-cookie", "b=2"]
    );
    assert!(!answer.is_fault);
    assert!(fixture.executor(&get("/cycle")).unwrap().is_fault);
}

#[test]
fn globals_stay_in_an_engine_but_not_where_calls_are_isolated() {
    const COUNTS: &str = r"
let count = 0;
export default (request, ctx) => {
    globalThis.count = (globalThis.count ?? 0) + 1;
    Array.prototype.count = (Array.prototype.count ?? 0) + 1;
    ctx.state.count = (ctx.state.count ?? 0) + 1;
    return [++count, globalThis.count, [].count, ctx.state.count].join();
};
";
    let limits = Limits {
        executors: 1,
        ..LIMITS
    };
    let fixture = Fixture::with(COUNTS, limits, Allow::default());
    let answers: Vec<String> = (0..3)
        .map(|_| text(&fixture.executor(&get("/")).unwrap()).to_owned())
        .collect();
    assert_eq!(answers, ["1,1,1,1", "2,2,2,2", "3,3,3,3"]);
    let fixture = Fixture::with(
        COUNTS,
        Limits {
            isolated: true,
            ..limits
        },
        Allow::default(),
    );
    for _ in 0..3 {
        assert_eq!(text(&fixture.executor(&get("/")).unwrap()), "1,1,1,1");
    }
    assert!(fixture.io().call(&get("/")).is_none());
}

#[test]
fn an_engine_in_which_a_call_was_given_up_gets_no_others() {
    const COUNTS: &str = r"
import { router, sleep } from 'forebay';

const app = router();
let begun = 0;
app.get('/sleeps', async () => { begun++; await sleep(1); return 'slept'; });
app.get('/begun', () => ({ begun }));
export default app;
";
    let fixture = Fixture::new(COUNTS);
    let mut io = fixture.io();
    assert!(io.call(&get("/sleeps")).is_none());
    // Another engine is loaded after a while; until then there is none.
    until(|| match io.call(&get("/begun")) {
        Some(answer) => {
            assert_eq!(text(&answer), r#"{"begun":0}"#);
            true
        }
        None => false,
    });
}
