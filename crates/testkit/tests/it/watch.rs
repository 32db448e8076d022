//! `--watch`: a save restarts the pools whose code has changed, and an error leaves what serves and is shown.

use std::{fs, process::Command};

use forebay_testkit::{Load, Response, Server, Setup, wait_until};

use crate::{
    python,
    support::{ONE_WORKER, Runtime, metric, node, wait_until_ready},
};

fn saying(word: &str) -> String {
    format!("export default () => '{word}';")
}

/// Two pools with one worker each, whose handlers lie in folders of their own.
fn two_pools() -> Setup {
    let pool = |name: &str| {
        format!(
            "[pool.{name}]\nhandler = \"{name}/api.mjs\"\n{ONE_WORKER}\n[[route]]\npath = \"/{name}\"\npool = \"{name}\"\n"
        )
    };
    Setup::new(&(pool("left") + &pool("right")))
        .file("left/api.mjs", with_pid("one"))
        .file("right/api.mjs", with_pid("one"))
        .argument("--watch")
}

/// A handler that answers a request, once it has read it, with a word and its process's number.
fn with_pid(word: &str) -> String {
    format!(
        "export default async (request) => {{ await request.bytes(); return `{word} ${{process.pid}}`; }};"
    )
}

/// The response to a browser that opens a page.
fn browse(server: &Server, method: &str, target: &str) -> Response {
    let mut client = server.connect();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nhost: test\r\naccept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n\r\n"
    ));
    client.response_to(method)
}

/// Replaces a file as editors do that write a new one first.
fn save_by_rename(server: &Server, name: &str, content: &str) {
    let path = server.folder().path();
    server.folder().write(".new", content);
    fs::rename(path.join(".new"), path.join(name)).expect("both lie in one folder");
}

fn restarts(server: &Server) -> usize {
    server.log().matches("restarted pool").count()
}

#[test]
fn twenty_saves_under_load_take_effect_and_fail_no_request() {
    let handler = |word: usize| {
        format!(
            "export default async (request) => request.method === 'POST' ? request.bytes() : 'word {word}';"
        )
    };
    for runtime in Runtime::BOTH {
        let server = runtime.pool(&handler(0), ONE_WORKER).argument("--watch").start();
        wait_until("the first", || server.get("/").text() == "word 0");
        let load = Load::on(&server, "/").connections(4);
        let running = load.start();
        for word in 1..=20 {
            save_by_rename(&server, "api.mjs", &handler(word));
            wait_until("the new code", || {
                server.get("/").text() == format!("word {word}")
            });
        }
        load.end();
        let report = running.join().expect("the load does not panic");
        assert_eq!(report.with_status(200), report.sent, "{runtime:?}: {report}");
        assert!(report.foreign.is_empty(), "{runtime:?}: {report}");
        server.wait_for_log(&["restarted pool `api` in ", "api.mjs)"]);
    }
}

/// A server that watches, code that it cannot load, the position of the error, and a line of the code frame.
struct Case {
    setup: Setup,
    file: &'static str,
    source: &'static str,
    place: &'static str,
    frame: &'static str,
}

