//! Frameworks with the middleware and the plugins that most applications have.

use std::process::Command;

use forebay_testkit::Setup;

use super::{MULTIPART, application, get_with, link_packages, send, upload};
use crate::support::Runtime;

/// Longer than a worker gets at once.
const BIG: usize = 300_000;

fn express(from: &str) -> String {
    format!(
        r"
        import express from '{from}';
        import compression from 'compression';
        import cookieParser from 'cookie-parser';
        import cors from 'cors';
        import helmet from 'helmet';
        import morgan from 'morgan';
        import multer from 'multer';
        import session from 'express-session';

        const app = express();
        app.use(morgan('tiny'), helmet(), cors(), compression({{ threshold: 0 }}), cookieParser());
        app.use(session({{ secret: 'secret', resave: false, saveUninitialized: true }}));
        app.use(express.json(), express.urlencoded({{ extended: true }}));
        app.use('/static', express.static('public'));
        app.get('/visits', (req, res) => {{
          req.session.visits = (req.session.visits ?? 0) + 1;
          res.json({{ visits: req.session.visits, cookie: req.cookies.other, ip: req.ip, host: req.hostname, secure: req.secure }});
        }});
        app.get('/text', (req, res) => res.send('text '.repeat(1000)));
        app.all('/body', (req, res) => res.status(201).json(req.body));
        app.post('/upload', multer({{ storage: multer.memoryStorage() }}).single('file'), (req, res) => {{
          const {{ originalname, size, buffer }} = req.file;
          res.json({{ title: req.body.title, originalname, size, last: buffer.at(-1) }});
        }});
        app.get('/moved', (req, res) => res.redirect('/text'));
        app.get('/fails', () => {{ throw new Error('no luck'); }});
        app.use((error, req, res, next) => res.status(500).send(`handled ${{error.message}}`));
        app.listen(3000);
        "
    )
}

#[test]
fn express_runs_with_its_usual_middleware() {
    for runtime in Runtime::BOTH {
        for version in ["express", "express4"] {
            let server = application(runtime, "app.mjs", &express(version))
                .file("public/a.txt", "a static file")
                .start();
            let mut client = server.connect();
            let first = get_with(&mut client, "/visits", "cookie: other=yes");
            assert_eq!(
                first.json(),
                serde_json::json!({"visits": 1, "cookie": "yes", "ip": "127.0.0.1", "host": "a", "secure": false}),
                "{version} on {runtime:?}"
            );
            assert_eq!(first.header("access-control-allow-origin"), Some("*"));
            assert_eq!(first.header("x-frame-options"), Some("SAMEORIGIN"));
            let cookie = first.header("set-cookie").expect("a session has a cookie");
            let cookie = cookie.split(';').next().expect("it has a value");
            let second = get_with(&mut client, "/visits", &format!("cookie: {cookie}"));
            assert_eq!(second.json()["visits"], 2);
            let packed = get_with(&mut client, "/text", "accept-encoding: gzip");
            assert_eq!(packed.header("content-encoding"), Some("gzip"));
            assert!(
                packed.whole && packed.body.len() < 1000,
                "{version} on {runtime:?}"
            );
            let json = send(&mut client, "PUT", "/body", "application/json", b"{\"a\":[1]}");
            assert_eq!((json.status, json.text()), (201, "{\"a\":[1]}"));
            let form = send(
                &mut client,
                "POST",
                "/body",
                "application/x-www-form-urlencoded",
                b"a[b]=c",
            );
            assert_eq!(form.text(), "{\"a\":{\"b\":\"c\"}}");
            let broken = send(&mut client, "POST", "/body", "application/json", b"{");
            assert!(broken.text().starts_with("handled "), "{}", broken.text());
            let uploaded = send(&mut client, "POST", "/upload", MULTIPART, &upload(BIG));
            assert_eq!(
                uploaded.json(),
                serde_json::json!({"title": "Big", "originalname": "big.bin", "size": BIG, "last": (BIG - 1) as u8}),
                "{version} on {runtime:?}"
            );
            assert_eq!(client.get("/static/a.txt").text(), "a static file");
            assert_eq!(client.get("/moved").header("location"), Some("/text"));
            assert_eq!(client.get("/fails").text(), "handled no luck");
            assert_eq!(client.get("/none").status, 404);
            client.request("HEAD", "/text");
            let head = client.response_to("HEAD");
            assert_eq!(
                (head.status, head.header("content-type")),
                (200, Some("text/html; charset=utf-8"))
            );
            server.wait_for_log(&["GET /static/a.txt 200 13 -"]);
        }
    }
}

