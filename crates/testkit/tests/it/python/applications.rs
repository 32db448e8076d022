//! Unmodified applications of other frameworks.

use super::pool;
use crate::support::ONE_WORKER;

const FLASK: &str = r"
from flask import Flask, Response, request, url_for
app = Flask(__name__)

@app.get('/')
def hello():
    return {'hello': 'world'}

@app.post('/echo')
def echo():
    return Response(request.get_data(), content_type=request.content_type)

@app.get('/where/<name>')
def where(name):
    return url_for('where', name=name, q=request.args['q'])
";

#[test]
fn an_unmodified_flask_application_answers() {
    let server = pool(FLASK, ONE_WORKER).start();
    let answer = server.get("/");
    assert_eq!((answer.status, answer.text()), (200, "{\"hello\":\"world\"}\n"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(server.get("/where/a%20b?q=1").text(), "/where/a%20b?q=1");
    assert_eq!(server.get("/none").status, 404);
    assert_eq!(server.post("/", b"").status, 405);
    let body: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    assert_eq!(server.post("/echo", &body).body, body);
}