#[test]
fn an_error_at_load_leaves_the_old_code_and_is_shown_with_its_place() {
    const IMPORTING: &str = "import { word } from './lib/word.mjs';\nexport default () => word;\n";
    const WORD: &str = "export const word = 'one';\n";
    const SYNTAX: &str = "// A comment.\nexport const word = <script>;\n";
    const PYTHON: &str =
        "from forebay import App\nfrom lib import word\napp = App()\napp.get('/')(lambda: word)\n";
    const SCRIPT: &str = "[script.api]\nhandler = \"api.mjs\"\n[[route]]\npath = \"/\"\nscript = \"api\"\n\
                          [[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n";
    let javascript = |runtime: Runtime| runtime.pool(IMPORTING, ONE_WORKER).file("lib/word.mjs", WORD);
    let typescript = "import { word } from './word.ts';\nexport default (): string => word;\n";
    let cases = [
        Case {
            setup: javascript(Runtime::Node),
            file: "lib/word.mjs",
            source: SYNTAX,
            place: "lib/word.mjs:2:21: SyntaxError: Unexpected token '<'",
            frame: "> 2 | export const word = <script>;",
        },
        Case {
            setup: javascript(Runtime::Bun),
            file: "lib/word.mjs",
            source: "// A comment.\nexport const word = <script;\n",
            place: "lib/word.mjs:2:",
            frame: "> 2 | export const word = <script;",
        },
        Case {
            setup: javascript(Runtime::Node),
            file: "api.mjs",
            source: "const nothing = {};\n\nexport default nothing.some['<script>'];\n",
            place: "api.mjs:3:28: TypeError: Cannot read properties of undefined (reading '<script>')",
            frame: "> 3 | export default nothing.some['<script>'];",
        },
        Case {
            setup: javascript(Runtime::Bun),
            file: "api.mjs",
            source: "const nothing = {};\n\nexport default nothing.some['<script>'];\n",
            place: "api.mjs:3:",
            frame: "> 3 | export default nothing.some['<script>'];",
        },
        Case {
            setup: javascript(Runtime::Node),
            file: "api.mjs",
            source: "export default () => {\n\tlet a = '<script>' +;\n};\n",
            place: "api.mjs:2:22: pool.api: SyntaxError: Expression expected",
            frame: "> 2 | \tlet a = '<script>' +;",
        },
        Case {
            setup: Setup::new(
                "[pool.api]\nhandler = \"api.ts\"\n[[route]]\npath = \"/\"\npool = \"api\"\n\
                 [[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n",
            )
            .file("api.ts", typescript)
            .file("word.ts", "export const word: string = 'one';\n"),
            file: "word.ts",
            source: "interface Word { text: string }\nexport const word: string = unknown as '<script>';\n",
            place: "word.ts:2:29: ReferenceError: unknown is not defined",
            frame: "> 2 | export const word: string = unknown as '<script>';",
        },
        Case {
            setup: python::pool(PYTHON, ONE_WORKER).file("lib.py", "word = 'one'\n"),
            file: "lib.py",
            source: "def word():\n    return '<script>' +\n",
            place: "lib.py:2:24: SyntaxError: invalid syntax",
            frame: "> 2 |     return '<script>' +",
        },
        Case {
            setup: python::pool(PYTHON, ONE_WORKER).file("lib.py", "word = 'one'\n"),
            file: "lib.py",
            source: "def fail():\n    raise KeyError('<script>')\nword = fail()\n",
            place: "lib.py:2",
            frame: "> 2 |     raise KeyError('<script>')",
        },
        Case {
            setup: Setup::new(SCRIPT)
                .file("api.mjs", IMPORTING)
                .file("lib/word.mjs", WORD),
            file: "lib/word.mjs",
            source: SYNTAX,
            place: "lib/word.mjs:2:",
            frame: "> 2 | export const word = <script>;",
        },
    ];
    for Case {
        setup,
        file,
        source,
        place,
        frame,
    } in cases
    {
        let server = setup.argument("--watch").start();
        wait_until("the old code", || server.get("/").text() == "one");
        let old = server.folder().read(file).expect("it was written");
        server.folder().write(file, source);
        let escaped = serde_json::to_string(frame).expect("text becomes JSON");
        server.wait_for_log(&[
            "\"level\":\"ERROR\"",
            " previous version keeps serving",
            place,
            escaped.trim_matches('"'),
        ]);
        assert_eq!(server.get("/").text(), "one", "{place}");
        let page = browse(&server, "GET", "/");
        assert_eq!(
            (page.status, page.header("content-type")),
            (500, Some("text/html; charset=utf-8")),
            "{place}"
        );
        let (place, frame) = (html(place), html(frame));
        // The page has the place and the message apart.
        let parts = place
            .split_once(": ")
            .map_or([&*place, ""], |(place, message)| [place, message]);
        for part in parts.into_iter().chain([&*frame]) {
            assert!(page.text().contains(part), "{part} in {}", page.text());
        }
        assert!(
            !page.text().contains("<script>;") && !page.text().contains("<script>'"),
            "{}",
            page.text()
        );
        let head = browse(&server, "HEAD", "/");
        assert_eq!(head.header("x-forebay-problem"), page.header("x-forebay-problem"));
        assert_eq!(
            browse(&server, "GET", "/here").text(),
            "here",
            "no code is behind it"
        );
        server.folder().write(file, old);
        wait_until("the page to be gone", || {
            browse(&server, "GET", "/").text() == "one"
        });
    }
}