const CONNECT: &str = r"
    const connect = require('connect');
    const app = connect();
    app.use('/a', (req, res) => res.end(`a ${req.url} ${req.originalUrl}`));
    app.use((req, res) => res.end('Hello from Connect!\n'));
    module.exports = app;
";

#[test]
fn a_connect_application_is_exported() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.cjs", CONNECT).start();
        assert_eq!(server.get("/").text(), "Hello from Connect!\n", "{runtime:?}");
        assert_eq!(server.get("/a/b").text(), "a /b /a/b", "{runtime:?}");
    }
}

const FASTIFY: &str = r"
    import { writeFileSync } from 'node:fs';
    import { join } from 'node:path';
    import { Readable } from 'node:stream';
    import Fastify from 'fastify';

    const app = Fastify();
    await app.register(import('@fastify/cors'));
    await app.register(import('@fastify/helmet'));
    await app.register(import('@fastify/cookie'));
    await app.register(import('@fastify/formbody'));
    await app.register(import('@fastify/multipart'));
    await app.register(import('@fastify/rate-limit'), { max: 50 });
    await app.register(import('@fastify/static'), { root: join(process.cwd(), 'public'), prefix: '/static/' });
    const schema = { body: { type: 'object', required: ['a'], properties: { a: { type: 'integer' } } } };
    app.get('/', async (request, reply) => {
      reply.setCookie('seen', 'yes');
      return { cookies: request.cookies, ip: request.ip, host: request.host };
    });
    app.post('/body', { schema }, async (request) => request.body);
    app.post('/upload', async (request) => {
      const part = await request.file({ limits: { fileSize: 1e6 } });
      const bytes = await part.toBuffer();
      return { title: part.fields.title.value, filename: part.filename, size: bytes.length };
    });
    app.get('/stream', (request, reply) => reply.type('text/plain').send(Readable.from(['a', 'b'])));
    app.addHook('onClose', async () => writeFileSync('closed', 'yes'));
";

#[test]
fn fastify_runs_with_its_plugins() {
    for runtime in Runtime::BOTH {
        for end in ["app.listen({ port: 3000 });", "export default app;"] {
            let mut server = application(runtime, "app.mjs", &format!("{FASTIFY}{end}"))
                .file("public/a.txt", "a static file")
                .start();
            let mut client = server.connect();
            let first = get_with(&mut client, "/", "cookie: a=b");
            assert_eq!(
                first.json(),
                serde_json::json!({"cookies": {"a": "b"}, "ip": "127.0.0.1", "host": "a"}),
                "{runtime:?}, {end}"
            );
            assert_eq!(first.header("set-cookie"), Some("seen=yes; SameSite=Lax"));
            assert_eq!(first.header("x-ratelimit-remaining"), Some("49"));
            assert_eq!(first.header("x-frame-options"), Some("SAMEORIGIN"));
            let json = send(&mut client, "POST", "/body", "application/json", b"{\"a\":\"7\"}");
            assert_eq!(json.text(), "{\"a\":7}");
            let form = send(
                &mut client,
                "POST",
                "/body",
                "application/x-www-form-urlencoded",
                b"a=8",
            );
            assert_eq!(form.text(), "{\"a\":8}");
            let wrong = send(&mut client, "POST", "/body", "application/json", b"{}");
            assert_eq!(wrong.status, 400, "{}", wrong.text());
            let uploaded = send(&mut client, "POST", "/upload", MULTIPART, &upload(BIG));
            assert_eq!(
                uploaded.json(),
                serde_json::json!({"title": "Big", "filename": "big.bin", "size": BIG})
            );
            assert_eq!(client.get("/static/a.txt").text(), "a static file");
            assert_eq!(client.get("/stream").text(), "ab");
            assert_eq!(client.get("/none").status, 404);
            if end.starts_with("export") {
                server.terminate();
                server.wait();
                assert_eq!(
                    server.folder().read("closed").as_deref(),
                    Some("yes"),
                    "{runtime:?}"
                );
            }
        }
    }
}

