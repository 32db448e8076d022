//! Handlers as people write them, alone in a folder.

use forebay_testkit::Setup;

use crate::support::{ONE_WORKER, Runtime};

fn pool_of(runtime: Runtime, module: &str, source: &str) -> Setup {
    let runtime = match runtime {
        Runtime::Node => "node",
        Runtime::Bun => "bun",
    };
    Setup::new(&format!(
        "[pool.api]\nhandler = \"{module}\"\nruntime = \"{runtime}\"\n{ONE_WORKER}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
    ))
    .file(module, source)
}

const TYPESCRIPT: &str = r"
    import { router, HttpError, type HttpRequest, type Context } from 'forebay';
    import type { Unused } from './nowhere.js';
    interface User { readonly id: number; name?: string }
    const find = (id: string): User => ({ id: Number(id) } satisfies User);
    const app = router().get('/users/:id', (request: HttpRequest<{ id: string }>, ctx: Context): User => {
        const user = find(request.params.id) as User;
        if (user.id < 0) throw new HttpError(404, `no user ${user.id}`);
        return user!;
    });
    export default app;
";

#[test]
fn a_handler_alone_in_a_folder_imports_forebay() {
    let source =
        "import { router } from 'forebay'; export default router().get('/', () => ({ alone: true }));";
    for runtime in Runtime::BOTH {
        for (module, package) in [("alone.mjs", None), ("alone.js", Some("{\"type\":\"module\"}"))] {
            let mut setup = pool_of(runtime, module, source);
            if let Some(package) = package {
                setup = setup.file("package.json", package);
            }
            let server = setup.start();
            let answer = server.get("/");
            assert_eq!(
                (answer.status, answer.text()),
                (200, "{\"alone\":true}"),
                "{module} on {runtime:?}"
            );
        }
    }
}

#[test]
fn a_commonjs_handler_requires_forebay() {
    let source =
        "const { router } = require('forebay'); module.exports = router().get('/', () => 'required');";
    for runtime in Runtime::BOTH {
        let server = pool_of(runtime, "alone.cjs", source).start();
        assert_eq!(server.get("/").text(), "required", "{runtime:?}");
    }
}

#[test]
fn a_typescript_handler_alone_in_a_folder_imports_forebay() {
    for runtime in Runtime::BOTH {
        for module in ["alone.ts", "alone.mts"] {
            let server = pool_of(runtime, module, TYPESCRIPT).start();
            let answer = server.get("/users/7");
            assert_eq!(
                (answer.status, answer.text()),
                (200, "{\"id\":7}"),
                "{module} on {runtime:?}"
            );
            assert_eq!(server.get("/users/-1").status, 404);
        }
    }
}

#[test]
fn a_handler_imports_modules_beside_it_typescript_too() {
    let source = "import { greet } from './lib/greet.ts'; export default () => greet('you');";
    let library = "export function greet(name: string): string { return `hello ${name}`; }";
    for runtime in Runtime::BOTH {
        let server = pool_of(runtime, "main.ts", source)
            .file("lib/greet.ts", library)
            .start();
        assert_eq!(server.get("/").text(), "hello you", "{runtime:?}");
    }
}