fn html(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('\'', "&#39;").replace('"', "&quot;")
}

#[test]
fn an_error_in_the_configuration_is_shown_with_its_place() {
    let server = node(&saying("old"), ONE_WORKER).argument("--watch").start();
    wait_until_ready(&server);
    let config = server.folder().read("forebay.toml").expect("it was written");
    server
        .folder()
        .write("forebay.toml", config.replace("handler", "handlr"));
    server.wait_for_log(&[
        "not reloaded, the previous version keeps serving",
        "forebay.toml:",
        "handlr: no such key",
        "| handlr = ",
    ]);
    assert_eq!(server.get("/").text(), "old");
    assert!(
        browse(&server, "GET", "/")
            .text()
            .contains("| handlr = &quot;api.mjs&quot;")
    );
    server.folder().write("forebay.toml", config);
    wait_until("the page to be gone", || {
        browse(&server, "GET", "/").text() == "old"
    });
}

#[test]
fn a_pool_that_never_started_shows_why() {
    for (source, place) in [
        (
            "export default missing;",
            "api.mjs:1:16: ReferenceError: missing is not defined",
        ),
        ("export default ;", "api.mjs:1:16: SyntaxError: Unexpected token"),
    ] {
        // It would start no worker before the first request.
        let server = node(source, "workers = { min = 0, max = 1 }")
            .argument("--watch")
            .start();
        server.wait_for_log(&["pool `api` does not start", place]);
        wait_until("the page", || {
            browse(&server, "GET", "/")
                .text()
                .contains(&format!("&gt; 1 | {source}"))
        });
        assert_eq!(server.get("/").status, 503);
        server.folder().write("api.mjs", saying("fixed"));
        wait_until("the page to be gone", || {
            browse(&server, "GET", "/").text() == "fixed"
        });
    }
}

#[test]
fn without_watching_no_source_is_shown() {
    let server = node("export default missing;", ONE_WORKER).start();
    server.wait_for_log(&["worker did not start", "missing is not defined"]);
    wait_until("the refusal", || server.get("/").status == 503);
    let answer = browse(&server, "GET", "/");
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (503, Some("application/problem+json"))
    );
    assert!(!answer.text().contains("missing"), "{}", answer.text());
}

#[test]
fn a_file_that_is_removed_and_comes_back_is_noticed() {
    let server = node(&saying("one"), ONE_WORKER).argument("--watch").start();
    wait_until("the first", || server.get("/").text() == "one");
    fs::remove_file(server.folder().path().join("api.mjs")).expect("it is there");
    server.wait_for_log(&["previous version keeps serving", "there is no file", "api.mjs"]);
    assert_eq!(server.get("/").text(), "one");
    server.folder().write("api.mjs", saying("two"));
    wait_until("the file that is back", || server.get("/").text() == "two");
    // What a folder that is new has in it counts, too.
    server
        .folder()
        .write("lib/deep/word.mjs", "export const word = 'three';");
    save_by_rename(
        &server,
        "api.mjs",
        "import { word } from './lib/deep/word.mjs'; export default () => word;",
    );
    wait_until("what is imported", || server.get("/").text() == "three");
    server
        .folder()
        .write("lib/deep/word.mjs", "export const word = 'fours';");
    wait_until("what has changed in it", || server.get("/").text() == "fours");
}

#[test]
fn a_burst_of_saves_ends_with_the_last_one() {
    const SAVES: usize = 300;
    let server = node(&saying("first"), ONE_WORKER).argument("--watch").start();
    wait_until("the first", || server.get("/").text() == "first");
    for number in 1..=SAVES {
        save_by_rename(&server, "api.mjs", &saying(&format!("word {number}")));
    }
    wait_until("the last", || server.get("/").text() == format!("word {SAVES}"));
    let restarts = restarts(&server);
    assert!(restarts < SAVES / 10, "{restarts} restarts");
    server.wait_for_workers(1);
}

