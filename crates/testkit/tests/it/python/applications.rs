//! Unmodified applications of other frameworks.

use forebay_testkit::Setup;

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

#[test]
fn a_mounted_flask_application_makes_its_urls_below_the_mount_point() {
    let server = pool(FLASK, &format!("{ONE_WORKER}\nmount = \"/py\"")).start();
    assert_eq!(server.get("/py/").text(), "{\"hello\":\"world\"}\n");
    assert_eq!(server.get("/py/where/x?q=1").text(), "/py/where/x?q=1");
    let outside = server.get("/elsewhere");
    assert_eq!(
        (outside.status, outside.detail()),
        (
            404,
            "nothing answers /elsewhere: the application is mounted at /py".to_owned()
        )
    );
}

const DJANGO: &str = r"
import os
from django.conf import settings
settings.configure(DEBUG=False, SECRET_KEY='x', ROOT_URLCONF='site_urls', ALLOWED_HOSTS=['*'])
import sys, types
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path, reverse
from django.views.decorators.csrf import csrf_exempt

def hello(request, name):
    return JsonResponse({'hello': name, 'again': reverse('hello', args=[name]), 'q': request.GET.get('q'), 'ip': request.META.get('REMOTE_ADDR')})

@csrf_exempt
def echo(request):
    return HttpResponse(request.body, content_type='application/octet-stream')

def stream(request):
    return StreamingHttpResponse(str(number) for number in range(5))

urls = types.ModuleType('site_urls')
urls.urlpatterns = [path('hello/<name>', hello, name='hello'), path('echo', echo), path('stream', stream)]
sys.modules['site_urls'] = urls
wsgi = get_wsgi_application()
asgi = get_asgi_application()
";

#[test]
fn an_unmodified_django_project_answers_as_wsgi_and_as_asgi() {
    for object in ["wsgi", "asgi"] {
        let server = Setup::new(&format!(
            "[pool.api]\nhandler = \"app.py:{object}\"\n{ONE_WORKER}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
        ))
        .file("app.py", DJANGO)
        .start();
        assert_eq!(
            server.get("/hello/a%20b?q=1").text(),
            r#"{"hello": "a b", "again": "/hello/a%20b", "q": "1", "ip": "127.0.0.1"}"#,
            "{object}"
        );
        assert_eq!(server.get("/stream").text(), "01234", "{object}");
        assert_eq!(server.get("/none").status, 404, "{object}");
        let body: Vec<u8> = (0..=255).cycle().take(700_000).collect();
        assert_eq!(server.post("/echo", &body).body, body, "{object}");
    }
}

#[test]
fn a_wsgi_application_may_block_in_several_threads_of_a_worker() {
    let source = "import threading\nboth = threading.Barrier(2)\ndef app(environ, start_response):\n    both.wait()\n    start_response('200 OK', [('content-type', 'text/plain')])\n    return [str(environ['wsgi.multithread']).encode()]\n";
    let server = pool(source, &format!("{ONE_WORKER}\nconcurrency = 2")).start();
    let mut clients = ["/one", "/two"].map(|path| {
        let mut client = server.connect();
        client.request("GET", path);
        client
    });
    for client in &mut clients {
        assert_eq!(client.response().text(), "True");
    }
}

#[test]
fn a_module_is_imported_from_the_working_folder_and_a_file_of_a_package_as_part_of_it() {
    let app = "def make():\n    def app(environ, start_response):\n        start_response('200 OK', [])\n        return [__name__.encode()]\n    return app\n";
    for handler in ["mine.web.app:make()", "code/mine/web/app.py:make()"] {
        let server = Setup::new(&format!(
            "[pool.api]\nhandler = \"{handler}\"\ncwd = \"code\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
        ))
        .file("code/mine/__init__.py", "")
        .file("code/mine/web/__init__.py", "from .word import word\n")
        .file("code/mine/web/word.py", "word = 1\n")
        .file("code/mine/web/app.py", app)
        .start();
        assert_eq!(server.get("/").text(), "mine.web.app", "{handler}");
    }
}

/// Answers with the path that it sees.
const WSGI_PATH: &str = r"
def app(environ, start_response):
    start_response('200 OK', [('content-type', 'text/plain')])
    return [(environ['SCRIPT_NAME'] + environ['PATH_INFO']).encode('latin-1')]
";
const ASGI_PATH: &str = r"
async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        await receive()
        await send({'type': 'lifespan.startup.complete'})
        return
    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', b'text/plain')]})
    await send({'type': 'http.response.body', 'body': scope['path'].encode()})
";

/// A pool below `/py/`, of which `/py/admin/` is refused.
fn guarded(source: &str, keys: &str) -> Setup {
    Setup::new(&format!(
        "[pool.py]\nhandler = \"app.py\"\n{ONE_WORKER}\n{keys}\n[[route]]\npath = \"/py/*\"\npool = \"py\"\n\
         [[route]]\npath = \"/py/admin/*\"\nrespond = {{ status = 403, text = \"no\" }}\n"
    ))
    .file("app.py", source)
}

#[test]
fn no_path_leads_an_application_around_a_route_that_guards_a_part_of_it() {
    for (source, keys) in [
        (WSGI_PATH, ""),
        (WSGI_PATH, "mount = \"/py\""),
        (WSGI_PATH, "interface = \"wsgi\"\nconcurrency = 2"),
        (ASGI_PATH, ""),
        (ASGI_PATH, "mount = \"/py\""),
    ] {
        let server = guarded(source, keys).start();
        assert_eq!(server.get("/py/admin/users").status, 403);
        assert_eq!(server.get("/py/%61dmin/users").status, 403);
        assert_eq!(server.get("/%70y/admin/users").status, 403);
        for path in [
            "/py/admin%2fusers",
            "/py/admin%2Fusers",
            "/py%2fadmin/users",
            "/py/%2fadmin/users",
            "/py/x%2f..%2fadmin/users",
            "/py/%2e/admin/users",
            "/py/x/%2e%2e/admin/users",
            "/py/x/.%2e/admin/users",
            "/py/./admin/users",
            "/py/x/../admin/users",
            "/py/admin%c0%afusers",
            "/py/%c1%a1dmin/users",
            "/py/admin%00/users",
            "/py/admin%252fusers",
            "/py//admin/users",
            "/py/admin;x=1/users",
            "/py/Admin/users",
            "/py/admin%5cusers",
            "/py/admin%/users",
        ] {
            let answer = server.get(path);
            let is_refused = matches!(answer.status, 400 | 403 | 404);
            assert!(
                is_refused || !answer.text().starts_with("/py/admin/"),
                "{keys}: {path} is {}: {}",
                answer.status,
                answer.text()
            );
        }
        let refused = server.get("/py/a%2Fb");
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.detail().contains("encoded slash"), "{refused:?}");
        assert_eq!(server.get("/py/a%20b%252f").text(), "/py/a b%2f");
    }
    let server = guarded(ASGI_PATH, "encoded_slashes = \"decode\"").start();
    assert_eq!(server.get("/py/a%2Fb").text(), "/py/a/b");
}