#[test]
fn what_a_handler_may_return_becomes_the_answer_it_says() {
    let source = r"
        import { router, reply, json, text, HttpError } from 'forebay';
        export default router()
            .get('/object', () => ({ a: [1, 'two'] }))
            .get('/string', () => 'text')
            .get('/bytes', () => new Uint8Array([1, 2, 255]))
            .get('/nothing', () => undefined)
            .get('/promise', async () => ({ later: true }))
            .get('/response', () => new Response('web', { status: 202, headers: { 'x-a': 'b' } }))
            .get('/stream', () => new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('streamed')); c.close(); } }))
            .get('/reply', () => reply({ id: 1 }, { status: 201, headers: { location: '/1' } }))
            .get('/error', () => { throw new HttpError(418, 'short and stout', { headers: { 'x-tea': 'yes' } }); })
            .get('/params/:one/*rest', ({ params, query }) => ({ params, q: query.getAll('q') }))
            .get('/cookies', ({ cookies }) => cookies)
            .post('/form', async (request) => { const form = await request.form(); return { a: form.fields.get('a') }; });
    ";
    for runtime in Runtime::BOTH {
        let server = pool_of(runtime, "api.mjs", source).start();
        let mut client = server.connect();
        let json = "application/json";
        let plain = "text/plain; charset=utf-8";
        for (path, status, content_type, body) in [
            ("/object", 200, Some(json), &br#"{"a":[1,"two"]}"#[..]),
            ("/string", 200, Some(plain), b"text"),
            ("/bytes", 200, Some("application/octet-stream"), &[1, 2, 255]),
            ("/nothing", 204, None, b""),
            ("/promise", 200, Some(json), br#"{"later":true}"#),
            ("/reply", 201, Some(json), br#"{"id":1}"#),
            (
                "/params/a%2Fb/c/d?q=1&q=%32",
                200,
                Some(json),
                br#"{"params":{"one":"a/b","rest":"c/d"},"q":["1","2"]}"#,
            ),
        ] {
            let answer = client.get(path);
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (status, content_type),
                "{path} on {runtime:?}"
            );
            assert_eq!(
                answer.body,
                body,
                "{path} on {runtime:?}: {:?}",
                String::from_utf8_lossy(&answer.body)
            );
        }
        let answer = client.get("/response");
        assert_eq!(
            (answer.status, answer.text(), answer.header("x-a")),
            (202, "web", Some("b")),
            "{runtime:?}"
        );
        assert_eq!(client.get("/stream").text(), "streamed", "{runtime:?}");
        assert_eq!(client.get("/reply").header("location"), Some("/1"));
        let error = client.get("/error");
        assert_eq!(
            (error.status, error.header("x-tea")),
            (418, Some("yes")),
            "{runtime:?}"
        );
        assert_eq!(error.detail(), "short and stout");
        assert_eq!(client.get("/none").status, 404);
        client.post("/object", b"");
        let wrong = client.response();
        assert_eq!(
            (wrong.status, wrong.header("allow")),
            (405, Some("GET, HEAD")),
            "{runtime:?}"
        );
        client.send("GET /cookies HTTP/1.1\r\nhost: a\r\ncookie: a=1; b=%20x\r\n\r\n");
        assert_eq!(client.response().text(), r#"{"a":"1","b":" x"}"#);
        client.send("POST /form HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 8\r\n\r\na=b+c%21");
        assert_eq!(client.response().text(), r#"{"a":"b c!"}"#, "{runtime:?}");
    }
}

#[test]
fn an_unhandled_mistake_in_a_module_names_the_module_in_the_log() {
    for runtime in Runtime::BOTH {
        let server = pool_of(runtime, "api.mjs", "export default 7;").start();
        server.wait_for_log(&["ERROR", "exports no handler"]);
        assert_eq!(server.get("/").status, 503, "{runtime:?}");
    }
}

#[test]
fn a_handler_may_name_its_parameters_like_those_of_node() {
    let source = "export default async (req, res) => {
        const parsed = await Promise.resolve(new Response('7')).then((res) => res.json());
        return `${req.path} ${res.worker.pool} ${parsed}`;
    };";
    for runtime in Runtime::BOTH {
        let server = pool_of(runtime, "api.mjs", source).start();
        assert_eq!(server.get("/a").text(), "/a api 7", "{runtime:?}");
    }
}

/// Node loads its implementation of `fetch` with the first use of the global `Response`, which takes time and memory of each worker.
#[test]
fn a_worker_on_node_replaces_the_global_response_for_modules_that_name_it_only() {
    let answer = |module: &str, source: &str, beside: &str| {
        let setup = pool_of(Runtime::Node, module, source).file("beside.cjs", beside);
        setup.start().get("/").text().to_owned()
    };
    let is_loaded = "process.moduleLoadList.some((name) => name.includes('undici'))";
    assert_eq!(
        answer("api.mjs", &format!("export default () => {is_loaded};"), ""),
        "false"
    );
    let is_replaced = "!String(globalThis.Response).includes('webidl')";
    for (module, source, beside) in [
        (
            "api.mjs",
            format!("export default () => {is_replaced} && new Response('a').status;"),
            "",
        ),
        (
            "api.ts",
            format!("export default (): number | boolean => {is_replaced} && new Response('a').status;"),
            "",
        ),
        (
            "api.cjs",
            "module.exports = require('./beside.cjs');".to_owned(),
            "module.exports = () => !String(globalThis.Response).includes('webidl') && new Response('a').status;",
        ),
    ] {
        assert_eq!(answer(module, &source, beside), "200", "{module}");
    }
}