#[test]
fn only_the_pool_restarts_whose_code_has_changed() {
    let server = two_pools().admin().start();
    let answer = |name: &str| server.get(name).text().to_owned();
    wait_until("both", || {
        ["/left", "/right"]
            .iter()
            .all(|name| answer(name).starts_with("one "))
    });
    let right = answer("/right");
    server.folder().write("left/api.mjs", with_pid("two"));
    wait_until("the changed one", || answer("/left").starts_with("two "));
    assert_eq!(answer("/right"), right);
    server.wait_for_log(&["restarted pool `left` in ", "left/api.mjs)"]);
    // A broken pool does not hold up the other one.
    let left = answer("/left");
    server.folder().write("left/api.mjs", "export default () => {");
    server.wait_for_log(&["pool `left` is not restarted", "left/api.mjs:1:"]);
    server.folder().write("right/api.mjs", with_pid("two"));
    wait_until("the other one", || answer("/right").starts_with("two "));
    assert_eq!(answer("/left"), left);
    assert_eq!(browse(&server, "GET", "/left").status, 500);
    assert_eq!(browse(&server, "GET", "/right").status, 200);
    // Its counts go on from pool to pool.
    let answered = |name: &str| {
        metric(
            &server,
            &format!("forebay_pool_jobs_answered_total{{pool=\"{name}\"}}"),
        )
    };
    wait_until("the old workers to end", || server.workers().len() == 2);
    assert!(answered("right") >= 4 && answered("left") >= 4);
}

#[test]
fn a_request_ends_with_the_pool_it_began_with_whatever_has_restarted_since() {
    let server = two_pools().start();
    wait_until("both", || {
        ["/left", "/right"]
            .iter()
            .all(|name| server.get(name).text().starts_with("one "))
    });
    // It has no job yet: the server waits for its body.
    let mut held = server.connect();
    held.send("POST /right HTTP/1.1\r\nhost: test\r\ncontent-length: 4\r\n\r\n");
    for name in ["left", "right"] {
        server.folder().write(&format!("{name}/api.mjs"), with_pid("two"));
        wait_until("the new code", || {
            server.get(&format!("/{name}")).text().starts_with("two")
        });
    }
    held.send("body");
    let answer = held.response();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().starts_with("one "), "{}", answer.text());
    server.wait_for_workers(2);
}

#[test]
fn an_event_stream_ends_after_a_save_so_that_its_client_gets_the_new_code() {
    let source = |word: &str| {
        format!(
            "import {{ sse }} from 'forebay';\n\
             export default () => sse(async function* () {{ yield {{ data: '{word}' }}; await new Promise(() => {{}}); }});"
        )
    };
    let server = node(&source("one"), ONE_WORKER)
        .server("drain_max = \"10m\"")
        .argument("--watch")
        .start();
    let stream = |word: &str| {
        let mut client = server.connect();
        client.request("GET", "/");
        assert_eq!(client.head().expect("the head of a stream").status, 200);
        let data = format!("data: {word}");
        let mut text = String::new();
        while !text.contains(&data) {
            text.push_str(&String::from_utf8_lossy(&client.some_bytes()));
        }
        client
    };
    let mut old = stream("one");
    server.folder().write("api.mjs", source("two"));
    assert!(
        String::from_utf8_lossy(&old.some_bytes()).ends_with("0\r\n\r\n"),
        "the stream ends"
    );
    stream("two");
    server.wait_for_workers(1);
}

#[test]
fn the_page_in_chromium_reloads_itself_once_the_code_is_fixed() {
    let server = node(&saying("old"), ONE_WORKER)
        .admin()
        .argument("--watch")
        .start();
    wait_until_ready(&server);
    server.folder().write("api.mjs", "export default () => {");
    wait_until("the page", || browse(&server, "GET", "/").status == 500);
    let refused = || metric(&server, "forebay_requests_total{route=\"/*\",class=\"5xx\"}");
    let before = refused();
    let chromium = std::env::var("FOREBAY_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let child = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=600000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            server.folder().path().join("chromium").display()
        ))
        .arg(format!("http://{}/", server.address()))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("Chromium can be started: `make browser`");
    wait_until("the page to ask whether it still holds", || {
        refused() >= before + 3
    });
    let fixed =
        "export default () => new Response('<p>fixed', { headers: { 'content-type': 'text/html' } });";
    server.folder().write("api.mjs", fixed);
    let output = child.wait_with_output().expect("it ends with its time");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("<p>fixed") && !shown.contains("--watch"),
        "{shown}"
    );
}
