//! The applications of docs/guide/applications.md, which are the first examples of the frameworks' own documentation.

use forebay_testkit::blocks;

use super::{application, packages};
use crate::support::Runtime;

const GUIDE: &str = include_str!("../../../../../docs/guide/applications.md");

/// Text of a block, a path, and the application's response to `GET` of it.
const JAVASCRIPT: [(&str, &str, &str); 8] = [
    ("from 'express'", "/", "Hello World!"),
    ("from 'fastify'", "/", "{\"hello\":\"world\"}"),
    ("from 'koa'", "/", "Hello World"),
    ("export default app", "/", "Hono!"),
    ("serve(app)\n", "/", "Hello 127.0.0.1"),
    ("from 'h3'", "/", "⚡️ Tadaa!"),
    ("createServer", "/", "Hello World!\n"),
    (
        "forebay/node-http",
        "/a?b=c",
        "{\"method\":\"GET\",\"url\":\"/a?b=c\"}",
    ),
];

#[test]
fn each_application_in_javascript_answers_on_node_and_on_bun() {
    let found = blocks(GUIDE, "js");
    assert_eq!(found.len(), JAVASCRIPT.len(), "each block has a line here");
    for (block, (part, path, text)) in found.into_iter().zip(JAVASCRIPT) {
        assert!(block.contains(part), "{part} is not in {block}");
        for runtime in Runtime::BOTH {
            let server = application(runtime, "app.mjs", block).start();
            let answer = server.get(path);
            assert_eq!(
                (answer.status, answer.text()),
                (200, text),
                "{part} on {runtime:?}"
            );
        }
    }
}

#[test]
fn the_first_example_of_express_runs_on_version_4_too() {
    let express = blocks(GUIDE, "js")[0].replace(
        "import express from 'express'",
        "const express = require('express4')",
    );
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.cjs", &express).start();
        server.wait_for_log(&["Example app listening on port 3000"]);
        assert_eq!(server.get("/").text(), "Hello World!", "{runtime:?}");
    }
}

#[test]
fn elysia_and_bun_serve_answer_on_bun() {
    let [elysia, serve] = blocks(GUIDE, "ts").try_into().expect("there are two blocks");
    let server = application(Runtime::Bun, "app.ts", elysia).start();
    assert_eq!(server.get("/").text(), "Hello Elysia");
    assert_eq!(server.get("/user/7").text(), "7");
    let server = application(Runtime::Bun, "app.ts", serve).start();
    for (path, status, text) in [
        ("/api/status", 200, "OK"),
        ("/users/a%20b", 200, "Hello User a b!"),
        ("/api/posts", 200, "List posts"),
        ("/api/none", 404, "{\"message\":\"Not found\"}"),
        ("/none", 404, "Not Found, 127.0.0.1"),
    ] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text()), (status, text), "{path}");
    }
    assert_eq!(
        server.post("/api/posts", b"{\"id\":1}").text(),
        "{\"created\":true,\"id\":1}"
    );
}

#[test]
fn a_site_that_sveltekit_has_built_for_node_answers() {
    let handler = packages().join("sveltekit/build/index.js");
    for runtime in Runtime::BOTH {
        let source = format!("import {:?};", handler.display().to_string());
        let server = application(runtime, "app.mjs", &source)
            .env("ORIGIN", "http://a")
            .start();
        let mut client = server.connect();
        let page = client.get("/?name=you");
        assert_eq!(page.status, 200, "{runtime:?}");
        assert!(
            page.text().contains("Hello you from 127.0.0.1"),
            "{}",
            page.text()
        );
        assert_eq!(client.get("/robots.txt").text(), "User-agent: *\n");
        client.send(
            "POST / HTTP/1.1\r\nhost: a\r\norigin: https://a\r\naccept: text/html\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: 8\r\n\r\nname=Ada",
        );
        let posted = client.response();
        assert!(
            posted.text().contains("Hello Ada from"),
            "{runtime:?}: {}",
            posted.text()
        );
    }
}
