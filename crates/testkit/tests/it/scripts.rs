//! Scripts from an operator's view: counted, replaced by reloads, and isolated from each other.

use forebay_testkit::{Server, Setup, wait_until};

use crate::{store::open, support::metric};

const HANDLER: &str = r"
import { router, sleep } from 'forebay';

const app = router();
app.get('/hello', () => 'hello');
app.get('/throw', () => { throw new Error('thrown'); });
app.get('/spin', () => { for (;;) {} });
app.get('/allocate', () => { const all = []; for (;;) all.push(new Array(1000).fill(0)); });
app.get('/long', () => 'x'.repeat(3 << 20));
app.get('/never', () => new Promise(() => {}));
app.get('/sleeps', async () => { await sleep(1); return 'slept'; });
app.get('/native', () => 'a'.repeat(400_000).indexOf('a'.repeat(200_000) + 'b'));
export default app;
";

fn script(keys: &str) -> Setup {
    Setup::new(&config(keys))
        .file("s.mjs", HANDLER)
        .threads(1)
        .admin()
}

fn config(keys: &str) -> String {
    format!(
        "[script.s]\nhandler = \"s.mjs\"\nexecutors = 1\n{keys}\n[[route]]\npath = \"/*\"\nscript = \"s\"\n[[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    )
}

fn of_script(server: &Server, name: &str, labels: &str) -> u64 {
    metric(server, &format!("forebay_script_{name}{{script=\"s\"{labels}}}"))
}

#[test]
fn what_becomes_of_calls_is_counted() {
    let server = script(
        "on = \"io\"\ncpu_max = \"200ms\"\ntime_max = \"1s\"\nmemory_max = \"16MiB\"\noutput_max = \"1MiB\"",
    )
    .start();
    for (path, status) in [
        ("/hello", 200),
        ("/throw", 500),
        ("/sleeps", 200),
        ("/spin", 504),
        ("/allocate", 500),
        ("/long", 500),
        ("/never", 504),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }
    let mut leaving = server.connect();
    leaving.request("GET", "/never");
    drop(leaving);
    wait_until("the client's leaving to be counted", || {
        of_script(&server, "calls_cancelled_total", "") == 1
    });
    for (name, labels, count) in [
        ("calls_answered_total", ",place=\"io\"", 1),
        ("calls_answered_total", ",place=\"executor\"", 1),
        ("calls_faulted_total", "", 1),
        ("calls_stopped_total", ",reason=\"cpu_max\"", 1),
        ("calls_stopped_total", ",reason=\"memory_max\"", 1),
        ("calls_stopped_total", ",reason=\"output_max\"", 1),
        ("calls_stopped_total", ",reason=\"time_max\"", 1),
        ("calls_stopped_total", ",reason=\"broken\"", 0),
        ("queue_calls", "", 0),
        ("threads", "", 1),
    ] {
        assert_eq!(of_script(&server, name, labels), count, "{name}{labels}");
    }
    assert!(of_script(&server, "calls_handed_over_total", "") > 0);
    assert!(of_script(&server, "engines_memory_bytes", "") > 100_000);
    let status = server.admin().get("/status").json();
    let script = &status["scripts"][0];
    assert_eq!(script["name"], "s");
    assert_eq!(script["answered"]["io"], 1);
    assert_eq!(script["stopped"]["cpu_max"], 1);
    assert_eq!(script["threads"]["running"], 1);
}

#[test]
fn the_counts_of_a_script_go_on_after_a_reload_and_its_old_engines_end() {
    let server = script("on = \"io\"").start();
    assert_eq!(server.get("/hello").text(), "hello");
    // One of the I/O thread, and one of the executor.
    assert_eq!(of_script(&server, "engines", ""), 2);
    let mut control = server.control();
    control.request("POST", "/reload");
    assert_eq!(control.response().status, 200);
    wait_until("the engines of before to end", || {
        of_script(&server, "engines", "") == 1
    });
    assert_eq!(of_script(&server, "calls_answered_total", ",place=\"io\""), 1);
    server.reconfigure("[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n");
    control.request("POST", "/reload");
    assert_eq!(control.response().status, 200);
    assert!(!server.admin().get("/metrics").text().contains("script=\"s\""));
}

#[test]
fn a_call_that_cannot_be_stopped_keeps_no_other_waiting() {
    let server = script("cpu_max = \"1s\"").start();
    let mut stuck = server.connect();
    stuck.request("GET", "/native");
    let mut other = server.connect();
    let mut answered = 0;
    let refused = loop {
        assert_eq!(other.get("/here").status, 200);
        answered += 1;
        if let Some(refused) = stuck.poll_response() {
            break refused;
        }
    };
    assert_eq!(refused.status, 504);
    // It takes 2.5 s until it is given up: the others have waited for 50 ms at most, or there would not be so many.
    assert!(answered > 50, "{answered}");
    assert_eq!(of_script(&server, "threads_given_up_total", ""), 1);
    assert_eq!(server.get("/hello").text(), "hello");
}

#[test]
fn where_no_further_thread_can_be_made_the_calls_are_done_by_those_that_there_are() {
    const WRITES: &str = r"
        import { router, store } from 'forebay';
        const app = router();
        app.get('/hello', () => 'hello');
        app.get('/write', () => { store.set('Flag', 'written', true); return 'written'; });
        export default app;
    ";
    let keys = "on = \"executor\"\ntime_max = \"1m\"\nallow = { store = [\"Flag\"] }";
    let config = config(keys).replace("executors = 1", "executors = 2");
    let server = Setup::new(&format!("[store]\n{config}"))
        .file("s.mjs", WRITES)
        .threads(1)
        .admin()
        .start();
    let store = open(&server);
    // The first thread waits until others have written.
    let writer = store.begin().unwrap();
    let (mut waiting, mut other) = (server.connect(), server.connect());
    waiting.request("GET", "/write");
    // Less than the stack of a thread.
    server.process().limit_mappings(Some(1 << 20));
    other.request("GET", "/hello");
    server.wait_for_log(&["goes on with fewer threads than it may have"]);
    drop(writer);
    assert_eq!(waiting.response().text(), "written");
    assert_eq!(other.response().text(), "hello");
    assert_eq!(of_script(&server, "threads", ""), 1);

    server.process().limit_mappings(None);
    let writer = store.begin().unwrap();
    waiting.request("GET", "/write");
    assert_eq!(other.get("/hello").text(), "hello");
    assert_eq!(of_script(&server, "threads", ""), 2);
    drop(writer);
    assert_eq!(waiting.response().text(), "written");
}

/// Responds with the exports of the module at the path after `/import/`, or with the error.
const IMPORTER: &str = r"
import { router } from 'forebay';
import { inside } from './lib/inside.mjs';

const app = router();
app.get('/inside', () => inside);
app.post('/import', async (request) => {
  try {
    return { found: (await import(await request.text())).default };
  } catch (error) {
    return { error: `${error.message}\n${error.stack}` };
  }
});
app.post('/evaluated', async (request) => {
  try {
    const load = new Function('name', 'return import(name)');
    return { found: (await load(await request.text())).default };
  } catch (error) {
    return { error: `${error.message}\n${error.stack}` };
  }
});
export default app;
";

#[test]
fn imports_of_a_script_stay_in_its_folder() {
    let config =
        config("on = \"io\"\nmemory_max = \"32MiB\"\ntime_max = \"2s\"").replace("s.mjs", "app/s.mjs");
    let setup = Setup::new(&config)
        .file("app/s.mjs", IMPORTER)
        .file(
            "app/lib/inside.mjs",
            "export { default as inside } from './value.json';",
        )
        .file("app/lib/value.json", r#""inside""#)
        .file("secret.json", r#"{"password": "hunter2"}"#)
        .file("secret.txt", "hunter2 is the password")
        .threads(1);
    let root = setup.folder().path().to_owned();
    std::os::unix::fs::symlink("../secret.json", root.join("app/link.json")).unwrap();
    std::os::unix::fs::symlink("value.json", root.join("app/lib/near.json")).unwrap();
    std::os::unix::fs::symlink("..", root.join("app/up")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(root.join("app/pipe.mjs"))
        .status()
        .unwrap();
    assert!(made.success());
    let server = setup.start();
    assert_eq!(server.get("/inside").text(), "inside");
    let ask = |path: &str, name: &str| server.post(path, name.as_bytes()).json();
    for path in ["/import", "/evaluated"] {
        for name in [
            root.join("secret.json").to_str().unwrap(),
            "../secret.json",
            "./lib/../../secret.json",
            "./link.json",
            "./up/secret.json",
            "../secret.txt",
            "/dev/zero",
            "../../../../../../../../../../dev/zero",
            "./pipe.mjs",
            "./lib",
            &format!("file://{}", root.join("secret.json").display()),
            "sdk:dist/script/main.js",
            "sdk:dist/script/host.js",
            "node:fs",
            "",
        ] {
            let answer = ask(path, name);
            let error = answer["error"]
                .as_str()
                .unwrap_or_else(|| panic!("{path} {name}: {answer}"));
            assert!(!error.contains("hunter2"), "{path} {name}: {error}");
        }
    }
    for name in ["./lib/value.json", "./lib/near.json", "./lib/../lib/value.json"] {
        assert_eq!(ask("/import", name)["found"], "inside", "{name}");
    }
    assert!(server.process().rss_bytes() < 512 << 20);
}

#[test]
fn a_script_shares_modules_of_a_folder_that_the_configuration_names() {
    let config = config("modules = \"app\"").replace("s.mjs", "app/handlers/s.mjs");
    let server = Setup::new(&config)
        .file("app/handlers/s.mjs", IMPORTER)
        .file(
            "app/handlers/lib/inside.mjs",
            "export { default as inside } from '../../shared.json';",
        )
        .file("app/shared.json", r#""shared""#)
        .file("secret.json", r#""hunter2""#)
        .start();
    assert_eq!(server.get("/inside").text(), "shared");
    let answer = server.post("/import", b"../../secret.json").json();
    assert!(
        answer["error"].as_str().unwrap().contains("leads out of"),
        "{answer}"
    );
}

#[test]
fn a_script_that_holds_up_an_io_thread_is_left_to_executors_whatever_its_paths_are() {
    const NATIVE: &str = r"
        import { router } from 'forebay';
        const app = router();
        app.get('/find/:word', (request) => {
          const half = 'a'.repeat(request.query.get('n') / 2);
          return String((half + half).indexOf(half + 'b'));
        });
        export default app;
    ";
    let server = Setup::new(&config(
        "io_cpu_max = \"5ms\"\ncpu_max = \"20s\"\ntime_max = \"20s\"",
    ))
    .file("s.mjs", NATIVE)
    .threads(1)
    .admin()
    .start();
    let answers_on_io = || of_script(&server, "calls_answered_total", ",place=\"io\"");
    let word = |number: usize| -> String { "abcdefghij".chars().skip(number).chain("xyz".chars()).collect() };
    let mut client = server.connect();
    // A request that executors have answered quickly moves to the I/O thread.
    for _ in 0..8 {
        assert_eq!(client.get("/find/first?n=2").text(), "-1");
    }
    let before = answers_on_io();
    assert!(before > 0);
    // Each path is new to the server, and each is quick at first.
    for number in 0..10 {
        for _ in 0..6 {
            assert_eq!(client.get(&format!("/find/{}?n=2", word(number))).text(), "-1");
        }
        assert_eq!(
            client.get(&format!("/find/{}?n=30000", word(number))).text(),
            "-1"
        );
    }
    // The first of the long ones ran there, but not those after it.
    let on_io = answers_on_io() - before;
    assert!((1..=6).contains(&on_io), "{on_io}");
    // A request that is longer than `io_input_max` does not run there either.
    assert_eq!(server.get("/here").text(), "here");
}