const KOA: &str = r"
    import Koa from 'koa';
    import Router from '@koa/router';
    import bodyParser from 'koa-bodyparser';
    import compress from 'koa-compress';
    import serve from 'koa-static';
    import session from 'koa-session';

    const app = new Koa();
    app.keys = ['key'];
    app.use(compress({ threshold: 0, br: false })).use(session(app)).use(serve('public')).use(bodyParser());
    const router = new Router();
    router.get('/visits', (ctx) => {
      ctx.session.visits = (ctx.session.visits ?? 0) + 1;
      ctx.body = { visits: ctx.session.visits, ip: ctx.ip };
    });
    router.get('/text', (ctx) => (ctx.body = 'text '.repeat(1000)));
    router.post('/body/:name', (ctx) => (ctx.body = { [ctx.params.name]: ctx.request.body }));
    router.get('/fails', () => { throw new Error('no luck'); });
    app.use(router.routes()).use(router.allowedMethods());
";

#[test]
fn koa_runs_with_its_middleware() {
    for runtime in Runtime::BOTH {
        for end in [
            "app.listen(3000);",
            "export default app;",
            "export default app.callback();",
        ] {
            let server = application(runtime, "app.mjs", &format!("{KOA}{end}"))
                .file("public/a.txt", "a static file")
                .start();
            let mut client = server.connect();
            let first = client.get("/visits");
            assert_eq!(
                first.json(),
                serde_json::json!({"visits": 1, "ip": "127.0.0.1"}),
                "{runtime:?}, {end}"
            );
            let cookies: Vec<&str> = first
                .headers
                .iter()
                .filter(|(name, _)| name == "set-cookie")
                .filter_map(|(_, value)| value.split(';').next())
                .collect();
            assert_eq!(cookies.len(), 2, "the session and its signature");
            let second = get_with(&mut client, "/visits", &format!("cookie: {}", cookies.join("; ")));
            assert_eq!(second.json()["visits"], 2);
            let packed = get_with(&mut client, "/text", "accept-encoding: gzip");
            assert_eq!(packed.header("content-encoding"), Some("gzip"));
            assert!(packed.whole && packed.body.len() < 1000, "{runtime:?}");
            let json = send(&mut client, "POST", "/body/b", "application/json", b"{\"a\":1}");
            assert_eq!(json.text(), "{\"b\":{\"a\":1}}");
            assert_eq!(client.get("/a.txt").text(), "a static file");
            assert_eq!(client.get("/fails").status, 500);
            client.request("PUT", "/text");
            assert_eq!(client.response().header("allow"), Some("HEAD, GET"));
        }
    }
}

const HONO: &str = r"
    import { Hono } from 'hono';
    import { streamSSE } from 'hono/streaming';
    import { getConnInfo } from '@hono/node-server/conninfo';
    import { writeFileSync } from 'node:fs';

    const ofBun = process.versions.bun === undefined ? undefined : (await import('hono/bun')).getConnInfo;

    const app = new Hono();
    app.get('/text', (c) => c.text('text', 200, { 'x-a': 'b' }));
    app.get('/address', (c) => c.json([getConnInfo(c).remote, ofBun?.(c).remote.address]));
    app.get('/bindings', (c) => c.json([c.env.worker.pool, c.env.signal.aborted, c.env.remaining() > 0]));
    app.post('/body', async (c) => c.json({ body: await c.req.json(), type: c.req.header('content-type') }));
    app.post('/upload', async (c) => {
      const { title, file } = await c.req.parseBody();
      return c.json({ title, name: file.name, size: file.size });
    });
    app.get('/events', (c) => streamSSE(c, async (stream) => {
      for (const data of ['a', 'b']) await stream.writeSSE({ data, event: 'letter' });
    }));
    app.get('/later', (c) => {
      c.executionCtx.waitUntil(new Promise((resolve) => setTimeout(() => resolve(writeFileSync('later', 'done')), 50)));
      return c.text('now');
    });
    app.get('/fails', () => { throw new Error('no luck'); });
    export default app;
