use std::fs;

use forebay_testkit::{Folder, Process, wait_until};
use rustix::process::Signal;

use crate::run::{Serving, forebay, run};

const HANDLER: &str = "export default () => ({ pid: process.pid });";
const CONFIG: &str = r#"
[pool.api]
handler = "api.mjs"
[[route]]
path = "/api"
pool = "api"
[[route]]
path = "/local"
respond = { text = "here" }
"#;

fn app(config: &str) -> Folder {
    let folder = Folder::new();
    folder.write("forebay.toml", config);
    folder.write("api.mjs", HANDLER);
    folder
}

fn command_line(process: Process) -> String {
    let bytes = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap();
    String::from_utf8(bytes).unwrap().replace('\0', " ")
}

#[test]
fn the_ready_line_is_all_that_is_ever_printed() {
    let folder = app(CONFIG);
    let mut serving = Serving::start(folder.path(), &[]);
    let address = serving.address();
    assert_eq!(serving.get("/local").text(), "here");
    assert_eq!(serving.get("/api").status, 200);
    serving.process().signal(Signal::TERM);
    assert_eq!(serving.wait().code(), Some(0));
    let printed = serving.printed();
    let (took, rest) = printed
        .strip_prefix("forebay 0.1.0 started in ")
        .unwrap()
        .split_once(" ms, ")
        .unwrap();
    took.parse::<u64>().unwrap();
    assert_eq!(rest, format!("listening on http://{address}\n"));
}

#[test]
fn listen_may_be_repeated_and_sockets_start_at_the_working_folder() {
    let folder = app(CONFIG);
    let elsewhere = Folder::new();
    let config = folder.path().join("forebay.toml");
    let arguments = [
        "serve",
        "-c",
        config.to_str().unwrap(),
        "--admin",
        "off",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "unix:web.sock",
    ];
    let serving = Serving::spawn(elsewhere.path(), forebay(elsewhere.path(), &arguments));
    let socket = elsewhere.path().join("web.sock");
    assert!(
        serving
            .printed()
            .ends_with(&format!(", unix:{}\n", socket.display())),
        "{}",
        serving.printed()
    );
    assert_eq!(
        forebay_testkit::Client::unix(&socket).get("/local").text(),
        "here"
    );
    assert_eq!(serving.get("/local").text(), "here");
}

#[test]
fn workers_are_as_many_as_the_option_says_in_every_pool() {
    let folder = app(&format!(
        "{CONFIG}[pool.other]\nhandler = \"api.mjs\"\nworkers = {{ min = 0, max = 1 }}\n"
    ));
    let serving = Serving::start(folder.path(), &["--workers", "2"]);
    serving.workers(4);
}

#[test]
fn threads_are_as_many_as_the_option_says() {
    let folder = app("");
    let threads = |options: &[&str]| {
        let serving = Serving::start(folder.path(), options);
        fs::read_dir(format!("/proc/{}/task", serving.process().pid))
            .unwrap()
            .count()
    };
    assert_eq!(threads(&["--threads", "5"]) - threads(&["--threads", "2"]), 3);
}

#[test]
fn requests_are_logged_when_the_option_says_so() {
    let folder = app(CONFIG);
    let serving = Serving::start(folder.path(), &["--access-log", "on"]);
    serving.get("/local?logged=yes");
    serving.wait_for_log(&["/local", "200"]);
}

#[test]
fn inspect_starts_one_worker_under_the_debugger_without_time_limits() {
    // Its handler takes longer than every limit of the configuration, as at a breakpoint.
    let slow = "export default () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500); return 'late'; };";
    for runtime in ["node", "bun"] {
        let pool = format!(
            "[pool.api]\nruntime = \"{runtime}\"\nworkers = {{ min = 2, max = 2 }}\nrun_timeout = \"1s\""
        );
        let limited = CONFIG.replace("[pool.api]", &pool);
        let folder = app(&limited.replace("pool = \"api\"", "pool = \"api\"\ndeadline = \"1s\""));
        folder.write("api.mjs", slow);
        let serving = Serving::start(folder.path(), &["--inspect"]);
        // A process has no command line until it runs its program.
        wait_until("the worker to run under the debugger", || {
            command_line(serving.workers(1)[0]).contains(" --inspect ")
        });
        assert_eq!(serving.get("/api").text(), "late");
    }
    let folder = app(CONFIG);
    let ended = run(folder.path(), &["serve", "--inspect=apy"]);
    assert_eq!(ended.code, 2);
    assert!(
        ended
            .err
            .contains("--inspect: found \"apy\", expected a pool with a JavaScript handler: api"),
        "{ended:?}"
    );
}

#[test]
fn watch_puts_a_changed_handler_in_force() {
    let folder = app(CONFIG);
    let serving = Serving::start(folder.path(), &["--watch"]);
    assert_eq!(serving.get("/api").status, 200);
    folder.write("api.mjs", "export default () => 'changed';");
    wait_until("the changed handler", || serving.get("/api").text() == "changed");
}

const APPLICATION: &str = "import { createServer } from 'node:http';
createServer((req, res) => res.end(`${req.url} ${process.env.GREETING} ${process.versions.bun === undefined}`)).listen(3000);
";

#[test]
fn an_application_is_served_without_a_configuration() {
    let folder = Folder::new();
    folder.write("app/main.mjs", APPLICATION);
    folder.write(
        "app.py",
        "def app(environ, start):\n    start('200 OK', [])\n    return [environ['PATH_INFO'].encode()]\n",
    );
    for (arguments, text) in [
        (&["app/main.mjs"][..], "/a hello true"),
        (&["app/main.mjs", "--runtime", "bun"], "/a hello false"),
        (&["app.py"], "/a"),
        (&["app.py:app"], "/a"),
        (&["app:app"], "/a"),
    ] {
        let own = ["serve", "--listen", "127.0.0.1:0", "--admin", "off"];
        let mut command = forebay(folder.path(), &[&own, arguments].concat());
        command.env("GREETING", "hello");
        let serving = Serving::spawn(folder.path(), command);
        let answer = serving.get("/a");
        assert_eq!(
            (answer.status, answer.text()),
            (200, text),
            "{arguments:?}: {}",
            serving.log()
        );
    }
    let checked = run(folder.path(), &["check", "app/main.mjs"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("[pool.app]"), "{}", checked.out);
}

#[test]
fn an_application_that_cannot_be_served_is_refused() {
    let folder = Folder::new();
    folder.write("app.mjs", "export default () => {\n  let a = ;\n};");
    folder.write("app.txt", "");
    let missing = format!(
        "cannot serve `none.mjs`: there is no file `{}`",
        folder.path().join("none.mjs").display()
    );
    for (arguments, code, reason) in [
        (&["none.mjs"][..], 3, missing.as_str()),
        (
            &["app.txt"],
            3,
            "cannot serve `app.txt`: \"auto\" knows handlers that end with .mjs",
        ),
        (&["app.mjs"], 1, "app.mjs:2:11: pool.app: SyntaxError"),
        (&["app.mjs", "-c", "forebay.toml"], 2, "cannot be used with"),
        (&["--runtime", "bun"], 2, "--runtime"),
    ] {
        let refused = run(folder.path(), &[&["serve"], arguments].concat());
        assert_eq!(refused.code, code, "{arguments:?}: {}", refused.err);
        assert!(refused.err.contains(reason), "{arguments:?}: {}", refused.err);
    }
}
