//! Handlers of the SDK.

use super::{TOOLBOX, pool};
use crate::support::ONE_WORKER;

#[test]
fn a_handler_alone_in_a_folder_imports_forebay() {
    let source =
        "from forebay import App\napp = App()\n@app.get('/')\ndef alone():\n    return {'alone': True}\n";
    let server = pool(source, ONE_WORKER).start();
    let answer = server.get("/");
    assert_eq!((answer.status, answer.text()), (200, "{\"alone\":true}"));
    assert_eq!(server.get("/none").status, 404);
}

#[test]
fn what_a_handler_returns_becomes_the_answer_it_says() {
    let source = r"
from forebay import App, HttpError, json, reply, text
app = App()
app.get('/object')(lambda: {'a': [1, 'two'], 'e': 'é'})
app.get('/list')(lambda: [1.5, None, True])
app.get('/number')(lambda: 7)
app.get('/bool')(lambda: False)
app.get('/string')(lambda: 'text')
app.get('/bytes')(lambda: b'\x01\x02\xff')
app.get('/nothing')(lambda: None)
app.get('/json')(lambda: json('quoted', status=202, headers={'x-a': ['1', '2']}))
app.get('/text')(lambda: text('<b>', headers={'content-type': 'text/html'}))
app.get('/reply')(lambda: reply({'id': 1}, status=201, headers={'location': '/1'}))
app.get('/params/:one/*rest')(lambda request: {'params': request.params, 'q': request.query.get_all('q')})
app.get('/pieces')(lambda: (piece for piece in ['a', b'b', 'c']))
app.get('/cookies')(lambda request: request.cookies)
app.post('/form')(lambda request: {'a': request.form().fields.get('a')})
app.post('/json')(lambda request: request.json())
";
    let server = pool(source, ONE_WORKER).start();
    let mut client = server.connect();
    let json = Some("application/json");
    let plain = Some("text/plain; charset=utf-8");
    let bytes = Some("application/octet-stream");
    for (path, status, content_type, body) in [
        ("/object", 200, json, "{\"a\":[1,\"two\"],\"e\":\"é\"}".as_bytes()),
        ("/list", 200, json, b"[1.5,null,true]"),
        ("/number", 200, json, b"7"),
        ("/bool", 200, json, b"false"),
        ("/string", 200, plain, b"text"),
        ("/bytes", 200, bytes, &[1, 2, 255]),
        ("/nothing", 204, None, b""),
        ("/json", 202, json, b"\"quoted\""),
        ("/text", 200, Some("text/html"), b"<b>"),
        ("/reply", 201, json, b"{\"id\":1}"),
        ("/pieces", 200, bytes, b"abc"),
        (
            "/params/a%2Fb/c/d?q=1&q=%32",
            200,
            json,
            br#"{"params":{"one":"a/b","rest":"c/d"},"q":["1","2"]}"#,
        ),
    ] {
        let answer = client.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type"), &*answer.body),
            (status, content_type, body),
            "{path}"
        );
    }
    assert_eq!(client.get("/reply").header("location"), Some("/1"));
    client.post("/object", b"");
    let wrong = client.response();
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD")));
    client.send("GET /cookies HTTP/1.1\r\nhost: a\r\ncookie: a=1; b=%20x\r\n\r\n");
    assert_eq!(client.response().text(), r#"{"a":"1","b":" x"}"#);
    client.send("POST /form HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 8\r\n\r\na=b+c%21");
    assert_eq!(client.response().text(), r#"{"a":"b c!"}"#);
    client.post("/json", b"{\"a\": [1]}");
    assert_eq!(client.response().text(), r#"{"a":[1]}"#);
    client.post("/json", b"{");
    let malformed = client.response();
    assert_eq!(malformed.status, 400);
    assert_eq!(malformed.detail(), "the body is not JSON");
}

#[test]
fn errors_are_problems_byte_for_byte_as_those_of_javascript_handlers() {
    let server = pool(TOOLBOX, ONE_WORKER).start();
    let id = |answer: &forebay_testkit::Response| answer.header("x-request-id").unwrap().to_owned();
    let error = server.get("/error");
    assert_eq!((error.status, error.header("x-tea")), (418, Some("yes")));
    assert_eq!(error.header("content-type"), Some("application/problem+json"));
    assert_eq!(
        error.text(),
        format!(
            "{{\"type\":\"about:blank\",\"title\":\"Status 418\",\"status\":418,\"detail\":\"short and stout\",\"request_id\":\"{}\",\
             \"size\":\"small\"}}",
            id(&error)
        )
    );
    let thrown = server.get("/throw");
    assert_eq!(
        thrown.text(),
        format!(
            "{{\"type\":\"about:blank\",\"title\":\"Internal Server Error\",\"status\":500,\"detail\":\"the handler failed\",\
             \"request_id\":\"{}\"}}",
            id(&thrown)
        )
    );
    // The response may overtake the output, so only the text itself is sure to name the request.
    server.wait_for_log(&[&format!("GET /throw (request {}) failed", id(&thrown))]);
    server.wait_for_log(&["ValueError: a secret about the inside"]);
}