";

#[test]
fn hono_has_its_bindings_and_its_execution_context() {
    for runtime in Runtime::BOTH {
        let mut server = application(runtime, "app.mjs", HONO).start();
        let mut client = server.connect();
        let text = client.get("/text");
        assert_eq!(
            (text.text(), text.header("x-a")),
            ("text", Some("b")),
            "{runtime:?}"
        );
        assert_eq!(
            client.get("/address").json(),
            serde_json::json!([
                {"address": "127.0.0.1", "addressType": "IPv4"},
                (runtime == Runtime::Bun).then_some("127.0.0.1"),
            ]),
            "{runtime:?}"
        );
        assert_eq!(client.get("/bindings").text(), "[\"app\",false,true]");
        let json = send(&mut client, "POST", "/body", "application/json", b"{\"a\":1}");
        assert_eq!(json.text(), "{\"body\":{\"a\":1},\"type\":\"application/json\"}");
        let uploaded = send(&mut client, "POST", "/upload", MULTIPART, &upload(BIG));
        assert_eq!(
            uploaded.json(),
            serde_json::json!({"title": "Big", "name": "big.bin", "size": BIG})
        );
        let events = client.get("/events");
        assert_eq!(
            events.text(),
            "event: letter\ndata: a\n\nevent: letter\ndata: b\n\n"
        );
        assert_eq!(events.header("content-type"), Some("text/event-stream"));
        client.request("HEAD", "/text");
        let head = client.response_to("HEAD");
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, None),
            "{runtime:?}"
        );
        assert_eq!(client.get("/fails").status, 500);
        assert_eq!(client.get("/later").text(), "now");
        server.terminate();
        server.wait();
        assert_eq!(
            server.folder().read("later").as_deref(),
            Some("done"),
            "{runtime:?}"
        );
    }
}

const BUNDLED: &str = r"
    import { Hono } from 'hono';
    import { streamSSE, streamText } from 'hono/streaming';

    const app = new Hono();
    app.get('/users/:id', (c) => c.json({ id: c.req.param('id'), pool: c.env.worker.pool }));
    app.post('/body', async (c) => c.json(await c.req.json()));
    app.get('/events', (c) => streamSSE(c, async (stream) => {
      for (const data of ['a', 'b']) {
        await stream.writeSSE({ data, event: 'letter' });
        await stream.sleep(1);
      }
    }));
    app.get('/text', (c) => streamText(c, async (stream) => {
      await stream.write('one ');
      await stream.pipe(new Response('two').body);
    }));
    export default app;
";

#[test]
fn a_bundled_application_of_hono_runs_as_a_script() {
    let setup =
        Setup::new("[script.s]\nhandler = \"bundle.mjs\"\n[[route]]\npath = \"/*\"\nscript = \"s\"\n")
            .file("app.mjs", BUNDLED);
    link_packages(&setup);
    let bundled = Command::new(forebay_testkit::bun())
        .args(["build", "app.mjs", "--outfile", "bundle.mjs"])
        .current_dir(setup.folder().path())
        .output()
        .expect("Bun is there");
    assert!(
        bundled.status.success(),
        "{}",
        String::from_utf8_lossy(&bundled.stderr)
    );
    let server = setup.start();
    let mut client = server.connect();
    assert_eq!(client.get("/users/7").text(), "{\"id\":\"7\",\"pool\":\"s\"}");
    assert_eq!(
        send(&mut client, "POST", "/body", "application/json", b"{\"a\":1}").text(),
        "{\"a\":1}"
    );
    let events = client.get("/events");
    assert_eq!(
        events.text(),
        "event: letter\ndata: a\n\nevent: letter\ndata: b\n\n"
    );
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(client.get("/text").text(), "one two");
}

const WEB: &str = r"
    const seen = async (request) => [request.method, new URL(request.url).pathname, request.headers.get('x-a'), await request.text()];
    const routes = {
      '/kinds': (request) => {
        const made = [new Response('a'), Response.json(1), new Response(null), Response.redirect('http://a/')];
        return Response.json([request instanceof Request, ...made.map((each) => each instanceof Response), made.map((each) => each.status)]);
      },
      '/copied': async (request) => Response.json(await seen(new Request(request, { headers: { 'x-a': 'copy' } }))),
      '/cloned': async (request) => Response.json([await seen(request.clone()), await seen(request), request.bodyUsed]),
      '/twice': async (request) => {
        await request.text();
        return Response.json([request.bodyUsed, await request.text().then(() => 'read', (error) => error.name)]);
      },
      '/json': async (request) => Response.json((await request.json()).a),
      '/bytes': async (request) => new Response(await request.arrayBuffer()),
      '/changed': () => {
        const response = new Response('text', { status: 201, headers: { 'x-b': '1' } });
        response.headers.set('x-b', '2');
        response.headers.append('set-cookie', 'a=1');
        response.headers.append('set-cookie', 'b=2');
        return response;
      },
      '/wrapped': () => {
        const inner = new Response('inner', { headers: { 'x-b': '1' } });
        return new Response(inner.body, inner);
      },
      '/cleared': async () => {
        const response = new Response('kept');
        return Response.json([await response.clone().text(), response.bodyUsed, await response.text(), response.bodyUsed]);
      },
      '/read': async () => {
        const response = new Response('read');
        await response.text();
        return response;
      },
      '/fetched': () => fetch('data:text/plain,fetched'),
      '/stream': () => new Response(new ReadableStream({ start: (out) => { out.enqueue(new TextEncoder().encode('streamed')); out.close(); } })),
      '/wrong': () => {
        const errors = [];
        for (const [body, init] of [['a', { status: 99 }], ['a', { status: 204 }], ['a', { headers: { 'a b': 'c' } }]]) {
          try { new Response(body, init); } catch (error) { errors.push(error.name); }
        }
        try { Response.json(undefined); } catch (error) { errors.push(error.name); }
        return Response.json(errors);
      },
    };
    export default { fetch: (request) => routes[new URL(request.url).pathname](request) };
";

#[test]
fn requests_and_responses_of_fetch_handlers_do_what_those_of_the_web_do() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", WEB).start();
        let mut client = server.connect();
        assert_eq!(
            client.get("/kinds").text(),
            "[true,true,true,true,true,[200,200,200,302]]",
            "{runtime:?}"
        );
        for (path, body, answer) in [
            ("/copied", "text", "[\"POST\",\"/copied\",\"copy\",\"text\"]"),
            (
                "/cloned",
                "text",
                "[[\"POST\",\"/cloned\",null,\"text\"],[\"POST\",\"/cloned\",null,\"text\"],true]",
            ),
            ("/twice", "text", "[true,\"TypeError\"]"),
            ("/json", "{\"a\":7}", "7"),
            ("/bytes", "bytes", "bytes"),
        ] {
            let found = send(&mut client, "POST", path, "text/plain", body.as_bytes());
            assert_eq!(
                (found.status, found.text()),
                (200, answer),
                "{path} on {runtime:?}"
            );
        }
        let changed = client.get("/changed");
        assert_eq!(
            (changed.status, changed.text(), changed.header("x-b")),
            (201, "text", Some("2"))
        );
        let cookies = changed
            .headers
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .count();
        assert_eq!(cookies, 2, "{runtime:?}");
        let wrapped = client.get("/wrapped");
        assert_eq!(
            (wrapped.text(), wrapped.header("x-b")),
            ("inner", Some("1")),
            "{runtime:?}"
        );
        assert_eq!(
            client.get("/cleared").text(),
            "[\"kept\",false,\"kept\",true]",
            "{runtime:?}"
        );
        assert_eq!(client.get("/read").status, 500, "{runtime:?}");
        server.wait_for_log(&["the body of the Response has been read already"]);
        assert_eq!(client.get("/fetched").text(), "fetched", "{runtime:?}");
        assert_eq!(client.get("/stream").text(), "streamed", "{runtime:?}");
        // Bun takes a body for 204.
        let wrong = match runtime {
            Runtime::Node => "[\"RangeError\",\"TypeError\",\"TypeError\",\"TypeError\"]",
            Runtime::Bun => "[\"RangeError\",\"TypeError\",\"TypeError\"]",
        };
        assert_eq!(client.get("/wrong").text(), wrong, "{runtime:?}");
    }
}
